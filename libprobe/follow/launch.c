/* SPDX-License-Identifier: MIT */
/*
 * From the gate at libc's execve() to a program that is held:
 *
 *   gate      a thread waits; which one is told by the futex that it waits for
 *   seize     it is traced from here on, and the gate opens
 *   passage   through execve(2) and its loader (libprobe/follow/passage.c)
 *   held      a session is started in it, and nobody is traced any more
 *
 * Many are on the way at once. Each continues when it has stopped, whatever the others do: a child
 * of vfork(2) keeps its parent waiting, which may hold up another one that we wait for. We wait for
 * the threads that we know, by their ids, and take no other events: the program that uses this
 * library has children of its own.
 *
 * If the controller dies on the way, the kernel detaches and they continue as if nothing had
 * happened. If it is stopped on the way, it is continued (libprobe/ptrace/alarm.c), until those it
 * has returned are released, and it looks again. A thread whose execve() has failed comes to the
 * gate again (execvp(3) tries one folder of PATH after the other), or is released. The struct
 * probe_watch finds programs that were released on the way, like any program that did not come
 * through a gate.
 *
 * Sources: ptrace(2), "execve(2) under ptrace"; proc_pid_syscall(5).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/follow/follow.h"
#include "libprobe/process/process.h"

enum {
	RUN_NS = 3000000, /* others wait for our caller, too */
	AWAKE_NS = 30000, /* behind a stop */
	LET_GO_NS = 2000000000
};

/* ---- At the gates ------------------------------------------------------------------- */

/* False: that will be known when it makes the call. */
static bool may_be_followed(const struct waiter *waiter)
{
	uint16_t offset = arch_process()->gate_argument;
	uint64_t path;

	return geteuid() == 0 || (offset && waiter->sp &&
					 memory_read(waiter->tid, waiter->sp + offset, &path,
						 sizeof(path)) == sizeof(path) &&
					 rights_stay_at_once(waiter->tid, path));
}

struct at_gate {
	const struct launches *launches;
	const struct launch_gate *gate;
};

/* NULL: it cannot be followed. */
static struct launch *begin(
	struct launches *l, struct launch_gate *gate, pid_t pid, pid_t tid, bool may_go)
{
	struct launch *launch;

	if (!ARRAY_ROOM(l->items, l->count))
		return NULL;
	alarm_set(&l->alarm);
	launch = &l->items[l->count];
	*launch = (struct launch){.gate = gate,
		.passage = {.may_follow = rights_stay, .files = l->files, .yield = &l->yield}};
	passage_begin(&launch->passage, pid, tid, may_go);
	if (launch->passage.state == PASSAGE_OVER)
		return NULL;
	l->count++;
	return launch;
}

void launches_begin(struct launches *launches, pid_t pid, pid_t tid, const struct file_id *file)
{
	struct launch *launch;

	if (launches_have(launches, pid))
		return;
	launch = begin(launches, NULL, pid, tid, true);
	if (!launch) {
		launches->missed++;
		return;
	}
	launch->is_sought = true;
	launch->file = *file;
}

/* Its passage, if it has not executed another program yet; NULL: it is not followed. */
static struct passage *find_on_way(const struct launches *l, pid_t pid)
{
	for (size_t i = 0; i < l->count; i++) {
		struct passage *p = &l->items[i].passage;

		if (p->pid == pid && !passage_is_through(p))
			return p;
	}
	return NULL;
}

/*
 * Has it left the gate, or is it about to? Its execve(2) may also have failed, so that it waits for
 * the next one: its turn shows that, as long as each thread that waits has a turn of its own.
 */
static bool is_on_way(const void *data, int turn, pid_t pid, pid_t tid)
{
	const struct at_gate *at = data;
	const struct passage *p = find_on_way(at->launches, pid);
	const struct gate *gate = &at->gate->gate;

	return p && p->tid == tid &&
	       !(p->state == PASSAGE_THROUGH && gate_waiting(gate) < GATE_TURNS &&
		       gate_holds_turn(gate, (uint32_t)turn));
}

/*
 * Follows it, if that is wanted. Only one thread of each process is followed: the execve(2) of the
 * first ends the others.
 */
