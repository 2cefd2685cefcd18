/* SPDX-License-Identifier: MIT */
/* Notes of sections and segments (gABI, "Note Section"). */
#ifndef ELF_NOTES_H
#define ELF_NOTES_H

#include "elf/internal.h"

struct note_range {
	uint64_t offset, size; /* as the header states them; not checked against the file */
	uint64_t align;	       /* alignment of the section or segment */
	bool compressed;
};

struct note_ranges {
	struct note_range *ranges; /* the caller frees them */
	size_t count;
};

/* Finds every SHT_NOTE section. */
PROBE_MUST_CHECK struct probe_error *note_ranges_of_sections(
	const struct object *object, struct note_ranges *ret);
/* Finds every PT_NOTE segment. */
PROBE_MUST_CHECK struct probe_error *note_ranges_of_segments(
	const struct object *object, struct note_ranges *ret);

struct note {
	size_t at; /* offset of the note's header in the cursor's data */
	uint32_t type;
	const char *name;
	size_t name_size;
	const uint8_t *desc;
	size_t desc_size;
};

enum note_status {
	NOTE_OK,
	NOTE_END,
	NOTE_CUT,      /* fewer bytes than a header are left */
	NOTE_TOO_LARGE /* the note's sizes reach past the end of the data */
};

/*
 * Reads a note and advances the cursor, unless it fails. `align` is the section's: notes are padded
 * to 8 bytes if it is 8, otherwise to 4.
 */
enum note_status note_next(struct bytes *bytes, uint64_t align, struct note *ret);

#endif
