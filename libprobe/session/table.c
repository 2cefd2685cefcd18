/* SPDX-License-Identifier: MIT */
/*
 * Tables of gathered rows. A row's data is in its own block, so sorting moves only its struct. To
 * merge, rows are sorted, and equal neighbours added up: at most thousands, a few times a second.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/value.h"
#include "libprobe/session/session.h"

/* ==== Table =================================================================================== */

struct probe_error *probe_table_create(size_t key_count, struct probe_table **ret)
{
	struct probe_table *table = calloc(1, sizeof(*table));

	if (!table)
		return probe_error_no_memory();
	table->key_count = key_count;
	*ret = table;
	return NULL;
}

/* Frees a row's block, which begins with its keys. */
static void table_row_free(struct probe_table_row *row)
{
	free((void *)(uintptr_t)row->row.keys);
}

void probe_table_free(struct probe_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->count; i++)
		table_row_free(&table->rows[i]);
	free(table->rows);
	free(table);
}

/* ---- Adding ------------------------------------------------------------------- */

static char *place(char **at, const void *bytes, size_t length)
{
	char *placed = *at;

	if (length)
		memcpy(placed, bytes, length);
	*at += length;
	return placed;
}

/* Copies what a row points to into a block of its own: keys, buckets, and bytes. False without
 * memory. */
static bool row_own(struct probe_table_row *row, size_t key_count)
{
	const char **names[] = {&row->provider, &row->name, &row->begin_provider, &row->begin_name};
	size_t bytes = (key_count + 1) * sizeof(struct probe_value);
	struct probe_value *keys;
	char *at;

	if (row->row.buckets)
		bytes += PROBE_BUCKETS * sizeof(uint64_t);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		bytes += *names[i] ? strlen(*names[i]) + 1 : 0;
	for (size_t i = 0; i < key_count; i++)
		bytes += value_has_bytes(&row->row.keys[i]) ? row->row.keys[i].length : 0;
	keys = malloc(bytes);
	if (!keys)
		return false;
	at = (char *)(keys + key_count + 1);
	if (row->row.buckets)
		row->row.buckets = (const uint64_t *)(void *)place(
			&at, row->row.buckets, PROBE_BUCKETS * sizeof(uint64_t));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (*names[i])
			*names[i] = place(&at, *names[i], strlen(*names[i]) + 1);
	for (size_t i = 0; i < key_count; i++) {
		keys[i] = row->row.keys[i];
		if (value_has_bytes(&keys[i]))
			keys[i].bytes = place(&at, keys[i].bytes, keys[i].length);
	}
	row->row.keys = keys;
	return true;
}

static struct probe_error *table_append(
	struct probe_table *table, const struct probe_table_row *row)
{
	struct probe_table_row copy = *row;

	if (!ARRAY_ROOM(table->rows, table->count) || !row_own(&copy, table->key_count))
		return probe_error_no_memory();
	table->rows[table->count++] = copy;
	return NULL;
}

/* ---- Merging ------------------------------------------------------------------ */

