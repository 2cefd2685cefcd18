/* SPDX-License-Identifier: MIT */
/*
 * The program that `run`, `trace -- PROGRAM` and other commands start: how it starts and ends,
 * and the exit status of probectl that follows. loop_wait_child() waits for the program to end.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "probe/target.h"

/*
 * Starts a program and holds it before its first instruction. If PROGRAM does not exist or
 * cannot be executed, *status_ret is the exit status that a shell would return.
 */
PROBE_MUST_CHECK struct probe_error *child_start(
	char *const argv[], struct probe_target **ret, int *status_ret);

/* The exit status of probectl if the program could not be started. */
int child_spawn_status(const struct probe_error *error);

/*
 * For an error of an operation on a held program: if a signal has killed the program meanwhile,
 * returns an error that says so and sets *status_ret. Otherwise returns `error`.
 */
PROBE_MUST_CHECK struct probe_error *child_error(
	struct probe_error *error, const struct probe_target *target, int *status_ret);

/* Whether the program has ended. If so, *ret is its exit status, as a shell would show it. */
bool child_ended(pid_t pid, int *ret);

#endif
