/* SPDX-License-Identifier: MIT */
/* Two summaries side by side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/report/report.h"
#include "tests/unit/report/summary_events.h"

enum { MSEC = 1000000 };

static const uint64_t begin = UINT64_C(1790000000000000000);
static const char *const by_arg0[] = {"arg0"};
static const struct probe_summary_options options = {.keys = by_arg0, .key_count = 1};

/* So many queries of so many milliseconds, one after the other. */
static void queries(struct probe_summary *summary, uint64_t count, uint64_t msec, uint64_t kind)
{
	const struct probe_value arg = summary_number(kind);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t start = begin + i * msec * MSEC;

		summary_hit(summary, start, 1, "query__start", &arg);
		summary_hit(summary, start + msec * MSEC, 1, "query__done", NULL);
	}
}

static char *compared(const struct probe_summary *before, const struct probe_summary *after,
	enum probe_summary_format format, size_t top)
{
	const struct probe_summary_view first = {.title = "one", .top = top},
					second = {.title = "two", .top = top};
	struct probe_error *error;
	size_t length;
	char *text;

	error = probe_summary_compare(before, &first, after, &second, format, &text, &length);
	assert_null(error);
	assert_int_equal(length, strlen(text));
	return text;
}

/* The first line that begins so, in which each run of blanks is one; static. */
static const char *line_of(const char *text, const char *start)
{
	static char line[512];
	size_t length = 0;

	for (const char *at = text; (at = strstr(at, start)); at++) {
		if (at != text && at[-1] != '\n')
			continue;
		for (; *at && *at != '\n' && length + 1 < sizeof(line); at++) {
			if (*at != ' ' || (length && line[length - 1] != ' '))
				line[length++] = *at;
		}
		break;
	}
	line[length] = '\0';
	return line;
}

static void test_text(void **state)
{
	struct probe_summary *before = summary_made(&options), *after = summary_made(&options);
	const struct probe_value old = summary_number(8), fresh = summary_number(9);
	char *text;

	(void)state;
	queries(before, 10, 100, 7);
	queries(after, 20, 25, 7); /* in half of the time twice as many */
	summary_hit(before, begin + 1, 1, "old", &old);
	summary_hit(after, begin + 1, 1, "new", NULL);
	summary_hit(after, begin + 2, 1, "query__start", &fresh);
	text = compared(before, after, PROBE_SUMMARY_TEXT, 0);
	assert_non_null(strstr(text, "before: one: "));
	assert_non_null(strstr(text, "after: two: "));
	assert_string_equal(line_of(text, "db:query__done"), "db:query__done 10 20 10 40 +300.0%");
	assert_string_equal(line_of(text, "db:old"), "db:old 1 0 1 0 gone");
	assert_string_equal(line_of(text, "db:new"), "db:new 0 1 0 2 new");
	/* What changed most is first; what did not change in its rate is last. */
	assert_true(strstr(text, "db:query__done") < strstr(text, "db:new"));
	assert_string_equal(line_of(text, "db:query__start -> "),
		"db:query__start -> db:query__done 10 20 1.00s 500ms +0.0% 100ms 25.0ms -75.0% "
		"100ms 25.0ms -75.0% 100ms 25.0ms -75.0%");
	assert_non_null(strstr(text, "db:query__start by arg0\n"));
	assert_non_null(strstr(text, "  new  9\n"));
	assert_non_null(strstr(text, "+300.0%  7\n"));
	/* A table that only one of them has is not a comparison. */
	assert_null(strstr(text, "db:old by arg0"));
	free(text);

	text = compared(before, after, PROBE_SUMMARY_TEXT, 1);
	assert_non_null(strstr(text, "... 3 more probes (--top)\n"));
	assert_non_null(strstr(text, "... 1 more value (--top)\n"));
	free(text);
	probe_summary_free(before);
	probe_summary_free(after);
}

