/* SPDX-License-Identifier: MIT */
/* latency: the time from a begin to its end; keys are ordered by all the time they took. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_latency = {
	.name = "latency",
	.usage = "latency",
	.help = "the time between two probes: a histogram, percentiles, how many are in flight",
	.output = PROBE_TRACER_ROWS,
	.has_pairs = true,
	.pairing = PROBE_PAIRING_LISTED,
	.gather = {.sum = true, .extremes = true, .histogram = true},
	.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM | PROBE_COLUMN_MIN |
			    PROBE_COLUMN_AVERAGE | PROBE_COLUMN_PERCENTILES | PROBE_COLUMN_MAX |
			    PROBE_COLUMN_BUCKETS | PROBE_COLUMN_PAIRS,
		.chart = true,
		.times = true,
		.order = PROBE_ORDER_SUM},
};
