/* SPDX-License-Identifier: MIT */
/* Gathered data as text and as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/session/table_rows.h"

enum { ALL = 0xffff };

static void text_of_counts(void **state)
{
	const struct probe_row rows[] = {
		{.probe = 0, .begin = SIZE_MAX, .count = 28081},
		{.probe = 1, .begin = SIZE_MAX, .count = 3},
	};
	const struct probe_view view = {.tracer = "count", .columns = PROBE_COLUMN_COUNT};
	struct probe_table *table = rows_table(0, rows, 2);

	(void)state;
	probe_table_sort(table, PROBE_ORDER_COUNT);
	assert_string_equal(rows_shown(table, PROBE_SINK_TEXT, &view),
		"PROBE                    HITS\n"
		"db:query__start         28081\n"
		"db:query__done              3\n");
	assert_string_equal(rows_shown(table, PROBE_SINK_JSON, &view),
		"{\"provider\":\"db\",\"name\":\"query__start\",\"hits\":28081,\"schema\":1}\n"
		"{\"provider\":\"db\",\"name\":\"query__done\",\"hits\":3,\"schema\":1}\n");
	probe_table_free(table);
}

/* More digits than a double has. */
static void sums_keep_all_their_digits(void **state)
{
	const struct probe_row rows[] = {
		{.probe = 0,
			.begin = SIZE_MAX,
			.count = 1,
			.sum = (long double)(UINT64_MAX - 1),
			.has_value = true},
		{.probe = 1,
			.begin = SIZE_MAX,
			.count = 1,
			.sum = -9007199254740993.0L,
			.has_value = true},
	};
	const struct probe_view view = {
		.tracer = "sum", .columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM};
	struct probe_table *table = rows_table(0, rows, 2);

	(void)state;
	probe_table_sort(table, PROBE_ORDER_SUM);
	assert_string_equal(rows_shown(table, PROBE_SINK_TEXT, &view),
		"PROBE            COUNT                   SUM\n"
		"db:query__start      1  18446744073709551614\n"
		"db:query__done       1     -9007199254740993\n");
	assert_string_equal(rows_shown(table, PROBE_SINK_JSON, &view),
		"{\"provider\":\"db\",\"name\":\"query__start\",\"count\":1,\"sum\":"
		"18446744073709551614,\"schema\":1}\n"
		"{\"provider\":\"db\",\"name\":\"query__done\",\"count\":1,\"sum\":-"
		"9007199254740993,\"schema\":1}\n");
	probe_table_free(table);
}

static void text_of_keys_holds_the_first_rows(void **state)
{
	const struct probe_value keys[][2] = {
		{STRING("select \"1\"\n"), SIGNED(-4)},
		{STRING("\xc3\xa9"), SIGNED(5)},
		{{.kind = PROBE_VALUE_NULL}, SIGNED(6)},
	};
	static const char *const names[] = {"str(arg0)", "arg1"};
	const struct probe_row rows[] = {
		{.probe = 1,
			.begin = SIZE_MAX,
			.keys = keys[0],
			.count = 5,
			.sum = 12,
			.has_value = true},
		{.probe = 1,
			.begin = SIZE_MAX,
			.keys = keys[1],
			.count = 7,
			.sum = 10,
			.has_value = true},
		{.probe = 1,
			.begin = SIZE_MAX,
			.keys = keys[2],
			.count = 1,
			.sum = 1,
			.has_value = true},
	};
	struct probe_view view = {.tracer = "sum",
		.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM | PROBE_COLUMN_AVERAGE,
		.key_names = names,
		.top = 2};
	struct probe_table *table = rows_table(2, rows, 3);

	(void)state;
	probe_table_sort(table, PROBE_ORDER_SUM);
	assert_string_equal(rows_shown(table, PROBE_SINK_TEXT, &view),
		"PROBE           COUNT  SUM   AVG  str(arg0)         arg1\n"
		"db:query__done      5   12  2.40  \"select \\\"1\\\"\\n\"  -4\n"
		"db:query__done      7   10  1.43  \"\xc3\xa9\"               5\n"
		"... 1 more row (--top)\n");
	/* A program gets all. */
	assert_string_equal(rows_shown(table, PROBE_SINK_JSON, &view),
		"{\"provider\":\"db\",\"name\":\"query__done\",\"keys\":[\"select "
		"\\\"1\\\"\\n\",-4],"
		"\"count\":5,\"sum\":12,\"avg\":2.4,\"schema\":1}\n"
		"{\"provider\":\"db\",\"name\":\"query__done\",\"keys\":[\"\xc3\xa9\",5],"
		"\"count\":7,\"sum\":10,\"avg\":1.4285714285714286,\"schema\":1}\n"
		"{\"provider\":\"db\",\"name\":\"query__done\",\"keys\":[null,6],"
		"\"count\":1,\"sum\":1,\"avg\":1,\"schema\":1}\n");
	probe_table_free(table);
}

