/* SPDX-License-Identifier: MIT */
/* JSON: every kind of value, and texts that are damaged, cut off anywhere, deep or long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/record/record.h"

static struct json_parser parser;
static char *copy; /* of the last text, which the tree points into */

static int set_up(void **state)
{
	(void)state;
	return json_parser_init(&parser) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	free(copy);
	copy = NULL;
	json_parser_deinit(&parser);
	return 0;
}

static const struct json *parse(const char *text, size_t length)
{
	free(copy);
	/* Exactly as long, so that a sanitizer sees what is read behind it. */
	copy = malloc(length + 1);
	assert_non_null(copy);
	memcpy(copy, text, length);
	copy[length] = '\0';
	return json_parse(&parser, copy, length);
}

static const struct json *parsed(const char *text)
{
	const struct json *value = parse(text, strlen(text));

	if (!value)
		fail_msg("%s: %s", text, parser.why);
	return value;
}

static void check_text(const char *text, const char *wanted, size_t length)
{
	const struct json *value = parsed(text);

	assert_int_equal(value->kind, JSON_STRING);
	assert_int_equal(value->length, length);
	assert_memory_equal(value->text, wanted, length + 1);
}

static void check_integer(const char *text, uint64_t number, bool is_negative)
{
	const struct json *value = parsed(text);

	assert_int_equal(value->kind, JSON_INTEGER);
	assert_int_equal(value->number, number);
	assert_int_equal(value->is_negative, is_negative);
}

static void test_values(void **state)
{
	const struct json *value, *member;

	(void)state;
	check_text("\"\"", "", 0);
	check_text(" \"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\" ", "a\"\\/\b\f\n\r\tA", 10);
	check_text("\"\\u00e9\\u20AC\\ud83d\\ude00\\u0000x\"",
		"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0x", 11);
	/* Halves of characters. */
	check_text("\"\\ud800\\u0041\\ude00\"",
		"\xef\xbf\xbd"
		"A\xef\xbf\xbd",
		7);
	check_integer("0", 0, false);
	check_integer("18446744073709551615", UINT64_MAX, false);
	check_integer("-9223372036854775808", UINT64_C(1) << 63, true);
	check_integer("99999999999999999999", UINT64_MAX, false);
	check_integer("-99999999999999999999", UINT64_C(1) << 63, true);
	value = parsed("-1.5e+3");
	assert_int_equal(value->kind, JSON_FLOAT);
	assert_true(value->real == -1500.0);
	value = parsed("{\"a\" : [1, null,true , false], \"b\":{}, \"a\":2,\"\\u0063\":[]}\r");
	assert_int_equal(value->kind, JSON_OBJECT);
	assert_int_equal(value->length, 4);
	assert_ptr_equal(parser.at, parser.end);
	member = json_member(value, "a", JSON_ARRAY);
	assert_non_null(member);
	assert_int_equal(member->length, 4);
	assert_int_equal(member->first->next->kind, JSON_NONE);
	assert_null(json_member(value, "a", JSON_INTEGER));
	assert_null(json_find(value, "d"));
	assert_null(json_member(value, "b", JSON_OBJECT)->first);
	assert_non_null(json_member(value, "c", JSON_ARRAY));
	parsed("1 2");
	assert_string_equal(parser.at, "2");
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"x", "unexpected character"},
		{"nil", "unexpected character"},
		{"[1,]", "unexpected character"},
		{"[1 2]", "a comma or a bracket is expected"},
		{"{1:2}", "a string is expected"},
		{"{\"a\" 1}", "a colon is expected"},
		{"-x", "a number is malformed"},
		{"1.x", "a number is malformed"},
		{"1e-x", "a number is malformed"},
		{"\"a\nb\"", "a string has a control character in it"},
		{"\"\\x\"", "a string has an unknown escape"},
		{"\"\\u00g0\"", "a character's number is malformed"},
		{"[[[[[[[[[]]]]]]]]]", "nesting too deep"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_null(parse(cases[i].text, strlen(cases[i].text)));
		assert_string_equal(parser.why, cases[i].why);
		assert_false(parser.is_cut_off);
	}
	/* A NUL does not end a text. */
	assert_null(parse("[1,\0 2]", 7));
	assert_false(parser.is_cut_off);
	assert_non_null(parse("[[[[[[[[]]]]]]]]", 16));
}

static void test_cut_off(void **state)
{
	static const char text[] =
		"{\"a\\n\\u00e9\\ud83d\\ude00\":[-1.5e+3,{\"b\":null},true],\"c\":\"d\"}";

	(void)state;
	assert_non_null(parse(text, sizeof(text) - 1));
	for (size_t length = 0; length < sizeof(text) - 1; length++) {
		assert_null(parse(text, length));
		assert_true(parser.is_cut_off);
	}
}

static void test_many(void **state)
{
	const size_t room = 2 * JSON_VALUES_MAX + 2;
	char *text = malloc(room);

	(void)state;
	assert_non_null(text);
	for (size_t values = JSON_VALUES_MAX; values <= JSON_VALUES_MAX + 1; values++) {
		size_t length = 0;

		/* The array is one of them. */
		for (size_t i = 1; i < values; i++) {
			text[length++] = i == 1 ? '[' : ',';
			text[length++] = '1';
		}
		text[length++] = ']';
		if (values == JSON_VALUES_MAX) {
			assert_non_null(parse(text, length));
		} else {
			assert_null(parse(text, length));
			assert_string_equal(parser.why, "too many values");
		}
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
