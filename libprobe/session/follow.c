/* SPDX-License-Identifier: MIT */
/*
 * What a session follows: libraries that its target opens later, and programs that it starts.
 * Each has a gate (libprobe/follow/follow.h), where the thread waits until that is done.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "libprobe/base/clock.h"
#include "libprobe/follow/follow.h"
#include "libprobe/patch/patch.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"

enum {
	GATE_WAIT_NS = 1000000000,
	CATCH_UP_NS = 1000000000, /* between attempts to probe what could not be probed in time */
};

/* Has the process executed another program, or ended? */
static bool is_replaced(const struct probe_session *s)
{
	return s->target->mem >= 0 && !target_is_there(s->target);
}

/*
 * If that happens while its libraries are being probed, the session keeps what it has counted and
 * recorded so far.
 */
static struct probe_error *unless_replaced(const struct probe_session *s, struct probe_error *error)
{
	if (!is_replaced(s))
		return error;
	probe_error_free(error);
	return NULL;
}

/* Without a gate something will be missed, unless the program is static. Then a note says so. */
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

/* Adds a gate; *ret is NULL if the target has no such place, which the report then says. */
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
		.address = s->rings.layout.data + offset + offsetof(struct probe_gate, turns)};
}

static struct probe_error *open_exec_gate(struct probe_session *s, struct probe_gate *shared)
{
	struct launches *launches = watch_launches(s->options.watch);
	struct launch_gate *gate = &s->exec_gate;

	gate_open(&gate->gate, shared, launches->event);
	gate->place = waiters_place(s, DATA_EXEC_GATE_OFFSET);
	return launches_add(launches, gate);
}

/*
 * While the loader maps a library, the semaphores that we raise there may be mapped over. So only
 * the names of user events are taken then, whose files are mapped before they have names. The
 * library's own thread comes to the gate when it is whole.
 */
static void leave_to_loader(struct change *c, struct selection *selection)
{
	static const char events[] = "/memfd:posix_trace";

	if (!selection->probe_count || !gate_list_changes(c))
		return;
	for (size_t i = 0; i < selection->probe_count; i++) {
		struct select_probe *probe = &selection->probes[i];

		probe->unwanted = strcmp(probe->module->path, events) != 0;
	}
	selection_drop_unwanted(selection);
}

/* Each library at another address takes counters of its own, of which a session has a number. */
static struct probe_error *refuse_without_counters(
	struct probe_session *s, const struct change *c, struct selection *selection)
{
	const struct reg_session *reg = registry_session(&c->registry, s->id);
	struct probe_error *error;

	if (!reg || reg->slot_capacity - reg->slot_count >= selection->probe_count)
		return NULL;
	error = session_refuse(s, selection,
		"the trace has no counter left, after thousands of libraries were opened: begin "
		"another one");
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].unwanted = true;
	selection_drop_unwanted(selection);
	return error;
}

/*
 * Probes what the target has opened since. One pass per call: more may have been opened meanwhile,
 * but its thread then waits at the gate.
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
	/* Refusals are in the session's report: there is no --keep-going here. */
	s->request.keep_going = true;
	error = session_select_asked(s, &c, &selection);
	if (!error) {
		session_keep_new(s, &c, &selection);
		leave_to_loader(&c, &selection);
		error = report_drop_lacking(&selection, &s->report);
	}
	if (!error && selection.probe_count) {
		fate_begin(s->target);
		error = session_install_returned(s, &c, &selection);
		if (!error)
			error = refuse_without_counters(s, &c, &selection);
		if (!error && selection.probe_count)
			error = session_install(s, &c, &selection, &s->report);
		if (!error)
			session_keep_filters(s, &c);
	}
	selection_deinit(&selection);
	change_end(&c);
	gate_arm(&s->exec_gate.gate, true);
	return error ? unless_replaced(s, error) : NULL;
}

struct probe_error *session_follow(struct probe_session *s)
{
	struct attempt attempt = attempt_begin(s->target, &s->report);

	while (attempt_next(&attempt))
		attempt.error = follow_once(s);
	return attempt.error;
}

/* The same, while other processes may wait for us. */
static struct probe_error *follow_now(struct probe_session *s)
{
	struct probe_error *error;

	s->target->hurry = true;
	error = session_follow(s);
	s->target->hurry = false;
	return error;
}

/*
 * While a program is being started, its parent may be waiting in vfork(2), and cannot be stopped.
 * The library is served when the program has started, or has taken too long.
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

/* Does another controller change the target at the moment? */
static bool is_passing(const struct probe_error *error)
{
	return error && (error->code == PROBE_ERROR_STATE || error->code == PROBE_ERROR_BUSY);
}

