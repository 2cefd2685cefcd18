/* SPDX-License-Identifier: MIT */
/*
 * Converts time stamps to wall-clock times. Stubs stamp records with the processor's time stamp
 * counter: it is read without a call, and 16 ns faster than any other clock. The controller
 * converts stamps to CLOCK_REALTIME with pairs (stamp, time) that it reads itself, one before the
 * first record and one at each poll. The length of a tick is measured against CLOCK_MONOTONIC,
 * because CLOCK_REALTIME may be set in the meantime; both clocks run at the same rate. The kernel
 * keeps the counters of all processors in step as long as its clock source is "tsc".
 *
 * No pair is exact: reading a pair takes some tens of nanoseconds, and the first length of a tick
 * is measured over half a millisecond. If each round of hits was converted by its own pair, the
 * first hit of a round could get an earlier time than the last hit of the previous round. So time
 * is a chain of lines, each of which begins where the previous one ends:
 *
 *	ns                          . '      line: used as long as new pairs are near it
 *	|                    . - '|
 *	|               . /       |          correction: from the last pair to the new one
 *	|          . - '|         |
 *	|     . - '     |         |
 *	+---------------+---------+--------- stamps
 *	          last pair   new pair: more than NEAR_NS off
 *
 * Stamps up to the last pair never change their times. Only if CLOCK_REALTIME is set does time
 * jump, at the last pair before that.
 *
 * If the program has disabled the counter for itself (PR_SET_TSC), stamps are read from
 * CLOCK_MONOTONIC. Pairs are taken all the same, so the rest of the code need not distinguish the
 * two cases.
 */
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "libprobe/base/clock.h"

enum { CALIBRATION_NS = 500000, FINE_CALIBRATION_NS = 4000000, HURRY_NS = 1000000000 };
enum {
	READINGS = 5,	/* readings of two clocks that are compared, at most */
	NEAR_NS = 200,	/* allowed distance between a line and a pair */
	SET_NS = 20000, /* how much two readings may differ although the clock was not set */
	CORRECTION = 2	/* a correction runs at most this many times faster or slower */
};

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

/*
 * Reads a clock and a stamp at nearly the same time. Of several readings, it keeps the one that was
 * least disturbed.
 */
static void clock_pair(
	const struct clock *clock, clockid_t id, uint64_t *stamp_ret, uint64_t *ns_ret)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < READINGS; i++) {
		uint64_t before = clock_stamp(clock), ns = clock_ns(id);
		uint64_t width = clock_stamp(clock) - before;

		if (width < best) {
			best = width;
			*stamp_ret = before + width / 2;
			*ns_ret = ns;
		}
	}
}

uint64_t clock_now_offset_ns(void)
{
	uint64_t before, now, after;

	for (int i = 0; i < READINGS; i++) {
		before = clock_monotonic_ns();
		now = clock_now_ns();
		after = clock_monotonic_ns();
		if (after - before < SET_NS)
			break;
	}
	return now - before;
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
	clock->line_count = 0;
}

/* ---- Lines ------------------------------------------------------------------------------ */

/* Returns the ns from one stamp to another; negative if `to` is earlier. */
static int64_t between_ns(uint64_t from, uint64_t to, double tick_ns)
{
	return (int64_t)((double)(int64_t)(to - from) * tick_ns);
}

static uint64_t line_ns(const struct clock_line *line, uint64_t stamp)
{
	return line->ns + (uint64_t)between_ns(line->stamp, stamp, line->tick_ns);
}

static void add_line(struct clock *clock, struct clock_line line)
{
	if (clock->line_count == CLOCK_LINES) {
		clock->line_count--;
		memmove(clock->lines, clock->lines + 1, clock->line_count * sizeof(line));
	}
	clock->lines[clock->line_count++] = line;
}

/* Returns true if CLOCK_REALTIME was set between two pairs. (CLOCK_MONOTONIC cannot be set.) */
static bool was_set(const struct clock_pairs *before, const struct clock_pairs *now)
{
	double stamps = (double)(now->steady_stamp - before->steady_stamp);
	double tick_ns = stamps > 0 ? (double)(now->steady_ns - before->steady_ns) / stamps : 0;
	int64_t moved =
		(int64_t)(now->ns - before->ns) - between_ns(before->stamp, now->stamp, tick_ns);

	return moved > SET_NS || moved < -SET_NS;
}

