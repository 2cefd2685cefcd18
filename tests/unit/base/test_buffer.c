/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/base/buffer.h"

static void assert_unsigned(uint64_t value)
{
	struct buffer out = {0};
	char expected[32];

	snprintf(expected, sizeof(expected), "%" PRIu64, value);
	buffer_unsigned(&out, value);
	buffer_char(&out, '\0');
	assert_false(out.no_memory);
	assert_string_equal(out.data, expected);
	buffer_deinit(&out);
}

/* Around each number of digits: they are written in twos. */
static void test_numbers(void **state)
{
	(void)state;
	for (uint64_t value = 0; value < 1100; value++)
		assert_unsigned(value);
	for (uint64_t power = 10; power < UINT64_MAX / 10; power *= 10) {
		assert_unsigned(power - 1);
		assert_unsigned(power);
		assert_unsigned(power + 1);
	}
	assert_unsigned(UINT64_MAX);
	assert_unsigned(UINT64_MAX / 2 + 1);
}

/* Parts that do not fit into what is left of the room. */
static void test_growth(void **state)
{
	struct buffer out = {0};

	(void)state;
	for (size_t i = 0; i < 3000; i++) {
		buffer_string(&out, "abc");
		buffer_bytes(&out, NULL, 0);
		buffer_char(&out, 'd');
	}
	assert_int_equal(out.length, 12000);
	for (size_t i = 0; i < out.length; i += 4)
		assert_memory_equal(out.data + i, "abcd", 4);
	buffer_deinit(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_growth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
