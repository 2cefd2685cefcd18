/* SPDX-License-Identifier: MIT */
/* max: the largest value. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_max = {
	.name = "max",
	.usage = "max,EXPR",
	.help = "the largest value",
	.output = PROBE_TRACER_ROWS,
	.needs_value = true,
	.gather = {.extremes = true},
	.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_MAX, .order = PROBE_ORDER_MAX},
};
