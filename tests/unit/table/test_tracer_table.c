/* SPDX-License-Identifier: MIT */
/* Gathered data: merged, subtracted, sorted, and shown as text and as JSON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/table/table.h"
#include "probe/sink.h"
#include "probe/table.h"

#define SIGNED(n)                                                                                  \
	{                                                                                          \
		.kind = PROBE_VALUE_SIGNED, .i = (n)                                               \
	}
#define UNSIGNED(n)                                                                                \
	{                                                                                          \
		.kind = PROBE_VALUE_UNSIGNED, .u = (n)                                             \
	}
#define STRING(s)                                                                                  \
	{                                                                                          \
		.kind = PROBE_VALUE_STRING, .bytes = (s), .length = sizeof(s) - 1                  \
	}

enum { ALL = 0xffff };

static const struct probe_session_probe probes[] = {
	{.provider = "db", .name = "query__start"},
	{.provider = "db", .name = "query__done", .unmatched = 2},
	{.provider = "db", .name = "query__abort"},
	{.provider = "a\"p", .name = "idle"},
};
enum { PROBES = sizeof(probes) / sizeof(probes[0]) };

/* The buckets of so many values from 1 on. */
static uint64_t *buckets_of(uint64_t count)
{
	uint64_t *buckets = calloc(PROBE_BUCKETS, sizeof(*buckets)), high;
	int64_t low;
	size_t index = 0;

	assert_non_null(buckets);
	for (uint64_t value = 1; value <= count; value++) {
		for (;; index++) {
			probe_bucket_range(index, &low, &high);
			if (value <= high)
				break;
		}
		assert_true(value >= (uint64_t)low);
		buckets[index]++;
	}
	return buckets;
}

static struct probe_table *table_made(size_t key_count)
{
	struct probe_table *table;

	assert_null(probe_table_create(key_count, &table));
	return table;
}

static struct probe_table *table_of(size_t key_count, const struct probe_row *rows, size_t count)
{
	struct probe_table *table = table_made(key_count);

	assert_null(table_add_rows(table, rows, count, probes, PROBES));
	return table;
}

static const char *show(const struct probe_table *table, enum probe_sink_format format,
	const struct probe_view *view)
{
	static char text[1 << 16];
	struct probe_sink *sink;
	FILE *file = tmpfile();
	ssize_t length;

	assert_non_null(file);
	assert_null(probe_sink_create(format, fileno(file), "the file", &sink));
	probe_sink_table(sink, table, view);
	assert_null(probe_sink_flush(sink));
	length = pread(fileno(file), text, sizeof(text) - 1, 0);
	assert_true(length >= 0);
	text[length] = '\0';
	probe_sink_free(sink);
	fclose(file);
	return text;
}

/* ---- Buckets and percentiles ---------------------------------------------------- */

static void buckets_cover_every_value_once(void **state)
{
	uint64_t expected = 0, high = 0;
	int64_t low;

	(void)state;
	for (size_t i = 0; i + 1 < PROBE_BUCKETS; i++) {
		probe_bucket_range(i, &low, &high);
		assert_int_equal((uint64_t)low, expected);
		assert_true(high >= (uint64_t)low);
		/* Within 3.2 % of each other. */
		assert_true((double)(high - (uint64_t)low) <= (double)high / 32);
		expected = high + 1;
	}
	assert_true(high == UINT64_MAX);
	probe_bucket_range(PROBE_BUCKETS - 1, &low, &high);
	assert_true(low == INT64_MIN && high == (uint64_t)-1);
}

static void percentiles_are_within_their_error(void **state)
{
	static const double percents[] = {1, 50, 90, 95, 99, 99.9, 99.99, 100};
	uint64_t *buckets = buckets_of(100000);
	struct probe_row row = {.count = 100000,
		.min = UNSIGNED(1),
		.max = UNSIGNED(100000),
		.unit = 1,
		.buckets = buckets};

	(void)state;
	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
		double is = probe_row_percentile(&row, percents[i]);
		double exact = percents[i] * 1000;

		assert_true(fabs(is - exact) <= exact * 0.016);
	}
	row.unit = 0.5;
	row.min.u = 0;
	assert_true(fabs(probe_row_percentile(&row, 50) - 25000) < 25000 * 0.016);
	free(buckets);
	row.buckets = NULL;
	assert_true(isnan(probe_row_percentile(&row, 50)));
}

