/* SPDX-License-Identifier: MIT */
/*
 * The program that `run`, `trace -- PROGRAM` and other commands start: how it is started, how it
 * ends, and which exit status of probectl follows from this. loop_wait_child() waits for its end.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "probe/target.h"

/*
 * Starts a program and holds it before its first instruction. If PROGRAM does not exist or cannot
 * be executed, sets *status_ret to the exit status that a shell would return.
 */
PROBE_MUST_CHECK struct probe_error *child_start(
	char *const argv[], struct probe_target **ret, int *status_ret);

/* Returns the exit status of probectl after a program could not be started. */
int child_spawn_status(const struct probe_error *error);

/*
 * Call it with the error of an operation on a held program. If a signal has killed the program
 * meanwhile, returns an error that says so, and sets *status_ret. Otherwise returns `error`.
 */
PROBE_MUST_CHECK struct probe_error *child_error(
	struct probe_error *error, const struct probe_target *target, int *status_ret);

/*
 * Returns true if the program has ended, and then sets *ret to its exit status as a shell would
 * show it.
 */
bool child_ended(pid_t pid, int *ret);

#endif
