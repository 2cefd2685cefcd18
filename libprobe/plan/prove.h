/* SPDX-License-Identifier: MIT */
/* Whether instructions may be moved: what the whole file proves of single sites. */
#ifndef LIBPROBE_PLAN_PROVE_H
#define LIBPROBE_PLAN_PROVE_H

#include "libprobe/plan/plan.h"

/* A question: may `move` be done at the site of `plan`? move->offset says where the jump begins. */
struct proof {
	const struct plan *plan;
	struct plan_move *move; /* length and reason are the answer */
};

/*
 * Answers `count` questions; their order changes. Nothing may enter [pc + 1, pc + offset +
 * length of a jump). `notes` are all of the object: another one's site may not be moved
 * either. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *prove(struct object *object, const struct arch *arch,
	const struct sdt_notes *notes, struct proof *proofs, size_t count);

#endif
