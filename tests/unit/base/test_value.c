/* SPDX-License-Identifier: MIT */
/* The order of values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "libprobe/base/value.h"

/* Each is less than the next one. */
static void order(void **state)
{
	static const struct probe_value values[] = {{.kind = PROBE_VALUE_NULL},
		{.kind = PROBE_VALUE_FLOAT, .f = -INFINITY}, {.kind = PROBE_VALUE_SIGNED, .i = -2},
		{.kind = PROBE_VALUE_FLOAT, .f = -1.5}, {.kind = PROBE_VALUE_UNSIGNED, .u = 1},
		{.kind = PROBE_VALUE_FLOAT, .f = 1.5},
		{.kind = PROBE_VALUE_UNSIGNED, .u = UINT64_MAX},
		{.kind = PROBE_VALUE_FLOAT, .f = INFINITY}, {.kind = PROBE_VALUE_FLOAT, .f = NAN},
		{.kind = PROBE_VALUE_STRING, .bytes = "", .length = 0},
		{.kind = PROBE_VALUE_STRING, .bytes = "a", .length = 1},
		{.kind = PROBE_VALUE_STRING, .bytes = "a", .length = 1, .truncated = true}};
	enum { COUNT = sizeof(values) / sizeof(values[0]) };

	(void)state;
	for (int i = 0; i < COUNT; i++)
		for (int k = 0; k < COUNT; k++) {
			int found = value_compare(&values[i], &values[k]);

			assert_int_equal((found > 0) - (found < 0), (i > k) - (i < k));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(order)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
