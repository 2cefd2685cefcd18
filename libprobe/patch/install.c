/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"
#include "libprobe/base/procfs.h"

enum { ROUGH_STUB_BYTES = 512, PLAN_TRIES = 4 };

/* ---- The session -------------------------------------------------------------------- */

/*
 * The home page is mapped before there is data, near the first site. Without a site there will be
 * only gates. They are in the C library and the loader, which are mapped after the program.
 */
static struct probe_error *make_home(struct install *a)
{
	const struct selection *s = a->selection;
	const struct modules *m = &a->change->modules;
	const struct module *near = s->probe_count ? s->probes[0].module : &m->items[m->count - 1];
	/* Of a module that is too large (build.c), the first site. */
	struct code_extent reaches[] = {{near->start, near->end - near->start},
		{a->order_count ? s->sites[a->order[0]].pc : near->start, 1}};
	struct probe_error *error;
	uint64_t unused;

	if (a->change->registry.home)
		return NULL;
	error = change_alloc_code(
		a->change, s->site_count * ROUGH_STUB_BYTES + page_bytes(), reaches, 2, &unused);
	if (!error)
		code_release(&a->change->taken);
	return error;
}

/*
 * In a process that was forked with our code, the guard is 0, so inherited stubs do nothing. New
 * stubs get a guard of their own: the next word of the same page.
 */
static struct probe_error *renew_guard(struct change *c)
{
	static const uint32_t one = 1;
	struct registry *r = &c->registry;
	struct probe_error *error;
	bool inherited;

	if (!r->home)
		return NULL;
	if (!r->guard)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has unmapped or replaced a page of probectl, and a thread may "
			"still return to code that needs it: nothing is added until `probectl "
			"repair -p %d` can free the rest",
			c->pid, c->pid);
	error = registry_is_inherited(r, c->pid, &inherited);
	if (error || !inherited)
		return error;
	r->guard += sizeof(uint64_t);
	if (r->guard % REGISTRY_PAGE == GUARD_PROCESSES_OFFSET)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d inherited probes over too many generations: disable them first",
			c->pid);
	return change_write(c, r->guard, &one, sizeof(one));
}

static bool has_process(const struct registry *registry, uint64_t word)
{
	for (size_t i = 0; i < registry->session_count; i++)
		if (registry->sessions[i].process == word)
			return true;
	return false;
}

/*
 * This process is number one of those that will share the session's flights. Every session numbers
 * its processes itself, in a word of its own.
 */
static struct probe_error *number_process(struct change *c, struct reg_session *session)
{
	static const uint32_t one = 1;
	uint64_t page = registry_guard_page(&c->registry);

	for (uint64_t word = page + GUARD_PROCESSES_OFFSET; word < page + GUARD_MARK_OFFSET;
		word += sizeof(one)) {
		if (has_process(&c->registry, word))
			continue;
		session->process = word;
		return change_write(c, word, &one, sizeof(one));
	}
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d has too many sessions that time pairs in forked children: end some "
		"first",
		c->pid);
}

/* Creates the session in the registry and its data. */
static struct probe_error *create_session(struct install *install)
{
	struct change *c = install->change;
	struct reg_session session = {
		.id = c->registry.next_session++,
		.flags = (install->caller ? REG_SESSION_CALLS : 0) |
			 (install->takes_time && c->target->no_counter ? REG_SESSION_KERNEL_TIME
								       : 0),
		.owner = getpid(), /* also of one that will have none, until it is committed */
		.owner_start = procfs_start_time(getpid()),
		.stamp = clock_monotonic_ns(),
		.cpus = sysconf(_SC_NPROCESSORS_CONF),
	};
	struct data_header header = {
		.magic = DATA_MAGIC, .session = session.id, .guard = 1, .processes = 1};
	const struct lasting_file file = {.path = install->file, .layout = &session};
	struct probe_error *error;
	struct reg_session *added;
	struct stat st;

