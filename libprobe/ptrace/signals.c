/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/ptrace/ptrace.h"

enum { SLEEP_NS = 1000000 /* in case SIGCHLD is ignored or taken by another thread */ };

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
