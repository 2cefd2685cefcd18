/* SPDX-License-Identifier: MIT */
/* json: a record of each hit, as JSON (libprobe/sink/json.c). */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_json = {
	.name = "json",
	.usage = "json",
	.help = "the same as JSON, one object a line",
	.output = PROBE_TRACER_HITS_JSON,
};
