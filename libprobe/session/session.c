/* SPDX-License-Identifier: MIT */
/* Attached sessions: they belong to this process and end with it. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/base/clock.h"
#include "libprobe/follow/watch.h"
#include "libprobe/patch/attempt.h"
#include "libprobe/patch/install.h"
#include "libprobe/patch/report.h"
#include "libprobe/process/memory.h"
#include "libprobe/process/procfs.h"
#include "libprobe/session/session.h"
#include "libprobe/target/fate.h"
#include "libprobe/target/target.h"

enum {
	SPARE_PROBES = 4096, /* counters for those of libraries to come */
	GATE_WAIT_NS = 1000000000,
	SESSION_DESCRIPTORS = 16 /* what it keeps, and what its end takes beside the modules */
};

/* Sites that have no stub of the session were refused. */
static struct probe_coverage coverage_of(const struct probe_session *s, const struct registry *r,
	const struct selection *selection, const struct select_probe *probe)
{
	struct probe_coverage coverage = {0};

	for (size_t i = 0; i < probe->site_count; i++) {
		uint64_t pc = selection->sites[probe->first_site + i].pc;
		size_t count = 0;
		const struct reg_stub *stubs = pc ? registry_stubs(r, pc, &count) : NULL;
		bool counted = false;

		for (size_t k = 0; k < count; k++)
			counted |= stubs[k].session == s->id && stubs[k].key == probe->key;
		coverage.sites += pc != 0;
		coverage.refused += pc && !counted;
	}
	return coverage;
}

struct probe_error *session_take_probes(
	struct probe_session *s, const struct registry *registry, const struct selection *selection)
{
	size_t first = s->probe_count - selection->probe_count;

	for (size_t i = 0; i < selection->probe_count; i++) {
		const struct select_probe *p = &selection->probes[i];
		const struct reg_probe *counted = registry_probe(registry, p->key, s->id);

		if (!counted)
			return probe_error_no_memory();
		s->known[first + i].slot = counted->slot;
		s->probes[first + i].coverage = coverage_of(s, registry, selection, p);
	}
	return NULL;
}

/* A process's id as it sees it itself; 0: not known. */
static uint32_t own_pid(pid_t pid)
{
	long own = procfs_status_last_number(pid, "NSpid:");

	return own > 0 ? (uint32_t)own : 0;
}

static struct probe_error *take_options(struct probe_session *s,
	const struct probe_request *request, const struct probe_session_options *options)
{
	size_t ring = options->ring_bytes ? options->ring_bytes : DATA_RING_DEFAULT;
	struct probe_error *error;

	s->options = *options;
	s->options.may_shrink |= !options->ring_bytes;
	children_cache_init(&s->processes, s->target->pid, options->follow_children);
	error = asked_init(&s->asked, options);
	if (error)
		return error;
	s->options.gather.key_count = s->asked.key_count;
	if (!options->follow_children)
		s->target_pid = own_pid(s->target->pid);
	if (options->sample_rate)
		s->rate_ticks = clock_ticks_per_s(&s->clock);
	if (ring > DATA_RING_MAX)
		return probe_error_new(
			PROBE_ERROR_USAGE, "a ring may have at most %d MiB", DATA_RING_MAX >> 20);
	s->options.ring_bytes = ring < DATA_RING_MIN ? DATA_RING_MIN : ring;
	s->patterns = calloc(request->pattern_count + 1, sizeof(*s->patterns));
	s->matched = calloc(request->pattern_count + 1, sizeof(*s->matched));
	if (!s->patterns || !s->matched)
		return probe_error_no_memory();
	if (request->pattern_count)
		memcpy(s->patterns, request->patterns,
			request->pattern_count * sizeof(*s->patterns));
	s->request = *request;
	s->request.patterns = s->patterns;
	return NULL;
}

