/* SPDX-License-Identifier: MIT */
/* Which tracers there are. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind *const tracer_builtin[] = {
	&tracer_count,
	&tracer_sum,
	&tracer_min,
	&tracer_max,
	&tracer_avg,
	&tracer_hist,
	&tracer_latency,
	&tracer_transaction,
	&tracer_point,
	&tracer_observe,
	&tracer_counter,
	&tracer_print,
	&tracer_json,
	&tracer_ring,
	&tracer_stack,
	&tracer_pcp,
	NULL,
};

/* A shared object's: it has no name of its own. */
const struct tracer_kind tracer_loaded = {
	.usage = "PATH.so[,OPTIONS]",
	.help = "a tracer of your own (docs/tracers.md)",
	.output = PROBE_TRACER_LOADED,
};
