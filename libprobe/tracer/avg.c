/* SPDX-License-Identifier: MIT */
/* avg: the arithmetic mean of a value. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_avg = {
	.name = "avg",
	.usage = "avg,EXPR",
	.help = "the average of a value",
	.output = PROBE_TRACER_ROWS,
	.needs_value = true,
	.gather = {.sum = true},
	.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM | PROBE_COLUMN_AVERAGE,
		.order = PROBE_ORDER_AVERAGE},
};
