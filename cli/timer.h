/* SPDX-License-Identifier: MIT */
#ifndef CLI_TIMER_H
#define CLI_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { NSEC_PER_SEC = 1000000000, NSEC_PER_MSEC = 1000000 };

/* Returns the time of a clock, in nanoseconds. */
uint64_t clock_ns(clockid_t clock);

/* A timer that expires at regular intervals, on CLOCK_MONOTONIC. */
struct timer {
	uint64_t next_ns; /* next expiry; UINT64_MAX for a timer that never expires */
	uint64_t every_ns;
};

/* Returns a timer that expires every `ns` nanoseconds from now on, or never if `ns` is 0. */
struct timer timer_every(uint64_t ns);
/* Returns true if the timer has expired. Then advances next_ns by whole intervals beyond now_ns. */
bool timer_due(struct timer *timer, uint64_t now_ns);

#endif
