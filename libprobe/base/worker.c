/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/worker.h"

enum {
	STACK_BYTES = 1 << 20, /* the stack must also hold the program's thread-local variables */
	KILLED_NS = 1000000000,
	LOOK_NS = 100000
};

int worker_start(struct worker *worker, void *(*run)(void *data), void *data)
{
	pthread_attr_t attributes;
	sigset_t all, old;
	int err;

	worker->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (worker->stack == MAP_FAILED)
		return errno;
	pthread_attr_init(&attributes);
	err = pthread_attr_setstack(&attributes, worker->stack, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!err)
		err = pthread_create(&worker->thread, &attributes, run, data);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attributes);
	if (err)
		munmap(worker->stack, STACK_BYTES);
	return err;
}

void worker_join(struct worker *worker)
{
	pthread_join(worker->thread, NULL);
	munmap(worker->stack, STACK_BYTES);
}

/* Waits for a child. Returns 0 if it has not ended in time. */
static pid_t await_end(pid_t child, uint64_t ns, int *status_ret)
{
	uint64_t end = clock_monotonic_ns() + ns;
	pid_t got;

	for (;;) {
		got = waitpid(child, status_ret, WNOHANG | __WALL);
		if ((got < 0 && errno != EINTR) || got > 0 || clock_monotonic_ns() >= end)
			return got;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
}

bool worker_end_child(pid_t child, uint64_t patience_ns, int *status_ret)
{
	pid_t got = patience_ns ? await_end(child, patience_ns, status_ret) : 0;

	if (!got) {
		kill(child, SIGKILL);
		got = await_end(child, KILLED_NS, status_ret);
	}
	return got > 0;
}
