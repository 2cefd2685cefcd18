/* SPDX-License-Identifier: MIT */
/* Gathered data: percentiles, merged, subtracted. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/session/table_rows.h"

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
	uint64_t *buckets = rows_buckets(100000);
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
	uint64_t *buckets = rows_buckets(10);
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
	uint64_t *buckets = rows_buckets(4);
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
		{.probe = ROWS_PROBES, .begin = 0, .keys = &a, .count = 1000},
	};
	struct probe_table *table = rows_table(1, rows, sizeof(rows) / sizeof(rows[0]));
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
	struct probe_table *table = rows_table(1, rows, 4);
	size_t count;

	(void)state;
	probe_table_rows(table, &count);
	assert_int_equal(count, 3);
	probe_table_free(table);
}

/* A sum that has wrapped since: what it grew by has wrapped, too. */
static void differences_of_sums_wrap(void **state)
{
	static const struct {
		bool is_signed;
		long double before, after, grown;
	} cases[] = {{false, 3, 1, UINT64_MAX - 1}, {false, UINT64_MAX, 4, 5}, {true, 3, 1, -2},
		{true, INT64_MAX, INT64_MIN, 1}, {true, INT64_MIN, INT64_MAX, -1}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct probe_row row = {.probe = 1,
			.begin = SIZE_MAX,
			.count = 1,
			.has_value = true,
			.is_signed = cases[i].is_signed,
			.sum = cases[i].before,
			.unit = 1};
		struct probe_table *earlier = rows_table(0, &row, 1), *later, *since;
		size_t count;

		row.count = 2;
		row.sum = cases[i].after;
		later = rows_table(0, &row, 1);
		assert_null(probe_table_since(later, earlier, &since));
		assert_true(probe_table_rows(since, &count)->row.sum == cases[i].grown);
		probe_table_free(since);
		probe_table_free(later);
		probe_table_free(earlier);
	}
}

static void differences_are_what_is_new(void **state)
{
	uint64_t *old_buckets = rows_buckets(100), *new_buckets = rows_buckets(100);
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
	earlier = rows_table(0, before, 2);
	later = rows_table(0, after, 2);
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
	later = rows_table(0, after, 2);
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

/* Adds a hit of each process from `first` on, `count` of them, as processes end. */
static void add_ended(struct probe_table *table, uint64_t first, uint64_t count)
{
	for (uint64_t pid = first; pid < first + count; pid++) {
		const struct probe_value key = UNSIGNED(pid);
		const struct probe_row row = {
			.probe = 0, .begin = SIZE_MAX, .count = 2, .keys = &key, .unit = 1};
		struct probe_table *ended = rows_table(1, &row, 1);

		assert_null(probe_table_add_table(table, ended));
		probe_table_free(ended);
	}
}

static void a_limited_table_keeps_all_hits(void **state)
{
	struct probe_table *table = rows_none(1);
	const struct probe_table_row *rows;
	uint64_t hits = 0;
	size_t count;

	(void)state;
	probe_table_limit(table, 3);
	add_ended(table, 1, 500);
	add_ended(table, 1, 4); /* three of them have a row */
	rows = probe_table_rows(table, &count);
	assert_int_equal(count, 4);
	probe_table_sort(table, PROBE_ORDER_COUNT);
	for (size_t i = 0; i < count; i++)
		hits += rows[i].row.count;
	assert_int_equal(hits, 2 * 504);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(rows[i].row.count, 4);
	assert_int_equal(rows[3].row.keys[0].kind, PROBE_VALUE_OTHER);
	assert_int_equal(rows[3].row.count, 2 * 498);
	probe_table_free(table);
}

static void hits_that_lose_their_row_are_not_new(void **state)
{
	struct probe_table *earlier = rows_none(1), *later = rows_none(1), *since;
	const struct probe_table_row *rows;
	size_t count;

	(void)state;
	/* Process 9 had a row of its own while it was alive. */
	probe_table_limit(later, 2);
	add_ended(earlier, 1, 2);
	add_ended(earlier, 9, 1);
	add_ended(later, 1, 2);
	add_ended(later, 9, 2);
	assert_null(probe_table_since(later, earlier, &since));
	rows = probe_table_rows(since, &count);
	assert_int_equal(count, 1);
	assert_int_equal(rows[0].row.keys[0].kind, PROBE_VALUE_OTHER);
	assert_int_equal(rows[0].row.count, 2); /* those of process 10 */
	probe_table_free(since);
	probe_table_free(later);
	probe_table_free(earlier);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_cover_every_value_once),
		cmocka_unit_test(percentiles_are_within_their_error),
		cmocka_unit_test(percentiles_of_few_values_are_those_values),
		cmocka_unit_test(rows_of_one_probe_and_key_become_one),
		cmocka_unit_test(signed_and_unsigned_keys_are_compared_as_numbers),
		cmocka_unit_test(differences_of_sums_wrap),
		cmocka_unit_test(differences_are_what_is_new),
		cmocka_unit_test(a_limited_table_keeps_all_hits),
		cmocka_unit_test(hits_that_lose_their_row_are_not_new),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
