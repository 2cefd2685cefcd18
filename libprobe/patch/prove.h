/* SPDX-License-Identifier: MIT */
/* Whether instructions may be moved: what the whole file proves of single sites. */
#ifndef LIBPROBE_PATCH_PROVE_H
#define LIBPROBE_PATCH_PROVE_H

#include "libprobe/patch/plan.h"

/* A question: may `move` be done at the site of `plan`? move->offset says where the jump begins. */
struct proof {
	const struct plan *plan;
	struct plan_move *move; /* length and reason are the answer */
	uint8_t window;		/* nothing may enter [pc + 1, pc + window) */
	/* At least this many bytes are moved; 0: nothing is (spares.c, rows.c). */
	uint8_t need;
	uint64_t inside; /* set by prove(): offsets from pc that are inside an instruction */
	uint8_t margin;	 /* this many bytes before pc must not belong to another site either */
};

/*
 * Answers `count` questions; their order changes. `notes` are all notes of the object: sites of
 * other probes must not be moved either. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *prove(struct object *object, const struct arch *arch,
	const struct sdt_notes *notes, struct proof *proofs, size_t count);

#endif
