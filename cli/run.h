/* SPDX-License-Identifier: MIT */
/* The program that `probectl run` starts, and the programs that this program starts. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/loop.h"
#include "probe/target.h"
#include "probe/watch.h"

struct run_program;

/* Initialise the first three members, .loop = {.signal_fd = -1}, and the rest with zeros. */
struct run {
	const struct probe_request *request;
	bool verbose;
	bool follow; /* also libraries opened and programs started later */

	struct loop loop; /* the event loop; ends when the program ends, not on a signal */
	struct run_program *programs;
	size_t count;
	struct probe_watch *watch;
	bool matched; /* every PROBE has matched in some program */
	/* Probes of a later library or program are not enabled; this has been reported. */
	bool failed;
};

/*
 * Enables the probes of a held program and releases it. Then, until the program has ended,
 * enables the probes of the libraries that it opens and the programs that it starts or
 * executes. The run owns `target`. The caller then waits for the program (loop_wait_child())
 * and closes the loop. On error the program is not released but killed; *status_ret is set if
 * something else has killed it before (child_error()).
 */
PROBE_MUST_CHECK struct probe_error *run_start(
	struct run *run, struct probe_target *target, int *status_ret);

#endif
