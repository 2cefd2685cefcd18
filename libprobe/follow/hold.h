/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_FOLLOW_HOLD_H
#define LIBPROBE_FOLLOW_HOLD_H

#include "libprobe/follow/guardian.h"
#include "libprobe/follow/launch.h"

/* Follows the threads that a guardian holds into the programs that they execute. */
void hold_serve(struct launches *launches, struct guardian *guardian);
/* Before the guardian ends, which lets go of what waits: counts what was not held meanwhile. */
void hold_finish(struct launches *launches, struct guardian *guardian);

/* Does a process that was to execute this file run it, or has it ended? */
bool hold_has_started(pid_t pid, const struct file_id *file);

#endif
