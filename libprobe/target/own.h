/* SPDX-License-Identifier: MIT */
/* Which of the memory that controllers have mapped in a target is still ours. */
#ifndef LIBPROBE_TARGET_OWN_H
#define LIBPROBE_TARGET_OWN_H

#include "libprobe/target/change.h"

/*
 * Memory to unmap: of the file with this inode; or OWN_NAMED: of any file with our name; or
 * OWN_GUARD: the page of a guard; or OWN_NEW_GUARD: the same, perhaps of a controller that was
 * killed before it had marked the page.
 */
#define OWN_NAMED UINT64_MAX
#define OWN_GUARD (UINT64_MAX - 1)
#define OWN_NEW_GUARD (UINT64_MAX - 2)
struct own_extent {
	uint64_t start, size, inode;
	bool follows;	/* it goes with the extent before it, or stays with that */
	bool is_sealed; /* set: the program has sealed some of it, or of what follows, which stays
			 */
};

/*
 * Unmaps the parts of these extents that are ours. All threads are stopped while the mappings are
 * read and the parts are unmapped, so that nothing of the program's is unmapped, whatever it maps.
 * Errors: those of stopping and of change_run().
 */
PROBE_MUST_CHECK struct probe_error *own_unmap(
	struct change *change, struct own_extent *extents, size_t count);

/*
 * Compares the registry (in this process) with the mappings. Code memory that is not ours any more
 * is removed from the arenas. Sessions that need something that was lost are retired:
 * their sites jump there. *lost_ret: something was lost. `mem` may be -1. After an error, the
 * registry may be incomplete. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *own_check(
	pid_t pid, int mem, const struct maps *maps, struct registry *registry, bool *lost_ret);

/* Is all of a session's data mapped, and as its stubs need it? */
bool own_has_data(const struct maps *maps, const struct reg_session *session);

/*
 * Is all memory still ours that a registry lists, except that of retired sessions? Short enough for
 * a stop. `mem` may be -1. Errors: those of maps_read(), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *own_holds(
	pid_t pid, int mem, const struct registry *registry, bool *ret);

/* How much of it the program has sealed, in bytes: arenas, and data without a session. */
uint64_t own_sealed(pid_t pid, const struct maps *maps, const struct registry *registry);

/*
 * Where there is no registry any more, because the program has mapped memory of its own over it:
 * finds the sites that jump to memory that is or was ours, by comparing modules with their files.
 * If there are any, or data of ours that leads to no registry, *ret becomes a registry that ends
 * all of that: retired sessions, leftover code, and these sites. Otherwise it stays as it is.
 * Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *lost_find(pid_t pid, const struct maps *maps,
	const struct modules *modules, struct registry *ret, bool *lost_ret);

#endif
