/* SPDX-License-Identifier: MIT */
/* Changes this process from outside it, by a process that ends with the lock. */
#ifndef LIBPROBE_SELF_HELPER_H
#define LIBPROBE_SELF_HELPER_H

#include <stdbool.h>

#include "libprobe/base/buffer.h"
#include "libprobe/self/helper/controller.h"
#include "probe/target.h"

enum { HELPER_SECONDS = 20 }; /* until a controller ends itself, and its caller gives up on it */

struct helper_work {
	enum controller_act act;
	struct buffer request;	     /* for it; owned. Begin with {0} */
	struct probe_report *report; /* the controller's report is added to it */
	void *result;		     /* result_bytes; unchanged if the controller died */
	size_t result_bytes;
	/*
	 * A controller died before it reported how far it got. Its changes count as those of any
	 * dead controller: the next change undoes them; until then they stay.
	 */
	bool died;
};

/*
 * Does the work, for one caller at a time, and frees the request. Errors: those of the work;
 * PROBE_ERROR_STATE (the controller died or took too long, twice), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY, PROBE_ERROR_UNSUPPORTED (of this instruction set).
 */
PROBE_MUST_CHECK struct probe_error *helper_run(struct helper_work *work);
/*
 * Ends the controller, which stays for the next work of the thread with the lock. With the lock,
 * before it is given up.
 */
void helper_end(void);

/*
 * Loads what helper_run() needs, without the lock: the loader's lock may be held by a thread that
 * waits for ours.
 */
void helper_prepare(void);

/*
 * Whether the calling thread is a copy of this process, or the thread being copied. It skips
 * functions connected to probes, which belong to the program; and it has no record of its calls
 * (callers.h) meanwhile, so only hits without one look here.
 */
extern __thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

#endif
