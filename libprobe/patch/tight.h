/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_TIGHT_H
#define LIBPROBE_PATCH_TIGHT_H

#include "libprobe/patch/plan.h"
#include "libprobe/patch/rows.h"

/*
 * Sets `twin` and `part`, as far as `order` has them, of those among `count` plans whose other
 * parts allow none of it; see plan_sites(). `rows` are those of `all`. Errors: those of prove().
 */
PROBE_MUST_CHECK struct probe_error *tight_plan(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const struct rows *rows, const enum probe_plan *order,
	size_t order_count, struct plan *plans, size_t count);

#endif
