/* SPDX-License-Identifier: MIT */
/* The metrics of each tracer. */
#include "libprobe/pcp/pcp.h"

#ifdef PCP_BUILT
#include <stdio.h>
#include <string.h>

enum { QUANTITIES_MAX = 32 };

/*
 * A tracer's index here is a part of the numbers of its metrics and domains, so it must not
 * change.
 */
static const char *const tracers[] = {"count", "point", "sum", "min", "max", "avg", "hist",
	"latency", "transaction", "observe", "counter"};
enum { TRACERS = sizeof(tracers) / sizeof(tracers[0]) };

/* The same of tags, whose metrics have the names of pmdatrace(1). Numbers continue. */
static const char *const tag_tracers[] = {"transaction", "point", "observe", "counter"};
static const char *const tag_names[] = {"transact", "point", "observe", "counter"};
enum { TAG_TRACERS = sizeof(tag_tracers) / sizeof(tag_tracers[0]) };

/* clang-format off */
static const struct {
	const char *name;
	const char *help;
	unsigned int columns; /* the views that have it (enum probe_column) */
	bool is_counter;
	bool is_value;	      /* a value of the user's, or a time; otherwise a number of hits */
	bool is_per_process;
	bool keyless;	      /* absent from rows by keys */
	double percent;
} quantities[] = {
	[PCP_HITS] = {"hits", "Hits; of pairs, those that have ended", PROBE_COLUMN_COUNT, .is_counter = true},
	[PCP_TOTAL] = {"total", "The sum of all values or times", PROBE_COLUMN_SUM,
		.is_counter = true, .is_value = true},
	[PCP_LEAST] = {"min", "The minimum of the last interval", PROBE_COLUMN_MIN, .is_value = true},
	[PCP_MOST] = {"max", "The maximum of the last interval", PROBE_COLUMN_MAX, .is_value = true},
	[PCP_P50] = {"p50", "The median of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 50},
	[PCP_P90] = {"p90", "The 90th percentile of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 90},
	[PCP_P95] = {"p95", "The 95th percentile of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 95},
	[PCP_P99] = {"p99", "The 99th percentile of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 99},
	[PCP_P999] = {"p999", "The 99.9th percentile of the last interval", PROBE_COLUMN_PERCENTILES,
		.is_value = true, .percent = 99.9},
	[PCP_LAST] = {"value", "The last value", PROBE_COLUMN_LAST, .is_value = true},
	[PCP_IN_FLIGHT] = {"in_flight", "Begun and not yet ended", PROBE_COLUMN_PAIRS, .keyless = true},
	[PCP_UNMATCHED] = {"unmatched", "Ends without a begin", PROBE_COLUMN_PAIRS,
		.is_counter = true, .is_per_process = true},
	[PCP_LOST] = {"lost", "Hits without room for them", ~0u,
		.is_counter = true, .is_per_process = true},
	/* Of tags only. */
	[PCP_RATE] = {"rate", "Hits in a second, in the last interval", 0, .is_counter = false},
	[PCP_AVERAGE] = {"ave_time", "The average time in the last interval", 0, .is_value = true},
};

/* As pmdatrace(1) has them; NULL where it has none. */
static const struct {
	const char *name;
	unsigned int columns;
} tag_quantities[PCP_QUANTITY_COUNT] = {
	[PCP_HITS] = {"count", PROBE_COLUMN_COUNT},
	[PCP_RATE] = {"rate", PROBE_COLUMN_COUNT},
	[PCP_AVERAGE] = {"ave_time", PROBE_COLUMN_AVERAGE},
	[PCP_LEAST] = {"min_time", PROBE_COLUMN_MIN},
	[PCP_MOST] = {"max_time", PROBE_COLUMN_MAX},
	[PCP_TOTAL] = {"total_time", PROBE_COLUMN_SUM},
	[PCP_LAST] = {"value", PROBE_COLUMN_LAST},
	[PCP_UNMATCHED] = {"unmatched", PROBE_COLUMN_PAIRS},
	[PCP_LOST] = {"lost", PROBE_COLUMN_COUNT},
};
/* clang-format on */

_Static_assert((int)PCP_QUANTITY_COUNT <= (int)QUANTITIES_MAX, "a tracer's numbers end there");

static void add_metric(struct pcp_metrics *metrics, const struct probe_view *view,
	enum pcp_quantity quantity, size_t tracer)
{
	struct pcp_metric *metric = &metrics->items[metrics->count];
	bool is_value = quantities[quantity].is_value;
	bool is_counter = quantities[quantity].is_counter ||
			  (quantity == PCP_LAST && view->columns & PROBE_COLUMN_CHANGE);
	bool is_rate = quantity == PCP_RATE, is_each = quantity == PCP_AVERAGE;

	*metric = (struct pcp_metric){
		.item = (int)(tracer * QUANTITIES_MAX + quantity),
		.domain = quantities[quantity].is_per_process ? metrics->process_domain
							      : metrics->row_domain,
		/* They may have fractions; and -1 as an integer would mean "none". */
		.is_double = is_rate || (is_value && (!view->times || view->tags)),
		.is_counter = is_counter,
		.is_time = is_rate || (is_value && view->times),
		.is_count = !is_value || is_each,
		.is_rate = is_rate,
		.is_each = is_each,
	};
	snprintf(metric->name, sizeof(metric->name), "%s.%s.%s", metrics->group, metrics->tracer,
		view->tags ? tag_quantities[quantity].name : quantities[quantity].name);
	snprintf(metric->help, sizeof(metric->help), "%s", quantities[quantity].help);
	metrics->quantity[metrics->count++] = quantity;
}

static bool has_quantity(const struct probe_view *view, size_t key_count, enum pcp_quantity i)
{
	if (view->tags)
		return tag_quantities[i].columns & view->columns;
	return quantities[i].columns & view->columns && !(quantities[i].keyless && key_count);
}

static size_t index_of(const char *const *names, size_t count, const char *name)
{
	size_t i = 0;

	while (i < count && strcmp(names[i], name))
		i++;
	return i;
}

struct probe_error *pcp_metrics_init(
	const struct probe_view *view, size_t key_count, struct pcp_metrics *ret)
{
	size_t count = view->tags ? TAG_TRACERS : TRACERS;
	size_t tracer = index_of(view->tags ? tag_tracers : tracers, count, view->tracer);

	if (tracer == count || (view->tags && !key_count))
		return probe_error_new(
			PROBE_ERROR_USAGE, "tracer '%s' has no metrics", view->tracer);
	ret->group = view->tags ? "trace" : "probectl";
	ret->tracer = view->tags ? tag_names[tracer] : tracers[tracer];
	if (view->tags)
		tracer += TRACERS;
	ret->count = 0;
	ret->row_domain = (int)(2 * tracer + 1);
	ret->process_domain = (int)(2 * tracer + 2);
	for (enum pcp_quantity i = 0; i < PCP_QUANTITY_COUNT; i++)
		if (has_quantity(view, key_count, i))
			add_metric(ret, view, i, tracer);
	return NULL;
}

size_t pcp_metrics_of(const struct pcp_metrics *metrics, int domain)
{
	size_t count = 0;

	for (size_t i = 0; i < metrics->count; i++)
		count += metrics->items[i].domain == domain;
	return count;
}

double pcp_percent(enum pcp_quantity quantity)
{
	return quantities[quantity].percent;
}
#endif
