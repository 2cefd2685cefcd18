/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/attach.h"
#include "libprobe/memory.h"
#include "libprobe/procfs.h"
#include "libprobe/target_internal.h"

/* ---- Targets ---------------------------------------------------------------------- */

/* Does the process run this program? */
static struct probe_error *check_exe(pid_t pid, const char *exe)
{
	char path[48], link[4096];
	struct stat wanted, running;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(exe, &wanted) < 0)
		return probe_error_system(errno, "%s", exe);
	if (stat(path, &running) < 0)
		return errno == ENOENT ? probe_error_new(PROBE_ERROR_NOT_FOUND,
						 "there is no process %d", pid)
				       : probe_error_system(errno, "%s", path);
	if (wanted.st_dev == running.st_dev && wanted.st_ino == running.st_ino)
		return NULL;
	length = readlink(path, link, sizeof(link) - 1);
	link[length < 0 ? 0 : length] = '\0';
	return probe_error_new(
		PROBE_ERROR_STATE, "process %d does not run %s but %s", pid, exe, link);
}

struct probe_error *probe_target_open(pid_t pid, const char *exe, struct probe_target **ret)
{
	uint64_t start = procfs_start_time(pid);
	struct probe_error *error;
	struct probe_target *target;
	char state;

	if (!start)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "there is no process %d", pid);
	state = procfs_thread_state(pid, pid);
	if (state == 'Z' && procfs_status_number(pid, "Threads:") <= 1)
		return probe_error_new(
			PROBE_ERROR_STATE, "process %d has ended and waits for its parent", pid);
	error = exe ? check_exe(pid, exe) : NULL;
	if (error)
		return error;
	target = calloc(1, sizeof(*target));
	if (!target)
		return probe_error_no_memory();
	target->pid = pid;
	target->start_time = start;
	*ret = target;
	return NULL;
}

pid_t probe_target_pid(const struct probe_target *target)
{
	return target->pid;
}

bool probe_target_alive(const struct probe_target *target)
{
	pid_t pid = target->pid;

	if (procfs_start_time(pid) != target->start_time)
		return false;
	/* Who is exiting gives the memory back before becoming a zombie. */
	if (procfs_status_number(pid, "VmSize:") >= 0)
		return true;
	/* The main thread may end before the others do. */
	return procfs_thread_state(pid, pid) == 'Z' && procfs_status_number(pid, "Threads:") > 1;
}

const char *target_string(struct probe_target *target, const char *text)
{
	char **strings = reallocarray(target->strings, target->string_count + 1, sizeof(*strings));
	char *copy = strings ? strdup(text) : NULL;

	if (strings)
		target->strings = strings;
	if (copy)
		strings[target->string_count++] = copy;
	return copy;
}

/* ---- Enabling ---------------------------------------------------------------------- */

/* A probe that is on already: its persistent counters are changed by one. */
static struct probe_error *add_reference(struct change *c, struct reg_probe *probe, bool force)
{
	struct probe_error *error;

	if (force)
		return NULL;
	if (probe->refcount == UINT16_MAX)
		return probe_error_new(
			PROBE_ERROR_STATE, "its reference count is at its largest value already");
	error = semaphores_change(c, probe->key, probe->session, 1);
	if (!error)
		probe->refcount++;
	return error;
}

static struct reg_probe *persistent_probe(const struct registry *r, uint64_t key)
{
	for (size_t i = 0; i < r->probe_count; i++) {
		const struct reg_session *session = registry_session(r, r->probes[i].session);

		if (r->probes[i].key == key && session && session->flags & REG_SESSION_PERSISTENT)
			return &r->probes[i];
	}
	return NULL;
}

static const char *probe_label(const struct select_probe *probe, char buffer[256])
{
	snprintf(buffer, 256, "%s:%s", probe->provider, probe->name);
	return buffer;
}

/*
 * Takes the probes that are on already out of the selection, and counts them
 * up; with all threads stopped where asked for.
 */