struct probe_error *session_create(struct probe_target *target, uint64_t (*counter)(void),
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_session **ret)
{
	struct probe_session *s = malloc(sizeof(*s));
	struct probe_error *error;

	if (!s)
		return probe_error_no_memory();
	*s = (struct probe_session){.target = target, .data = -1, .event = -1};
	clock_init(&s->clock, counter);
	error = take_options(s, request, options);
	if (error)
		probe_session_free(s);
	else
		*ret = s;
	return error;
}

/* Those that were switched off are not in the registry. */
static bool is_off(const struct probe_session *s, uint64_t key)
{
	for (size_t i = 0; i < s->probe_count; i++)
		if (s->known[i].off && s->known[i].key == key)
			return true;
	return false;
}

/* Forgets the probes that the session has already. */
void session_keep_new(
	const struct probe_session *s, const struct change *c, struct selection *selection)
{
	for (size_t i = 0; i < selection->probe_count; i++) {
		struct select_probe *probe = &selection->probes[i];

		probe->unwanted =
			registry_probe(&c->registry, probe->key, s->id) || is_off(s, probe->key);
	}
	selection_drop_unwanted(selection);
}

/*
 * Maps the session's memory and takes over its probes, while no site leads to its stubs
 * yet: where the controller has no room for them, nothing is on. See struct install.
 */
static struct probe_error *take_session(void *data, struct install *install)
{
	const struct registry *registry = &install->change->registry;
	struct probe_session *s = data;
	struct probe_error *error = NULL;

	s->id = install->session;
	if (install->fd >= 0) {
		error = rings_open(install->fd, registry_session(registry, s->id), &s->rings);
		if (error)
			return error;
		s->data = install->fd;
		install->fd = -1;
		s->view = (struct snapshot){
			.base = s->rings.base, .fd = s->data, .layout = s->rings.layout};
	}
	error = session_take_probes(s, registry, install->selection);
	return error ? error : session_watch(s, registry);
}

/* Attaches a selection: to a new session, or to the one that is there. */
static struct probe_error *install_selection(struct probe_session *s, struct change *c,
	struct selection *selection, struct probe_report *report)
{
	struct transaction t = transaction_of(c, TRANSACTION_ADDS);
	struct install install = session_attach(s, &t, selection);
	size_t probes = s->probe_count, sites = s->site_count;
	struct probe_error *error = session_prepare(s, c, selection, report);

	install.first_site = sites;
	install.spare_probes = s->options.follow_libraries ? SPARE_PROBES : 1;
	install.needs = session_needs(s);
	if (!error && !s->id)
		error = session_fit(
			s, &install.needs, selection->probe_count + install.spare_probes, report);
	install.take = take_session;
	install.take_data = s;
	if (!error)
		error = install_all(&install, report);
	if (error) {
		session_unprepare(s, probes, sites);
		probe_error_free(session_watch(s, &c->registry));
	} else {
		s->calls_kernel |= install.asks && c->seccomp.allowed & SECCOMP_ASK;
	}
	for (size_t i = 0; i < s->request.pattern_count && !error; i++)
		s->matched[i] = s->matched[i] || selection->matched[i];
	install_deinit(&install);
	transaction_end(&t);
	return error;
}

/* Without patterns, nothing: the session only follows. */
struct probe_error *session_select_asked(
	const struct probe_session *s, struct modules *modules, struct selection *ret)
{
	return s->request.pattern_count
		       ? select_probes(modules, s->patterns, s->request.pattern_count, ret)
		       : NULL;
}

/* Of a probe that is not there yet, it is said what would wait for it. */
static struct probe_error *may_come(struct probe_error *error)
{
	struct probe_error *more;

	if (!error || error->code != PROBE_ERROR_NOT_FOUND)
		return error;
	more = probe_error_new(error->code,
		"%s; --follow waits for libraries that are opened later", error->message);
	probe_error_free(error);
	return more;
}

/* With the target's state read and locked. */
static struct probe_error *start(
	struct probe_session *s, struct change *c, struct probe_report *report)
{
	struct selection selection = {0};
	struct probe_error *error;

