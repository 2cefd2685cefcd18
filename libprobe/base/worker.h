/* SPDX-License-Identifier: MIT */
/*
 * A thread of this library. It blocks all signals, because they are meant for the caller's threads.
 *
 * The thread runs on a stack of ours. When a thread on libc's own stack ends, libc calls
 * madvise(2), for which a seccomp filter might kill us.
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

/* Starts the thread. Returns 0, or an error number if the thread was not started. */
int worker_start(struct worker *worker, void *(*run)(void *data), void *data);
/* Waits until run() has returned. */
void worker_join(struct worker *worker);

/*
 * Waits for a child that should end by itself. Kills the child if it has not ended after
 * `patience_ns`. A child that waits for a file system that does not answer (FUSE) survives SIGKILL.
 * Such a child is left behind, and init reaps it after we have ended. Returns false if the child is
 * left behind, or if something else has reaped it.
 */
bool worker_end_child(pid_t child, uint64_t patience_ns, int *status_ret);

#endif