static void percentiles_of_few_values_are_those_values(void **state)
{
	uint64_t *buckets = buckets_of(10);
	struct probe_row row = {.min = UNSIGNED(1), .max = UNSIGNED(10), .unit = 1};

	(void)state;
	row.buckets = buckets;
	assert_true(probe_row_percentile(&row, 50) == 5);
	assert_true(probe_row_percentile(&row, 90) == 9);
	assert_true(probe_row_percentile(&row, 99) == 10);
	assert_true(probe_row_percentile(&row, 0) == 1);
	buckets[PROBE_BUCKETS - 1] = 10;
	row.min = (struct probe_value)SIGNED(-7);
	assert_true(probe_row_percentile(&row, 10) < 0);
	assert_true(probe_row_percentile(&row, 100) == 10);
	free(buckets);
}

/* ---- Merging and differences ------------------------------------------------------ */

static void rows_of_one_probe_and_key_become_one(void **state)
{
	const struct probe_value a = STRING("a"), b = STRING("b"),
				 cut = {.kind = PROBE_VALUE_STRING,
					 .truncated = true,
					 .bytes = "a",
					 .length = 1};
	uint64_t *buckets = buckets_of(4);
	const struct probe_row rows[] = {
		{.probe = 1,
			.begin = 0,
			.keys = &a,
			.count = 3,
			.has_value = true,
			.sum = 30,
			.min = UNSIGNED(5),
			.max = UNSIGNED(20),
			.buckets = buckets,
			.unit = 1},
		{.probe = 1, .begin = 0, .keys = &b, .count = 7},
		{.probe = 1, .begin = 0, .keys = &cut, .count = 100},
		{.probe = 1,
			.begin = 0,
			.keys = &a,
			.count = 4,
			.has_value = true,
			.sum = 12,
			.min = UNSIGNED(2),
			.max = UNSIGNED(9),
			.buckets = buckets,
			.unit = 1},
		{.probe = 2, .begin = 0, .keys = &a, .count = 1},
		{.probe = PROBES, .begin = 0, .keys = &a, .count = 1000},
	};
	struct probe_table *table = table_of(1, rows, sizeof(rows) / sizeof(rows[0]));
	const struct probe_table_row *got;
	size_t count;

	(void)state;
	probe_table_sort(table, PROBE_ORDER_COUNT);
	got = probe_table_rows(table, &count);
	assert_int_equal(count, 4);
	assert_int_equal(got[0].row.count, 100);
	assert_true(got[0].row.keys[0].truncated);
	assert_int_equal(got[1].row.count, 7);
	assert_memory_equal(got[1].row.keys[0].bytes, "a", 1);
	assert_true(got[1].row.sum == 42);
	assert_int_equal(got[1].row.min.u, 2);
	assert_int_equal(got[1].row.max.u, 20);
	assert_int_equal(got[1].row.buckets[4], 2);
	assert_string_equal(got[1].begin_name, "query__start");
	assert_int_equal(got[2].row.count, 7);
	assert_memory_equal(got[2].row.keys[0].bytes, "b", 1);
	assert_string_equal(got[3].name, "query__abort");
	assert_int_equal(probe_table_unmatched(table), 2);
	probe_table_free(table);
	free(buckets);
}

static void signed_and_unsigned_keys_are_compared_as_numbers(void **state)
{
	const struct probe_value minus = SIGNED(-1), most = UNSIGNED(UINT64_MAX), one = SIGNED(1),
				 same = UNSIGNED(1);
	const struct probe_row rows[] = {
		{.probe = 0, .begin = SIZE_MAX, .keys = &minus, .count = 1},
		{.probe = 0, .begin = SIZE_MAX, .keys = &most, .count = 1},
		{.probe = 0, .begin = SIZE_MAX, .keys = &one, .count = 1},
		{.probe = 0, .begin = SIZE_MAX, .keys = &same, .count = 1},
	};
	struct probe_table *table = table_of(1, rows, 4);
	size_t count;

	(void)state;
	probe_table_rows(table, &count);
	assert_int_equal(count, 3);
	probe_table_free(table);
}

