/* SPDX-License-Identifier: MIT */
/*
 * The memory that punned sites jump to: a page each, or a place in an arena of ours. And where
 * short jumps lead to: unused bytes of the program (libprobe/patch/spares.c).
 */
#ifndef LIBPROBE_PATCH_PUNS_H
#define LIBPROBE_PATCH_PUNS_H

#include "libprobe/patch/install.h"

/*
 * Takes a place that a punned site's bytes can jump to, if one is available, preferably a near one.
 * Returns NULL, or why not (static text).
 */
const char *puns_take(struct install *install, struct arch_pun pun, uint64_t *entry_ret);

/* The same for a jump that can lead to each address of an extent. */
const char *puns_take_part(struct install *install, struct arch_extent to, uint64_t *entry_ret);

/* Takes a page that two jumps at an address can lead to. */
const char *puns_take_twin(struct install *install, uint64_t at, struct arch_twin *ret);

/*
 * Maps the pages that were taken, before anything else that this change maps could come to lie
 * there. *again_ret: one of them is in use meanwhile. Then none is mapped, and the maps are read
 * again.
 */
PROBE_MUST_CHECK struct probe_error *puns_map(struct install *install, bool *again_ret);

/* Gives back what was taken and mapped, and is not announced. */
void puns_drop(struct install *install);

/* What the registry says of a pun's place. */
void puns_place(
	const struct registry *registry, uint64_t entry, uint64_t *start_ret, uint32_t *size_ret);

/* Enters the pages into the registry, which exists now. */
PROBE_MUST_CHECK struct probe_error *puns_announce(struct install *install);

/* Writes the jumps to the stubs of new sites, and those of twins to their tails. */
PROBE_MUST_CHECK struct probe_error *puns_write(const struct install *install);

/* What the file has where a site's short jump may lead to; returns how many bytes it has. */
size_t hops_original(
	const struct install *install, const struct install_site *as, uint64_t hop, uint8_t *bytes);

/*
 * Writes the jumps that short jumps of new sites will lead to, once the registry names them. The
 * target runs. PROBE_ERROR_REFUSED where the file's bytes are not there.
 */
PROBE_MUST_CHECK struct probe_error *hops_write(const struct install *install);

/*
 * Writes back what was there, at the flagged sites of the registry: they are restored, and no
 * thread is at their hops. What is not our jump stays.
 */
PROBE_MUST_CHECK struct probe_error *hops_give_back(const struct change *change, const bool *sites);

#endif
