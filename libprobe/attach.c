/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/attach.h"
#include "libprobe/clock.h"
#include "libprobe/memory.h"
#include "libprobe/orphans.h"
#include "libprobe/procfs.h"
#include "libprobe/puns.h"
#include "libprobe/report.h"
#include "libprobe/space.h"
#include "libprobe/target_internal.h"

enum { ROUGH_STUB_BYTES = 512, PLAN_TRIES = 4 };

/* ---- The session -------------------------------------------------------------------- */

/*
 * Home has to be somewhere before there is data: near the first site. Without one, only gates
 * will follow, in the C library and the loader: those are behind the program.
 */
static struct probe_error *make_home(struct attach *a)
{
	const struct selection *s = a->selection;
	const struct modules *m = &a->change->modules;
	const struct module *near = s->probe_count ? s->probes[0].module : &m->items[m->count - 1];
	struct probe_error *error;
	uint64_t unused;

	if (a->change->registry.home)
		return NULL;
	error = change_alloc_code(a->change, s->site_count * ROUGH_STUB_BYTES + SPACE_PAGE,
		near->start, near->end, &unused);
	a->change->taken.count = 0;
	/* Whoever finds the data of a controller that dies soon finds a registry, too. */
	return error ? error : change_store(a->change);
}

/*
 * In a process that was forked with our code, the guard is 0, and so nothing of what
 * it inherited counts. What is attached now gets a guard of its own: the next word of
 * the same page.
 */
static struct probe_error *renew_guard(struct change *c)
{
	static const uint32_t one = 1;
	struct registry *r = &c->registry;
	uint32_t guard;
	struct probe_error *error;

	if (!r->home)
		return NULL;
	error = memory_read_all(c->pid, r->guard, &guard, sizeof(guard));
	if (error || guard)
		return error;
	r->guard += sizeof(uint64_t);
	if (r->guard % SPACE_PAGE == 0)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d inherited probes over too many generations: disable them first",
			c->pid);
	return memory_write_code(c->mem, r->guard, &one, sizeof(one));
}

/* Creates the session in the registry and its data. */
static struct probe_error *create_session(struct attach *attach)
{
	struct change *c = attach->change;
	struct reg_session session = {
		.id = c->registry.next_session++,
		.flags =
			(attach->caller ? REG_SESSION_CALLS : 0) |
			(attach->takes_time && c->target->no_counter ? REG_SESSION_KERNEL_TIME : 0),
		.owner = getpid(), /* also of one that will have none, until it is committed */
		.owner_start = procfs_start_time(getpid()),
		.stamp = clock_monotonic_ns(),
		.cpus = sysconf(_SC_NPROCESSORS_CONF),
	};
	struct data_header header = {.magic = DATA_MAGIC, .session = session.id, .guard = 1};
	struct probe_error *error;
	struct reg_session *added;

	error = data_lay_out(
		&session, attach->selection->probe_count + attach->spare_probes, &attach->needs);
	if (!error)
		error = make_home(attach);
	if (!error)
		error = change_map_data(
			c, session.data_size, attach->caller != 0, &session.data, &attach->fd);
	if (error)
		return error;
	data_place(&session);
	header.home = c->registry.home;
	if (pwrite(attach->fd, &header, sizeof(header), 0) != sizeof(header))
		return probe_error_new(PROBE_ERROR_SYSTEM, "cannot write shared memory");
	added = registry_add_session(&c->registry);
	if (!added)
		return probe_error_no_memory();
	*added = session;
	attach->session = session.id;
	attach->data_size = session.data_size;
	return NULL;
}

void attach_deinit(struct attach *attach)
{
	if (attach->fd >= 0)
		close(attach->fd);
	free(attach->sites);
	free(attach->order);
	free(attach->pun_pages);
	windows_close(&attach->windows);
	attach->fd = -1;
	attach->sites = NULL;
	attach->order = NULL;
	attach->pun_pages = NULL;
}

/* Adds what was done to a report. */
static void add_report(const struct attach *attach, struct probe_report *report)
{
	const struct selection *s = attach->selection;

	for (size_t i = 0; i < s->probe_count; i++)
		report->probes += !s->probes[i].refused;
	for (size_t i = 0; i < s->site_count; i++) {
		if (!attach->sites[i].wanted)
			continue;
		report->sites++;
		report->plans[s->sites[i].chosen]++;
	}
	report->plans[PROBE_PLAN_REFUSED] = report->refusal_count;
	if (attach->change->stop_ns > report->stop_ns)
		report->stop_ns = attach->change->stop_ns;
}

