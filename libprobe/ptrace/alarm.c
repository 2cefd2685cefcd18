/* SPDX-License-Identifier: MIT */
/*
 * A traced thread that has stopped stays so until its tracer continues it. If we are stopped
 * meanwhile (Ctrl-Z, SIGSTOP), nobody does. A timer of the kernel's goes on when a process is
 * stopped, and its SIGCONT continues that process. In one that runs, SIGCONT does nothing.
 *
 * Sources: timer_create(2), signal(7).
 */
#include <signal.h>

#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

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