static struct probe_error *enable_known(struct change *c, struct selection *s,
	const struct probe_request *request, struct probe_report *report)
{
	struct probe_error *error = request->atomic ? change_stop(c) : NULL;
	size_t kept_sites = 0, kept_probes = 0;
	char label[256];

	for (size_t i = 0; i < s->probe_count && !error; i++) {
		struct select_probe probe = s->probes[i];
		struct reg_probe *known = persistent_probe(&c->registry, probe.key);

		if (known) {
			error = probe_error_prefix(add_reference(c, known, request->force), "%s",
				probe_label(&probe, label));
			report->probes++;
			report->sites += probe.site_count;
			continue;
		}
		memmove(s->sites + kept_sites, s->sites + probe.first_site,
			probe.site_count * sizeof(*s->sites));
		probe.first_site = kept_sites;
		for (size_t k = 0; k < probe.site_count; k++)
			s->sites[kept_sites + k].probe = kept_probes;
		kept_sites += probe.site_count;
		s->probes[kept_probes++] = probe;
	}
	if (!error) {
		s->site_count = kept_sites;
		s->probe_count = kept_probes;
	}
	change_resume(c);
	return error;
}

/* Pairs name starts at even places and ends at odd ones: the ends go first. */
static int compare_pair_ends(const void *a, const void *b)
{
	const struct select_probe *x = a, *y = b;
	size_t end_x = x->pattern % 2, end_y = y->pattern % 2;

	if (end_x != end_y)
		return end_x ? -1 : 1;
	return x->first_site < y->first_site ? -1 : x->first_site > y->first_site;
}

static struct probe_error *order_pairs(struct selection *s)
{
	struct select_site *sites = calloc(s->site_count + 1, sizeof(*sites));
	size_t at = 0;

	if (!sites)
		return probe_error_no_memory();
	qsort(s->probes, s->probe_count, sizeof(*s->probes), compare_pair_ends);
	for (size_t i = 0; i < s->probe_count; i++) {
		struct select_probe *probe = &s->probes[i];

		memcpy(sites + at, s->sites + probe->first_site,
			probe->site_count * sizeof(*sites));
		for (size_t k = 0; k < probe->site_count; k++)
			sites[at + k].probe = i;
		probe->first_site = at;
		at += probe->site_count;
	}
	free(s->sites);
	s->sites = sites;
	return NULL;
}

/* Undoes a session whose enabling failed. What cannot be undone now is stale and found later. */
static void abandon(struct change *c, uint32_t session)
{
	struct reg_session *s = registry_session(&c->registry, session);

	if (!s)
		return;
	s->flags |= REG_SESSION_RETIRED;
	for (size_t i = 0; i < c->registry.probe_count; i++)
		if (c->registry.probes[i].session == session)
			c->registry.probes[i].refcount = 0;
	probe_error_free(detach_unreferenced(c));
}

static struct probe_error *heal(struct change *c)
{
	return detach_find_stale(c) ? detach_unreferenced(c) : NULL;
}

struct probe_error *attach_all(
	struct attach *attach, size_t ring_bytes, struct probe_report *report)
{
	struct probe_error *error = attach_plan(attach, report);
	bool added;

	if (error)
		return error;
	added = attach->session == 0;
	if (added)
		error = attach_session(attach, ring_bytes);
	if (!error)
		error = attach_build(attach);
	if (!error)
		error = attach_commit(attach);
	if (error && added)
		abandon(attach->change, attach->session);
	if (!error)
		attach_report(attach, report);
	return error;
}

struct probe_error *probe_target_enable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report)
{
	struct selection selection = {0};
	struct probe_error *error;
	struct change c;
	struct attach attach = {.change = &c,
		.selection = &selection,
		.request = request,
		.persistent = true,
		.fd = -1};

