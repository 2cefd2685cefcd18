/* SPDX-License-Identifier: MIT */
/*
 * A thread may be waiting for a processor when it is asked to stop. It would wait without us, too,
 * so its pause begins only when it stops. It may also wait for a processor while it makes a system
 * call for us:
 *
 *	asked                     stopped   seen          call          ended
 *	  |--- no processor -----------|------|-----------|--|--|---------|
 *	                               |======= the pause ===|  |=========|
 *
 * The kernel does not report when a thread stopped. But the scheduler counts how long each thread
 * has been ready to run without a processor, and we subtract the growth of that counter. Part of
 * the growth may lie before or after the stop. So we subtract no more than the time in which we let
 * the thread run. From that time we first take off what a stop takes when a processor is free
 * (HANDOVER_NS), and the time in which we had no processor ourselves, because we may have noticed
 * the thread's stop late. If a time is unknown, the whole stop counts as pause.
 *
 * Source: Documentation/scheduler/sched-stats.rst of Linux, /proc/<pid>/schedstat.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

/* ==== Pause =================================================================================== */

enum {
	/* Time from us to a thread on another processor and back; measured: 5 to 20 us. */
	HANDOVER_NS = 20000,
	/* Threads whose counter is read; for other threads, the whole stop counts as pause. */
	LOOKS = 64
};

static uint64_t read_waited_ns(const char *path)
{
	char text[96], *second, *end;
	uint64_t waited;

	if (!file_read(path, text, sizeof(text)))
		return PAUSE_UNKNOWN;
	strtoull(text, &second, 10); /* skips the first number, the time that the thread ran */
	waited = strtoull(second, &end, 10);
	return end != second ? waited : PAUSE_UNKNOWN;
}

static uint64_t waited_ns(pid_t pid, pid_t tid)
{
	return read_waited_ns(procfs_path("/proc/%d/task/%d/schedstat", pid, tid).text);
}

static uint64_t own_waited_ns(void)
{
	return read_waited_ns("/proc/thread-self/schedstat");
}

void pause_look(struct control *control)
{
	for (size_t i = 0; i < control->count && i < LOOKS; i++) {
		struct control_thread *thread = &control->threads[i];

		thread->pause.waited_ns = waited_ns(thread->pid, thread->tid);
	}
	control->waited_ns = own_waited_ns();
}

void pause_let(struct pause *pause, uint64_t begun_ns)
{
	uint64_t ns = clock_monotonic_ns() - begun_ns;

	if (ns > HANDOVER_NS)
		pause->let_ns += ns - HANDOVER_NS;
}

uint64_t pause_ns(const struct pause *pause, uint64_t waited_ns, uint64_t own_ns)
{
	uint64_t whole = pause->ended_ns - pause->asked_ns;
	uint64_t let = pause->let_ns, waited;

	if (pause->waited_ns == PAUSE_UNKNOWN || waited_ns == PAUSE_UNKNOWN ||
		waited_ns < pause->waited_ns || own_ns >= let)
		return whole;
	waited = waited_ns - pause->waited_ns;
	let -= own_ns;
	return whole - (waited < let ? waited : let);
}

/* Returns the thread whose pause may be longest, or NULL if none can be longer than `than`. */
static struct control_thread *find_longest(struct control *control, uint64_t than)
{
	struct control_thread *found = NULL;

	for (size_t i = 0; i < control->count; i++) {
		struct pause *pause = &control->threads[i].pause;

		if (pause->ended_ns && pause->ended_ns - pause->asked_ns > than) {
			found = &control->threads[i];
			than = pause->ended_ns - pause->asked_ns;
		}
	}
	return found;
}

/* Reads only a few counters: most threads did not wait, and soon no pause is longer. */
uint64_t pause_longest(struct control *control)
{
	uint64_t own = PAUSE_UNKNOWN, longest = 0;
	struct control_thread *thread;

	while ((thread = find_longest(control, longest))) {
		uint64_t ns, waited = PAUSE_UNKNOWN;

		/* The thread did not run between the request and the end of the pause. */
		if (thread->pause.waited_ns != PAUSE_UNKNOWN && thread->pause.let_ns) {
			if (own == PAUSE_UNKNOWN && control->waited_ns != PAUSE_UNKNOWN) {
				/* How long this thread has waited since pause_look(). */
				own = own_waited_ns();
				own -= own == PAUSE_UNKNOWN ? 0 : control->waited_ns;
			}
			waited = waited_ns(thread->pid, thread->tid);
		}
		ns = pause_ns(&thread->pause, waited, own);
		longest = ns > longest ? ns : longest;
		thread->pause.ended_ns = 0;
	}
	return longest;
}

