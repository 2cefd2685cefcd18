/* SPDX-License-Identifier: MIT */
/*
 * transaction: one begin and several ends, as PCP's pmtracebegin(3), pmtraceend and
 * pmtraceabort have them. What an end means is in its name (probe_name_aborts()).
 */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_transaction = {
	.name = "transaction",
	.usage = "transaction",
	.help = "the same of what ends well or badly: done or aborted",
	.output = PROBE_TRACER_ROWS,
	.has_pairs = true,
	.pairing = PROBE_PAIRING_ONE,
	.gather = {.sum = true, .extremes = true, .histogram = true},
	.view = {.columns = PROBE_COLUMN_OUTCOME | PROBE_COLUMN_RATE | PROBE_COLUMN_COUNT |
			    PROBE_COLUMN_SUM | PROBE_COLUMN_MIN | PROBE_COLUMN_AVERAGE |
			    PROBE_COLUMN_PERCENTILES | PROBE_COLUMN_MAX | PROBE_COLUMN_BUCKETS |
			    PROBE_COLUMN_PAIRS,
		.times = true,
		.order = PROBE_ORDER_COUNT},
};
