/* SPDX-License-Identifier: MIT */
/* Makes hits at a fixed rate. Also used by tests/bench/lttng_loop.c. */
#ifndef TESTS_PACE_H
#define TESTS_PACE_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

enum { PACE_BURSTS = 1000 }; /* in a second */

/*
 * Calls `run` for bursts of hits, a millisecond apart, until there were `hits`. A thread that
 * falls behind catches up: the overall rate is as requested, if it can be reached. Returns the
 * number of hits that `run` has counted.
 */
static inline uint64_t pace(uint64_t (*run)(uint64_t hits, const char *text), const char *text,
	uint64_t hits, uint64_t per_second)
{
	uint64_t done = 0;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (uint64_t burst = 1; done < hits; burst++) {
		uint64_t until = per_second * burst / PACE_BURSTS;

		done += run((until < hits ? until : hits) - done, text);
		next.tv_nsec += 1000000000 / PACE_BURSTS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_sec++;
			next.tv_nsec -= 1000000000;
		}
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
			;
	}
	return done;
}

#endif
