/* SPDX-License-Identifier: MIT */
/* The program that `probectl run` starts, and the programs that this program starts. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/loop.h"
#include "probe/target.h"
#include "probe/trace.h"

/*
 * Initialise `request`, `verbose`, `follow` and `status_ret`, set .loop = {.signal_fd = -1}, and
 * set the rest to zero.
 */
struct run {
	const struct probe_request *request;
	bool verbose;
	bool follow; /* also enable probes of libraries and programs that come later */
	/* Is set if something else kills the program before it is released (child_error()). */
	int *status_ret;

	/* The event loop; it ends when the program ends, not when a signal arrives. */
	struct loop loop;
	struct probe_trace *set;   /* the program, and what it starts */
	struct probe_error *error; /* error that prevents the start */
	bool matched;		   /* every PROBE has matched in some program */
	/* The probes of a later library or program were not enabled; reported. */
	bool failed;
};

/*
 * Enables the probes of a held program and releases the program. Then, until the program has
 * ended, enables the probes of the libraries that it opens, and of the programs that it starts or
 * executes. The run owns `target`. The caller must then wait for the program (loop_wait_child())
 * and close the loop.
 *
 * On error, the program is not released but killed.
 */
PROBE_MUST_CHECK struct probe_error *run_start(struct run *run, struct probe_target *target);

#endif
