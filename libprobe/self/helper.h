/* SPDX-License-Identifier: MIT */
/* Changes this process from outside it, by a copy that ends when it is done. */
#ifndef LIBPROBE_SELF_HELPER_H
#define LIBPROBE_SELF_HELPER_H

#include <stdbool.h>

#include "probe/target.h"

struct helper_work {
	/*
	 * Runs in the copy, with this process as its target. Only *report and *result come
	 * back: all other memory belongs to the copy.
	 */
	struct probe_error *(*act)(
		struct probe_target *target, void *data, struct probe_report *report, void *result);
	void *data;
	struct probe_report *report; /* the copy's report is added to it */
	void *result;		     /* result_bytes; unchanged if the copy died */
	size_t result_bytes;
	/*
	 * A copy died before it reported how far it got. Its changes count as those of a dead
	 * controller: the next change undoes them; until then they stay.
	 */
	bool died;
};

/*
 * Runs the work, one caller at a time. Errors: those of the work; PROBE_ERROR_STATE (the copy
 * died or took too long, twice), PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (of this
 * instruction set).
 */
PROBE_MUST_CHECK struct probe_error *helper_run(struct helper_work *work);

/*
 * Loads what helper_run() needs, without the lock: the loader's lock may be held by a thread that
 * waits for ours.
 */
void helper_prepare(void);

/*
 * Whether the calling thread is a helper, or the thread being copied. It skips functions
 * connected to probes, which belong to the program; and it has no record of its calls (callers.h)
 * meanwhile, so only hits without one look here.
 */
extern __thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

#endif
