/* SPDX-License-Identifier: MIT */
/* count: hits. Without keys the cheapest session there is; with keys, a row for each. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_count = {
	.name = "count",
	.usage = "count",
	.help = "how often each probe was hit",
	.output = PROBE_TRACER_ROWS,
	.view = {.columns = PROBE_COLUMN_COUNT, .order = PROBE_ORDER_COUNT},
};
