/* SPDX-License-Identifier: MIT */
/* ring: records that overwrite the oldest, and are read when somebody asks. */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_ring = {
	.name = "ring",
	.usage = "ring",
	.help = "a flight recorder: the last hits, printed at the end, at SIGUSR1, or after a "
		"crash",
	.output = PROBE_TRACER_FLIGHT,
};
