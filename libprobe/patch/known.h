/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_KNOWN_H
#define LIBPROBE_PATCH_KNOWN_H

#include "libprobe/process/files.h"
#include "libprobe/patch/plan.h"

/* plan_sites() for notes of a file whose notes have been read; results are cached in the file. */
PROBE_MUST_CHECK struct probe_error *file_plan_sites(struct file *file,
	const struct sdt_note *const *notes, size_t count, const enum probe_plan *order,
	size_t order_count, struct plan *ret);

#endif
