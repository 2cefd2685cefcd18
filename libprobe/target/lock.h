/* SPDX-License-Identifier: MIT */
/* Controllers that change the same process take turns. */
#ifndef LIBPROBE_TARGET_LOCK_H
#define LIBPROBE_TARGET_LOCK_H

#include "probe/target.h"

/*
 * Waits for other controllers; see probe_target_on_wait(). *fd_ret is to be closed; the lock lasts
 * as long as it is open. Errors: PROBE_ERROR_STATE (another controller has it for too
 * long), PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *lock_target(const struct probe_target *target, int *fd_ret);

/* Is a controller changing the process? */
bool lock_is_taken(pid_t pid);

#endif
