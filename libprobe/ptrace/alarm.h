/* SPDX-License-Identifier: MIT */
/* A deadline for holding threads, even if we are stopped. */
#ifndef LIBPROBE_PTRACE_ALARM_H
#define LIBPROBE_PTRACE_ALARM_H

#include <stdbool.h>
#include <time.h>

struct alarm {
	timer_t timer;
	bool exists, set;
};

/* From now on, this process is not left stopped: it is continued in half a second, if it is. */
void alarm_set(struct alarm *alarm);
/* It may be stopped again. */
void alarm_unset(struct alarm *alarm);
void alarm_deinit(struct alarm *alarm);

#endif