/* NULL comes before all names. */
static int compare_names(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

/* Compares two rows by names and keys. */
static int table_compare(const void *a, const void *b, void *data)
{
	const struct probe_table_row *left = a, *right = b;
	const struct probe_table *table = data;
	int order = compare_names(left->provider, right->provider)
		?: compare_names(left->name, right->name)
		?: compare_names(left->begin_provider, right->begin_provider)
		?: compare_names(left->begin_name, right->begin_name);

	for (size_t i = 0; i < table->key_count && !order; i++)
		order = value_compare(&left->row.keys[i], &right->row.keys[i]);
	/* Buckets of doubles differ from those of integers. */
	return order ? order : (int)left->row.is_float - (int)right->row.is_float;
}

static void keep_extreme(struct probe_value *kept, const struct probe_value *other, int sign)
{
	if (other->kind == PROBE_VALUE_NULL)
		return;
	if (kept->kind == PROBE_VALUE_NULL || sign * value_compare(other, kept) > 0)
		*kept = *other;
}

/* Adds a row to another. All targets share a clock, and so buckets' unit. */
static void add_row(struct probe_table_row *sum, const struct probe_table_row *other)
{
	struct probe_row *row = &sum->row;
	const struct probe_row *more = &other->row;
	uint64_t *buckets = (uint64_t *)(uintptr_t)row->buckets;

	for (size_t i = 0; buckets && more->buckets && i < PROBE_BUCKETS; i++)
		buckets[i] += more->buckets[i];
	keep_extreme(&row->min, &more->min, -1);
	keep_extreme(&row->max, &more->max, 1);
	if (more->last.kind != PROBE_VALUE_NULL && more->last_time_ns >= row->last_time_ns) {
		row->last = more->last;
		row->last_time_ns = more->last_time_ns;
	}
	if (more->count && (!row->count || other->first < sum->first))
		sum->first = other->first;
	row->has_value |= more->has_value;
	row->count += more->count;
	row->sum += more->sum;
	row->in_flight += more->in_flight;
	sum->unmatched += other->unmatched;
	probe_coverage_add(&sum->coverage, &other->coverage);
}

static void table_merge(struct probe_table *table)
{
	size_t kept = 0;

	if (table->count)
		qsort_r(table->rows, table->count, sizeof(*table->rows), table_compare, table);
	for (size_t i = 0; i < table->count; i++) {
		struct probe_table_row *row = &table->rows[i];

		if (kept && !table_compare(&table->rows[kept - 1], row, table)) {
			add_row(&table->rows[kept - 1], row);
			table_row_free(row);
		} else {
			table->rows[kept++] = *row;
		}
	}
	table->count = kept;
}

/* ---- Limited tables ------------------------------------------------------------- */

/* The first `count` rows of a table in the order of table_compare(). */
struct lookup {
	const struct probe_table *table;
	struct probe_table_row **rows; /* NULL if the table itself is in this order */
	size_t count;
};

static struct probe_table_row *lookup_at(const struct lookup *lookup, size_t index)
{
	return lookup->rows ? lookup->rows[index] : &lookup->table->rows[index];
}

struct wanted {
	const struct lookup *lookup;
	const struct probe_table_row *row;
};

static int compare_wanted(const struct wanted *wanted, size_t index)
{
	return table_compare(lookup_at(wanted->lookup, index), wanted->row,
		(void *)(uintptr_t)wanted->lookup->table);
}

static bool is_before(const void *wanted, size_t index)
{
	return compare_wanted(wanted, index) < 0;
}

/* Finds the row with the names and keys of another; or NULL. */
static struct probe_table_row *lookup_find(
	const struct lookup *lookup, const struct probe_table_row *row)
{
	const struct wanted wanted = {lookup, row};
	size_t at = array_partition(lookup->count, is_before, &wanted);

	return at < lookup->count && !compare_wanted(&wanted, at) ? lookup_at(lookup, at) : NULL;
}

/* Replaces a row's keys, if any, by PROBE_VALUE_OTHER. */
static void table_row_fold(const struct probe_table *table, struct probe_table_row *row)
{
	struct probe_value *keys = (struct probe_value *)(uintptr_t)row->row.keys;

	for (size_t i = 0; i < table->key_count; i++)
		keys[i] = value_other();
}

void probe_table_limit(struct probe_table *table, size_t rows_max)
{
	table->rows_max = rows_max;
}

/*
 * Adds a row to a table whose first `sorted` are in order, without sorting for an existing row:
 * those of thousands of ended processes may come one by one.
 */
static struct probe_error *add_limited(
	struct probe_table *table, size_t sorted, const struct probe_table_row *row)
{
	const struct lookup known = {table, NULL, sorted};
	struct probe_table_row *sum = lookup_find(&known, row);
	struct probe_error *error;

	if (sum) {
		add_row(sum, row);
		return NULL;
	}
	error = table_append(table, row);
	if (error || !table->key_count || table->count <= table->rows_max)
		return error;
	row = &table->rows[table->count - 1];
	table_row_fold(table, &table->rows[table->count - 1]);
	sum = lookup_find(&known, row);
	if (!sum)
		return NULL;
	add_row(sum, row);
	table_row_free(&table->rows[--table->count]);
	return NULL;
}

struct probe_error *probe_table_add_table(
	struct probe_table *table, const struct probe_table *other)
{
	size_t sorted = table->count;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < other->count && !error; i++)
		error = table->rows_max ? add_limited(table, sorted, &other->rows[i])
					: table_append(table, &other->rows[i]);
	if (error)
		return error;
	table->lost += other->lost;
	table->unmatched += other->unmatched;
	table->in_flight += other->in_flight;
	if (table->count > sorted)
		table_merge(table);
	return NULL;
}

