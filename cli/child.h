/* SPDX-License-Identifier: MIT */
/* The program that `run`, `trace -- PROGRAM` and other commands start. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "probe/target.h"

/*
 * Starts a program and holds it before its first instruction. If it does not exist or cannot be
 * executed, sets *status_ret to the exit status that a shell would return.
 */
PROBE_MUST_CHECK struct probe_error *child_start(
	char *const argv[], struct probe_target **ret, int *status_ret);

/* Returns the exit status of probectl after a program could not be started. */
int child_spawn_status(const struct probe_error *error);

/*
 * If a signal has killed the held program, on which an operation has failed with `error`, returns
 * an error that says so, and sets *status_ret. Otherwise returns `error`.
 */
PROBE_MUST_CHECK struct probe_error *child_error(
	struct probe_error *error, const struct probe_target *target, int *status_ret);

/* Returns true if the program has ended. Sets *ret to its exit status as a shell would show it. */
bool child_ended(pid_t pid, int *ret);

#endif
