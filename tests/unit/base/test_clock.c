/* SPDX-License-Identifier: MIT */
/* Time stamps as times of day, even if the system's clock is set meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "arch/process.h"
#include "libprobe/base/clock.h"

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* The time between two stamps, as converted to times. */
static double between_ns(const struct clock *clock, uint64_t first, uint64_t last)
{
	return (double)(int64_t)(clock_realtime_ns(clock, last) - clock_realtime_ns(clock, first));
}

static void test_set(void **state)
{
	/* How far the clock was set, forwards and back. */
	static const int64_t steps[] = {0, 3600, -3600, 1, -1, 86400 * 365};

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct clock clock;
		uint64_t first, last;
		double ns, steady_ns, ticks;

		clock_init(&clock, arch_process()->counter);
		/* Simulates that the clock was set since. */
		clock.first_ns -= (uint64_t)(steps[i] * 1000000000);
		first = clock_stamp(&clock);
		nap();
		last = clock_stamp(&clock);
		clock_sync(&clock);
		ticks = (double)(clock.last_steady_stamp - clock.first_steady_stamp);
		steady_ns = (double)(clock.last_steady_ns - clock.first_steady_ns) *
			    ((double)(last - first) / ticks);
		ns = between_ns(&clock, first, last);
		assert_true(ns > steady_ns * 0.999 && ns < steady_ns * 1.001);
		/* The time of day is the current one. */
		assert_true(between_ns(&clock, last, clock.last_stamp) >= 0);
		assert_true(clock_realtime_ns(&clock, clock.last_stamp) == clock.last_ns);
	}
}

/* What clock_sync() would read of a counter of 3 GHz, each with an error of up to 90 ns. */
static struct clock_pairs read_pairs(uint64_t stamp, int64_t set_ns, unsigned int *seed)
{
	int64_t ns = (int64_t)(stamp / 3), error = (int64_t)(rand_r(seed) % 181) - 90;
	int64_t steady_error = (int64_t)(rand_r(seed) % 181) - 90;

	return (struct clock_pairs){stamp, (uint64_t)(ns + error + set_ns), stamp + 300,
		(uint64_t)(ns + 100 + steady_error)};
}

static struct clock made_clock(unsigned int *seed)
{
	struct clock_pairs first = read_pairs(3000000, 0, seed);

	return (struct clock){.first_stamp = first.stamp,
		.last_stamp = first.stamp,
		.first_ns = first.ns,
		.last_ns = first.ns,
		.first_steady_stamp = first.steady_stamp,
		.last_steady_stamp = first.steady_stamp,
		.first_steady_ns = first.steady_ns,
		.last_steady_ns = first.steady_ns};
}

/* Stamps that rounds of reading convert keep their order, and later rounds do not move them. */
static void test_order(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed < 20; seed++) {
		unsigned int random = seed;
		struct clock clock = made_clock(&random);
		uint64_t stamp = 3000000, last_ns = 0, kept = 0, kept_ns = 0;

		for (int round = 0; round < 2000; round++) {
			uint64_t end = stamp + 3 * (20000 + (uint64_t)rand_r(&random) % 20000000);
			struct clock_pairs pairs = read_pairs(end, 0, &random);

			clock_advance(&clock, &pairs);
			for (; stamp < end; stamp += (end - stamp) / 2 + 1) {
				uint64_t ns = clock_realtime_ns(&clock, stamp);
				int64_t off = (int64_t)(ns - stamp / 3);

				assert_true(ns >= last_ns);
				/* A tick is measured within 2 * 180 ns of at least 20 us. */
				assert_true(round < 20 || (off < 1000 && off > -1000));
				last_ns = ns;
			}
			if (round % 8 == 1)
				assert_true(!kept || clock_realtime_ns(&clock, kept) == kept_ns);
			if (round % 8 == 1) {
				kept = end - 1;
				kept_ns = clock_realtime_ns(&clock, kept);
			}
		}
	}
}

/* Time jumps once where the clock was set, and runs on from there. */
static void test_jump(void **state)
{
	static const int64_t set_ns[] = {1000000000, -1000000000, 50000, -50000};

	(void)state;
	for (size_t i = 0; i < sizeof(set_ns) / sizeof(set_ns[0]); i++) {
		unsigned int random = 7;
		struct clock clock = made_clock(&random);
		struct clock_pairs pairs;
		uint64_t stamp = 3000000;

		for (int round = 0; round < 50; round++) {
			int64_t set = round < 25 ? 0 : set_ns[i];

			stamp += 30000000;
			pairs = read_pairs(stamp, set, &random);
			clock_advance(&clock, &pairs);
			for (uint64_t at = stamp - 29000000; at < stamp; at += 1000000) {
				int64_t off =
					(int64_t)(clock_realtime_ns(&clock, at) - at / 3) - set;

				assert_true(off < 1000 && off > -1000);
			}
		}
		assert_int_equal(clock_realtime_ns(&clock, 3 * 250000000) / 10000, 25000);
	}
}

/* A stub's nanoseconds of a tick are those that a longer time shows. */
static void test_tick(void **state)
{
	const double shift = (double)(UINT64_C(1) << 32);
	struct clock clock;
	double tick;

	(void)state;
	clock_init(&clock, NULL);
	assert_true(clock_tick_ns32(&clock) == UINT64_C(1) << 32);
	clock_init(&clock, arch_process()->counter);
	tick = (double)clock_tick_ns32(&clock) / shift;
	nap();
	clock_sync(&clock);
	assert_true(tick > clock_tick_ns(&clock) * 0.999 && tick < clock_tick_ns(&clock) * 1.001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_jump),
		cmocka_unit_test(test_tick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
