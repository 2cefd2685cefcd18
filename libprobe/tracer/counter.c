/* SPDX-License-Identifier: MIT */
/*
 * counter: a value that only grows, as PCP's pmtracecounter(3) has it. What it was
 * at first is its smallest value.
 */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_counter = {
	.name = "counter",
	.usage = "counter,EXPR",
	.help = "a counter that only grows: its last value and its growth a second",
	.output = PROBE_TRACER_ROWS,
	.needs_value = true,
	.gather = {.last = true, .extremes = true},
	.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_LAST | PROBE_COLUMN_CHANGE,
		.order = PROBE_ORDER_LAST},
};