static struct probe_error *append_row(struct probe_table *table, const struct probe_row *row,
	const struct probe_session_probe *probes, size_t probe_count)
{
	struct probe_table_row its = {.row = *row};
	double first;

	if (row->probe >= probe_count)
		return NULL;
	its.provider = probes[row->probe].provider;
	its.name = probes[row->probe].name;
	its.coverage = probes[row->probe].coverage;
	if (row->begin < probe_count) {
		its.begin_provider = probes[row->begin].provider;
		its.begin_name = probes[row->begin].name;
		probe_coverage_add(&its.coverage, &probes[row->begin].coverage);
	}
	if (!table->key_count)
		its.unmatched = probes[row->probe].unmatched;
	its.first = value_number(&row->min, &first) ? first : 0;
	return table_append(table, &its);
}

struct probe_error *table_add_rows(struct probe_table *table, const struct probe_row *rows,
	size_t count, const struct probe_session_probe *probes, size_t probe_count)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < count && !error; i++)
		error = append_row(table, &rows[i], probes, probe_count);
	if (error)
		return error;
	for (size_t i = 0; i < probe_count; i++) {
		table->lost += probes[i].lost;
		table->unmatched += probes[i].unmatched;
	}
	table_merge(table);
	return NULL;
}

/* ---- Order ---------------------------------------------------------------------- */

struct sorting {
	const struct probe_table *table;
	enum probe_order order;
};

/* Returns the number by which rows are sorted. Rows without one come last. */
static double weight(const struct probe_table_row *row, enum probe_order order)
{
	double value = -INFINITY;

	switch (order) {
	case PROBE_ORDER_COUNT:
		return (double)row->row.count;
	case PROBE_ORDER_SUM:
		return (double)row->row.sum;
	case PROBE_ORDER_MIN:
		value_number(&row->row.min, &value);
		break;
	case PROBE_ORDER_MAX:
		value_number(&row->row.max, &value);
		break;
	case PROBE_ORDER_AVERAGE:
		if (row->row.count)
			value = (double)(row->row.sum / row->row.count);
		break;
	case PROBE_ORDER_LAST:
		value_number(&row->row.last, &value);
		break;
	}
	return value;
}

static int compare_weights(const void *a, const void *b, void *data)
{
	const struct sorting *sorting = data;
	const struct probe_table_row *x = a, *y = b;
	size_t keys = sorting->table->key_count;
	double left = weight(x, sorting->order), right = weight(y, sorting->order);

	return value_keys_are_other(x->row.keys, keys) - value_keys_are_other(y->row.keys, keys)
		?: ORDER(right, left) ?: table_compare(a, b, (void *)(uintptr_t)sorting->table);
}

void probe_table_sort(struct probe_table *table, enum probe_order order)
{
	struct sorting sorting = {table, order};

	if (table->count)
		qsort_r(table->rows, table->count, sizeof(*table->rows), compare_weights, &sorting);
}

/* ---- Reading -------------------------------------------------------------------- */

const struct probe_table_row *probe_table_rows(const struct probe_table *table, size_t *count_ret)
{
	*count_ret = table->count;
	return table->rows;
}

uint64_t probe_table_lost(const struct probe_table *table)
{
	return table->lost;
}

uint64_t probe_table_unmatched(const struct probe_table *table)
{
	return table->unmatched;
}

bool table_name_aborts(const char *name)
{
	static const char *const signs[] = {"abort", "rollback", "error", "fail"};

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (strcasestr(name, signs[i]))
			return true;
	return false;
}

/* ==== Buckets ================================================================================= */

/* Histograms of stubs (arch/layout.h): the range of each bucket, and percentiles. */

_Static_assert(PROBE_BUCKETS == CELL_BUCKETS, "rows are cells, read");

void probe_bucket_range(size_t index, int64_t *low_ret, uint64_t *high_ret)
{
	uint64_t low = index;
	unsigned int shift = 0;

	if (index >= CELL_NEGATIVE) {
		*low_ret = INT64_MIN;
		*high_ret = UINT64_MAX; /* as a signed number: -1 */
		return;
	}
	if (index >= 1u << CELL_SUB_BITS) {
		shift = (unsigned int)(index >> CELL_SUB_BITS) - 1;
		low = (index - ((uint64_t)shift << CELL_SUB_BITS)) << shift;
	}
	*low_ret = (int64_t)low;
	*high_ret = low + ((UINT64_C(1) << shift) - 1);
}

/* A bucket of doubles; see CELL_DOUBLE_LEAST. */
static void double_bucket(size_t index, double *low_ret, double *high_ret)
{
	const int parts = 1 << CELL_SUB_BITS;
	int power = (int)(index >> CELL_SUB_BITS) + CELL_DOUBLE_LEAST, part = (int)index % parts;

	*low_ret = index ? ldexp(1 + (double)part / parts, power) : 0;
	*high_ret =
		index + 1 < CELL_NEGATIVE ? ldexp(1 + (double)(part + 1) / parts, power) : INFINITY;
	if (index >= CELL_NEGATIVE) {
		*low_ret = -INFINITY;
		*high_ret = 0;
	}
}

