/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_REGISTRY_ORPHANS_H
#define LIBPROBE_REGISTRY_ORPHANS_H

#include "libprobe/registry/change.h"

/* What controllers left if they were killed before the registry listed it. */
struct orphans {
	size_t mappings, descriptors;
};

/*
 * Counts the orphans of a process whose registry and maps these are. While a
 * change of it is under way, its memory may look like one: see lock_is_taken().
 */
void orphans_count(
	pid_t pid, const struct maps *maps, const struct registry *registry, struct orphans *ret);

/*
 * Unmaps and closes them; *ret is set. To be called before a change has mapped or
 * unmapped anything, or with maps that were read again. Errors: those of
 * change_run().
 */
PROBE_MUST_CHECK struct probe_error *orphans_remove(struct change *change, struct orphans *ret);

/*
 * Unmaps them only, and counts them. To be called before the home goes as well: data is recognised
 * by leading there.
 */
PROBE_MUST_CHECK struct probe_error *orphans_unmap(struct change *change, size_t *count_ret);

#endif
