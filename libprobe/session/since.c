/* SPDX-License-Identifier: MIT */
/* What has come since an earlier table. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/value.h"
#include "libprobe/session/session.h"

/* The bound of a bucket, as a value of the row. */
static struct probe_value bound_value(const struct probe_row *row, size_t index, bool high_end)
{
	double least, most;
	uint64_t high;
	int64_t low;

	if (row->is_float && (high_end || index != PROBE_BUCKETS - 1)) {
		probe_row_bucket(row, index, &least, &most);
		return (struct probe_value){
			.kind = PROBE_VALUE_FLOAT, .f = high_end ? most : least};
	}
	probe_bucket_range(index, &low, &high);
	if (index == PROBE_BUCKETS - 1) /* negative ones: what is known of all */
		return high_end ? (struct probe_value){.kind = PROBE_VALUE_SIGNED, .i = -1}
				: row->min;
	return (struct probe_value){.kind = PROBE_VALUE_UNSIGNED,
		.u = (uint64_t)((double)(high_end ? high : (uint64_t)low) * row->unit)};
}

/* The lowest and the highest bucket with something in it; false where all are empty. */
static bool bucket_span(const uint64_t *buckets, size_t *low_ret, size_t *high_ret)
{
	bool any = false;

	for (size_t i = 0; i < PROBE_BUCKETS; i++) {
		size_t index = i ? i - 1 : PROBE_BUCKETS - 1; /* negative values are the least */

		if (!buckets[index])
			continue;
		if (!any)
			*low_ret = index;
		*high_ret = index;
		any = true;
	}
	return any;
}

/* Extremes of what is new; `row` still has those of all. */
static void difference_extremes(struct probe_row *row, const struct probe_row *before)
{
	struct probe_value least = row->min, most = row->max;
	bool has_span = false;
	size_t low, high;

	if (row->buckets)
		has_span = bucket_span(row->buckets, &low, &high);
	if (before->min.kind != PROBE_VALUE_NULL && !value_compare(&row->min, &before->min)) {
		least = (struct probe_value){.kind = PROBE_VALUE_NULL};
		if (has_span)
			least = bound_value(row, low, false);
		if (has_span && value_compare(&least, &row->min) < 0)
			least = row->min;
	}
	if (before->max.kind != PROBE_VALUE_NULL && !value_compare(&row->max, &before->max)) {
		most = (struct probe_value){.kind = PROBE_VALUE_NULL};
		if (has_span)
			most = bound_value(row, high, true);
		if (has_span && value_compare(&most, &row->max) > 0)
			most = row->max;
	}
	row->min = least;
	row->max = most;
}

