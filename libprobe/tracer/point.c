/* SPDX-License-Identifier: MIT */
/* point: passes of a point, as PCP's pmtrace(1) has them: their number and rate. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_point = {
	.name = "point",
	.usage = "point",
	.help = "passes: how often, and how often a second",
	.output = PROBE_TRACER_ROWS,
	.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_RATE, .order = PROBE_ORDER_COUNT},
};
