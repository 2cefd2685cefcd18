/* SPDX-License-Identifier: MIT */
/* Flame graphs: stacks, drawn as a picture (SVG). */
#ifndef LIBPROBE_OUTPUT_FLAME_H
#define LIBPROBE_OUTPUT_FLAME_H

#include "libprobe/base/buffer.h"

struct flame_stack {
	const char *text; /* frames from the outermost on, divided by semicolons; no controls */
	uint64_t weight;
};

/*
 * Draws stacks, which are sorted for it. Weights are times in nanoseconds, or else hits. `out` is
 * of buffer_init(); it has no_memory set if memory ran out.
 */
void flame_graph(struct buffer *out, struct flame_stack *stacks, size_t count, bool is_time);

#endif
