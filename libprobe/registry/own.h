/* SPDX-License-Identifier: MIT */
/* Tells which memory that controllers have mapped in a target is still ours. */
#ifndef LIBPROBE_REGISTRY_OWN_H
#define LIBPROBE_REGISTRY_OWN_H

#include "libprobe/registry/change.h"

/*
 * Memory to unmap. `inode` says how to recognise it: by the inode of its file, by our name
 * (OWN_NAMED), or as a guard's page (OWN_GUARD). OWN_NEW_GUARD also accepts an unmarked page: its
 * controller may have been killed before it wrote the mark.
 */
#define OWN_NAMED UINT64_MAX
#define OWN_GUARD (UINT64_MAX - 1)
#define OWN_NEW_GUARD (UINT64_MAX - 2)
struct own_extent {
	uint64_t start, size, inode;
	bool follows;	/* it is unmapped with the extent before it, or stays with it */
	bool is_sealed; /* set: the program has sealed some of it, or of what follows, which stays
			 */
};

/*
 * Unmaps the parts of these extents that are ours. All threads stay stopped from the reading of the
 * mappings until the parts are unmapped, so the program cannot map memory of its own there
 * meanwhile. Errors: those of stopping and of change_run().
 */
PROBE_MUST_CHECK struct probe_error *own_unmap(
	struct change *change, struct own_extent *extents, size_t count);

/*
 * Compares the registry (in this process) with the mappings. Code memory that is no longer ours is
 * removed from the arenas. Sessions that need lost memory are retired, because their sites jump
 * there. *lost_ret: something was lost. `mem` may be -1. After an error, the registry may be
 * incomplete. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM; PROBE_ERROR_NOT_FOUND and
 * PROBE_ERROR_STATE: the process has ended or become another program since `maps` was read.
 */
PROBE_MUST_CHECK struct probe_error *own_check(
	pid_t pid, int mem, const struct maps *maps, struct registry *registry, bool *lost_ret);

/* Is all of a session's data mapped, readable and writable? */
bool own_has_data(const struct maps *maps, const struct reg_session *session);

/*
 * Is all memory that a registry lists still ours, except that of retired sessions? Short enough for
 * a stop. `mem` may be -1. Errors: those of maps_read(), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_NOT_FOUND: the process has ended or become another program.
 */
PROBE_MUST_CHECK struct probe_error *own_holds(
	pid_t pid, int mem, const struct registry *registry, bool *ret);

/* Returns how many bytes of ours the program has sealed: arenas, and data without a session. */
uint64_t own_sealed(pid_t pid, const struct maps *maps, const struct registry *registry);

/*
 * Called if there is no registry; the program may have mapped memory of its own over it. Compares
 * modules with their files to find the sites that jump to memory that is or was ours. If there are
 * such sites, or data of ours that leads to no registry, *ret becomes a registry by which all of
 * that can be ended: retired sessions, leftover code, and these sites. Otherwise *ret does not
 * change. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *lost_find(pid_t pid, const struct maps *maps,
	const struct modules *modules, struct registry *ret, bool *lost_ret);

#endif
