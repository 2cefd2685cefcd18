/* SPDX-License-Identifier: MIT */
/* The memory that punned sites jump to: a page each, or a place in an arena of ours. */
#ifndef LIBPROBE_PATCH_PUNS_H
#define LIBPROBE_PATCH_PUNS_H

#include "libprobe/patch/install.h"

/*
 * Takes the place that a punned site's bytes jump to, if it can be had: NULL, or why not
 * (static text).
 */
const char *puns_take(struct install *install, uint64_t entry);

/*
 * Takes any place that a jump can lead to whose distance ends with the `fixed` bytes (of 4) that
 * it has for *entry; a near one is preferred.
 */
const char *puns_take_any(struct install *install, unsigned int fixed, uint64_t *entry);

/*
 * Maps the pages that were taken, before anything else that this change maps could come to lie
 * there. *again_ret: one of them is in use meanwhile. Then none is mapped, and the maps are read
 * anew.
 */
PROBE_MUST_CHECK struct probe_error *puns_map(struct install *install, bool *again_ret);

/* Gives back what was taken and mapped, and is not announced. */
void puns_drop(struct install *install);

/* What the registry says of a pun's place. */
void puns_place(
	const struct registry *registry, uint64_t entry, uint64_t *start_ret, uint32_t *size_ret);

/* Tells of the pages in the registry; there is one now. */
PROBE_MUST_CHECK struct probe_error *puns_announce(struct install *install);

/* Writes the jumps to the stubs of new sites. */
PROBE_MUST_CHECK struct probe_error *puns_write(const struct install *install);

#endif
