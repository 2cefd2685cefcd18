/* SPDX-License-Identifier: MIT */
/* hist: the distribution of a value: exact count, sum and extremes, buckets within 3 %. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_hist = {
	.name = "hist",
	.usage = "hist,EXPR",
	.help = "a histogram of a value, and its percentiles",
	.output = PROBE_TRACER_ROWS,
	.needs_value = true,
	.gather = {.sum = true, .extremes = true, .histogram = true},
	.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM | PROBE_COLUMN_MIN |
			    PROBE_COLUMN_AVERAGE | PROBE_COLUMN_PERCENTILES | PROBE_COLUMN_MAX |
			    PROBE_COLUMN_BUCKETS,
		.chart = true,
		.order = PROBE_ORDER_COUNT},
};