	/* Its end is a change, too, when it has taken what it keeps. */
	error = change_need_descriptors(c, SESSION_DESCRIPTORS);
	if (!error)
		error = install_heal(c);
	if (!error)
		error = session_stack_start(s, c->arch);
	if (!error)
		error = session_select_asked(s, &c->modules, &selection);
	if (!error && !s->options.follow_libraries)
		error = may_come(select_unmatched(&c->modules, &selection, s->patterns, c->pid));
	if (!error)
		error = install_selection(s, c, &selection, report);
	selection_deinit(&selection);
	return error;
}

/*
 * A process that becomes another program, or ends, while its libraries are being
 * probed: what the session has counted and recorded up to then is there.
 */
static struct probe_error *unless_replaced(const struct probe_session *s, struct probe_error *error)
{
	if (s->target->mem < 0 || memory_is_there(s->target->mem))
		return error;
	probe_error_free(error);
	return NULL;
}

/* Without a gate something will not be seen, unless the program is static: then it is said. */
static struct probe_error *note_no_gate(const struct change *c, enum gate_place place,
	const struct probe_error *why, struct probe_report *report)
{
	size_t programs = 0;

	for (size_t i = 0; i < c->modules.count; i++)
		programs += c->modules.items[i].object != NULL;
	if (programs < 2)
		return NULL;
	if (place == GATE_LIBRARIES)
		return report_note(report,
			"process %d: hits in libraries that it opens from now on are not seen: %s",
			c->pid, why->message);
	return report_note(report,
		"process %d: a program that it starts is traced only some milliseconds later, and "
		"not at all if it has ended by then: %s",
		c->pid, why->message);
}

/* What has no such place does not go through it; else *ret is where it is. */
static struct probe_error *add_gate(struct probe_session *s, struct change *c,
	enum gate_place place, struct probe_report *report, struct probe_gate **ret)
{
	size_t offset = place == GATE_EXEC ? DATA_EXEC_GATE_OFFSET : DATA_GATE_OFFSET;
	struct probe_error *error =
		gate_attach(c, s->id, &s->request, place, s->options.follow_children);

	*ret = NULL;
	if (error &&
		(error->code == PROBE_ERROR_UNSUPPORTED || error->code == PROBE_ERROR_REFUSED)) {
		struct probe_error *second = note_no_gate(c, place, error, report);

		probe_error_free(error);
		return second;
	}
	if (!error)
		*ret = (struct probe_gate *)(s->rings.base + offset);
	return error ? unless_replaced(s, error) : NULL;
}

static struct waiters_place waiters_place(const struct probe_session *s, size_t offset)
{
	return (struct waiters_place){.pid = s->target->pid,
		.children = s->options.follow_children,
		.address = s->rings.layout.data + offset + offsetof(struct probe_gate, released)};
}

static struct probe_error *open_exec_gate(struct probe_session *s, struct probe_gate *shared)
{
	struct launches *launches = watch_launches(s->options.watch);
	struct launch_gate *gate = &s->exec_gate;
	struct probe_error *error = gate_open(&gate->gate, shared, launches->event);

	if (error)
		return error;
	gate->place = waiters_place(s, DATA_EXEC_GATE_OFFSET);
	return launches_add(launches, gate);
}

/* It was held before it had libc. Where that has come: */
static struct probe_error *add_due_gate(struct probe_session *s, struct change *c)
{
	struct probe_gate *exec;
	struct probe_error *error;

	if (!s->exec_gate_due || !gate_has_place(c, GATE_EXEC))
		return NULL;
	error = add_gate(s, c, GATE_EXEC, &s->report, &exec);
	if (!error)
		error = session_watch(s, &c->registry);
	s->exec_gate_due = error != NULL;
	return error || !exec ? error : open_exec_gate(s, exec);
}