	error = change_begin(target, &c);
	if (error)
		return error;
	error = heal(&c);
	if (!error)
		error = select_probes(
			&c.modules, request->patterns, request->pattern_count, &selection);
	if (!error)
		error = select_unmatched(&c.modules, &selection, request->patterns, c.pid);
	if (!error && request->pairs)
		error = order_pairs(&selection);
	if (!error && c.registry.home) {
		error = enable_known(&c, &selection, request, report);
		if (!error)
			error = change_store(&c);
	}
	if (!error && selection.probe_count)
		error = attach_all(&attach, 0, report);
	if (c.stop_ns > report->stop_ns)
		report->stop_ns = c.stop_ns;
	attach_deinit(&attach);
	selection_deinit(&selection);
	change_end(&c);
	return error;
}

/* ---- Disabling ----------------------------------------------------------------------- */

/* A probe that only other tools hold: --force ends that, else it is off for us. */
static struct probe_error *force_off(
	struct change *c, const struct selection *s, const struct select_probe *probe)
{
	uint64_t *addresses = calloc(probe->site_count + 1, sizeof(*addresses));
	struct probe_error *error = NULL;
	size_t count = addresses ? semaphores_of(s, probe, addresses) : 0;
	static const uint16_t zero;

	for (size_t i = 0; i < count && !error; i++)
		error = memory_write_code(c->mem, addresses[i], &zero, sizeof(zero));
	free(addresses);
	return error;
}

static struct probe_error *drop_reference(
	struct change *c, const struct selection *s, const struct select_probe *probe, bool force)
{
	struct reg_probe *known = persistent_probe(&c->registry, probe->key);
	struct probe_error *error;
	char label[256];

	if (!known && force)
		return force_off(c, s, probe);
	if (!known)
		return probe_error_new(PROBE_ERROR_STATE,
			"%s is not enabled in process %d (--force sets it to off all the same)",
			probe_label(probe, label), c->pid);
	if (force || known->refcount <= 1) {
		known->refcount = 0; /* detach_unreferenced() does the rest */
		return NULL;
	}
	error = semaphores_change(c, known->key, known->session, -1);
	if (!error)
		known->refcount--;
	return error;
}

/* All or nothing: looks whether every probe can be lowered before any is. */
static struct probe_error *check_enabled(const struct change *c, const struct selection *s)
{
	char label[256];

	for (size_t i = 0; i < s->probe_count; i++)
		if (!persistent_probe(&c->registry, s->probes[i].key))
			return probe_error_new(PROBE_ERROR_STATE,
				"%s is not enabled in process %d (--force sets it to off all the "
				"same, --keep-going does the rest)",
				probe_label(&s->probes[i], label), c->pid);
	return NULL;
}

static struct probe_error *lower_all(struct change *c, const struct selection *s,
	const struct probe_request *request, struct probe_report *report)
{
	struct probe_error *error = request->atomic ? change_stop(c) : NULL;

	/* Of pairs the starts go first: see order_pairs(). */
	for (size_t i = s->probe_count; i-- > 0 && !error;) {
		const struct select_probe *probe = &s->probes[i];

		if (request->keep_going && !request->force &&
			!persistent_probe(&c->registry, probe->key))
			continue;
		error = drop_reference(c, s, probe, request->force);
		report->probes++;
		report->sites += probe->site_count;
	}
	change_resume(c);
	return error;
}

struct probe_error *probe_target_disable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report)
{
	struct selection selection = {0};
	struct probe_error *error;
	struct change c;

	error = change_begin(target, &c);
	if (error)
		return error;
	detach_find_stale(&c); /* what is stale ends together with the rest */
	error = select_probes(&c.modules, request->patterns, request->pattern_count, &selection);
	if (!error)
		error = select_unmatched(&c.modules, &selection, request->patterns, c.pid);
	if (!error && request->pairs)
		error = order_pairs(&selection);
	if (!error && !request->force && !request->keep_going)
		error = check_enabled(&c, &selection);
	if (!error)
		error = lower_all(&c, &selection, request, report);
	if (!error && c.registry.home)
		error = detach_unreferenced(&c);
	report->stop_ns = c.stop_ns;
	selection_deinit(&selection);
	change_end(&c);
	return error;
}