static void text_of_a_histogram_is_a_chart(void **state)
{
	uint64_t *buckets = rows_buckets(8);
	const struct probe_row rows[] = {
		{.probe = 1,
			.begin = SIZE_MAX,
			.count = 10,
			.has_value = true,
			.is_signed = true,
			.sum = 36,
			.min = SIGNED(-3),
			.max = SIGNED(8),
			.buckets = buckets,
			.unit = 1},
	};
	const struct probe_view view = {.tracer = "hist",
		.columns = ALL & ~PROBE_COLUMN_PAIRS,
		.chart = true,
		.value = "arg0"};
	struct probe_table *table;

	(void)state;
	buckets[0] = 1;
	buckets[PROBE_BUCKETS - 1] = 1;
	table = rows_table(0, rows, 1);
	assert_string_equal(rows_shown(table, PROBE_SINK_TEXT, &view),
		"db:query__done  arg0\n"
		"(..., 0)                  1 |@@@@@@@@@@@@@                                       "
		"|\n"
		"[0]                       1 |@@@@@@@@@@@@@                                       "
		"|\n"
		"[1]                       1 |@@@@@@@@@@@@@                                       "
		"|\n"
		"[2, 4)                    2 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          "
		"|\n"
		"[4, 8)                    4 "
		"|@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n"
		"[8, 16)                   1 |@@@@@@@@@@@@@                                       "
		"|\n"
		"count 10  sum 36  min -3  avg 3.60  max 8\n"
		"p50 3  p90 7  p95 8  p99 8  p99.9 8  p99.99 8\n"
		"\n");
	probe_table_free(table);
	free(buckets);
}

/* The values of a chart are numbers, however large; addresses in arguments are hexadecimal. */
static void text_of_a_chart_has_decimal_extremes(void **state)
{
	const struct probe_row rows[] = {
		{.probe = 1,
			.begin = SIZE_MAX,
			.count = 1,
			.has_value = true,
			.sum = 4294967297,
			.min = UNSIGNED(4294967297),
			.max = UNSIGNED(4294967297)},
	};
	const struct probe_view view = {.tracer = "hist",
		.columns = ALL & ~PROBE_COLUMN_PAIRS,
		.chart = true,
		.value = "arg0"};
	struct probe_table *table = rows_table(0, rows, 1);

	(void)state;
	assert_non_null(strstr(rows_shown(table, PROBE_SINK_TEXT, &view),
		"count 1  sum 4294967297  min 4294967297  avg 4294967297  max 4294967297\n"));
	probe_table_free(table);
}

static void text_of_latency_has_units(void **state)
{
	uint64_t *buckets = calloc(PROBE_BUCKETS, sizeof(*buckets)), high;
	const struct probe_row rows[] = {
		{.probe = 1,
			.begin = 0,
			.count = 4,
			.has_value = true,
			.sum = 4 * 150000.0,
			.min = UNSIGNED(100000),
			.max = UNSIGNED(200000),
			.buckets = buckets,
			.unit = 0.5,
			.in_flight = 1},
	};
	const struct probe_view view = {
		.tracer = "latency", .columns = ALL, .chart = true, .times = true};
	struct probe_table *table;
	int64_t low;

	(void)state;
	for (size_t i = 0; i + 1 < PROBE_BUCKETS; i++) {
		probe_bucket_range(i, &low, &high);
		if (((uint64_t)low <= 200000 && high >= 200000) ||
			((uint64_t)low <= 400000 && high >= 400000))
			buckets[i] = 2;
	}
	table = rows_table(0, rows, 1);
	assert_string_equal(rows_shown(table, PROBE_SINK_TEXT, &view),
		"db:query__start -> db:query__done\n"
		"[65.5us, 131us)           2 "
		"|@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n"
		"[131us, 262us)            2 "
		"|@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n"
		"count 4  sum 600us  min 100us  avg 150us  max 200us\n"
		"p50 100us  p90 199us  p95 199us  p99 199us  p99.9 199us  p99.99 199us\n"
		"in flight 1  ends without a begin 2\n"
		"\n");
	probe_table_free(table);
	free(buckets);
}

