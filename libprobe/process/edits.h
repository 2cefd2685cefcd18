/* SPDX-License-Identifier: MIT */
/*
 * Changing many places of a target's memory at once, while it stands still.
 *
 *   edits_add()      each place, and what is to be there
 *   edits_prepare()  memory, order and buffers: the last step before the stop
 *   edits_read()     what is there now
 *   (the caller looks at it, and may take single edits back)
 *   edits_write()    all of them, or none
 */
#ifndef LIBPROBE_PROCESS_EDITS_H
#define LIBPROBE_PROCESS_EDITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/error.h"

struct memory_piece;

enum { EDIT_BYTES = 32 };

/* One place. `bytes` are to be there, where is_write; it is only read else. */
struct edit {
	uint64_t address;
	uint8_t length; /* up to EDIT_BYTES */
	bool is_write;
	uint8_t bytes[EDIT_BYTES];
	uint32_t span; /* set by edits_prepare() */
};

/* Places that are read in one piece. */
struct edit_span {
	uint64_t address;
	size_t length, offset; /* in the buffers */
	bool readable;
};

/* Initialise with {0}. */
struct edits {
	struct edit *items; /* in the order in which they were added */
	size_t count;
	uint32_t *order; /* their indices by address, set by edits_prepare() */
	struct edit_span *spans;
	size_t span_count;
	size_t size;		     /* of each buffer */
	uint8_t *before, *after;     /* what was read, and what is written */
	struct memory_piece *pieces; /* the spans, as they are read */
};

/* NULL without memory. The pointer is good until the next one is added. */
struct edit *edits_add(struct edits *edits, uint64_t address, size_t length);

/*
 * Nothing is added any more. Places may not overlap where they are written. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *edits_prepare(struct edits *edits);
void edits_deinit(struct edits *edits);

/* Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION. Places may be unreadable. */
PROBE_MUST_CHECK struct probe_error *edits_read(struct edits *edits, pid_t pid);

/* What edits_read() found at the i-th place; NULL where there is no memory. */
const uint8_t *edits_found(const struct edits *edits, size_t i);

/*
 * Makes the pages that will be written the target's own copies, by writing
 * bytes that are there already: that takes longer than the writing itself.
 */
PROBE_MUST_CHECK struct probe_error *edits_pretouch(const struct edits *edits, int mem);

/*
 * Writes through `mem` (memory_open()); a page at a time, so that a place
 * within one page is written as a whole. An error leaves everything as it was.
 */
PROBE_MUST_CHECK struct probe_error *edits_write(struct edits *edits, int mem);

/* Puts back what edits_read() found. */
void edits_revert(const struct edits *edits, int mem);

#endif