static void serve_waiter(struct launches *l, struct launch_gate *gate, const struct waiter *waiter)
{
	struct passage *p = find_on_way(l, waiter->pid);

	if (p && p->tid == waiter->tid)
		passage_again(p, may_be_followed(waiter));
	else if (!p && (gate->place.children || waiter->pid == gate->place.pid))
		begin(l, gate, waiter->pid, waiter->tid, may_be_followed(waiter));
}

/* Opens a gate once each thread that waits there is traced; false while one is not found yet. */
static bool serve(struct launches *l, struct launch_gate *gate)
{
	const struct at_gate at = {l, gate};
	struct waiters waiters = {0};
	bool all;

	gate->place.leave_out = is_on_way;
	gate->place.data = &at;
	all = waiters_find(&waiters, &gate->gate, &gate->place);
	gate->place.data = NULL;
	for (size_t i = 0; all && i < waiters.count; i++)
		serve_waiter(l, gate, &waiters.items[i]);
	if (all && gate->gate.shared && gate_waiting(&gate->gate))
		gate_release(&gate->gate);
	free(waiters.items);
	return all;
}

struct probe_error *launches_add(struct launches *launches, struct launch_gate *gate)
{
	if (!ARRAY_ROOM(launches->gates, launches->gate_count))
		return probe_error_no_memory();
	launches->gates[launches->gate_count++] = gate;
	return NULL;
}

static void drop(struct launches *l, size_t i)
{
	probe_error_free(l->items[i].passage.told);
	l->count--;
	memmove(&l->items[i], &l->items[i + 1], (l->count - i) * sizeof(*l->items));
}

/*
 * Releases the threads that came through a gate (NULL: all) and have not executed another program.
 */
static bool let_go(struct launches *l, const struct launch_gate *gate)
{
	bool any = false;

	for (size_t i = l->count; i-- > 0;) {
		struct launch *launch = &l->items[i];

		if (gate && (launch->gate != gate || passage_is_through(&launch->passage)))
			continue;
		if (launch->passage.state != PASSAGE_LEAVING)
			passage_leave(&launch->passage);
		else
			passage_step(&launch->passage);
		if (launch->passage.state != PASSAGE_OVER)
			any = true;
		else if (!launch->passage.told)
			drop(l, i);
	}
	return any;
}

static void let_all_go(struct launches *l, const struct launch_gate *gate)
{
	uint64_t end = clock_monotonic_ns() + LET_GO_NS;
	struct control_signals signals = {0};

	control_signals_take(&signals);
	while (let_go(l, gate) && clock_monotonic_ns() < end)
		control_signals_wait(&signals);
	control_signals_give(&signals);
}

/* Who was not served in time, and those after it, were not held. */
static void count_lapses(struct launches *l)
{
	for (size_t i = 0; i < l->gate_count; i++)
		l->missed += gate_has_lapsed(&l->gates[i]->gate);
}

void launches_remove(struct launches *launches, const struct launch_gate *gate)
{
	size_t i = 0;

	while (i < launches->gate_count && launches->gates[i] != gate)
		i++;
	if (i == launches->gate_count)
		return;
	count_lapses(launches);
	launches->gates[i] = launches->gates[--launches->gate_count];
	let_all_go(launches, gate);
	for (i = 0; i < launches->count; i++)
		if (launches->items[i].gate == gate)
			launches->items[i].gate = NULL;
}

/* ---- On the way --------------------------------------------------------------------- */

struct progress {
	bool any;   /* not all have arrived */
	bool held;  /* one has arrived */
	bool moved; /* one has stopped and goes on */
};

/* It is over, and was not taken. Has it started, and may it have run what is wanted? */
static bool is_missed(const struct launch *launch)
{
	return launch->is_sought && !launch->passage.nothing_lost &&
	       hold_has_started(launch->passage.pid, &launch->file);
}

/* Advances every passage as far as it can go. */
static struct progress step_all(struct launches *l)
{
	uint64_t now = clock_monotonic_ns();
	struct progress progress = {0};

	for (size_t i = l->count; i-- > 0;) {
		struct passage *p = &l->items[i].passage;

		progress.moved |= passage_step(p);
		if (now >= p->deadline_ns && p->state < PASSAGE_LEAVING)
			passage_expire(p);
		progress.held |= p->state == PASSAGE_HELD;
		progress.any |= p->state < PASSAGE_HELD;
		if (p->state == PASSAGE_OVER && !p->told && !passage_lingers(p, now)) {
			l->missed += is_missed(&l->items[i]);
			drop(l, i);
		}
	}
	return progress;
}

