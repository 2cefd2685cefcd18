/* SPDX-License-Identifier: MIT */
/* Where the stopped threads of a target are, and where they will return to from signal handlers. */
#ifndef LIBPROBE_FRAMES_H
#define LIBPROBE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/control.h"
#include "libprobe/maps.h"

/*
 * Program counters; the first control->count are the threads' own, until they
 * are sorted. Everything else is prepared before the stop by frames_open().
 */
struct frames {
	uint64_t *pcs;
	size_t count, room;
	pid_t pid;
	const struct maps *maps;
	const struct control_gadgets *gadgets;
	int status;	   /* of /proc/PID/status */
	bool has_handlers; /* a signal handler was installed when it was opened */
	uint8_t *buffer;
};

/* `maps` and `gadgets` are borrowed. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *frames_open(pid_t pid, const struct maps *maps,
	const struct control_gadgets *gadgets, struct frames *ret);

/*
 * Collects the program counter of every stopped thread and those that signal
 * handlers interrupted, which are in frames on the threads' stacks. What was
 * collected before is forgotten. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_read(
	struct frames *frames, const struct control *control);
void frames_close(struct frames *frames);

/* Sorts what was collected, for frames_within(). */
void frames_sort(struct frames *frames);

/* Is any of them, sorted, in [start, end)? */
bool frames_within(const struct frames *frames, uint64_t start, uint64_t end);

#endif
