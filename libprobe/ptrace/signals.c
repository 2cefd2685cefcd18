/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

/* ==== Signals ================================================================================= */

/* The limit of a sleep, in case SIGCHLD is ignored, or another thread takes it. */
enum { SLEEP_NS = 1000000 };

static sigset_t child_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	return set;
}

void control_signals_take(struct control_signals *signals)
{
	sigset_t set = child_signal(), old;

	if (signals->in_force)
		return;
	pthread_sigmask(SIG_BLOCK, &set, &old);
	*signals = (struct control_signals){
		.in_force = true, .is_blocked = !sigismember(&old, SIGCHLD)};
}

void control_signals_give(struct control_signals *signals)
{
	sigset_t set = child_signal();

	if (signals->taken)
		kill(getpid(), SIGCHLD);
	if (signals->is_blocked)
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	*signals = (struct control_signals){0};
}

bool control_signals_wait(struct control_signals *signals)
{
	static const struct timespec slice = {.tv_nsec = SLEEP_NS};
	sigset_t set = child_signal();
	bool came = sigtimedwait(&set, NULL, &slice) == SIGCHLD;

	signals->taken |= came;
	return came;
}

/* ==== Reap ==================================================================================== */

/*
 * A traced process's parent hears of its end only after the tracer has waited for it. A thread that
 * was just killed is no longer stopped, so we cannot detach from it, and it may take long to become
 * a zombie (core files). So another thread of ours, which Linux allows, waits for it. A child of
 * ours is left to the code that started it.
 *
 * Source: ptrace(2), "Death under ptrace"; wait(2), "__WNOTHREAD".
 */

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

	/* Block all signals in the new thread, because they are meant for the caller's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&waiter, NULL, wait_for_end, (void *)(intptr_t)tid) == 0)
		pthread_detach(waiter);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void reap_or_detach(pid_t tid)
{
	pid_t stopped = tid;

	/* The detach fails, too, while the thread is about to stop. */
	while (stopped == tid && ptrace(PTRACE_DETACH, tid, NULL, NULL) < 0 && errno == ESRCH) {
		stopped = control_wait(tid, &(int){0});
		if (stopped == 0)
			wait_apart(tid);
	}
}

/* ==== Alarm =================================================================================== */

/*
 * A traced thread stays stopped while its tracer is stopped itself (Ctrl-Z, SIGSTOP). A timer runs
 * even then, and its SIGCONT continues us. SIGCONT does nothing to a running process.
 *
 * Sources: timer_create(2), signal(7).
 */

enum { STOPPED_NS = 500000000 };

void alarm_set(struct alarm *alarm)
{
	struct sigevent go_on = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
	const struct timespec time = {.tv_nsec = STOPPED_NS};

	if (alarm->set || !seccomp_may_call(SECCOMP_OWN_ALARM))
		return;
	if (!alarm->exists)
		alarm->exists = timer_create(CLOCK_MONOTONIC, &go_on, &alarm->timer) == 0;
	alarm->set = alarm->exists &&
		     timer_settime(alarm->timer, 0, &(struct itimerspec){time, time}, NULL) == 0;
}

void alarm_unset(struct alarm *alarm)
{
	if (alarm->set)
		timer_settime(alarm->timer, 0, &(struct itimerspec){0}, NULL);
	alarm->set = false;
}

void alarm_deinit(struct alarm *alarm)
{
	if (alarm->exists)
		timer_delete(alarm->timer);
	*alarm = (struct alarm){0};
}