static void test_json(void **state)
{
	struct probe_summary *before = summary_made(&options), *after = summary_made(&options);
	char *text;

	(void)state;
	queries(before, 10, 100, 7);
	queries(after, 20, 25, 8);
	text = compared(before, after, PROBE_SUMMARY_JSON, 1);
	assert_string_equal(line_of(text, "{\"type\":\"probe\""),
		"{\"type\":\"probe\",\"provider\":\"db\",\"name\":\"query__done\","
		"\"before\":{\"hits\":10,\"rate\":10},\"after\":{\"hits\":20,\"rate\":40},"
		"\"schema\":1}");
	assert_string_equal(line_of(text, "{\"type\":\"pair\""),
		"{\"type\":\"pair\",\"begin_provider\":\"db\",\"begin_name\":\"query__start\","
		"\"provider\":\"db\",\"name\":\"query__done\","
		"\"before\":{\"count\":10,\"rate\":10,\"sum\":1000000000,"
		"\"sum_rate\":1000000000,\"p50\":100000000,\"p99\":100000000,\"max\":100000000},"
		"\"after\":{\"count\":20,\"rate\":40,\"sum\":500000000,"
		"\"sum_rate\":1000000000,\"p50\":25000000,\"p99\":25000000,\"max\":25000000},"
		"\"schema\":1}");
	assert_non_null(strstr(text,
		"\"key\":\"arg0\",\"value\":7,\"before\":{\"count\":10,\"error\":0,\"rate\":10},"
		"\"after\":null,\"schema\":1}\n"));
	assert_non_null(strstr(text,
		"\"key\":\"arg0\",\"value\":8,\"before\":null,\"after\":{\"count\":20,\"error\":0,"
		"\"rate\":40},\"schema\":1}\n"));
	free(text);
	probe_summary_free(before);
	probe_summary_free(after);
}

/* A value that is not there may have been dropped; one with an error is no exact count. */
static void test_unknown(void **state)
{
	struct probe_summary *before = summary_made(&options), *after = summary_made(&options);
	struct probe_value value;
	char *text;

	(void)state;
	for (uint64_t i = 0; i < SUMMARY_SLOTS + 1; i++) {
		value = summary_number(i);
		summary_hit(before, begin + i, 1, "x", &value);
	}
	value = summary_number(1000000);
	summary_hit(after, begin, 1, "x", &value);
	summary_hit(after, begin + MSEC, 1, "x", &value);
	text = compared(before, after, PROBE_SUMMARY_TEXT, 0);
	assert_string_equal(line_of(text, "   ?"), "? 2 ? 2000 ? 1000000");
	/* Its rate is not exact either, and how it changed is not known. */
	assert_string_equal(line_of(text, "  ~2"), "~2 0 ~1953125 0 ? 1024");
	free(text);
	probe_summary_free(before);
	probe_summary_free(after);
}

