/* SPDX-License-Identifier: MIT */
/*
 * Stopped threads wait for this process, which on a busy machine may itself wait for a processor.
 * Root can ask for a real-time priority; other users for short time slices, which come sooner since
 * Linux 6.12.
 */
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

enum {
	SLICE_NS = 100000, /* the shortest that the scheduler takes */
	RESET_ON_FORK = 1
};

/* struct sched_attr of <linux/sched/types.h>, its first version; see sched_setattr(2). */
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
	/* A helper that is forked meanwhile may outlive this (libprobe/process/distant.c). */
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
		/* RLIMIT_RTPRIO lets others than root have the priority, but not take this back. */
		old->flags |= RESET_ON_FORK;
		syscall(SYS_sched_setattr, 0, old, 0);
	}
	free(old);
}
