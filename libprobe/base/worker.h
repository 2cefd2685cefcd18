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
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct worker {
	pthread_t thread;
	void *stack;
};

/* Returns 0, or an error number: there is no thread then. */
int worker_start(struct worker *worker, void *(*run)(void *data), void *data);
/* Waits until run() has returned. */
void worker_join(struct worker *worker);

/*
 * Waits for a child that is about to end, and kills it if it has not ended after `patience_ns` (0:
 * at once). A process that waits for a file system that does not answer ends no earlier (FUSE): it
 * is left then, and init reaps it after we have ended. Returns false in that case, or if something
 * else has waited for the child.
 */
bool worker_end_child(pid_t child, uint64_t patience_ns, int *status_ret);

#endif
