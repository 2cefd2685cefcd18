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
 * Waits for a child that should end by itself, and kills it after `patience_ns` (0: at once). A
 * child that waits for a file system without an answer (FUSE) survives SIGKILL. It is then left
 * behind, and init reaps it after we have ended. Returns false in that case, and if something else
 * has reaped the child.
 */
bool worker_end_child(pid_t child, uint64_t patience_ns, int *status_ret);

#endif
