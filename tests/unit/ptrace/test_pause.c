/* SPDX-License-Identifier: MIT */
/* How long a thread was paused, from what is known about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libprobe/ptrace/ptrace.h"

/* Asked at 1,000, seen 4,000 later, gone on at 5,300; it had waited for 70 before. */
static const struct pause late = {
	.waited_ns = 70, .asked_ns = 1000, .let_ns = 4000, .ended_ns = 5300};

/* What it waited for a processor before it stopped, it would have waited anyway. */
static void test_waited(void **state)
{
	(void)state;
	assert_int_equal(pause_ns(&late, 70 + 3900, 0), 400);
	assert_int_equal(pause_ns(&late, 70 + 4000, 0), 300);
}

/* It stood still at once, and waited for others, or for us. */
static void test_stood(void **state)
{
	(void)state;
	assert_int_equal(pause_ns(&late, 70, 0), 4300);
}

/* It had waited before it was asked, or waits again behind the stop: only so much can be ours. */
static void test_waited_at_other_times(void **state)
{
	(void)state;
	assert_int_equal(pause_ns(&late, 1000000, 0), 300);
}

/* We had no processor, and saw it late. */
static void test_seen_late(void **state)
{
	(void)state;
	assert_int_equal(pause_ns(&late, 70 + 4000, 3500), 3800);
	assert_int_equal(pause_ns(&late, 70 + 200, 3500), 4100);
	assert_int_equal(pause_ns(&late, 70 + 4000, 4000), 4300);
	assert_int_equal(pause_ns(&late, 70 + 4000, 9000), 4300);
}

/* What nobody knows counts. */
static void test_unknown(void **state)
{
	struct pause unknown = late;

	(void)state;
	unknown.waited_ns = PAUSE_UNKNOWN;
	assert_int_equal(pause_ns(&unknown, 4000, 0), 4300);
	assert_int_equal(pause_ns(&unknown, PAUSE_UNKNOWN, PAUSE_UNKNOWN), 4300);
	assert_int_equal(pause_ns(&late, PAUSE_UNKNOWN, 0), 4300);
	assert_int_equal(pause_ns(&late, 4000, PAUSE_UNKNOWN), 4300);
	assert_int_equal(pause_ns(&late, 69, 0), 4300); /* another thread by now */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waited),
		cmocka_unit_test(test_stood),
		cmocka_unit_test(test_waited_at_other_times),
		cmocka_unit_test(test_seen_late),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
