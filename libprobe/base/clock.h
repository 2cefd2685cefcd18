/* SPDX-License-Identifier: MIT */
/* Clocks: the controller's own, and the conversion of time stamps of records. */
#ifndef LIBPROBE_BASE_CLOCK_H
#define LIBPROBE_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_monotonic_ns(void);

/* What stubs read for the time stamps of their hits. */
enum clock_source {
	CLOCK_SOURCE_COUNTER, /* the processor's */
	CLOCK_SOURCE_KERNEL   /* CLOCK_MONOTONIC, by a system call */
};

/*
 * Converts time stamps to CLOCK_REALTIME by two pairs of both clocks, of which
 * the newer is moved on by clock_sync(). Initialise with clock_init().
 */
struct clock {
	enum clock_source source;
	uint64_t first_stamp, last_stamp;
	uint64_t first_ns, last_ns;
	double stamp_ns; /* of a tick, from one steady pair to the other; 0: they are the same */
	/* The same of CLOCK_MONOTONIC, which nobody sets. */
	uint64_t first_steady_stamp, last_steady_stamp;
	uint64_t first_steady_ns, last_steady_ns;
};

void clock_init(struct clock *clock, enum clock_source source);
/* A time stamp of now. */
uint64_t clock_stamp(const struct clock *clock);
/* Reads both clocks again. Call it after the stamps to be converted were taken. */
void clock_sync(struct clock *clock);
uint64_t clock_realtime_ns(const struct clock *clock, uint64_t stamp);

/* Nanoseconds between two stamps that differ by 1: the mean from clock_init() to clock_sync(). */
double clock_tick_ns(const struct clock *clock);

/* How many stamps there are in a second, off by a thousandth at most. Takes half a millisecond. */
uint64_t clock_ticks_per_s(const struct clock *clock);

#endif
