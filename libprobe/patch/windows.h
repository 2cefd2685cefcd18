/* SPDX-License-Identifier: MIT */
/* May a patch replace several instructions, although a thread may return between them? */
#ifndef LIBPROBE_PATCH_WINDOWS_H
#define LIBPROBE_PATCH_WINDOWS_H

#include "libprobe/patch/doubts.h"
#include "libprobe/patch/frames.h"
#include "libprobe/patch/search.h"
#include "libprobe/registry/change.h"

/* Initialise with {0}. */
struct windows {
	struct places places; /* where instructions begin within the jumps to come */
	struct frames frames;
	struct search search; /* of its parts: what contexts were found in */
	struct doubts doubts;
	bool looked;
	const char *reason;
};

/*
 * Why no patch of this process may replace more than one instruction: a thread may return between
 * them. NULL: it may. The first call searches the process for memory that holds contexts. The text
 * lives as long as the target.
 */
const char *windows_reason(struct windows *windows, const struct change *change);

/* Instructions that begin in [start, end) will be overwritten; false without memory. */
bool windows_add(struct windows *windows, uint64_t start, uint64_t end);

/* The last step before the stop. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *windows_prepare(
	struct windows *windows, const struct change *change);

/*
 * With all threads stopped: windows->frames has their program counters, and after them the
 * places that threads will return to. Errors: PROBE_ERROR_REFUSED (that is unknown),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *windows_read(
	struct windows *windows, const struct change *change);

/*
 * A thread was in the way: waits a moment with all threads running, or checks whether it really
 * was. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *windows_wait(struct windows *windows);
void windows_close(struct windows *windows);

#endif
