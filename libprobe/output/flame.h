/* SPDX-License-Identifier: MIT */
/* Flame graphs: stacks, drawn as a picture (SVG). */
#ifndef LIBPROBE_OUTPUT_FLAME_H
#define LIBPROBE_OUTPUT_FLAME_H

#include "libprobe/base/buffer.h"

struct flame_stack {
	const char *text; /* frames from the outermost on, divided by semicolons; no controls */
	uint64_t weight;
};

/* What weights are. Times are in nanoseconds. */
enum flame_unit { FLAME_HITS, FLAME_TIME, FLAME_BYTES };

/*
 * Draws stacks, which are sorted for it. `out` is of buffer_init(); it has no_memory set if
 * memory ran out.
 */
void flame_graph(
	struct buffer *out, struct flame_stack *stacks, size_t count, enum flame_unit unit);

#endif
