/* SPDX-License-Identifier: MIT */
#ifndef CLI_TIMER_H
#define CLI_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { NSEC_PER_SEC = 1000000000, NSEC_PER_MSEC = 1000000 };

/* What a clock says, in nanoseconds. */
uint64_t clock_ns(clockid_t clock);

/* Something that is due at regular intervals, on CLOCK_MONOTONIC. */
struct timer {
	uint64_t next_ns; /* UINT64_MAX: never */
	uint64_t every_ns;
};

/* Due every `ns` nanoseconds, counted from now. 0: never. */
struct timer timer_every(uint64_t ns);
/* Is it due? Then it is due next at the first of its times that is still to come. */
bool timer_due(struct timer *timer, uint64_t now_ns);

#endif
