/* SPDX-License-Identifier: MIT */
/* Where the stopped threads of a target are, and where they will return to from signal handlers. */
#ifndef LIBPROBE_FRAMES_H
#define LIBPROBE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/control.h"
#include "libprobe/maps.h"

/* Program counters; the first control->count are the threads' own. Give back with free(). */
struct frames {
	uint64_t *pcs;
	size_t count;
};

/*
 * Collects the program counter of every stopped thread and those that signal
 * handlers interrupted, which are in frames on the threads' stacks.
 */
PROBE_MUST_CHECK struct probe_error *frames_read(const struct control *control,
	const struct maps *maps, const struct control_gadgets *gadgets, struct frames *ret);
void frames_deinit(struct frames *frames);

/* Is any of them in [start, end)? */
bool frames_within(const struct frames *frames, size_t first, uint64_t start, uint64_t end);

#endif