void probe_row_bucket(const struct probe_row *row, size_t index, double *low_ret, double *high_ret)
{
	uint64_t high;
	int64_t low;

	if (row->is_float) {
		double_bucket(index, low_ret, high_ret);
		return;
	}
	probe_bucket_range(index, &low, &high);
	*low_ret = (double)(uint64_t)low * row->unit;
	*high_ret = (double)high * row->unit;
	if (index >= CELL_NEGATIVE) {
		*low_ret = -INFINITY;
		*high_ret = -1;
	}
}

/* Returns a bucket's middle in the row's unit, within the row's extremes. */
static double bucket_middle(const struct probe_row *row, size_t index)
{
	double middle, least, most, low, high;

	probe_row_bucket(row, index, &low, &high);
	if (index == CELL_NEGATIVE)
		middle = value_number(&row->min, &least) && least < 0 ? least / 2 : -1;
	else
		middle = (low + high) / 2;
	if (value_number(&row->min, &least) && middle < least)
		middle = least;
	if (value_number(&row->max, &most) && middle > most)
		middle = most;
	return middle;
}

/* Returns the smallest value that at least `percent` per cent of all do not exceed. */
double probe_row_percentile(const struct probe_row *row, double percent)
{
	uint64_t total = 0, below, rank;
	double wanted;

	for (size_t i = 0; row->buckets && i < PROBE_BUCKETS; i++)
		total += row->buckets[i];
	if (!total)
		return NAN;
	/* 99.9 has no exact double, but its rank among 1000 must be 999. */
	wanted = percent / 100 * (double)total * (1 - 1e-12);
	rank = (uint64_t)wanted;
	if (rank < 1 || (double)rank < wanted)
		rank++;
	below = row->buckets[CELL_NEGATIVE];
	if (below >= rank)
		return bucket_middle(row, CELL_NEGATIVE);
	for (size_t i = 0; i < CELL_NEGATIVE; i++) {
		below += row->buckets[i];
		if (below >= rank)
			return bucket_middle(row, i);
	}
	return bucket_middle(row, CELL_NEGATIVE - 1);
}

/* ==== Since =================================================================================== */

/* The growth of a table since an earlier one. */

/* Returns a bound of a bucket as a value of the row. */
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
	if (index == PROBE_BUCKETS - 1) /* for negative values, use the row's minimum */
		return high_end ? (struct probe_value){.kind = PROBE_VALUE_SIGNED, .i = -1}
				: row->min;
	return (struct probe_value){.kind = PROBE_VALUE_UNSIGNED,
		.u = (uint64_t)((double)(high_end ? high : (uint64_t)low) * row->unit)};
}

/* Finds the lowest and highest bucket in use; false if none is. */
static bool bucket_span(const uint64_t *buckets, size_t *low_ret, size_t *high_ret)
{
	bool any = false;

	for (size_t i = 0; i < PROBE_BUCKETS; i++) {
		size_t index = i ? i - 1 : PROBE_BUCKETS - 1; /* negative values come first */

		if (!buckets[index])
			continue;
		if (!any)
			*low_ret = index;
		*high_ret = index;
		any = true;
	}
	return any;
}

/* Sets the extremes of hits since the earlier row; `row` has those of all. */
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

/* Returns a sum's growth: integers modulo 2^64; times, with a unit, never wrap. */
static long double sum_since(const struct probe_row *now, const struct probe_row *before)
{
	long double grown = now->sum - before->sum;

	if (now->is_float || now->unit != 1)
		return grown;
	if (grown < (now->is_signed ? -0x1p63L : 0))
		return grown + 0x1p64L;
	return now->is_signed && grown >= 0x1p63L ? grown - 0x1p64L : grown;
}

static int compare_pointers(const void *a, const void *b, void *data)
{
	const struct probe_table_row *const *left = a, *const *right = b;

	return table_compare(*left, *right, data);
}