/* With single pairs, each pair by the values of a key. */
static void test_pairs(void **state)
{
	static const char *const keys[] = {"arg0", "tid"};
	const struct probe_summary_options by = {.keys = keys, .key_count = 2, .pairs = true};
	struct probe_summary *before = summary_made(&by), *after = summary_made(&by);
	const struct probe_value alone = summary_number(1);
	char *text;

	(void)state;
	queries(before, 10, 100, 7);
	queries(after, 20, 25, 7);
	queries(before, 1, 5, 8);
	queries(after, 2, 50, 9);
	summary_hit(after, begin + 1, 1, "job__start", &alone);
	summary_hit(after, begin + 2, 1, "job__done", NULL);
	text = compared(before, after, PROBE_SUMMARY_TEXT, 0);
	assert_non_null(strstr(text, "\ndb:query__start -> db:query__done by arg0\nCOUNT  AFTER "));
	assert_string_equal(line_of(text, "   10"),
		"10 20 1.00s 500ms +0.0% 100ms 25.0ms -75.0% 100ms 25.0ms -75.0% 100ms 25.0ms "
		"-75.0% 7");
	assert_string_equal(line_of(text, "    1"),
		"1 0 5.00ms - gone 5.00ms - gone 5.00ms - gone 5.00ms - gone 8");
	assert_string_equal(
		line_of(text, "    0"), "0 2 - 100ms new - 50.0ms new - 50.0ms new - 50.0ms new 9");
	/* What changed most in its time a second comes first. */
	assert_true(strstr(text, "-75.0%  7\n") > strstr(text, "new  9\n"));
	assert_non_null(strstr(text, "\ndb:query__start -> db:query__done by tid\nCOUNT  AFTER "));
	/* Pairs that only one of them has, and the longest, are not compared. */
	assert_null(strstr(text, "job__done by"));
	assert_null(strstr(text, "longest"));
	free(text);

	text = compared(before, after, PROBE_SUMMARY_TEXT, 1);
	assert_non_null(strstr(text, "... 2 more values (--top)\n"));
	free(text);

	text = compared(before, after, PROBE_SUMMARY_JSON, 0);
	assert_non_null(strstr(text,
		"{\"type\":\"pair_key\",\"begin_provider\":\"db\",\"begin_name\":\"query__start\","
		"\"provider\":\"db\",\"name\":\"query__done\",\"key\":\"arg0\",\"value\":8,"
		"\"before\":{\"count\":1,\"rate\":1,\"sum\":5000000,\"sum_rate\":5000000,\"p50\":"
		"5000000,\"p99\":"
		"5000000,"
		"\"max\":5000000},\"after\":null,\"schema\":1}\n"));
	free(text);
	probe_summary_free(before);
	probe_summary_free(after);
}

/* Values without a row are not known to be missing. */
static void test_other_pairs(void **state)
{
	static const char *const keys[] = {"arg0"};
	const struct probe_summary_options by = {.keys = keys, .key_count = 1, .pairs = true};
	struct probe_summary *before = summary_made(&by), *after = summary_made(&by);
	char *text;

	(void)state;
	for (uint64_t i = 0; i < SUMMARY_VALUES_MAX + 1; i++)
		queries(before, 1, 1, i);
	queries(after, 1, 1, 1000000);
	text = compared(before, after, PROBE_SUMMARY_TEXT, 0);
	assert_non_null(strstr(text, "  ?  1000000\n"));
	free(text);
	probe_summary_free(before);
	probe_summary_free(after);
}

/* A key has to be in one of the two. */
static void test_missing(void **state)
{
	struct probe_summary *before = summary_made(&options), *after = summary_made(&options);
	const struct probe_value value = summary_number(1);
	struct probe_error *error;

	(void)state;
	assert_null(probe_summary_check_keys(before, after));
	summary_hit(after, begin, 1, "x", NULL);
	error = probe_summary_check_keys(before, after);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	assert_string_equal(error->message, "no hit has a value for the key 'arg0'");
	probe_error_free(error);
	summary_hit(before, begin, 1, "x", &value);
	assert_null(probe_summary_check_keys(before, after));
	assert_null(probe_summary_check_keys(after, before));
	probe_summary_free(before);
	probe_summary_free(after);
}

static void test_empty(void **state)
{
	struct probe_summary *before = summary_made(NULL), *after = summary_made(NULL);
	const struct probe_summary_view view = {.title = "x"};
	struct probe_error *error;
	size_t length;
	char *text;

	(void)state;
	text = compared(before, after, PROBE_SUMMARY_TEXT, 0);
	assert_string_equal(text, "before: one: no hits\nafter: two: no hits\n");
	free(text);
	/* One instant has no rate. */
	summary_hit(after, begin, 1, "x", NULL);
	text = compared(before, after, PROBE_SUMMARY_TEXT, 0);
	assert_string_equal(line_of(text, "db:x"), "db:x 0 1 - - -");
	free(text);
	error = probe_summary_compare(
		before, &view, after, &view, PROBE_SUMMARY_HTML, &text, &length);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	probe_error_free(error);
	probe_summary_free(before);
	probe_summary_free(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_other_pairs),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