/*
 * The session goes on while the target cannot be changed: another controller is slow, or a debugger
 * traces it. What libraries miss meanwhile is told; they are probed as soon as it works.
 */
static struct probe_error *fall_behind(struct probe_session *s, struct probe_error *error)
{
	struct probe_error *second = NULL;

	if (!is_passing(error) && error->code != PROBE_ERROR_PERMISSION)
		return error;
	if (!s->catch_up_ns)
		second = report_note(&s->report,
			"process %d: hits in libraries that it opens are not seen for now: %s",
			s->target->pid, error->message);
	s->catch_up_ns = clock_monotonic_ns() + CATCH_UP_NS;
	probe_error_free(error);
	return second;
}

/* After an attempt to probe what the target has opened since. */
static struct probe_error *settle(struct probe_session *s, struct probe_error *error)
{
	if (error)
		return fall_behind(s, error);
	if (!s->catch_up_ns)
		return NULL;
	/* There was nothing to be probed, so a debugger was in nobody's way. */
	if (procfs_status_number(s->target->pid, "TracerPid:") > 0) {
		s->catch_up_ns = clock_monotonic_ns() + CATCH_UP_NS;
		return NULL;
	}
	s->catch_up_ns = 0;
	if (is_replaced(s))
		return NULL;
	return report_note(&s->report, "process %d: hits in libraries that it opens are seen again",
		s->target->pid);
}

struct probe_error *session_catch_up(struct probe_session *s)
{
	if (!s->catch_up_ns || clock_monotonic_ns() < s->catch_up_ns)
		return NULL;
	return settle(s, follow_now(s));
}

/*
 * If a thread was not served in time, it has gone on, and those after it were not held: there may
 * be libraries of which no thread waits.
 */
struct probe_error *session_note_lapse(struct probe_session *s)
{
	bool told = s->lapse_told;

	if (!gate_has_lapsed(&s->gate))
		return NULL;
	s->lapsed = s->lapse_told = true;
	if (told)
		return NULL;
	return report_note(&s->report,
		"process %d: hits in libraries that it opened while probectl was stopped or busy "
		"may be missing: a thread waits for %d seconds at most",
		s->target->pid, GATE_TIMEOUT_S);
}

/*
 * Releases the threads that have opened a library, after switching its probes on; or, in a forked
 * child, after reporting the probes that are not switched on.
 */
struct probe_error *session_serve_gate(struct probe_session *s)
{
	struct waiters waiters = {0};
	bool ours = false, follows;
	struct probe_error *error;

	if (s->event < 0)
		return NULL;
	gate_clear(s->event);
	session_note_waiting(s);
	error = session_note_lapse(s);
	if (error || (!gate_take(&s->gate) && !s->lapsed))
		return error;
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
	/* A thread that has continued, or was not found, may have been one of the target's own. */
	follows = !error && (ours || !waiters.count || s->lapsed);
	if (follows)
		error = follow_now(s);
	free(waiters.items);
	if (is_passing(error) && !s->catch_up_ns && may_wait(s)) {
		probe_error_free(error);
		gate_raise(s->event);
		return NULL;
	}
	s->gate_since_ns = 0;
	s->lapsed = false;
	gate_release(&s->gate);
	return follows ? settle(s, error) : error;
}

struct probe_error *session_prepare_gates(struct probe_session *s)
{
	struct probe_error *error = NULL;

	if (s->options.follow_libraries)
		error = gate_prepare(&s->gate);
	if (!error && s->options.watch)
		error = gate_prepare(&s->exec_gate.gate);
	if (!error && s->options.wait_ns)
		error = gate_prepare(&s->wait);
	return error;
}

/* With the target's state read and locked. */
struct probe_error *session_start_following(
	struct probe_session *s, struct change *c, struct probe_report *report)
{
	struct probe_gate *loader = NULL, *exec = NULL;
	struct probe_error *error = NULL;

	if (s->options.follow_libraries)
		error = add_gate(s, c, GATE_LIBRARIES, report, &loader);
	if (!error && s->options.watch)
		error = add_gate(s, c, GATE_EXEC, report, &exec);
	if (!error)
		error = session_watch(s, &c->registry);
	if (error || (!loader && !exec))
		return error;
	if (loader && gate_is_expected(c))
		loader->pass = 1;
	if (s->event < 0)
		s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event < 0)
		return probe_error_system(errno, "cannot make an event descriptor");
	s->gate_place = waiters_place(s, DATA_GATE_OFFSET);
	if (loader)
		gate_open(&s->gate, loader, s->event);
	return exec ? open_exec_gate(s, exec) : NULL;
}