/*
 * Probes what the target has opened since. One pass per call: more may have
 * come meanwhile, but its thread then waits at the gate.
 */
static struct probe_error *follow_once(struct probe_session *s)
{
	struct selection selection = {0};
	struct probe_error *error;
	struct change c;

	/*
	 * A child of vfork(2) that waits at the gate would keep its parent from being
	 * stopped. Programs that start now are found a little later.
	 */
	gate_arm(&s->exec_gate.gate, false);
	error = change_begin(s->target, &c);
	if (error) {
		gate_arm(&s->exec_gate.gate, true);
		return unless_replaced(s, error);
	}
	session_stack_refresh(s);
	/* What is refused is told in the session's report: nobody could say --keep-going. */
	s->request.keep_going = true;
	error = session_select_asked(s, &c.modules, &selection);
	if (!error) {
		session_keep_new(s, &c, &selection);
		if (selection.probe_count)
			error = install_selection(s, &c, &selection, &s->report);
		if (selection.probe_count && !error)
			session_keep_filters(s, &c);
	}
	selection_deinit(&selection);
	if (!error)
		error = add_due_gate(s, &c);
	change_end(&c);
	gate_arm(&s->exec_gate.gate, true);
	return error ? unless_replaced(s, error) : NULL;
}

static struct probe_error *follow(struct probe_session *s)
{
	struct attempt attempt = attempt_begin(s->target, &s->report);
	struct probe_error *error;

	do {
		error = follow_once(s);
	} while (attempt_again(&attempt, &error));
	return error;
}

/* The same, while other processes may wait for us. */
static struct probe_error *follow_now(struct probe_session *s)
{
	struct probe_error *error;

	s->target->hurry = true;
	error = follow(s);
	s->target->hurry = false;
	return error;
}

/*
 * While a program is being started, its parent may be waiting for it in vfork(2), and cannot
 * be stopped: the library's turn comes when that program is there, or has taken too long.
 */
static bool has_to_wait(struct probe_session *s)
{
	return s->options.watch && launches_depend(watch_launches(s->options.watch), &s->exec_gate);
}

/* Is there time to try once more? */
static bool may_wait(struct probe_session *s)
{
	uint64_t now = clock_monotonic_ns();

	if (!s->gate_since_ns)
		s->gate_since_ns = now;
	return now - s->gate_since_ns < GATE_WAIT_NS;
}

/* Is it for a moment that a target cannot be changed? */
static bool is_passing(const struct probe_error *error)
{
	return error && error->code == PROBE_ERROR_STATE;
}

/*
 * Lets the threads go that have opened a library, with its probes on; in a forked child, with
 * those named that are not.
 */
static struct probe_error *serve_gate(struct probe_session *s)
{
	struct probe_error *error = NULL;
	struct waiters waiters = {0};
	bool ours = false;

	if (s->event < 0)
		return NULL;
	gate_clear(s->event);
	if (!gate_take(&s->gate))
		return NULL;
	if (!waiters_find(&waiters, &s->gate, &s->gate_place) || (has_to_wait(s) && may_wait(s))) {
		free(waiters.items);
		gate_raise(s->event);
		return NULL;
	}
	for (size_t i = 0; i < waiters.count && !error; i++) {
		if (waiters.items[i].pid == s->target->pid)
			ours = true;
		else
			error = session_note_child(s, waiters.items[i].pid);
	}
	/* Who has gone on or was not found may have been one of its own threads. */
	if (!error && (ours || !waiters.count))
		error = follow_now(s);
	free(waiters.items);
	if (is_passing(error) && may_wait(s)) {
		probe_error_free(error);
		gate_raise(s->event);
		return NULL;
	}
	s->gate_since_ns = 0;
	gate_release(&s->gate);
	return error;
}

/* With the target's state read and locked. */
static struct probe_error *start_following(
	struct probe_session *s, struct change *c, struct probe_report *report)
{
	struct probe_gate *loader = NULL, *exec = NULL;
	struct probe_error *error = NULL;

