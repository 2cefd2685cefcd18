/* SPDX-License-Identifier: MIT */
/*
 * A thread of this library. It blocks all signals, which are meant for the caller's threads, and
 * has a stack of ours: when a thread on libc's own stack ends, libc calls madvise(2), for which a
 * seccomp filter might kill us.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct worker {
	pthread_t thread;
	void *stack;
};

/* Returns 0, or an error number if the thread was not started. */
int worker_start(struct worker *worker, void *(*run)(void *data), void *data);
/* Waits until run() has returned. */
void worker_join(struct worker *worker);

/*
 * Waits for a child that should end by itself, and kills it after `patience_ns`. SIGKILL does not
 * end a child that waits for a silent file system (FUSE): such a child is left to init. Returns
 * false for such a child, or if something else has reaped it.
 */
bool worker_end_child(pid_t child, uint64_t patience_ns, int *status_ret);
