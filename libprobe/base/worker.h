/* SPDX-License-Identifier: MIT */
/*
 * A thread of ours, which gets no signals: these are for the caller's threads.
 *
 * It runs on a stack of ours: at the end of a thread on libc's own stack, libc calls madvise(2),
 * for which a seccomp filter might kill us.
 */
#ifndef LIBPROBE_BASE_WORKER_H
#define LIBPROBE_BASE_WORKER_H

#include <pthread.h>

struct worker {
	pthread_t thread;
	void *stack;
};

/* Returns 0, or an error number: there is no thread then. */
int worker_start(struct worker *worker, void *(*run)(void *data), void *data);
/* Waits until run() has returned. */
void worker_join(struct worker *worker);

#endif
