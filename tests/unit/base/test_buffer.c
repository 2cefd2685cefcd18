/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/base/json.h"

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

static void assert_escaped(const char *text, const char *c, const char *json)
{
	struct buffer out = {0};

	buffer_c_escaped(&out, text, strlen(text), 0);
	buffer_char(&out, '\0');
	assert_string_equal(out.data, c);
	out.length = 0;
	buffer_json_escaped(&out, text, strlen(text));
	buffer_char(&out, '\0');
	assert_string_equal(out.data, json);
	buffer_deinit(&out);
}

/* Controls of terminals and of the direction of text are escaped, other characters are not. */
static void test_escapes(void **state)
{
	(void)state;
	assert_escaped("a\033b\x7f", "a\\033b\\177", "a\\u001bb\\u007f");
	assert_escaped("\302\205\u00a0", "\\302\\205\u00a0", "\\u0085\u00a0");
	assert_escaped("\u061b\u061c", "\u061b\\330\\234", "\u061b\\u061c");
	assert_escaped("\u200f\u2010", "\\342\\200\\217\u2010", "\\u200f\u2010");
	assert_escaped("\u2029\u202a", "\u2029\\342\\200\\252", "\u2029\\u202a");
	assert_escaped("\u202e\u202f", "\\342\\200\\256\u202f", "\\u202e\u202f");
	assert_escaped("\u2066\u2069\u206a", "\\342\\201\\246\\342\\201\\251\u206a",
		"\\u2066\\u2069\u206a");
	assert_escaped("\U0001f600", "\U0001f600", "\U0001f600");
}

/* Commas are where they belong; the first value of a line has none, whatever is before it. */
static void test_json(void **state)
{
	static const char expected[] =
		"old\n{\"a\":[],\"b\":[1,-2,{\"c\":null},[],\"\",null],\"d\":{\"e\":true},\"f\":"
		"false,"
		"\"g\":18446744073709551615,\"h\":0.5,\"i\":null,\"j\":\"0x1f\",\"k\":\"0fff\","
		"\"l\":\"a\\\"b\\\\c\\nd\\u007f\\u009b\u00e4\ufffd\ufffd\ufffd\ufffd\",\"schema\":"
		"1}\n{\"m\":1e+300}";
	struct buffer out = {0};

	(void)state;
	buffer_string(&out, "old\n");
	json_open(&out, NULL, '{');
	json_open(&out, "a", '[');
	json_close(&out, ']');
	json_open(&out, "b", '[');
	json_unsigned(&out, NULL, 1);
	json_signed(&out, NULL, -2);
	json_open(&out, NULL, '{');
	json_null(&out, "c");
	json_close(&out, '}');
	json_open(&out, NULL, '[');
	json_close(&out, ']');
	json_text(&out, NULL, "");
	json_text(&out, NULL, NULL);
	json_close(&out, ']');
	json_open(&out, "d", '{');
	json_boolean(&out, "e", true);
	json_close(&out, '}');
	json_boolean(&out, "f", false);
	json_number(&out, "g", 18446744073709551615.0L);
	json_number(&out, "h", 0.5L);
	json_number(&out, "i", (long double)NAN);
	json_hex(&out, "j", 31);
	json_hex_bytes(&out, "k", "\x0f\xff", 2);
	json_text(&out, "l", "a\"b\\c\nd\x7f\xc2\x9b\xc3\xa4\xff\xed\xa0\x80");
	json_end_line(&out);
	json_open(&out, NULL, '{');
	json_number(&out, "m", 1e300L);
	json_close(&out, '}');
	buffer_char(&out, '\0');
	assert_string_equal(out.data, expected);
	/* Bytes that were written out do not count. */
	out.start = out.length;
	json_unsigned(&out, NULL, 7);
	assert_int_equal(out.length - out.start, 1);
	buffer_deinit(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
