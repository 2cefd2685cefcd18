/* SPDX-License-Identifier: MIT */
/* The metrics of each tracer. */
#include "libprobe/output/output.h"

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
/* As pmdatrace(1) has them; NULL where it has none. */
static const struct {
	const char *name;
	unsigned int columns;
} tag_quantities[METRIC_QUANTITY_COUNT] = {
	[METRIC_HITS] = {"count", PROBE_COLUMN_COUNT},
	[METRIC_RATE] = {"rate", PROBE_COLUMN_COUNT},
	[METRIC_AVERAGE] = {"ave_time", PROBE_COLUMN_AVERAGE},
	[METRIC_LEAST] = {"min_time", PROBE_COLUMN_MIN},
	[METRIC_MOST] = {"max_time", PROBE_COLUMN_MAX},
	[METRIC_TOTAL] = {"total_time", PROBE_COLUMN_SUM},
	[METRIC_LAST] = {"value", PROBE_COLUMN_LAST},
	[METRIC_UNMATCHED] = {"unmatched", PROBE_COLUMN_PAIRS},
	[METRIC_LOST] = {"lost", PROBE_COLUMN_COUNT},
};
/* clang-format on */

_Static_assert((int)METRIC_QUANTITY_COUNT <= (int)QUANTITIES_MAX, "a tracer's numbers end there");

static void add_metric(struct pcp_metrics *metrics, const struct probe_view *view,
	enum metric_quantity quantity, size_t tracer)
{
	struct pcp_metric *metric = &metrics->items[metrics->count];
	bool is_value = metric_infos[quantity].is_value;
	bool is_rate = quantity == METRIC_RATE, is_each = quantity == METRIC_AVERAGE;

	*metric = (struct pcp_metric){
		.item = (int)(tracer * QUANTITIES_MAX + quantity),
		.domain = metric_infos[quantity].is_per_process ? metrics->process_domain
								: metrics->row_domain,
		/* They may have fractions; and -1 as an integer would mean "none". */
		.is_double = is_rate || (is_value && (!view->times || view->tags)),
		.is_counter = metric_is_counter(view, quantity),
		.is_time = is_rate || (is_value && view->times),
		.is_count = !is_value || is_each,
		.is_rate = is_rate,
		.is_each = is_each,
	};
	snprintf(metric->name, sizeof(metric->name), "%s.%s.%s", metrics->group, metrics->tracer,
		view->tags ? tag_quantities[quantity].name : metric_infos[quantity].name);
	snprintf(metric->help, sizeof(metric->help), "%s", metric_infos[quantity].help);
	metrics->quantity[metrics->count++] = quantity;
}

static bool has_quantity(const struct probe_view *view, size_t key_count, enum metric_quantity i)
{
	if (view->tags)
		return tag_quantities[i].columns & view->columns;
	return metric_has(view, key_count, i);
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
	for (enum metric_quantity i = 0; i < METRIC_QUANTITY_COUNT; i++)
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
#endif