static bool lookup_init(struct lookup *lookup, const struct probe_table *table)
{
	*lookup = (struct lookup){
		table, calloc(table->count + 1, sizeof(*lookup->rows)), table->count};
	if (!lookup->rows)
		return false;
	for (size_t i = 0; i < table->count; i++)
		lookup->rows[i] = &table->rows[i];
	if (table->count)
		qsort_r(lookup->rows, table->count, sizeof(*lookup->rows), compare_pointers,
			(void *)(uintptr_t)table);
	return true;
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
	if (before) {
		uint64_t *buckets = (uint64_t *)(uintptr_t)row->row.buckets;

		for (size_t i = 0; buckets && before->row.buckets && i < PROBE_BUCKETS; i++)
			buckets[i] = minus(buckets[i], before->row.buckets[i]);
		difference_extremes(&row->row, &before->row);
		row->row.count = minus(row->row.count, before->row.count);
		row->row.sum = sum_since(&row->row, &before->row);
		row->unmatched = minus(row->unmatched, before->unmatched);
		value_number(&before->row.last, &row->first);
	}
	/* Refused or overwritten sites are news, unless the table has keys. */
	if (!row->row.count && !row->unmatched && !row->row.in_flight &&
		(since->key_count || (!row->coverage.refused && !row->coverage.overwritten)))
		table_row_free(&since->rows[--since->count]);
	return NULL;
}

/*
 * Copies an earlier table, with rows that the later one lacks added to its row of other keys, as in
 * the later one. *ret is NULL if none is missing. The caller frees *ret, also after an error.
 */
static struct probe_error *fold_gone(const struct probe_table *earlier,
	const struct probe_table *table, struct probe_table **ret)
{
	struct probe_error *error = NULL;
	struct lookup now;
	size_t i = 0;

	if (!table->key_count || !earlier->count)
		return NULL;
	if (!lookup_init(&now, table))
		return probe_error_no_memory();
	while (i < earlier->count && lookup_find(&now, &earlier->rows[i]))
		i++;
	if (i < earlier->count) {
		error = probe_table_create(earlier->key_count, ret)
				?: probe_table_add_table(*ret, earlier);
		for (i = 0; !error && i < (*ret)->count; i++)
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
	error = error ?: fold_gone(earlier, table, &folded);
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

/* ==== Table session =========================================================================== */

/* Adds a whole probe's row: its count, and data that only probes have. */
static struct probe_error *append_probe(
	struct probe_table *table, const struct probe_session_probe *probe, bool is_count)
{
	return table_append(table, &(struct probe_table_row){.provider = probe->provider,
					   .name = probe->name,
					   .row = {.count = is_count ? probe->hits : 0, .unit = 1},
					   .unmatched = probe->unmatched,
					   .coverage = probe->coverage});
}

/* Adds a row for each probe without one. Pairs need an end event without a start event for that. */
static struct probe_error *append_silent(struct probe_table *table, const struct probe_row *rows,
	size_t count, const struct probe_session_probe *probes, size_t probe_count, bool paired)
{
	AUTO_FREE bool *has_row = calloc(probe_count + 1, sizeof(*has_row));
	struct probe_error *error = has_row ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < count && !error; i++) {
		if (rows[i].probe < probe_count)
			has_row[rows[i].probe] = true;
		if (rows[i].begin < probe_count)
			has_row[rows[i].begin] = true;
	}
	for (size_t i = 0; i < probe_count && !error; i++)
		if (!has_row[i] && (!paired || probes[i].unmatched))
			error = append_probe(table, &probes[i], false);
	return error;
}

struct probe_error *probe_table_add(struct probe_table *table, struct probe_session *session,
	const struct probe_session_options *options)
{
	const struct probe_session_probe *probes = session->probes;
	size_t probe_count = session->probe_count, count;
	AUTO_FREE struct probe_row *rows = NULL;
	AUTO_FREE uint64_t *flights = NULL;
	struct probe_error *error = NULL;

	if (options->kind == PROBE_SESSION_COUNT) {
		for (size_t i = 0; i < probe_count && !error; i++)
			error = append_probe(table, &probes[i], true);
		return error ?: table_add_rows(table, NULL, 0, probes, probe_count);
	}
	error = probe_session_rows(session, &rows, &count);
	if (error)
		return error;
	if (!options->gather.key_count) {
		error = append_silent(table, rows, count, probes, probe_count,
			options->gather.pairing != PROBE_PAIRING_NONE);
	} else if (session->pairs.count) {
		/* Rows with keys do not count open pairs. */
		flights = gather_flights(session);
		if (!flights)
			return probe_error_no_memory();
		for (uint32_t i = 0; i < session->pairs.count; i++)
			table->in_flight += flights[i];
	}
	return error ?: table_add_rows(table, rows, count, probes, probe_count);
}
