/* SPDX-License-Identifier: MIT */
/* Which threads wait at a gate. */
#ifndef LIBPROBE_FOLLOW_WAITERS_H
#define LIBPROBE_FOLLOW_WAITERS_H

#include "libprobe/follow/gate.h"

struct waiter {
	pid_t pid, tid;
	uint64_t sp; /* its stack pointer; 0: unknown */
};

/* Initialise with {0}; give items back with free(). */
struct waiters {
	struct waiter *items;
	size_t count;
	bool others_run; /* threads that may have arrived, and will wait in a moment */
};

/* Where they may be. */
struct waiters_place {
	pid_t pid;
	bool children;	    /* also children with memory of their own, and theirs */
	uint64_t address;   /* in the target, of the gate's turns: they wait for one of them */
	uint64_t since_ns;  /* a thread has arrived that is not found yet; 0: none */
	unsigned int looks; /* in vain, since then */
	/* If not NULL: whether to leave out a thread that waits in a turn; called with `data`. */
	bool (*leave_out)(const void *data, int turn, pid_t pid, pid_t tid);
	const void *data;
};

/*
 * Finds all threads that have arrived at a gate; gate_release() releases just those. False while
 * one is not found yet: call it again; it waits a moment each time. A thread that was killed there
 * is given up after a while.
 */
bool waiters_find(struct waiters *waiters, struct gate *gate, struct waiters_place *place);

#endif
