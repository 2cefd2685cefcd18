/* SPDX-License-Identifier: MIT */
/*
 * Gathered rows as JSON, one object each (DESIGN's names are a contract):
 *
 *	{"provider":"...","name":"...","begin":"provider:name","keys":[...],
 *	 "outcome":"done","hits":N,"count":N,"sum":N,"min":N,"max":N,"avg":N,"rate":N,
 *	 "p50":N,"p90":N,"p95":N,"p99":N,"p999":N,"p9999":N,"last":N,"last_ts":N,
 *	 "change":N,"buckets":[[LOW,HIGH,COUNT],...],"in_flight":N,"unmatched":N,
 *	 "sites":N,"refused":N,"inconsistent":N,
 *	 "tracer":"sum,arg0","ts":N,"interval":N}
 *
 * What a tracer does not gather is missing; what there was nothing of is null.
 * "sites", "refused" and "inconsistent" are in rows of probes whose sites are not all
 * were counted all the time (struct probe_coverage); where none was, hits is null.
 * Times are whole nanoseconds. HIGH belongs to the bucket, except of floating-point values.
 *"interval" (nanoseconds, with "ts" at its end) stands in rows that are not over all, "tracer"
 * where there are several.
 */
#include <math.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/base/value.h"
#include "libprobe/session/session.h"

/* Whole numbers stay so as far as 64 bits reach. */
void json_number_field(struct buffer *out, const char *key, long double value)
{
	buffer_string(out, key);
	if (!isfinite(value))
		buffer_string(out, "null");
	else if (!buffer_whole(out, value))
		buffer_float(out, (double)value);
}

static void value_field(struct buffer *out, const char *key, const struct probe_value *value)
{
	buffer_string(out, key);
	json_value(out, value);
}

/* Values are whole, but the middle of a bucket may have a fraction. */
static double rounded(double value)
{
	return isfinite(value) && fabs(value) < 0x1p53 ? (double)(int64_t)(value + 0.5) : value;
}

static double percentile(const struct probe_row *row, double percent)
{
	double value = probe_row_percentile(row, percent);

	return row->is_float ? value : rounded(value);
}

static void percentile_fields(struct buffer *out, const struct probe_row *row)
{
	static const struct {
		const char *key;
		double percent;
	} percentiles[] = {
		{",\"p50\":", 50},
		{",\"p90\":", 90},
		{",\"p95\":", 95},
		{",\"p99\":", 99},
		{",\"p999\":", 99.9},
		{",\"p9999\":", 99.99},
	};

	for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++)
		json_number_field(out, percentiles[i].key, percentile(row, percentiles[i].percent));
}

/* A bound in the unit of the row; the high one belongs to the bucket. */
static uint64_t scaled(uint64_t bound, double unit, bool is_high)
{
	double value;

	if (unit == 1)
		return bound;
	value = is_high ? ((double)bound + 1) * unit - 1 : (double)bound * unit;
	if (value < 0)
		return 0;
	return value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
}

/* The high bound of doubles does not belong to it; null is no bound. */
static void bucket_of_doubles(struct buffer *out, const struct probe_row *row, size_t index)
{
	double low, high;

	probe_row_bucket(row, index, &low, &high);
	if (index == PROBE_BUCKETS - 1)
		value_number(&row->min, &low);
	json_number_field(out, "", low);
	json_number_field(out, ",", high);
	json_unsigned_field(out, ",", row->buckets[index]);
}

static void bucket(struct buffer *out, const struct probe_row *row, size_t index)
{
	uint64_t high;
	int64_t low;

	if (row->is_float) {
		bucket_of_doubles(out, row, index);
		return;
	}
	probe_bucket_range(index, &low, &high);
	if (index == PROBE_BUCKETS - 1) {
		buffer_signed(out, row->min.kind == PROBE_VALUE_SIGNED ? row->min.i : low);
		buffer_string(out, ",-1");
	} else {
		uint64_t from = scaled((uint64_t)low, row->unit, false);
		uint64_t to = scaled(high, row->unit, true);

		buffer_unsigned(out, from);
		json_unsigned_field(out, ",", to < from ? from : to);
	}
	json_unsigned_field(out, ",", row->buckets[index]);
}

static void buckets_field(struct buffer *out, const struct probe_row *row)
{
	bool any = false;

	buffer_string(out, ",\"buckets\":[");
	for (size_t i = 0; row->buckets && i < PROBE_BUCKETS; i++) {
		size_t index = i ? i - 1 : PROBE_BUCKETS - 1; /* negative values are the least */

		if (!row->buckets[index])
			continue;
		buffer_string(out, any ? ",[" : "[");
		bucket(out, row, index);
		buffer_char(out, ']');
		any = true;
	}
	buffer_char(out, ']');
}

static void begin_field(struct buffer *out, const struct probe_table_row *row)
{
	if (!row->begin_name)
		return;
	buffer_string(out, ",\"begin\":\"");
	buffer_json_escaped(out, row->begin_provider, strlen(row->begin_provider));
	buffer_char(out, ':');
	buffer_json_escaped(out, row->begin_name, strlen(row->begin_name));
	buffer_char(out, '"');
}

