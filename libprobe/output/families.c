/* SPDX-License-Identifier: MIT */
/*
 * Families of metrics: probectl_TRACER_QUANTITY[_UNIT], or pmtrace_TRACER_... of tags. Times are in
 * seconds, as Prometheus's base units are.
 */
#include <stdio.h>
#include <string.h>

#include "libprobe/output/output.h"

const struct metric_family metric_left_out = {.name = "probectl_rows_left_out",
	.help = "Rows without room, which are in no metric",
	.kind = METRIC_GAUGE};

static bool is_in_histogram(enum metric_quantity quantity)
{
	return quantity == METRIC_HITS || quantity == METRIC_TOTAL ||
	       metric_infos[quantity].percent > 0;
}

/* A sum of values that may be negative is no counter for Prometheus, which would see resets. */
static enum metric_kind kind_of(const struct probe_view *view, enum metric_quantity quantity)
{
	if (quantity == METRIC_TOTAL && !view->times)
		return METRIC_GAUGE;
	return metric_is_counter(view, quantity) ? METRIC_COUNTER : METRIC_GAUGE;
}

static void add_family(const struct probe_view *view, const char *what, const char *help,
	bool is_value, struct metric_family *ret)
{
	/* Names with a type's in them are bad style: `promtool check metrics`. */
	const char *tracer = strcmp(view->tracer, "counter") ? view->tracer : "tally";

	ret->help = help;
	ret->unit = is_value && view->times ? "seconds" : NULL;
	snprintf(ret->name, sizeof(ret->name), "%s_%s%s%s%s%s", view->tags ? "pmtrace" : "probectl",
		tracer, *what ? "_" : "", what, ret->unit ? "_" : "", ret->unit ? ret->unit : "");
}

size_t metric_families(const struct probe_view *view, size_t key_count,
	struct metric_family ret[METRIC_QUANTITY_COUNT])
{
	bool has_histogram = (view->columns & PROBE_COLUMN_BUCKETS) != 0;
	size_t count = 0;

	if (has_histogram) {
		ret[count] =
			(struct metric_family){.kind = METRIC_HISTOGRAM, .quantity = METRIC_TOTAL};
		add_family(view, view->times ? "" : "value",
			view->times ? "Times from begins to ends" : "Values", true, &ret[count++]);
	}
	for (enum metric_quantity i = 0; i < METRIC_QUANTITY_COUNT; i++) {
		const struct metric_info *info = &metric_infos[i];

		if (!metric_has(view, key_count, i) || (has_histogram && is_in_histogram(i)))
			continue;
		ret[count] = (struct metric_family){.kind = kind_of(view, i), .quantity = i};
		/* "total" is what each counter is called. */
		add_family(view, i == METRIC_TOTAL ? "values" : info->name, info->help,
			info->is_value, &ret[count++]);
	}
	return count;
}

double metric_in_unit(const struct metric_family *family, long double value)
{
	return (double)(family->unit ? value / 1e9L : value);
}
