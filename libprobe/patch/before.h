/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_BEFORE_H
#define LIBPROBE_PATCH_BEFORE_H

#include "libprobe/patch/plan.h"

/*
 * Sets `before` of OCaml's sites among `count` plans, whose other parts are set already, and of
 * those for which no other plan of `order` is possible; see plan_sites(). Errors: those of prove().
 */
PROBE_MUST_CHECK struct probe_error *before_plan(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const enum probe_plan *order, size_t order_count,
	struct plan *plans, size_t count);

#endif