/*
 * Adds a line from the time at the last pair to the new pair. If that line is too fast or slow, it
 * ends as near to the new pair as CORRECTION allows.
 */
static void correct(
	struct clock *clock, const struct clock_pairs *before, const struct clock_pairs *now)
{
	const struct clock_line *last = &clock->lines[clock->line_count - 1];
	struct clock_line line = {.from = before->stamp,
		.stamp = before->stamp,
		.ns = line_ns(last, before->stamp),
		.tick_ns = clock->stamp_ns / CORRECTION};
	double tick_ns =
		(double)(int64_t)(now->ns - line.ns) / (double)(now->stamp - before->stamp);

	if (tick_ns > clock->stamp_ns * CORRECTION)
		line.tick_ns = clock->stamp_ns * CORRECTION;
	else if (tick_ns > line.tick_ns)
		line.tick_ns = tick_ns;
	add_line(clock, line);
	add_line(clock, (struct clock_line){now->stamp, now->stamp, line_ns(&line, now->stamp),
				clock->stamp_ns});
}

void clock_advance(struct clock *clock, const struct clock_pairs *now)
{
	const struct clock_pairs before = {
		clock->last_stamp, clock->last_ns, clock->last_steady_stamp, clock->last_steady_ns};
	double stamps = (double)(now->steady_stamp - clock->first_steady_stamp);
	int64_t off;

	clock->last_stamp = now->stamp;
	clock->last_ns = now->ns;
	clock->last_steady_stamp = now->steady_stamp;
	clock->last_steady_ns = now->steady_ns;
	clock->stamp_ns =
		stamps > 0 ? (double)(now->steady_ns - clock->first_steady_ns) / stamps : 0;
	if (!clock->line_count) {
		add_line(clock, (struct clock_line){0, now->stamp, now->ns, clock->stamp_ns});
		return;
	}
	if (now->stamp <= before.stamp)
		return;
	off = (int64_t)(now->ns - line_ns(&clock->lines[clock->line_count - 1], now->stamp));
	if (off <= NEAR_NS && off >= -NEAR_NS)
		return;
	if (was_set(&before, now))
		add_line(clock, (struct clock_line){
					before.stamp + 1, now->stamp, now->ns, clock->stamp_ns});
	else
		correct(clock, &before, now);
}

void clock_sync(struct clock *clock)
{
	struct clock_pairs now = {0};

	clock_pair(clock, CLOCK_REALTIME, &now.stamp, &now.ns);
	clock_pair(clock, CLOCK_MONOTONIC, &now.steady_stamp, &now.steady_ns);
	clock_advance(clock, &now);
}

uint64_t clock_realtime_ns(const struct clock *clock, uint64_t stamp)
{
	unsigned int i = clock->line_count;

	if (clock->stamp_ns == 0)
		return clock->first_ns;
	/* A clock of a dead session has no lines: use its last pair. */
	if (!i)
		return clock->last_ns +
		       (uint64_t)between_ns(clock->last_stamp, stamp, clock->stamp_ns);
	while (i > 1 && stamp < clock->lines[i - 1].from)
		i--;
	return line_ns(&clock->lines[i - 1], stamp);
}

/* ---- Ticks ------------------------------------------------------------------------------ */

double clock_tick_ns(const struct clock *clock)
{
	double stamps = (double)(clock->last_steady_stamp - clock->first_steady_stamp);
	double ns = (double)(clock->last_steady_ns - clock->first_steady_ns);

	/* Readings too close to each other do not give a tick's length. */
	return stamps > 0 && ns >= CALIBRATION_NS ? ns / stamps
						  : 1e9 / (double)clock_ticks_per_s(clock);
}

/* Returns the stamps per ns, from two readings `apart_ns` after one another. */
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

/* ---- Timers ----------------------------------------------------------------------------- */

struct timer timer_every(uint64_t ns)
{
	return (struct timer){
		.next_ns = ns ? clock_monotonic_ns() + ns : UINT64_MAX, .every_ns = ns};
}

bool timer_due(struct timer *timer, uint64_t now_ns)
{
	if (now_ns < timer->next_ns)
		return false;
	timer->next_ns += ((now_ns - timer->next_ns) / timer->every_ns + 1) * timer->every_ns;
	return true;
}
