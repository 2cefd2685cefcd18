/* SPDX-License-Identifier: MIT */
/* A program of `probectl run`, and what it starts. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/loop.h"
#include "probe/target.h"
#include "probe/watch.h"

struct run_program;

/* Initialise the first three, .loop = {.signal_fd = -1}, and the rest with zeros. */
struct run {
	const struct probe_request *request;
	bool verbose;
	bool follow; /* also libraries that are opened and programs that are started later */

	struct loop loop; /* signals do not end it: the program's end does */
	struct run_program *programs;
	size_t count;
	struct probe_watch *watch;
	bool matched; /* every PROBE has, in one program or another */
	bool failed;  /* probes of what came later are not on, which has been reported */
};

/*
 * Enables the probes of a held program, which the run then owns, and releases it; then those of the
 * libraries that it opens and the programs that it starts or executes, until it has ended. The
 * caller waits for it (loop_wait_child()) and closes the loop. After an error it has not been
 * released, and is killed; *status_ret is set if something else had killed it (child_error()).
 */
PROBE_MUST_CHECK struct probe_error *run_start(
	struct run *run, struct probe_target *target, int *status_ret);

#endif