/* ==== Yield =================================================================================== */

/*
 * A thread that shares our processor usually makes its next stop within microseconds, and
 * sched_yield(2) is the cheapest way to let it run. But it puts us behind all others that want the
 * processor. If some of them compute, a yield takes their time slices, some 20 ms, and a loader
 * with a hundred yields takes seconds. Then we sleep instead: a woken thread goes before those that
 * compute.
 *
 * Source: sched_yield(2); yield_task_fair() in kernel/sched/fair.c of Linux.
 */

enum {
	/*
	 * a yield that takes longer is slow: this is less than a time slice, but more than the time
	 * between most stops
	 */
	LONG_NS = 500000,
	CROWDED_NS = 1000000000 /* how long no yield is tried after a slow one */
};

bool yield_once(struct yield *yield)
{
	uint64_t begun = clock_monotonic_ns(), ended;

	if (begun < yield->crowded_until_ns || !seccomp_may_call(SECCOMP_OWN_MOVE))
		return false;
	sched_yield();
	ended = clock_monotonic_ns();
	if (ended - begun > LONG_NS)
		yield->crowded_until_ns = ended + CROWDED_NS;
	return true;
}

/* ==== Nearby ================================================================================== */

/*
 * A tracer that follows a thread from stop to stop sleeps while the thread runs, and the reverse.
 * On one processor, a change is a context switch of a few microseconds; on two, waking an idle
 * processor costs ten times that in a virtual machine. The scheduler starts new processes on the
 * idlest processor and does not move the two together, so the tracer moves to the thread.
 *
 * Source: sched(7), sched_setaffinity(2).
 */

void nearby_move(pid_t pid, pid_t tid)
{
	int cpu = seccomp_may_call(SECCOMP_OWN_MOVE) ? procfs_thread_cpu(pid, tid) : -1;
	cpu_set_t before, there;

	if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == sched_getcpu() ||
		sched_getaffinity(0, sizeof(before), &before) < 0 || !CPU_ISSET(cpu, &before))
		return;
	CPU_ZERO(&there);
	CPU_SET(cpu, &there);
	if (sched_setaffinity(0, sizeof(there), &there) == 0)
		sched_setaffinity(0, sizeof(before), &before);
}

/* ==== Urgent ================================================================================== */

/*
 * Stopped threads wait for us, while we may wait for a busy processor. Root can have a real-time
 * priority; others can ask for short time slices, which are served sooner since Linux 6.12.
 */

enum {
	SLICE_NS = 100000, /* the shortest slice that the scheduler accepts */
	RESET_ON_FORK = 1
};

/* The first version of struct sched_attr of <linux/sched/types.h>; see sched_setattr(2). */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

void *urgent_begin(void)
{
	struct attributes *old, wanted;

	if (!seccomp_may_call(SECCOMP_OWN_URGENT))
		return NULL;
	old = calloc(1, sizeof(*old));
	if (!old || syscall(SYS_sched_getattr, 0, old, sizeof(*old), 0) < 0 ||
		old->policy != SCHED_OTHER) {
		free(old);
		return NULL;
	}
	wanted = *old;
	wanted.policy = SCHED_FIFO;
	/*
	 * A helper that we fork (process/distant.c) must not inherit the priority: it may live
	 * longer.
	 */
	wanted.flags |= RESET_ON_FORK;
	wanted.priority = 1;
	wanted.nice = 0;
	wanted.runtime = 0;
	if (syscall(SYS_sched_setattr, 0, &wanted, 0) == 0)
		return old;
	wanted = *old;
	wanted.runtime = SLICE_NS;
	if (syscall(SYS_sched_setattr, 0, &wanted, 0) == 0)
		return old;
	free(old);
	return NULL;
}

void urgent_end(void *before)
{
	struct attributes *old = before;

	if (old && syscall(SYS_sched_setattr, 0, old, 0) != 0) {
		/* RESET_ON_FORK may not be cleared, even with RLIMIT_RTPRIO. */
		old->flags |= RESET_ON_FORK;
		syscall(SYS_sched_setattr, 0, old, 0);
	}
	free(old);
}