/* ---- Status --------------------------------------------------------------------------- */

/* The hits of a probe of a session: the sum over the sets of counters. */
static uint64_t read_hits(pid_t pid, const struct reg_session *session, uint32_t slot)
{
	uint64_t hits = 0;

	for (uint32_t set = 0; set <= session->cpus; set++) {
		struct probe_slot counters = {0};

		if (memory_read(pid,
			    session->slots + ((uint64_t)set << session->slots_shift) +
				    slot * sizeof(counters),
			    &counters, sizeof(counters)) == sizeof(counters))
			hits += counters.hits;
	}
	return hits;
}

/* The highest of a probe's semaphores: above 0 also where another tool raised it. */
static uint32_t semaphore_count(
	pid_t pid, const struct selection *s, const struct select_probe *probe)
{
	uint64_t addresses[64];
	uint32_t highest = 0;
	size_t count = probe->site_count <= 64 ? semaphores_of(s, probe, addresses) : 0;

	for (size_t i = 0; i < count; i++) {
		uint16_t value;

		if (memory_read(pid, addresses[i], &value, sizeof(value)) == sizeof(value) &&
			value > highest)
			highest = value;
	}
	return highest;
}

static struct probe_error *probe_state(struct probe_target *target, const struct registry *r,
	const struct selection *s, const struct select_probe *probe, struct probe_status *ret)
{
	uint32_t ours = registry_refcount(r, probe->key, false);
	uint32_t raised = semaphore_count(target->pid, s, probe);

	*ret = (struct probe_status){.provider = target_string(target, probe->provider),
		.name = target_string(target, probe->name),
		.path = target_string(target, probe->module->path),
		.sites = probe->site_count,
		.refcount = ours > raised ? ours : raised};
	if (!ret->provider || !ret->name || !ret->path)
		return probe_error_no_memory();
	ret->enabled = ret->refcount > 0;
	for (size_t i = 0; i < probe->site_count; i++) {
		uint64_t pc = s->sites[probe->first_site + i].pc;
		const struct reg_site *site = pc ? registry_site(r, pc) : NULL;

		if (!site)
			continue;
		ret->patched++;
		ret->plans[site->plan < PROBE_PLAN_COUNT ? site->plan : PROBE_PLAN_NONE]++;
	}
	for (size_t i = 0; i < r->probe_count; i++) {
		const struct reg_session *session = registry_session(r, r->probes[i].session);

		if (r->probes[i].key == probe->key && session &&
			session->flags & REG_SESSION_PERSISTENT)
			ret->hits += read_hits(target->pid, session, r->probes[i].slot);
	}
	return NULL;
}

struct probe_error *probe_target_status(
	struct probe_target *target, struct probe_status **ret, size_t *count_ret)
{
	struct selection selection = {0};
	struct probe_status *states = NULL;
	struct modules modules = {0};
	struct registry registry = {0};
	struct maps maps = {0};
	struct probe_error *error;

	error = maps_read(target->pid, &maps);
	if (!error)
		error = modules_read(target->pid, &modules);
	if (!error)
		error = registry_load(target->pid, &maps, &registry);
	if (!error)
		error = select_probes(&modules, NULL, 0, &selection);
	if (!error) {
		states = calloc(selection.probe_count + 1, sizeof(*states));
		error = states ? NULL : probe_error_no_memory();
	}
	for (size_t i = 0; i < selection.probe_count && !error; i++)
		error = probe_state(
			target, &registry, &selection, &selection.probes[i], &states[i]);
	if (error) {
		free(states);
	} else {
		*ret = states;
		*count_ret = selection.probe_count;
	}
	selection_deinit(&selection);
	registry_deinit(&registry);
	modules_deinit(&modules);
	maps_deinit(&maps);
	return error;
}