	error = data_lay_out(
		&session, install->selection->probe_count + install->spare_probes, &install->needs);
	if (!error)
		error = make_home(install);
	if (!error)
		error = change_map_data(c, session.data_size, &file, install->caller != 0,
			&session.data, &install->fd);
	if (error)
		return error;
	data_place(&session);
	if (session.flights && install->follow_children)
		error = number_process(c, &session);
	if (error)
		return error;
	header.home = c->registry.home;
	header.maker = lasting_maker(c->pid);
	if (pwrite(install->fd, &header, sizeof(header), 0) != sizeof(header))
		return probe_error_new(PROBE_ERROR_SYSTEM, "cannot write shared memory");
	if (fstat(install->fd, &st) < 0)
		return probe_error_system(errno, "cannot look at shared memory");
	session.inode = st.st_ino;
	added = registry_add_session(&c->registry);
	if (!added)
		return probe_error_no_memory();
	*added = session;
	install->session = session.id;
	install->created = true;
	install->data_size = session.data_size;
	return NULL;
}

/* Writes into the session's data where our code is: see struct data_arenas. */
static struct probe_error *note_arenas(const struct install *install)
{
	const struct registry *r = &install->change->registry;
	struct data_arenas arenas = {0};

	if (install->fd < 0)
		return NULL;
	for (size_t i = 0; i < r->arena_count && arenas.count < DATA_ARENAS_MAX; i++) {
		arenas.items[arenas.count].start = r->arenas[i].start;
		arenas.items[arenas.count++].size = r->arenas[i].size;
	}
	return pwrite(install->fd, &arenas, sizeof(arenas), DATA_ARENAS_OFFSET) == sizeof(arenas)
		       ? NULL
		       : probe_error_new(PROBE_ERROR_SYSTEM, "cannot write shared memory");
}

struct install install_of(struct transaction *transaction, struct selection *selection,
	const struct probe_request *request)
{
	return (struct install){.change = transaction->change,
		.transaction = transaction,
		.selection = selection,
		.request = request,
		.fd = -1};
}

void install_deinit(struct install *install)
{
	if (install->fd >= 0)
		close(install->fd);
	free(install->sites);
	free(install->order);
	free(install->pun_pages);
	free(install->neighbours);
}

/* Adds the result to a report. */
static void add_report(const struct install *install)
{
	struct probe_report *report = install->report;
	const struct selection *s = install->selection;

	for (size_t i = 0; i < s->probe_count; i++)
		report->probes += !s->probes[i].refused;
	for (size_t i = 0; i < s->site_count; i++) {
		if (!install->sites[i].wanted)
			continue;
		report->sites++;
		report->plans[plan_id(s->sites[i].chosen)]++;
	}
	report->plans[plan_id(NULL)] = report->refusal_count;
	if (install->change->stop_ns > report->stop_ns)
		report->stop_ns = install->change->stop_ns;
}

/* Stubs that must not ask the kernel what is readable follow fewer pointers. */
static struct probe_error *report_denied(const struct install *a, struct probe_report *report)
{
	const struct seccomp *seccomp = &a->change->seccomp;

	if (a->asks && !(seccomp->allowed & SECCOMP_ASK))
		return report_note(report,
			"%s, which probes need to check that memory is readable: strings and "
			"pointers are followed only to constants and variables of the program",
			seccomp_why(seccomp, SECCOMP_ASK));
	if (a->asks_stack && !(seccomp->allowed & SECCOMP_STACK))
		return report_note(report,
			"%s, which probes need to find the end of a thread's stack: stacks are cut "
			"after the page of the stack pointer, except the main thread's",
			seccomp_why(seccomp, SECCOMP_STACK));
	return NULL;
}

struct module *install_module(const struct install *install, size_t site)
{
	return install->selection->probes[install->selection->sites[site].probe].module;
}

size_t install_module_end(const struct install *install, size_t from)
{
	const struct module *module = install_module(install, install->order[from]);

	while (from < install->order_count &&
		install_module(install, install->order[from]) == module)
		from++;
	return from;
}

/* ---- All of it ------------------------------------------------------------------------ */

/* Pages that are unmapped here are free for later use: a pun may need that very page. */
static struct probe_error *uninstall_and_look(struct change *change)
{
	struct probe_error *error = uninstall_unreferenced(change);

	return error ? error : change_reread_maps(change);
}

struct probe_error *install_heal(struct change *change)
{
	struct orphans orphans = {0};
	/* execve(2) takes mappings away, and closes descriptors of ours. */
	struct probe_error *error = change->target->alone ? NULL : orphans_remove(change, &orphans);

	if (!error && orphans.mappings)
		error = change_reread_maps(change);
	if (!error && (uninstall_find_stale(change) || uninstall_has_leftovers(&change->registry)))
		error = uninstall_and_look(change);
	return error;
}

