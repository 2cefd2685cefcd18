/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

/* ==== Grid ==================================================================================== */

/* clang-format off */
const struct metric_info metric_infos[METRIC_QUANTITY_COUNT] = {
	[METRIC_HITS] = {"hits", "Hits; of pairs, those that have ended", PROBE_COLUMN_COUNT, .is_counter = true},
	[METRIC_TOTAL] = {"total", "The sum of all values or times", PROBE_COLUMN_SUM,
		.is_counter = true, .is_value = true},
	[METRIC_LEAST] = {"min", "The minimum of the last interval", PROBE_COLUMN_MIN, .is_value = true},
	[METRIC_MOST] = {"max", "The maximum of the last interval", PROBE_COLUMN_MAX, .is_value = true},
	[METRIC_P50] = {"p50", "The median of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 50},
	[METRIC_P90] = {"p90", "The 90th percentile of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 90},
	[METRIC_P95] = {"p95", "The 95th percentile of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 95},
	[METRIC_P99] = {"p99", "The 99th percentile of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 99},
	[METRIC_P999] = {"p999", "The 99.9th percentile of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 99.9},
	[METRIC_LAST] = {"value", "The last value", PROBE_COLUMN_LAST, .is_value = true},
	[METRIC_IN_FLIGHT] = {"in_flight", "Begun and not yet ended", PROBE_COLUMN_PAIRS, .keyless = true},
	[METRIC_UNMATCHED] = {"unmatched", "Ends without a begin", PROBE_COLUMN_PAIRS,
		.is_counter = true, .is_per_process = true},
	[METRIC_LOST] = {"lost", "Hits without room for them", ~0u,
		.is_counter = true, .is_per_process = true},
	/* Only PCP's tags have these. */
	[METRIC_RATE] = {"rate", "Hits in a second, in the last interval", 0, .is_counter = false},
	[METRIC_AVERAGE] = {"ave_time", "The average time in the last interval", 0, .is_value = true},
};
/* clang-format on */

bool metric_has(const struct probe_view *view, size_t key_count, enum metric_quantity quantity)
{
	const struct metric_info *info = &metric_infos[quantity];

	return info->columns & view->columns && !(info->keyless && key_count);
}

bool metric_is_counter(const struct probe_view *view, enum metric_quantity quantity)
{
	return metric_infos[quantity].is_counter ||
	       (quantity == METRIC_LAST && view->columns & PROBE_COLUMN_CHANGE);
}

static double number_of(const struct probe_value *value)
{
	double number = NAN;

	value_number(value, &number);
	return number;
}

long double metric_total(const struct probe_table_row *row, enum metric_quantity quantity)
{
	switch (quantity) {
	case METRIC_HITS:
		return (long double)row->row.count;
	case METRIC_TOTAL:
		return row->row.sum;
	case METRIC_LAST:
		return number_of(&row->row.last);
	case METRIC_IN_FLIGHT:
		return (long double)row->row.in_flight;
	case METRIC_RATE:
		return 0;
	default:
		return NAN;
	}
}

long double metric_recent(
	const struct probe_table_row *row, enum metric_quantity quantity, uint64_t interval_ns)
{
	double count = (double)row->row.count;

	switch (quantity) {
	case METRIC_LEAST:
		return number_of(&row->row.min);
	case METRIC_MOST:
		return number_of(&row->row.max);
	case METRIC_RATE:
		return interval_ns ? count * 1e9 / (double)interval_ns : 0;
	case METRIC_AVERAGE:
		return (double)row->row.sum / count;
	default:
		return metric_infos[quantity].percent > 0
			       ? probe_row_percentile(&row->row, metric_infos[quantity].percent)
			       : NAN;
	}
}

void metric_grow(
	struct metric_growth *growth, const struct probe_view *view, const struct probe_row *row)
{
	bool goes_on = view->times && row->count >= growth->hits && growth->hits;

	if (!goes_on || row->sum > growth->total)
		growth->total = row->sum;
	if (!growth->hits)
		growth->unit = row->unit;
	growth->hits = row->count;
}

bool metric_shows(const struct probe_view *view, const struct probe_table_row *row)
{
	if (view->columns & PROBE_COLUMN_PAIRS && !row->begin_name)
		return false;
	/* Aborted transactions do not count as transactions of their tag. */
	return !(view->tags && table_name_aborts(row->name));
}

struct probe_error *metric_history_take(struct metric_history *history, struct probe_table *table)
{
	uint64_t now = clock_monotonic_ns();
	struct probe_table *recent = NULL;
	struct probe_error *error = probe_table_since(table, history->all, &recent);

	if (error) {
		probe_table_free(table);
		return error;
	}
	metric_history_deinit(history);
	/* The first interval has no beginning, so its length is 0. */
	history->interval_ns = history->taken_ns ? now - history->taken_ns : 0;
	history->taken_ns = now;
	history->all = table;
	history->recent = recent;
	return NULL;
}

void metric_history_deinit(struct metric_history *history)
{
	probe_table_free(history->all);
	probe_table_free(history->recent);
	history->all = history->recent = NULL;
}
