/* SPDX-License-Identifier: MIT */
/* Controllers that change the same process take turns. */
#ifndef LIBPROBE_TARGET_LOCK_H
#define LIBPROBE_TARGET_LOCK_H

#include "probe/target.h"

/* The open files that the lock consists of; -1 for a file that is not open. */
struct target_lock {
	int ours, theirs;
};

/*
 * Takes the lock, and waits for a process that holds it; see probe_target_on_wait() and
 * probe_target_set_patience(). Errors: PROBE_ERROR_BUSY (another process has held it for too long),
 * PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_PERMISSION, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *lock_target(
	struct probe_target *target, struct target_lock *ret);
void lock_release(struct target_lock *lock);

/* Is a controller changing the process? Returns false if the caller may not take the lock. */
bool lock_is_taken(pid_t pid);

#endif