static bool serve_all(struct launches *l)
{
	bool all = true;

	gate_clear(l->event);
	count_lapses(l);
	if (l->guardian)
		hold_serve(l, l->guardian);
	for (size_t i = 0; i < l->gate_count; i++)
		all &= serve(l, l->gates[i]);
	return all;
}

/*
 * Most stops follow the last one within microseconds; sleeping and being woken takes longer.
 * Threads that share the processor with us run first.
 */
static void wait_for_launch(struct yield *yield, struct control_signals *signals, uint64_t moved_ns)
{
	if (clock_monotonic_ns() - moved_ns >= AWAKE_NS || !yield_once(yield))
		control_signals_wait(signals);
}

void launches_run(struct launches *launches)
{
	uint64_t now = clock_monotonic_ns(), end = now + RUN_NS, moved = now;
	struct control_signals signals = {0};
	struct progress progress;
	bool all;

	if (!launches->count)
		alarm_unset(&launches->alarm);
	control_signals_take(&signals);
	for (;;) {
		all = serve_all(launches);
		progress = step_all(launches);
		now = clock_monotonic_ns();
		if (progress.moved)
			moved = now;
		if (progress.held || (all && !progress.any) || now >= end)
			break;
		if (all)
			wait_for_launch(&launches->yield, &signals, moved);
	}
	control_signals_give(&signals);
	if (progress.held || progress.any || !all)
		gate_raise(launches->event);
}

static struct probe_error *tell_missed(struct launches *launches, bool at_end)
{
	size_t told = launches->missed_told;

	if (launches->missed == told || (launches->missed < 2 * told && !at_end))
		return NULL;
	launches->missed_told = launches->missed;
	return probe_error_new(PROBE_ERROR_ENDED,
		"%zu or more processes have started while too many others did, or while probectl "
		"was stopped or busy: those that have ended since have not been seen",
		launches->missed);
}

void launches_end(struct launches *launches)
{
	count_lapses(launches);
	if (launches->guardian)
		hold_finish(launches, launches->guardian);
	launches->guardian = NULL;
	let_all_go(launches, NULL);
	alarm_unset(&launches->alarm);
}

struct probe_error *launches_told(struct launches *launches, bool at_end)
{
	for (size_t i = 0; i < launches->count; i++) {
		struct passage *passage = &launches->items[i].passage;
		struct probe_error *told = passage->told;

		if (!told)
			continue;
		passage->told = NULL;
		return told;
	}
	return tell_missed(launches, at_end);
}

struct probe_target *launches_take(
	struct launches *launches, uint64_t *unseen_ns_ret, bool *is_sought_ret)
{
	for (size_t i = 0; i < launches->count; i++) {
		struct passage *passage = &launches->items[i].passage;
		struct probe_target *target;
		struct probe_error *error;

		if (passage->state != PASSAGE_HELD)
			continue;
		target = target_create(0, 0);
		error = target ? passage_take(passage, target) : probe_error_no_memory();
		if (!error) {
			*unseen_ns_ret = passage->unseen_ns;
			*is_sought_ret = launches->items[i].is_sought;
			drop(launches, i);
			return target;
		}
		probe_error_free(error);
		free(target);
		passage_leave(passage);
	}
	return NULL;
}

bool launches_have(const struct launches *launches, pid_t pid)
{
	for (size_t i = 0; i < launches->count; i++)
		if (launches->items[i].passage.pid == pid)
			return true;
	return false;
}

bool launches_depend(const struct launches *launches, struct launch_gate *gate)
{
	for (size_t i = 0; i < launches->count; i++)
		if (launches->items[i].gate == gate &&
			!passage_is_through(&launches->items[i].passage))
			return true;
	return gate_take(&gate->gate);
}

struct probe_error *launches_init(struct launches *launches)
{
	*launches = (struct launches){.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	return launches->event < 0 ? probe_error_system(errno, "cannot make an event descriptor")
				   : files_create(&launches->files);
}

void launches_deinit(struct launches *launches)
{
	let_all_go(launches, NULL);
	while (launches->count)
		drop(launches, launches->count - 1);
	alarm_deinit(&launches->alarm);
	free(launches->items);
	free(launches->gates);
	files_release(launches->files);
	if (launches->event >= 0)
		close(launches->event);
}
