/* SPDX-License-Identifier: MIT */
/* observe: the last value, as PCP's pmtraceobs(3) has it. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_observe = {
	.name = "observe",
	.usage = "observe,EXPR",
	.help = "the last value, and when it was",
	.output = PROBE_TRACER_ROWS,
	.needs_value = true,
	.gather = {.last = true},
	.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_LAST | PROBE_COLUMN_TIME,
		.order = PROBE_ORDER_LAST},
};
