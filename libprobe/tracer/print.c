/* SPDX-License-Identifier: MIT */
/* print: a record of each hit, as a line of text (libprobe/sink/text.c). */
#include "libprobe/tracer/tracer.h"

const struct tracer_kind tracer_print = {
	.name = "print",
	.usage = "print",
	.help = "each hit with its time, thread and arguments; what `trace` does without -t",
	.output = PROBE_TRACER_HITS,
};
