/* SPDX-License-Identifier: MIT */
/* Reference counts as they were, for a change that fails: it leaves them as it found them. */
#ifndef LIBPROBE_PATCH_COUNTS_H
#define LIBPROBE_PATCH_COUNTS_H

#include "libprobe/target/change.h"

/* Copies of the registry's own arrays. */
struct counts {
	struct reg_probe *probes;
	struct reg_semaphore *semaphores;
	size_t probe_count, semaphore_count;
};

/* Keeps what the registry says. Only counts_deinit() is due after an error. */
PROBE_MUST_CHECK struct probe_error *counts_keep(
	const struct registry *registry, struct counts *ret);
void counts_deinit(struct counts *counts);

/*
 * Puts back the counts of the sessions that there were, and their semaphores where these were
 * `written` as the registry of `change` now has them. No site may have been changed. The
 * registry is read anew; nothing is stopped. What fails here is finished by the next change.
 */
void counts_put_back(const struct counts *counts, struct change *change, bool written);

#endif