/* Stubs that may not ask the kernel what can be read, follow fewer pointers. */
static struct probe_error *report_denied(const struct attach *a, struct probe_report *report)
{
	const struct seccomp *seccomp = &a->change->seccomp;

	if (!a->asks || seccomp->allowed & SECCOMP_ASK)
		return NULL;
	return report_note(report,
		"%s, by which probes find out what can be read: of strings, and of what pointers "
		"lead to, only constants of the program are shown",
		seccomp_why(seccomp, SECCOMP_ASK));
}

struct module *attach_module(const struct attach *attach, size_t site)
{
	return attach->selection->probes[attach->selection->sites[site].probe].module;
}

size_t attach_module_end(const struct attach *attach, size_t from)
{
	const struct module *module = attach_module(attach, attach->order[from]);

	while (from < attach->order_count && attach_module(attach, attach->order[from]) == module)
		from++;
	return from;
}

/* ---- All of it ------------------------------------------------------------------------ */

/* What is unmapped is free for what comes: a pun may need that very page. */
static struct probe_error *detach_and_look(struct change *change)
{
	struct probe_error *error = detach_unreferenced(change);

	return error ? error : change_reread_maps(change);
}

struct probe_error *attach_heal(struct change *change)
{
	struct orphans orphans;
	struct probe_error *error = orphans_remove(change, &orphans);

	if (!error && orphans.mappings)
		error = change_reread_maps(change);
	if (!error && (detach_find_stale(change) || detach_has_leftovers(&change->registry)))
		error = detach_and_look(change);
	return error;
}

/*
 * Undoes what was begun for a session, which may have existed before. What
 * cannot be undone now is stale when this process ends, and found later.
 */
static void abandon(const struct attach *a, bool added)
{
	struct registry *r = &a->change->registry;
	struct reg_session *session = registry_session(r, a->session);
	struct orphans orphans;
	struct probe_error *error;

	if (added && session)
		session->flags |= REG_SESSION_RETIRED;
	for (size_t i = 0; i < a->selection->probe_count; i++) {
		struct reg_probe *probe =
			registry_probe(r, a->selection->probes[i].key, a->session);

		if (probe)
			probe->refcount = 0;
	}
	if (session)
		probe_error_free(detach_unreferenced(a->change));
	/* What the registry was not told of yet. */
	error = change_reread(a->change);
	probe_error_free(error ? error : orphans_remove(a->change, &orphans));
}

/* Would a session have anything to do? */
static bool is_empty(const struct selection *s)
{
	for (size_t i = 0; i < s->probe_count; i++)
		if (!s->probes[i].refused)
			return false;
	return true;
}

/*
 * Plans, and takes the pages that puns need before anything else is mapped. What the target
 * has mapped meanwhile is planned differently; at last, without puns.
 */
static struct probe_error *plan_and_map(struct attach *attach, struct probe_report *report)
{
	struct probe_error *error = NULL;
	bool again = true;

	for (int i = 0; i < PLAN_TRIES && !error && again; i++) {
		attach->no_puns = i == PLAN_TRIES - 1;
		error = attach_plan(attach);
		if (!error)
			error = puns_map(attach, &again);
	}
	if (!error)
		error = attach_refusals(attach, report);
	if (error)
		puns_drop(attach);
	return error;
}

struct probe_error *attach_all(struct attach *attach, struct probe_report *report)
{
	struct probe_error *error = NULL;
	bool added = attach->session == 0;

	if (!added && !registry_session(&attach->change->registry, attach->session))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d: the session was ended by somebody else", attach->change->pid);
	if (detach_has_leftovers(&attach->change->registry))
		error = detach_and_look(attach->change);
	if (!error)
		error = detach_check_leftovers(attach->change);
	if (!error)
		error = plan_and_map(attach, report);
	if (error)
		return error;
	if (attach->persistent && is_empty(attach->selection)) {
		add_report(attach, report);
		return NULL;
	}
	error = change_judge(attach->change);
	if (!error)
		error = renew_guard(attach->change);
	if (!error && added)
		error = create_session(attach);
	if (!error)
		error = attach_build(attach);
	if (!error)
		error = report_denied(attach, report);
	if (!error && attach->take)
		error = attach->take(attach->take_data, attach);
	if (!error)
		error = attach_commit(attach);
	if (error)
		abandon(attach, added);
	else
		add_report(attach, report);
	return error;
}
