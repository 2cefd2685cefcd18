/* SPDX-License-Identifier: MIT */
/*
 * Stubs stamp records with the processor's time stamp counter: reading it takes no call, and 16
 * ns less than any other clock. The controller converts stamps to CLOCK_REALTIME with pairs
 * (stamp, time) that it takes itself, one before the first record and one at each poll. The
 * length of a tick is measured against CLOCK_MONOTONIC, because the other clock may be set
 * meanwhile; both run at the same rate. The kernel keeps the counters of all processors in step
 * as long as its clock source is "tsc".
 *
 * In a program that has disabled the counter for itself (PR_SET_TSC), stamps are
 * CLOCK_MONOTONIC's. Pairs are taken all the same, so the rest of the code need not
 * distinguish.
 */
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "libprobe/base/clock.h"

enum { CALIBRATION_NS = 500000, FINE_CALIBRATION_NS = 4000000, HURRY_NS = 1000000000 };

static uint64_t clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_now_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

uint64_t clock_stamp(const struct clock *clock)
{
	return clock->counter ? clock->counter() : clock_monotonic_ns();
}

/* A clock and a stamp at the same instant: the least disturbed of several readings. */
static void clock_pair(
	const struct clock *clock, clockid_t id, uint64_t *stamp_ret, uint64_t *ns_ret)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_stamp(clock), ns = clock_ns(id);
		uint64_t width = clock_stamp(clock) - before;

		if (width < best) {
			best = width;
			*stamp_ret = before + width / 2;
			*ns_ret = ns;
		}
	}
}

void clock_init(struct clock *clock, uint64_t (*counter)(void))
{
	clock->counter = counter;
	clock_pair(clock, CLOCK_REALTIME, &clock->first_stamp, &clock->first_ns);
	clock_pair(clock, CLOCK_MONOTONIC, &clock->first_steady_stamp, &clock->first_steady_ns);
	clock->stamp_ns = 0;
	clock->last_stamp = clock->first_stamp;
	clock->last_ns = clock->first_ns;
	clock->last_steady_stamp = clock->first_steady_stamp;
	clock->last_steady_ns = clock->first_steady_ns;
}

void clock_sync(struct clock *clock)
{
	double stamps;

	clock_pair(clock, CLOCK_REALTIME, &clock->last_stamp, &clock->last_ns);
	clock_pair(clock, CLOCK_MONOTONIC, &clock->last_steady_stamp, &clock->last_steady_ns);
	stamps = (double)(clock->last_steady_stamp - clock->first_steady_stamp);
	clock->stamp_ns =
		stamps > 0 ? (double)(clock->last_steady_ns - clock->first_steady_ns) / stamps : 0;
}

double clock_tick_ns(const struct clock *clock)
{
	double stamps = (double)(clock->last_steady_stamp - clock->first_steady_stamp);
	double ns = (double)(clock->last_steady_ns - clock->first_steady_ns);

	/* Two readings too close to each other are useless. */
	return stamps > 0 && ns >= CALIBRATION_NS ? ns / stamps
						  : 1e9 / (double)clock_ticks_per_s(clock);
}

/* Stamps in a nanosecond, from two readings that are so far apart. */
static double measure(const struct clock *clock, long apart_ns)
{
	uint64_t first_stamp = 0, first_ns = 0, last_stamp = 0, last_ns = 0;

	clock_pair(clock, CLOCK_MONOTONIC, &first_stamp, &first_ns);
	nanosleep(&(struct timespec){.tv_nsec = apart_ns}, NULL);
	clock_pair(clock, CLOCK_MONOTONIC, &last_stamp, &last_ns);
	return (double)(last_stamp - first_stamp) / (double)(last_ns - first_ns);
}

uint64_t clock_ticks_per_s(const struct clock *clock)
{
	return (uint64_t)(measure(clock, CALIBRATION_NS) * 1e9);
}

uint64_t clock_tick_ns32(const struct clock *clock)
{
	if (!clock->counter)
		return UINT64_C(1) << 32;
	return (uint64_t)((double)(UINT64_C(1) << 32) / measure(clock, FINE_CALIBRATION_NS));
}

uint64_t clock_realtime_ns(const struct clock *clock, uint64_t stamp)
{
	if (clock->stamp_ns == 0)
		return clock->first_ns;
	/* Counts back from the newer pair: records are at most as old as one poll. */
	return clock->last_ns +
	       (int64_t)((double)(int64_t)(stamp - clock->last_stamp) * clock->stamp_ns);
}

/* ---- Limits -----------------------------------------------------------------------------------
 */

struct patience patience_of(uint64_t ns)
{
	return (struct patience){.end_ns = clock_monotonic_ns() + ns};
}

bool patience_is_interrupted(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM));
}

bool patience_is_over(struct patience *patience)
{
	uint64_t now = clock_monotonic_ns();

	if (!patience->hurries && patience_is_interrupted()) {
		patience->hurries = true;
		if (patience->end_ns > now + HURRY_NS)
			patience->end_ns = now + HURRY_NS;
	}
	return now >= patience->end_ns;
}
