/* SPDX-License-Identifier: MIT */
/*
 * The program that `run`, `trace -- PROGRAM` and others start: its begin and its end, and what
 * they mean for our own exit status. See loop_wait_child() for the time between.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "probe/target.h"

/*
 * Starts a program, and holds it. Where that fails, *status_ret is the exit status that a shell
 * would have: PROGRAM is not there, or cannot be executed.
 */
PROBE_MUST_CHECK struct probe_error *child_start(
	char *const argv[], struct probe_target **ret, int *status_ret);

/* Our exit status if the program could not be started. */
int child_spawn_status(const struct probe_error *error);

/*
 * What failed with a program that is held: if it has been killed meanwhile, this is the error, and
 * *status_ret is set as for a program that was killed later.
 */
PROBE_MUST_CHECK struct probe_error *child_error(
	struct probe_error *error, const struct probe_target *target, int *status_ret);

/* Has the program ended? Its exit status, as a shell would show it, goes to *ret then. */
bool child_ended(pid_t pid, int *ret);

#endif
