/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "libprobe/base/worker.h"

enum { STACK_BYTES = 1 << 20 }; /* thread-local variables of the program lie in it, too */

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
