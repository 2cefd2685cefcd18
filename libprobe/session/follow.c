/* SPDX-License-Identifier: MIT */
/*
 * What a session follows: libraries that its target opens later, and programs that it starts.
 * Each has a gate (libprobe/follow/gate.h), where the thread waits until that is done.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
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
 * If a process executes another program, or ends, while its libraries are being probed, the session
 * keeps what it has counted and recorded so far.
 */
static struct probe_error *unless_replaced(const struct probe_session *s, struct probe_error *error)
{
	if (s->target->mem < 0 || memory_is_there(s->target->mem))
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
	struct probe_error *error = gate_open(&gate->gate, shared, launches->event);

	if (error)
		return error;
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
	error = session_select_asked(s, &c.modules, &selection);
	if (!error) {
		session_keep_new(s, &c, &selection);
		leave_to_loader(&c, &selection);
		error = report_drop_lacking(&selection, &s->report);
	}
	if (!error) {
		if (selection.probe_count)
			fate_begin(s->target);
		if (selection.probe_count)
			error = session_install(s, &c, &selection, &s->report);
		if (selection.probe_count && !error)
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

/* Is it only temporary that the target cannot be changed? */
static bool is_passing(const struct probe_error *error)
{
	return error && error->code == PROBE_ERROR_STATE;
}

/*
 * Releases the threads that have opened a library, after switching its probes on; or, in a forked
 * child, after reporting the probes that are not switched on.
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
	/* A thread that has continued, or was not found, may have been one of the target's own. */
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
	if (!error && s->options.watch)
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
