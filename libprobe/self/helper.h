/* SPDX-License-Identifier: MIT */
/* Acting on this process from outside it: by a copy, which ends when it is done. */
#ifndef LIBPROBE_SELF_HELPER_H
#define LIBPROBE_SELF_HELPER_H

#include <stdbool.h>

#include "probe/target.h"

struct helper_work {
	/*
	 * Runs in the copy, with this process as its target. What is to come back goes
	 * to *report and *result alone: all other memory is the copy's.
	 */
	struct probe_error *(*act)(
		struct probe_target *target, void *data, struct probe_report *report, void *result);
	void *data;
	struct probe_report *report; /* added to */
	void *result;		     /* of result_bytes, as it was if the copy died */
	size_t result_bytes;
	/*
	 * Set: a copy died before it told how far it came. What it did counts as that of a dead
	 * controller, and is undone by the next change; until then it is there.
	 */
	bool died;
};

/*
 * Has it done. One caller at a time. Errors: those of the work; PROBE_ERROR_STATE (the
 * copy died or took too long, twice), PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (of
 * this instruction set).
 */
PROBE_MUST_CHECK struct probe_error *helper_run(struct helper_work *work);

/*
 * Is the calling thread one that helps, or the one that is being copied? It passes by
 * functions that are connected to probes: they are the program's.
 */
extern __thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

#endif