	if (s->options.follow_libraries)
		error = add_gate(s, c, GATE_LIBRARIES, report, &loader);
	s->exec_gate_due = s->options.watch && loader && s->target->early;
	if (!error && s->options.watch && !s->exec_gate_due)
		error = add_gate(s, c, GATE_EXEC, report, &exec);
	if (!error)
		error = session_watch(s, &c->registry);
	if (error || (!loader && !exec))
		return error;
	if (loader && gate_is_expected(c))
		loader->pass = 1;
	s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event < 0)
		return probe_error_system(errno, "cannot make an event descriptor");
	s->gate_place = waiters_place(s, DATA_GATE_OFFSET);
	if (loader)
		error = gate_open(&s->gate, loader, s->event);
	return error || !exec ? error : open_exec_gate(s, exec);
}

static struct probe_error *start_once(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, struct probe_session **ret)
{
	uint64_t (*counter)(void) = target->no_counter ? NULL : arch_process()->counter;
	struct probe_session *s;
	struct probe_error *error = session_create(target, counter, request, options, &s);
	bool started = false;
	struct change c;

	if (error)
		return error;
	if (!target->files && options->watch)
		target->files = files_hold(watch_launches(options->watch)->files);
	error = session_reserve(s);
	if (!error)
		error = change_begin(target, &c);
	if (!error) {
		fate_begin(target);
		error = start(s, &c, report);
		started = !error;
		if (!error && (options->follow_libraries || options->watch))
			error = start_following(s, &c, report);
		if (!error)
			session_keep_filters(s, &c);
		change_end(&c);
	}
	/* A library may have come before the gate was there. */
	if (!error && options->follow_libraries && !target->held)
		error = follow(s);
	if (error && started)
		probe_error_free(probe_session_stop(s));
	if (error) {
		probe_session_free(s);
		return error;
	}
	*ret = s;
	return NULL;
}

struct probe_error *probe_session_start(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, struct probe_session **ret)
{
	struct attempt attempt = attempt_begin(target, report);
	struct probe_error *error;

	do {
		error = start_once(target, request, options, report, ret);
	} while (attempt_again(&attempt, &error));
	return error;
}

const struct probe_report *probe_session_report(const struct probe_session *session)
{
	return &session->report;
}

bool probe_session_matched(const struct probe_session *session, size_t pattern)
{
	return pattern < session->request.pattern_count && session->matched[pattern];
}

size_t probe_session_unmatched(const struct probe_session *session)
{
	size_t i = 0;

	while (i < session->request.pattern_count && session->matched[i])
		i++;
	return i;
}

/* ---- Reading ------------------------------------------------------------------------ */

/* What its hits have left is handed over first: who is told of an error polls no more. */
static struct probe_error *stop_for_filters(
	struct probe_session *s, bool (*visit)(const struct probe_hit *hit, void *data), void *data)
{
	struct probe_error *error = session_look_at_filters(s);

	if (!error)
		return NULL;
	probe_error_free(probe_session_stop(s));
	session_read_rings(s, visit, data);
	session_update_counts(s);
	return error;
}

struct probe_error *probe_session_poll(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data, bool *more_ret)
{
	struct probe_error *error = NULL;
	bool any = session_read_rings(session, visit, data);

	session_update_counts(session);
	if (session->stopped && !any && !session->options.overwrite)
		rings_discharge(&session->rings);
	if (more_ret)
		*more_ret = any;
	if (!session->stopped)
		error = serve_gate(session);
	if (!error && !session->stopped)
		error = stop_for_filters(session, visit, data);
	return error;
}

int probe_session_fd(const struct probe_session *session)
{
	return session->gate.shared ? session->event : -1;
}

const struct probe_session_probe *probe_session_probes(
	const struct probe_session *session, size_t *count_ret)
{
	*count_ret = session->probe_count;
	return session->probes;
}
