/* SPDX-License-Identifier: MIT */
/* min: the smallest value. The stub keeps both extremes. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_min = {
	.name = "min",
	.usage = "min,EXPR",
	.help = "the smallest value",
	.output = PROBE_TRACER_ROWS,
	.needs_value = true,
	.gather = {.extremes = true},
	.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_MIN, .order = PROBE_ORDER_MIN},
};