static uint64_t minus(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* Sums are modulo 2^64, so is what they grow by. Times, which have a unit, never reach that. */
static long double sum_since(const struct probe_row *now, const struct probe_row *before)
{
	long double grown = now->sum - before->sum;

	if (now->is_float || now->unit != 1)
		return grown;
	if (grown < (now->is_signed ? -0x1p63L : 0))
		return grown + 0x1p64L;
	return now->is_signed && grown >= 0x1p63L ? grown - 0x1p64L : grown;
}

/* Takes from a row of its own what was there before. */
static void subtract(struct probe_table_row *row, const struct probe_table_row *before)
{
	uint64_t *buckets = (uint64_t *)(uintptr_t)row->row.buckets;

	for (size_t i = 0; buckets && before->row.buckets && i < PROBE_BUCKETS; i++)
		buckets[i] = minus(buckets[i], before->row.buckets[i]);
	difference_extremes(&row->row, &before->row);
	row->row.count = minus(row->row.count, before->row.count);
	row->row.sum = sum_since(&row->row, &before->row);
	row->unmatched = minus(row->unmatched, before->unmatched);
	value_number(&before->row.last, &row->first);
}

/* A row that says that something is not counted is printed each time, but not for every key. */
static bool is_news(const struct probe_table *table, const struct probe_table_row *row)
{
	return row->row.count || row->unmatched || row->row.in_flight ||
	       (!table->key_count && (row->coverage.refused || row->coverage.overwritten));
}

/* An earlier table's rows in the order of table_compare(), whatever order they are in. */
struct lookup {
	const struct probe_table *table;
	const struct probe_table_row **rows;
};

static int compare_pointers(const void *a, const void *b, void *data)
{
	const struct probe_table_row *const *left = a, *const *right = b;

	return table_compare(*left, *right, data);
}

static bool lookup_init(struct lookup *lookup, const struct probe_table *table)
{
	*lookup = (struct lookup){table, calloc(table->count + 1, sizeof(*lookup->rows))};
	if (!lookup->rows)
		return false;
	for (size_t i = 0; i < table->count; i++)
		lookup->rows[i] = &table->rows[i];
	if (table->count)
		qsort_r(lookup->rows, table->count, sizeof(*lookup->rows), compare_pointers,
			(void *)(uintptr_t)table);
	return true;
}

struct wanted {
	const struct lookup *lookup;
	const struct probe_table_row *row;
};

static int compare(const struct wanted *wanted, size_t index)
{
	const struct lookup *lookup = wanted->lookup;

	return table_compare(lookup->rows[index], wanted->row, (void *)(uintptr_t)lookup->table);
}

static bool is_before(const void *wanted, size_t index)
{
	return compare(wanted, index) < 0;
}

static const struct probe_table_row *lookup_find(
	const struct lookup *lookup, const struct probe_table_row *row)
{
	const struct wanted wanted = {lookup, row};
	size_t at = array_partition(lookup->table->count, is_before, &wanted);

	return at < lookup->table->count && compare(&wanted, at) == 0 ? lookup->rows[at] : NULL;
}

static struct probe_error *append_since(
	struct probe_table *since, const struct probe_table_row *now, const struct lookup *earlier)
{
	const struct probe_table_row *before = lookup_find(earlier, now);
	struct probe_error *error = table_append(since, now);
	struct probe_table_row *row;

	if (error)
		return error;
	row = &since->rows[since->count - 1];
	if (before)
		subtract(row, before);
	if (!is_news(since, row))
		table_row_free(&since->rows[--since->count]);
	return NULL;
}

static bool any_gone(const struct probe_table *earlier, const struct lookup *now)
{
	for (size_t i = 0; i < earlier->count; i++)
		if (!lookup_find(now, &earlier->rows[i]))
			return true;
	return false;
}

/*
 * Makes a copy of an earlier table in which the rows that are gone are added to the row of other
 * keys: the later table has their hits there. *ret is NULL if none is gone. The caller frees it,
 * also after an error.
 */
static struct probe_error *fold_gone(const struct probe_table *earlier,
	const struct probe_table *table, struct probe_table **ret)
{
	struct lookup now;
	struct probe_error *error = NULL;

	*ret = NULL;
	if (!table->key_count || !earlier->count)
		return NULL;
	if (!lookup_init(&now, table))
		return probe_error_no_memory();
	if (any_gone(earlier, &now)) {
		error = probe_table_create(earlier->key_count, ret);
		if (!error)
			error = probe_table_add_table(*ret, earlier);
		for (size_t i = 0; !error && i < (*ret)->count; i++)
			if (!lookup_find(&now, &(*ret)->rows[i]))
				table_row_fold(*ret, &(*ret)->rows[i]);
		if (!error)
			table_merge(*ret);
	}
	free(now.rows);
	return error;
}

struct probe_error *probe_table_since(const struct probe_table *table,
	const struct probe_table *earlier, struct probe_table **ret)
{
	static const struct probe_table nothing;
	struct lookup lookup = {0};
	struct probe_table *since = NULL, *folded = NULL;
	struct probe_error *error = probe_table_create(table->key_count, &since);

	if (!earlier)
		earlier = &nothing;
	if (!error)
		error = fold_gone(earlier, table, &folded);
	if (folded)
		earlier = folded;
	if (!error && !lookup_init(&lookup, earlier))
		error = probe_error_no_memory();
	for (size_t i = 0; i < table->count && !error; i++)
		error = append_since(since, &table->rows[i], &lookup);
	free(lookup.rows);
	if (error) {
		probe_table_free(folded);
		probe_table_free(since);
		return error;
	}
	since->lost = minus(table->lost, earlier->lost);
	since->unmatched = minus(table->unmatched, earlier->unmatched);
	since->in_flight = table->in_flight;
	probe_table_free(folded);
	*ret = since;
	return NULL;
}