static void what_is_in_flight_is_counted_once(void **state)
{
	const struct probe_row rows[] = {
		{.probe = 1, .begin = 0, .count = 4, .has_value = true, .in_flight = 3},
		{.probe = 2, .begin = 0, .count = 2, .has_value = true, .in_flight = 3},
	};
	const struct probe_view view = {.tracer = "transaction",
		.columns = PROBE_COLUMN_OUTCOME | PROBE_COLUMN_COUNT | PROBE_COLUMN_PAIRS,
		.times = true};
	struct probe_table *table = rows_table(0, rows, 2);

	(void)state;
	probe_table_sort(table, PROBE_ORDER_COUNT);
	assert_string_equal(rows_shown(table, PROBE_SINK_TEXT, &view),
		"PROBE                               OUTCOME  COUNT\n"
		"db:query__start -> db:query__done   done         4\n"
		"db:query__start -> db:query__abort  aborted      2\n"
		"in flight 3  ends without a begin 2\n");
	probe_table_free(table);
}

/* Rows with keys do not have it, and the tables of processes that have ended are added up. */
static void what_is_in_flight_by_keys_is_added_up(void **state)
{
	const struct probe_view view = {.tracer = "latency",
		.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_PAIRS,
		.times = true};
	struct probe_table *table = rows_none(1), *other = rows_none(1), *since;

	(void)state;
	other->in_flight = 3;
	other->unmatched = 1;
	assert_null(probe_table_add_table(table, other));
	assert_null(probe_table_add_table(table, other));
	/* It is not what is new, but what there is. */
	assert_null(probe_table_since(table, other, &since));
	assert_string_equal(rows_shown(since, PROBE_SINK_TEXT, &view),
		"no pair was timed: 6 in flight, 1 end without a begin\n");
	probe_table_free(since);
	probe_table_free(other);
	probe_table_free(table);
}

static void json_of_latency_has_every_figure(void **state)
{
	uint64_t *buckets = rows_buckets(2);
	const struct probe_row rows[] = {
		{.probe = 2,
			.begin = 0,
			.count = 2,
			.has_value = true,
			.sum = 30,
			.min = UNSIGNED(10),
			.max = UNSIGNED(20),
			.last = UNSIGNED(20),
			.last_time_ns = 5,
			.buckets = buckets,
			.unit = 10,
			.in_flight = 1},
	};
	const struct probe_view view = {.tracer = "transaction",
		.columns = ALL,
		.times = true,
		.elapsed_ns = 2000000000,
		.time_ns = 7,
		.is_interval = true};
	struct probe_table *table = rows_table(0, rows, 1);

	(void)state;
	assert_string_equal(rows_shown(table, PROBE_SINK_JSON, &view),
		"{\"provider\":\"db\",\"name\":\"query__abort\",\"begin\":\"db:query__start\","
		"\"outcome\":\"aborted\",\"count\":2,\"sum\":30,\"min\":10,\"max\":20,\"avg\":15,"
		"\"rate\":1,\"p50\":10,\"p90\":20,\"p95\":20,\"p99\":20,\"p999\":20,\"p9999\":20,"
		"\"last\":20,\"last_ts\":5,\"change\":5,\"buckets\":[[10,19,1],[20,29,1]],"
		"\"in_flight\":1,\"unmatched\":0,\"ts\":7,\"interval\":2000000000,\"schema\":1}\n");
	probe_table_free(table);
	free(buckets);
}

static void silent_rows_are_counted_where_they_are_many(void **state)
{
	static char names[60][8];
	struct probe_session_probe many[60];
	struct probe_row rows[60];
	struct probe_view view = {.tracer = "count", .columns = PROBE_COLUMN_COUNT};
	struct probe_table *table = rows_none(0);

	(void)state;
	for (size_t i = 0; i < 60; i++) {
		snprintf(names[i], sizeof(names[i]), "p%02zu", i);
		many[i] = (struct probe_session_probe){.provider = "x", .name = names[i]};
		rows[i] = (struct probe_row){.probe = i, .begin = SIZE_MAX, .count = i == 3};
	}
	assert_null(table_add_rows(table, rows, 60, many, 60));
	assert_string_equal(rows_shown(table, PROBE_SINK_TEXT, &view),
		"PROBE          HITS\n"
		"x:p03             1\n"
		"... 59 probes were not hit\n");
	view.all = true;
	assert_non_null(strstr(rows_shown(table, PROBE_SINK_TEXT, &view), "x:p59             0\n"));
	probe_table_free(table);
}

