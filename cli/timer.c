/* SPDX-License-Identifier: MIT */
#include "cli/timer.h"

uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

struct timer timer_every(uint64_t ns)
{
	return (struct timer){
		.next_ns = ns ? clock_ns(CLOCK_MONOTONIC) + ns : UINT64_MAX, .every_ns = ns};
}

bool timer_due(struct timer *timer, uint64_t now_ns)
{
	if (now_ns < timer->next_ns)
		return false;
	timer->next_ns += ((now_ns - timer->next_ns) / timer->every_ns + 1) * timer->every_ns;
	return true;
}
