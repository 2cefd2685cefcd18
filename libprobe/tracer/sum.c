/* SPDX-License-Identifier: MIT */
/* sum: a value added up. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_sum = {
	.name = "sum",
	.usage = "sum,EXPR",
	.help = "the sum of a value",
	.output = PROBE_TRACER_ROWS,
	.needs_value = true,
	.gather = {.sum = true},
	.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM, .order = PROBE_ORDER_SUM},
};
