/* SPDX-License-Identifier: MIT */
/* Copies of sessions in processes that were forked, and to which no parent leads any more. */
#ifndef LIBPROBE_PATCH_INHERITED_H
#define LIBPROBE_PATCH_INHERITED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/target.h"

/*
 * A session of this process goes on from here, and *goes_on_ret says so. To be called before it
 * changes its target, which is `pid`. Thread-safe, as all of these.
 */
void inherited_begin(pid_t pid, bool *goes_on_ret);
/* What a process has in common with all that it forks, until they execute a program; 0: unknown. */
uint64_t inherited_image(pid_t pid);
/* How many processes have each of `count` images, except those that have ended: in ret[count]. */
void inherited_count(const uint64_t *images, size_t count, size_t *ret);
/*
 * It goes on no longer: it has been stopped; or could not be, in `failed` (0: it has been). After
 * the last one, its copies and those of the others are removed; `report` gets a note about each
 * other process that keeps them. Errors: PROBE_ERROR_MEMORY, for a note.
 */
PROBE_MUST_CHECK struct probe_error *inherited_end(
	bool *goes_on, pid_t failed, struct probe_report *report);
/* The same for one that failed, is left to its target, or is freed as it is. Removes nothing. */
void inherited_forget(bool *goes_on);

/*
 * Removes the copies in one process to which nothing has been added since it was forked. Errors:
 * those of a change.
 */
PROBE_MUST_CHECK struct probe_error *inherited_remove(struct probe_target *target);

#endif
