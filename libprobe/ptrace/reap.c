/* SPDX-License-Identifier: MIT */
/*
 * The kernel reports the end of a process to its parent only after the tracer has waited for it. If
 * the tracer does not, the process stays a zombie, and its parent's waitpid(2) waits for ever. A
 * thread that was killed cannot be detached, because it is no longer stopped. Nor is it a zombie
 * yet, and how long it takes to die is not known (it may write a core file). So a thread of our own
 * waits for that; any thread of a process may wait for what another one traces.
 *
 * A child of this process is left to the code that started it, which waits for it anyway.
 *
 * Source: ptrace(2), "Death under ptrace"; wait(2), "__WNOTHREAD".
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "libprobe/ptrace/ptrace.h"

static void *wait_for_end(void *data)
{
	pid_t tid = (pid_t)(intptr_t)data;
	siginfo_t info;
	int rc;

	do {
		rc = waitid(P_PID, (id_t)tid, &info, WEXITED | WNOWAIT | __WALL);
	} while (rc < 0 && errno == EINTR);
	if (rc == 0)
		control_wait(tid, &(int){0});
	return NULL;
}

static void wait_apart(pid_t tid)
{
	sigset_t all, old;
	pthread_t waiter;

	/* Signals are for the caller's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&waiter, NULL, wait_for_end, (void *)(intptr_t)tid) == 0)
		pthread_detach(waiter);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void reap_or_detach(pid_t tid)
{
	pid_t stopped = tid;

	/* It may stop just now. */
	while (stopped == tid && ptrace(PTRACE_DETACH, tid, NULL, NULL) < 0 && errno == ESRCH) {
		stopped = control_wait(tid, &(int){0});
		if (stopped == 0)
			wait_apart(tid);
	}
}
