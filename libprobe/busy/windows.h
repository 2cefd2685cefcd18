/* SPDX-License-Identifier: MIT */
/* May instructions be overwritten that somebody may come back between? */
#ifndef LIBPROBE_BUSY_WINDOWS_H
#define LIBPROBE_BUSY_WINDOWS_H

#include "libprobe/busy/doubts.h"
#include "libprobe/busy/frames.h"
#include "libprobe/busy/search.h"
#include "libprobe/target/change.h"

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
 * Why no instruction of this process may be overwritten whose place others take, that is:
 * between which somebody may come back; NULL: it may. The first time, the process is searched
 * for memory that holds contexts. The text lives as long as the target.
 */
const char *windows_reason(struct windows *windows, const struct change *change);

/* Instructions that begin in [start, end) are to be overwritten; false without memory. */
bool windows_add(struct windows *windows, uint64_t start, uint64_t end);

/* The last step before the stop. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *windows_prepare(
	struct windows *windows, const struct change *change);

/*
 * With all threads stopped: windows->frames has their program counters, and behind them the
 * places that somebody will come back to. Errors: PROBE_ERROR_REFUSED (that cannot be
 * known), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *windows_read(
	struct windows *windows, const struct change *change);

/*
 * Somebody was in the way: waits a moment, with all threads running, or finds out whether it
 * was so. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *windows_wait(struct windows *windows);
void windows_close(struct windows *windows);

#endif
