/* SPDX-License-Identifier: MIT */
/* The controller's clocks, and the conversion of records' time stamps. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

uint64_t clock_monotonic_ns(void);
/* Returns CLOCK_REALTIME in ns. */
uint64_t clock_now_ns(void);
/* Returns CLOCK_REALTIME minus CLOCK_MONOTONIC in ns, even if the caller is interrupted. */
uint64_t clock_now_offset_ns(void);

/*
 * The limit of a wait. After Ctrl-C, one more second is left, which is enough for a wait that is
 * usually short.
 */
struct patience {
	uint64_t end_ns; /* time of CLOCK_MONOTONIC */
	bool hurries;	 /* a signal was pending, so the limit is shortened */
};

/* Returns a limit that begins now. */
struct patience patience_of(uint64_t ns);
/*
 * Returns true if the limit has passed, or was shortened by a pending signal
 * (patience_is_interrupted()).
 */
bool patience_is_over(struct patience *patience);
/* Returns true if SIGINT or SIGTERM is pending, for a caller that blocks it to read it later. */
bool patience_is_interrupted(void);

/* A timer that expires at regular intervals, on CLOCK_MONOTONIC. */
struct timer {
	uint64_t next_ns; /* next expiry; UINT64_MAX for a timer that never expires */
	uint64_t every_ns;
};

/* Returns a timer that expires every `ns` nanoseconds from now on, or never if `ns` is 0. */
struct timer timer_every(uint64_t ns);
/* Returns true if the timer has expired. Then advances next_ns by whole intervals beyond now_ns. */
bool timer_due(struct timer *timer, uint64_t now_ns);

/* Converts stamps to times, from the stamp `from` on. */
struct clock_line {
	uint64_t from;
	uint64_t stamp, ns; /* a point on the line */
	double tick_ns;
};
enum { CLOCK_LINES = 64 };

/*
 * Converts stamps to CLOCK_REALTIME by pairs of readings of both clocks. clock_sync() reads the
 * next pair; earlier stamps keep their times. Initialise with clock_init(), or with {0} and all
 * members except the lines. After changing the first pair, set line_count to 0.
 */
struct clock {
	/* Reads the stubs' counter; NULL if they use CLOCK_MONOTONIC. */
	uint64_t (*counter)(void);
	uint64_t first_stamp, last_stamp;
	uint64_t first_ns, last_ns;
	/* The ns of a tick, from the first to the last steady pair; 0 if they are equal. */
	double stamp_ns;
	/* The first and last steady pair: with CLOCK_MONOTONIC, which cannot be set. */
	uint64_t first_steady_stamp, last_steady_stamp;
	uint64_t first_steady_ns, last_steady_ns;
	struct clock_line lines[CLOCK_LINES]; /* the newest last; written by clock_sync() */
	unsigned int line_count;
};

void clock_init(struct clock *clock, uint64_t (*counter)(void));
/* Returns the current time stamp. */
uint64_t clock_stamp(const struct clock *clock);
/* Reads both clocks again, after the stamps to be converted were taken. */
void clock_sync(struct clock *clock);
/*
 * Converts a stamp to CLOCK_REALTIME in ns. Times keep the order of stamps, unless CLOCK_REALTIME
 * is set back. Stamps before the last clock_sync() keep their times.
 */
uint64_t clock_realtime_ns(const struct clock *clock, uint64_t stamp);

/* The two parts of clock_sync(): read pairs, and use them. */
struct clock_pairs {
	uint64_t stamp, ns;
	uint64_t steady_stamp, steady_ns;
};
void clock_advance(struct clock *clock, const struct clock_pairs *now);

/* Returns the ns per stamp, the mean from clock_init() to the last clock_sync(). */
double clock_tick_ns(const struct clock *clock);

/* Returns the stamps per second, to a thousandth. Takes half a millisecond. */
uint64_t clock_ticks_per_s(const struct clock *clock);

/* Returns the ns per stamp, times 2^32, to some hundred-thousandths. Takes four milliseconds. */
uint64_t clock_tick_ns32(const struct clock *clock);
