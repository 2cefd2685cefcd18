/* SPDX-License-Identifier: MIT */
/* Clocks: the controller's own, and the conversion of time stamps of records. */
#ifndef LIBPROBE_BASE_CLOCK_H
#define LIBPROBE_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t clock_monotonic_ns(void);
/* CLOCK_REALTIME. */
uint64_t clock_now_ns(void);

/*
 * The time limit of a wait. If the user presses Ctrl-C, the wait lasts one more second at most:
 * enough for anything that usually takes a moment, such as a stop on a busy machine.
 */
struct patience {
	uint64_t end_ns; /* CLOCK_MONOTONIC */
	bool hurries;	 /* a signal was pending */
};

/* A limit that begins now. */
struct patience patience_of(uint64_t ns);
/* Has the limit passed, or should a pending signal end the wait (patience_is_interrupted())? */
bool patience_is_over(struct patience *patience);
/*
 * Is SIGINT or SIGTERM pending? A signal stays pending if the caller has blocked it, to read it
 * later.
 */
bool patience_is_interrupted(void);

/* Which time stamps are: a line, from one stamp on. */
struct clock_line {
	uint64_t from;
	uint64_t stamp, ns; /* a point of it */
	double tick_ns;
};
enum { CLOCK_LINES = 64 };

/*
 * Converts time stamps to CLOCK_REALTIME by pairs of both clocks; clock_sync() takes the next one.
 * A stamp from before it keeps its time. Initialise with clock_init(), or with {0} and all but the
 * lines; whoever changes the first pair sets line_count to 0.
 */
struct clock {
	/* What stubs read to time-stamp hits; NULL: CLOCK_MONOTONIC, by a system call */
	uint64_t (*counter)(void);
	uint64_t first_stamp, last_stamp;
	uint64_t first_ns, last_ns;
	double stamp_ns; /* length of a tick, between the steady pairs; 0: they are equal */
	/* The same for CLOCK_MONOTONIC, which cannot be set. */
	uint64_t first_steady_stamp, last_steady_stamp;
	uint64_t first_steady_ns, last_steady_ns;
	struct clock_line lines[CLOCK_LINES]; /* the newest last; made by clock_sync() */
	unsigned int line_count;
};

void clock_init(struct clock *clock, uint64_t (*counter)(void));
/* The current time stamp. */
uint64_t clock_stamp(const struct clock *clock);
/* Reads both clocks again. Call it after the stamps to be converted were taken. */
void clock_sync(struct clock *clock);
/*
 * Times keep the order of stamps, also if clock_sync() is called in between, unless CLOCK_REALTIME
 * was set back. Up to the last stamp of clock_sync(), a stamp has the same time each time.
 */
uint64_t clock_realtime_ns(const struct clock *clock, uint64_t stamp);

/* Part of clock_sync(): takes the pairs that were read. */
struct clock_pairs {
	uint64_t stamp, ns;
	uint64_t steady_stamp, steady_ns;
};
void clock_advance(struct clock *clock, const struct clock_pairs *now);

/* Nanoseconds between two stamps that differ by 1: the mean from clock_init() to clock_sync(). */
double clock_tick_ns(const struct clock *clock);

/* Stamps per second, within a thousandth. Takes half a millisecond. */
uint64_t clock_ticks_per_s(const struct clock *clock);

/*
 * The same, as nanoseconds of a stamp, times 2^32; within some hundred-thousandths. Takes four
 * milliseconds.
 */
uint64_t clock_tick_ns32(const struct clock *clock);

#endif
