/* SPDX-License-Identifier: MIT */
/* Controllers that change the same process take turns. */
#ifndef LIBPROBE_REGISTRY_LOCK_H
#define LIBPROBE_REGISTRY_LOCK_H

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

/*
 * Notes that the target is one of those that share its patience. Among processes of several users,
 * those of users other than ours are waited for only a moment: they delay the others.
 */
void patience_join(const struct probe_target *target);
/*
 * How long a change waits for threads that cannot stop. `may_fail`: nothing in the target is
 * written yet, and the change can be repeated.
 */
uint64_t patience_for_threads(const struct probe_target *target, bool may_fail);
/* After such a wait: the error, which remains PROBE_ERROR_BUSY if the change is to be repeated. */
PROBE_MUST_CHECK struct probe_error *patience_after(const struct probe_target *target,
	bool may_fail, uint64_t begun_ns, struct probe_error *error);

/* Is a controller changing the process? Returns false if the caller may not take the lock. */
bool lock_is_taken(pid_t pid);

#endif