static void differences_are_what_is_new(void **state)
{
	uint64_t *old_buckets = buckets_of(100), *new_buckets = buckets_of(100);
	const struct probe_row before[] = {
		{.probe = 1,
			.begin = SIZE_MAX,
			.count = 100,
			.has_value = true,
			.sum = 5050,
			.min = UNSIGNED(1),
			.max = UNSIGNED(100),
			.buckets = old_buckets,
			.unit = 1},
		{.probe = 3, .begin = SIZE_MAX, .count = 5},
	};
	struct probe_row after[2];
	const struct probe_table_row *got;
	struct probe_table *earlier, *later, *since;
	size_t count;

	(void)state;
	memcpy(after, before, sizeof(after));
	new_buckets[20] += 2;
	new_buckets[64]++; /* 64 and 65 */
	after[0].count = 103;
	after[0].sum = 5050 + 20 + 20 + 65;
	after[0].buckets = new_buckets;
	earlier = table_of(0, before, 2);
	later = table_of(0, after, 2);
	probe_table_sort(earlier, PROBE_ORDER_SUM);
	assert_null(probe_table_since(later, earlier, &since));
	got = probe_table_rows(since, &count);
	assert_int_equal(count, 1); /* the other has nothing new */
	assert_string_equal(got[0].name, "query__done");
	assert_int_equal(got[0].row.count, 3);
	assert_true(got[0].row.sum == 105);
	assert_int_equal(got[0].row.buckets[20], 2);
	assert_int_equal(got[0].row.buckets[19], 0);
	/* By their buckets. */
	assert_int_equal(got[0].row.min.u, 20);
	assert_int_equal(got[0].row.max.u, 65);
	assert_int_equal(probe_table_unmatched(since), 0);
	probe_table_free(since);
	probe_table_free(later);

	/* A new extreme is known exactly; without buckets, others are not known. */
	after[0].max.u = 1001;
	after[0].buckets = NULL;
	later = table_of(0, after, 2);
	assert_null(probe_table_since(later, earlier, &since));
	got = probe_table_rows(since, &count);
	assert_int_equal(got[0].row.max.u, 1001);
	assert_int_equal(got[0].row.min.kind, PROBE_VALUE_NULL);
	probe_table_free(since);
	probe_table_free(later);
	probe_table_free(earlier);
	free(old_buckets);
	free(new_buckets);
}

/* ---- Text ------------------------------------------------------------------------- */

