/* SPDX-License-Identifier: MIT */
/* How this thread is scheduled while it waits for others, or they for it. */
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

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
