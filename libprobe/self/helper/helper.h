/* SPDX-License-Identifier: MIT */
/* Changes this process from outside, by another process that ends before the lock is released. */
#ifndef LIBPROBE_SELF_HELPER_H
#define LIBPROBE_SELF_HELPER_H

#include <stdbool.h>

#include "libprobe/base/buffer.h"
#include "libprobe/self/helper/controller.h"
#include "probe/target.h"

enum { HELPER_SECONDS = 20 }; /* limit for a controller: it ends itself, and its caller gives up */

struct helper_work {
	enum controller_act act;
	struct buffer request;	     /* arguments of the act; owned. Initialise with {0} */
	struct probe_report *report; /* the controller's report is added to it */
	void *result;		     /* result_bytes long; unchanged if the controller died */
	size_t result_bytes;
	/*
	 * A controller died before it reported. Its changes count as those of any dead controller:
	 * they stay until the next change undoes them.
	 */
	bool died;
};

/*
 * Performs the work, for one caller at a time, and frees the request. Errors: those of the work;
 * PROBE_ERROR_STATE (the controller died or took too long, twice), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY, PROBE_ERROR_UNSUPPORTED (on this instruction set).
 */
PROBE_MUST_CHECK struct probe_error *helper_run(struct helper_work *work);
/*
 * Ends the controller, which otherwise stays for the next work of the thread with the lock. Call it
 * with the lock, before the lock is released.
 */
void helper_end(void);

/*
 * Loads the libraries that helper_run() needs. Call it without the lock: a thread that waits for
 * the lock may hold the loader's lock.
 */
void helper_prepare(void);

/*
 * True in a copy of this process, and in the thread that is being copied. Such a thread skips
 * functions connected to probes, which belong to the program. It has no record of its calls
 * (callers.h) meanwhile, so only hits without a record read this flag.
 */
extern __thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

#endif
