/* SPDX-License-Identifier: MIT */
/*
 * Rows of short nops, each of which is a site: they share the jump after the last one, so all but
 * the last need a proof only that nothing enters right after their own nop.
 */
#ifndef LIBPROBE_PATCH_ROWS_H
#define LIBPROBE_PATCH_ROWS_H

#include "libprobe/patch/plan.h"

struct row_site {
	uint64_t pc;
	const struct sdt_note *note; /* borrowed */
	bool is_plain;		     /* neither a function's entry nor OCaml's */
	size_t last;		     /* index of the last of its row; most often its own */
	size_t planned;		     /* of a last one: in rows.notes; SIZE_MAX: it is not there */
	const char *cannot;	     /* why it cannot use the jump of the last; NULL: it can */
	uint16_t lead;		     /* how far before it the first begins that can if it can */
};

/* A site by its address. */
struct row_note {
	uint64_t pc;
	const struct sdt_note *note; /* borrowed */
};

struct rows {
	struct row_note *all; /* all notes, sorted; several may have one address */
	size_t all_count;
	struct row_site *sites; /* of all notes, one for each address, sorted */
	size_t count;
	/* What to plan: notes that were asked for; for sites in a row the last of it, once. */
	const struct sdt_note **notes;
	size_t note_count;
	size_t *planned; /* of each note that was asked for: in `notes` */
};

/*
 * Finds the rows among `all`, and what is to be planned for `count` notes. Release it with
 * rows_deinit(), on error, too. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *rows_init(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const struct sdt_note *const *notes, size_t count,
	struct rows *ret);
void rows_deinit(struct rows *rows);

/* The index in rows->all of the first note at `pc` or after it. */
size_t rows_first(const struct rows *rows, uint64_t pc);

/* Is one of `length` bytes from an address on that of a site? */
bool rows_have_site(const struct rows *rows, uint64_t start, size_t length);

/* Does another site of its row follow an address? */
bool rows_have_next(const struct rows *rows, uint64_t pc);

/* Proves what the rows need of which something is planned. Errors: those of prove(). */
PROBE_MUST_CHECK struct probe_error *rows_prove(struct rows *rows, struct object *object,
	const struct arch *arch, const struct sdt_notes *all);

/* Makes the plan of a note that was asked for, number `i`, from the plans of rows->notes. */
struct plan rows_plan(
	const struct rows *rows, const struct plan *planned, const struct sdt_note *note, size_t i);

#endif