/*
 * Undoes what was begun for sessions, which may have existed before. The rest becomes stale when
 * this process ends, and is removed then.
 */
static void abandon(struct change *change, const struct install *installs)
{
	struct registry *r = &change->registry;
	struct orphans orphans;
	struct probe_error *error;
	bool any = false;

	for (const struct install *a = installs; a; a = a->next) {
		struct reg_session *session = registry_session(r, a->session);

		if (a->created && session)
			registry_retire(r, session);
		for (size_t i = 0; i < a->selection->probe_count; i++) {
			struct reg_probe *probe =
				registry_probe(r, a->selection->probes[i].key, a->session);

			if (probe)
				probe->refcount = 0;
		}
		any = any || session;
	}
	if (any)
		probe_error_free(uninstall_unreferenced(change));
	/* What the registry does not list yet. */
	error = change_reread(change);
	probe_error_free(error ? error : orphans_remove(change, &orphans));
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
 * Plans, and takes the pages that puns need before anything else is mapped. If the target has
 * mapped such a page meanwhile, the sites are planned again; in the last try, without puns.
 */
static struct probe_error *plan_and_map(struct install *install, struct probe_report *report)
{
	struct probe_error *error = NULL;
	bool again = true;

	for (int i = 0; i < PLAN_TRIES && !error && again; i++) {
		install->no_puns = i == PLAN_TRIES - 1;
		error = install_plan(install);
		if (!error)
			error = puns_map(install, &again);
	}
	error = closed_error(install, error);
	if (!error)
		error = install_refusals(install, report);
	if (error)
		puns_drop(install);
	return error;
}

static struct probe_error *create_and_build(struct install *install, struct probe_report *report)
{
	struct probe_error *error = change_judge(install->change);

	if (!error)
		error = renew_guard(install->change);
	if (!error && !install->session)
		error = create_session(install);
	if (!error)
		error = install_build(install);
	if (!error)
		error = note_arenas(install);
	if (!error)
		error = report_denied(install, report);
	if (!error && install->take)
		error = install->take(install->take_data, install);
	if (error)
		abandon(install->change, install);
	return error;
}

/* Can it be added to? */
static struct probe_error *check_session(const struct install *install)
{
	const struct change *c = install->change;
	const struct reg_session *session = registry_session(&c->registry, install->session);

	if (!install->session || (session && !(session->flags & REG_SESSION_RETIRED)))
		return NULL;
	return probe_error_new(PROBE_ERROR_STATE,
		c->lost ? "process %d has mapped memory over that of probectl, or unmapped it: the "
			  "session has ended"
			: "process %d: another controller has ended the session",
		c->pid);
}

struct probe_error *install_add(struct install *install, struct probe_report *report)
{
	struct change *change = install->change;
	struct probe_error *error = NULL;

	install->report = report;
	/* Another controller may have died since the last look: a session is added to as well. */
	if (uninstall_find_dead(change) || uninstall_has_leftovers(&change->registry))
		error = uninstall_and_look(change);
	/* It may just have been ended, because memory that it needed is gone. */
	if (!error)
		error = check_session(install);
	if (!error)
		error = uninstall_check_leftovers(change);
	if (!error)
		error = plan_and_map(install, report);
	if (error)
		return error;
	if (install->persistent && is_empty(install->selection)) {
		add_report(install);
		return NULL;
	}
	error = create_and_build(install, report);
	if (error)
		return error;
	install->next = install->transaction->installs;
	install->transaction->installs = install;
	return NULL;
}

struct probe_error *install_commit(struct transaction *t)
{
	struct probe_error *error;

	if (!t->installs)
		return transaction_commit_counts(t);
	error = install_patch(t);
	if (error) {
		abandon(t->change, t->installs);
		return closed_error(t->installs, error);
	}
	for (const struct install *a = t->installs; a; a = a->next)
		add_report(a);
	t->change->target->closings = 0;
	return NULL;
}

struct probe_error *install_all(struct install *install, struct probe_report *report)
{
	struct probe_error *error = install_add(install, report);

	/* An empty session is in the registry by now, and nothing of it is in the code. */
	if (error || (!install->persistent && !install->selection->probe_count))
		return error;
	return install_commit(install->transaction);
}
