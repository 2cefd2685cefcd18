/* SPDX-License-Identifier: MIT */
/* Unused bytes in a file's code, near sites that need room for a jump. */
#ifndef LIBPROBE_PATCH_SPARES_H
#define LIBPROBE_PATCH_SPARES_H

#include "libprobe/patch/plan.h"
#include "libprobe/patch/rows.h"

/*
 * Fills in the spares of those of `count` plans whose hop can be moved: link-time addresses where a
 * jump can be written, and which no thread reaches otherwise. `notes` are all notes of the object,
 * `rows` theirs. Errors: those of prove().
 */
PROBE_MUST_CHECK struct probe_error *prove_spares(struct object *object, const struct arch *arch,
	const struct sdt_notes *notes, const struct rows *rows, struct plan *plans, size_t count);

#endif
