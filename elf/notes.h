/* SPDX-License-Identifier: MIT */
/* Finds note sections and segments, and reads the notes in them (gABI, "Note Section"). */
#ifndef ELF_NOTES_H
#define ELF_NOTES_H

#include "elf/internal.h"

/* Bytes of the file that hold notes. */
struct note_range {
	uint64_t offset, size; /* from the header; not checked against the file */
	uint64_t align;	       /* of the section or segment */
	bool compressed;
};

struct note_ranges {
	struct note_range *ranges; /* the caller frees them */
	size_t count;
};

/* Every SHT_NOTE section. */
PROBE_MUST_CHECK struct probe_error *note_ranges_of_sections(
	const struct object *object, struct note_ranges *ret);
/* Every PT_NOTE segment. */
PROBE_MUST_CHECK struct probe_error *note_ranges_of_segments(
	const struct object *object, struct note_ranges *ret);

struct note {
	size_t at; /* offset of its header in the reader */
	uint32_t type;
	const char *name;
	size_t name_size;
	const uint8_t *desc;
	size_t desc_size;
};

enum note_status {
	NOTE_OK,
	NOTE_END,
	NOTE_CUT,      /* fewer bytes are left than a header has */
	NOTE_TOO_LARGE /* its sizes reach past the end */
};

/*
 * Reads the note at the cursor and advances the cursor. `align` is the section's: 8 means 8,
 * anything else 4. After a failure the cursor is unchanged.
 */
enum note_status note_next(struct bytes *bytes, uint64_t align, struct note *ret);

#endif
