/* SPDX-License-Identifier: MIT */
/*
 * Changes many places of a target's memory at once while it is stopped.
 *
 *   edits_add()      a place, and its new contents
 *   edits_prepare()  memory, order and buffers: the last step before the stop
 *   edits_read()     the current contents
 *   (the caller examines them, and may withdraw single edits)
 *   edits_write()    writes all of them, or none
 */
#ifndef LIBPROBE_PROCESS_EDITS_H
#define LIBPROBE_PROCESS_EDITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

struct memory_piece;

enum { EDIT_BYTES = 32 };

/* One place. If is_write, `bytes` are written there; otherwise it is only read. */
struct edit {
	uint64_t address;
	uint16_t length; /* up to EDIT_BYTES, if it is written */
	bool is_write;
	bool is_private; /* its page is the process's own already: see edits_pretouch() */
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
	struct edit *items; /* in the order of edits_add() */
	size_t count;
	uint32_t *order; /* indices by address, set by edits_prepare() */
	struct edit_span *spans;
	size_t span_count;
	size_t size;		     /* of each buffer */
	uint8_t *before, *after;     /* what was read, and what is written */
	struct memory_piece *pieces; /* the spans, for reading */
	uint8_t *noted;		     /* see edits_note(); NULL: nothing */
};

/* NULL without memory. The pointer is valid until the next call. */
struct edit *edits_add(struct edits *edits, uint64_t address, size_t length);

/*
 * Call it after the last edits_add(). Places that are written must not overlap. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *edits_prepare(struct edits *edits);
void edits_deinit(struct edits *edits);

/*
 * Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION; PROBE_ERROR_STATE (userfaultfd(2) protects
 * a page to be written). Single places may be unreadable.
 */
PROBE_MUST_CHECK struct probe_error *edits_read(struct edits *edits, pid_t pid);

/* What edits_read() found at the i-th place; NULL if it is not mapped. */
const uint8_t *edits_found(const struct edits *edits, size_t i);

/*
 * Notes what edits_read() has found, for edits_are_as_noted(): does the last edits_read() find the
 * same, everywhere? Then the caller need not examine it again. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *edits_note(struct edits *edits);
bool edits_are_as_noted(const struct edits *edits);

/*
 * Makes the pages to be written private copies by writing back their own bytes, because copying
 * takes longer than the actual writes.
 */
PROBE_MUST_CHECK struct probe_error *edits_pretouch(const struct edits *edits, int mem);

/*
 * Writes through `mem` (memory_open()), one page at a time, so a place within one page is
 * written completely or not at all. On an error everything is as before.
 */
PROBE_MUST_CHECK struct probe_error *edits_write(struct edits *edits, int mem);

/* Restores what edits_read() found. */
void edits_revert(const struct edits *edits, int mem);

#endif