/* A row without hits is not shown in place of one with hits. */
static void silent_rows_are_counted_where_others_are_left_out(void **state)
{
	const struct probe_session_probe three[] = {
		{.provider = "x", .name = "most"},
		{.provider = "x", .name = "less"},
		{.provider = "x", .name = "none"},
	};
	const struct probe_row rows[] = {
		{.probe = 0, .begin = SIZE_MAX, .count = 2},
		{.probe = 1, .begin = SIZE_MAX, .count = 1},
		{.probe = 2, .begin = SIZE_MAX},
	};
	struct probe_view view = {.tracer = "count", .columns = PROBE_COLUMN_COUNT, .top = 1};
	struct probe_table *table = rows_none(0);

	(void)state;
	assert_null(table_add_rows(table, rows, 3, three, 3));
	probe_table_sort(table, PROBE_ORDER_COUNT);
	assert_string_equal(rows_shown(table, PROBE_SINK_TEXT, &view), "PROBE           HITS\n"
								       "x:most             2\n"
								       "... 1 more row (--top)\n"
								       "... 1 probe was not hit\n");
	view.top = 2;
	assert_non_null(
		strstr(rows_shown(table, PROBE_SINK_TEXT, &view), "x:none             0\n"));
	probe_table_free(table);
}

static void names_say_what_aborts(void **state)
{
	(void)state;
	assert_true(table_name_aborts("transaction__abort"));
	assert_true(table_name_aborts("Rollback"));
	assert_true(table_name_aborts("query__failed"));
	assert_true(table_name_aborts("io_error"));
	assert_false(table_name_aborts("transaction__commit"));
}

/* ---- What is not counted ------------------------------------------------------------ */

static const struct probe_session_probe incomplete[] = {
	{.provider = "db", .name = "all", .coverage = {.sites = 2}},
	{.provider = "db", .name = "none", .coverage = {.sites = 1, .refused = 1}},
	{.provider = "db", .name = "part", .coverage = {3, 1, 1}},
};

static void what_is_not_counted_is_not_zero(void **state)
{
	static const struct probe_row rows[] = {
		{.probe = 0, .count = 7, .begin = SIZE_MAX},
		{.probe = 1, .count = 0, .begin = SIZE_MAX},
		{.probe = 2, .count = 5, .begin = SIZE_MAX},
	};
	const struct probe_view view = {.columns = PROBE_COLUMN_COUNT};
	struct probe_table *table = rows_none(0);

	(void)state;
	assert_null(table_add_rows(table, rows, 3, incomplete, 3));
	probe_table_sort(table, PROBE_ORDER_COUNT);
	assert_string_equal(rows_shown(table, PROBE_SINK_TEXT, &view),
		"PROBE            HITS\n"
		"db:all              7\n"
		"db:part             5  (1 of 3 sites refused, 1 of 3 sites overwritten)\n"
		"db:none             -  (refused)\n");
	assert_string_equal(rows_shown(table, PROBE_SINK_JSON, &view),
		"{\"provider\":\"db\",\"name\":\"all\",\"hits\":7,\"schema\":1}\n"
		"{\"provider\":\"db\",\"name\":\"part\",\"hits\":5,\"sites\":3,\"refused\":1,"
		"\"inconsistent\":1,\"schema\":1}\n"
		"{\"provider\":\"db\",\"name\":\"none\",\"hits\":null,\"sites\":1,\"refused\":1,"
		"\"inconsistent\":0,\"schema\":1}\n");
	/* Of two processes, one of which could be patched: some hits are known. */
	assert_null(table_add_rows(table, &rows[1], 1,
		(const struct probe_session_probe[]){
			incomplete[0], {.provider = "db", .name = "none", .coverage = {1, 0, 0}}},
		2));
	probe_table_sort(table, PROBE_ORDER_COUNT);
	assert_non_null(strstr(rows_shown(table, PROBE_SINK_JSON, &view),
		"\"none\",\"hits\":0,\"sites\":2,\"refused\":1,"));
	probe_table_free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_of_counts),
		cmocka_unit_test(sums_keep_all_their_digits),
		cmocka_unit_test(text_of_keys_holds_the_first_rows),
		cmocka_unit_test(text_of_a_histogram_is_a_chart),
		cmocka_unit_test(text_of_a_chart_has_decimal_extremes),
		cmocka_unit_test(text_of_latency_has_units),
		cmocka_unit_test(what_is_in_flight_is_counted_once),
		cmocka_unit_test(what_is_in_flight_by_keys_is_added_up),
		cmocka_unit_test(json_of_latency_has_every_figure),
		cmocka_unit_test(silent_rows_are_counted_where_they_are_many),
		cmocka_unit_test(silent_rows_are_counted_where_others_are_left_out),
		cmocka_unit_test(names_say_what_aborts),
		cmocka_unit_test(what_is_not_counted_is_not_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