static void text_of_counts(void **state)
{
	const struct probe_row rows[] = {
		{.probe = 0, .begin = SIZE_MAX, .count = 28081},
		{.probe = 1, .begin = SIZE_MAX, .count = 3},
	};
	const struct probe_view view = {.tracer = "count", .columns = PROBE_COLUMN_COUNT};
	struct probe_table *table = table_of(0, rows, 2);

	(void)state;
	probe_table_sort(table, PROBE_ORDER_COUNT);
	assert_string_equal(show(table, PROBE_SINK_TEXT, &view), "PROBE                    HITS\n"
								 "db:query__start         28081\n"
								 "db:query__done              3\n");
	assert_string_equal(show(table, PROBE_SINK_JSON, &view),
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
	struct probe_table *table = table_of(0, rows, 2);

	(void)state;
	probe_table_sort(table, PROBE_ORDER_SUM);
	assert_string_equal(show(table, PROBE_SINK_TEXT, &view),
		"PROBE            COUNT                   SUM\n"
		"db:query__start      1  18446744073709551614\n"
		"db:query__done       1     -9007199254740993\n");
	assert_string_equal(show(table, PROBE_SINK_JSON, &view),
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
	struct probe_table *table = table_of(2, rows, 3);

	(void)state;
	probe_table_sort(table, PROBE_ORDER_SUM);
	assert_string_equal(show(table, PROBE_SINK_TEXT, &view),
		"PROBE           COUNT  SUM   AVG  str(arg0)         arg1\n"
		"db:query__done      5   12  2.40  \"select \\\"1\\\"\\n\"  -4\n"
		"db:query__done      7   10  1.43  \"\xc3\xa9\"               5\n"
		"... 1 more row (--top)\n");
	/* A program gets all. */
	assert_string_equal(show(table, PROBE_SINK_JSON, &view),
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
	uint64_t *buckets = buckets_of(8);
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
	table = table_of(0, rows, 1);
	assert_string_equal(show(table, PROBE_SINK_TEXT, &view),
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
	table = table_of(0, rows, 1);
	assert_string_equal(show(table, PROBE_SINK_TEXT, &view),
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
	struct probe_table *table = table_of(0, rows, 2);

	(void)state;
	probe_table_sort(table, PROBE_ORDER_COUNT);
	assert_string_equal(show(table, PROBE_SINK_TEXT, &view),
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
	struct probe_table *table = table_made(1), *other = table_made(1), *since;

	(void)state;
	other->in_flight = 3;
	other->unmatched = 1;
	assert_null(probe_table_add_table(table, other));
	assert_null(probe_table_add_table(table, other));
	/* It is not what is new, but what there is. */
	assert_null(probe_table_since(table, other, &since));
	assert_string_equal(show(since, PROBE_SINK_TEXT, &view),
		"no pair was timed: 6 in flight, 1 end without a begin\n");
	probe_table_free(since);
	probe_table_free(other);
	probe_table_free(table);
}

static void json_of_latency_has_every_figure(void **state)
{
	uint64_t *buckets = buckets_of(2);
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
	struct probe_table *table = table_of(0, rows, 1);

	(void)state;
	assert_string_equal(show(table, PROBE_SINK_JSON, &view),
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
	struct probe_table *table = table_made(0);

	(void)state;
	for (size_t i = 0; i < 60; i++) {
		snprintf(names[i], sizeof(names[i]), "p%02zu", i);
		many[i] = (struct probe_session_probe){.provider = "x", .name = names[i]};
		rows[i] = (struct probe_row){.probe = i, .begin = SIZE_MAX, .count = i == 3};
	}
	assert_null(table_add_rows(table, rows, 60, many, 60));
	assert_string_equal(show(table, PROBE_SINK_TEXT, &view), "PROBE          HITS\n"
								 "x:p03             1\n"
								 "... 59 probes were not hit\n");
	view.all = true;
	assert_non_null(strstr(show(table, PROBE_SINK_TEXT, &view), "x:p59             0\n"));
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
	struct probe_table *table = table_made(0);

	(void)state;
	assert_null(table_add_rows(table, rows, 3, three, 3));
	probe_table_sort(table, PROBE_ORDER_COUNT);
	assert_string_equal(show(table, PROBE_SINK_TEXT, &view), "PROBE           HITS\n"
								 "x:most             2\n"
								 "... 1 more row (--top)\n"
								 "... 1 probe was not hit\n");
	view.top = 2;
	assert_non_null(strstr(show(table, PROBE_SINK_TEXT, &view), "x:none             0\n"));
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
	struct probe_table *table = table_made(0);

	(void)state;
	assert_null(table_add_rows(table, rows, 3, incomplete, 3));
	probe_table_sort(table, PROBE_ORDER_COUNT);
	assert_string_equal(show(table, PROBE_SINK_TEXT, &view),
		"PROBE            HITS\n"
		"db:all              7\n"
		"db:part             5  (1 of 3 sites refused, 1 of 3 sites overwritten)\n"
		"db:none             -  (refused)\n");
	assert_string_equal(show(table, PROBE_SINK_JSON, &view),
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
	assert_non_null(strstr(show(table, PROBE_SINK_JSON, &view),
		"\"none\",\"hits\":0,\"sites\":2,\"refused\":1,"));
	probe_table_free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_cover_every_value_once),
		cmocka_unit_test(percentiles_are_within_their_error),
		cmocka_unit_test(percentiles_of_few_values_are_those_values),
		cmocka_unit_test(rows_of_one_probe_and_key_become_one),
		cmocka_unit_test(signed_and_unsigned_keys_are_compared_as_numbers),
		cmocka_unit_test(differences_are_what_is_new),
		cmocka_unit_test(text_of_counts),
		cmocka_unit_test(sums_keep_all_their_digits),
		cmocka_unit_test(text_of_keys_holds_the_first_rows),
		cmocka_unit_test(text_of_a_histogram_is_a_chart),
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
