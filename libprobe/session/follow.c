/* SPDX-License-Identifier: MIT */
/*
 * What a session follows: libraries that its target opens later, and programs that it starts.
 * Each has a gate (libprobe/follow/gate.h), where the thread waits until that is done.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "libprobe/base/clock.h"
#include "libprobe/follow/watch.h"
#include "libprobe/patch/attempt.h"
#include "libprobe/patch/report.h"
#include "libprobe/process/memory.h"
#include "libprobe/session/session.h"
#include "libprobe/target/fate.h"
#include "libprobe/target/target.h"

enum { GATE_WAIT_NS = 1000000000 };

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
			fate_begin(s->target);
		if (selection.probe_count)
			error = session_install(s, &c, &selection, &s->report);
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

struct probe_error *session_follow(struct probe_session *s)
{
	struct attempt attempt = attempt_begin(s->target, &s->report);
	struct probe_error *error;

	do {
		error = follow_once(s);
	} while (attempt_again(&attempt, &error));
	return error;
}

/*
 * The same, while other processes may wait for us. A program whose loader has just finished has
 * but the thread that waits at the gate: it is held for the whole change, which costs less.
 */
static struct probe_error *follow_now(struct probe_session *s)
{
	struct probe_target *target = s->target;
	struct probe_error *error, *second = NULL;

	if (s->exec_gate_due && !target->held)
		target->held = target->attached = target->alone =
			control_stop_alone(target->pid, &target->control);
	target->hurry = true;
	error = session_follow(s);
	target->hurry = false;
	if (target->alone)
		second = probe_target_release(target);
	probe_error_free(error ? second : NULL);
	return error ? error : second;
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
struct probe_error *session_serve_gate(struct probe_session *s)
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
struct probe_error *session_start_following(
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
