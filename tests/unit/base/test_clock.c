/* SPDX-License-Identifier: MIT */
/* Time stamps as times of day, even if the system's clock is set meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
		cmocka_unit_test(test_tick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