static void keys_field(struct buffer *out, const struct probe_value *keys, size_t count)
{
	if (!count)
		return;
	buffer_string(out, ",\"keys\":[");
	for (size_t i = 0; i < count; i++) {
		if (i)
			buffer_char(out, ',');
		json_value(out, &keys[i]);
	}
	buffer_char(out, ']');
	if (value_keys_are_other(keys, count))
		buffer_string(out, ",\"other\":true");
}

static double average(const struct probe_row *row)
{
	return row->count ? (double)(row->sum / row->count) : NAN;
}

/* Stamps become nanoseconds with a fraction, which says nothing. */
static long double whole(long double ns)
{
	return isfinite(ns) && ns >= 0 && ns < 0x1p63L ? (long double)(uint64_t)(ns + 0.5L) : ns;
}

static double per_second(double amount, uint64_t elapsed_ns)
{
	return elapsed_ns ? amount * 1e9 / (double)elapsed_ns : NAN;
}

static double change(const struct probe_table_row *row, uint64_t elapsed_ns)
{
	double last;

	return value_number(&row->row.last, &last) ? per_second(last - row->first, elapsed_ns)
						   : NAN;
}

static void figures(
	struct buffer *out, const struct probe_table_row *row, const struct probe_view *view)
{
	const struct probe_row *its = &row->row;
	unsigned int columns = view->columns;
	bool is_time = row->begin_name != NULL;

	if (columns & PROBE_COLUMN_SUM)
		json_number_field(out, ",\"sum\":", is_time ? whole(its->sum) : its->sum);
	if (columns & PROBE_COLUMN_MIN)
		value_field(out, ",\"min\":", &its->min);
	if (columns & PROBE_COLUMN_MAX)
		value_field(out, ",\"max\":", &its->max);
	if (columns & PROBE_COLUMN_AVERAGE)
		json_number_field(out, ",\"avg\":", is_time ? whole(average(its)) : average(its));
	if (columns & PROBE_COLUMN_RATE)
		json_number_field(
			out, ",\"rate\":", per_second((double)its->count, view->elapsed_ns));
	if (columns & PROBE_COLUMN_PERCENTILES)
		percentile_fields(out, its);
	if (columns & PROBE_COLUMN_LAST)
		value_field(out, ",\"last\":", &its->last);
	if (columns & PROBE_COLUMN_TIME && its->last_time_ns)
		json_unsigned_field(out, ",\"last_ts\":", its->last_time_ns);
	if (columns & PROBE_COLUMN_CHANGE)
		json_number_field(out, ",\"change\":", change(row, view->elapsed_ns));
	if (columns & PROBE_COLUMN_BUCKETS)
		buckets_field(out, its);
}

/* Rows that count everything have none of these. */
static void coverage_fields(struct buffer *out, const struct probe_coverage *coverage)
{
	if (!coverage->refused && !coverage->overwritten)
		return;
	json_unsigned_field(out, ",\"sites\":", coverage->sites);
	json_unsigned_field(out, ",\"refused\":", coverage->refused);
	json_unsigned_field(out, ",\"inconsistent\":", coverage->overwritten);
}

void json_row_fields(struct buffer *out, const struct probe_table_row *row, size_t key_count,
	const struct probe_view *view)
{
	json_string_field(out, "\"provider\":", row->provider);
	json_string_field(out, ",\"name\":", row->name);
	begin_field(out, row);
	keys_field(out, row->row.keys, key_count);
	if (view->columns & PROBE_COLUMN_OUTCOME)
		json_string_field(
			out, ",\"outcome\":", table_name_aborts(row->name) ? "aborted" : "done");
	/* A table of counts alone was there first, and has its own name for them. */
	buffer_string(out, view->columns == PROBE_COLUMN_COUNT ? ",\"hits\":" : ",\"count\":");
	if (probe_coverage_is_none(&row->coverage))
		buffer_string(out, "null");
	else
		buffer_unsigned(out, row->row.count);
	figures(out, row, view);
	if (view->columns & PROBE_COLUMN_PAIRS && !key_count) {
		json_unsigned_field(out, ",\"in_flight\":", row->row.in_flight);
		json_unsigned_field(out, ",\"unmatched\":", row->unmatched);
	}
	coverage_fields(out, &row->coverage);
	if (view->title)
		json_string_field(out, ",\"tracer\":", view->title);
	if (view->is_interval) {
		json_unsigned_field(out, ",\"ts\":", view->time_ns);
		json_unsigned_field(out, ",\"interval\":", view->elapsed_ns);
	}
}

void json_table(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view)
{
	const struct probe_table_row *rows;
	size_t count;

	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++) {
		buffer_char(&context->out, '{');
		json_row_fields(&context->out, &rows[i], table->key_count, view);
		buffer_json_end(&context->out);
	}
}
