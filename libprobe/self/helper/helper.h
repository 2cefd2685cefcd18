/* SPDX-License-Identifier: MIT */
/*
 * Changes the probes of this process from another process, the controller. The controller ends
 * before the lock is released.
 */
#ifndef LIBPROBE_SELF_HELPER_H
#define LIBPROBE_SELF_HELPER_H

#include <stdbool.h>

#include "libprobe/base/buffer.h"
#include "libprobe/self/helper/controller.h"
#include "probe/target.h"

/* Time limit of a request: the controller then ends itself, and its caller gives up. */
enum { HELPER_SECONDS = 20 };

struct helper_work {
	enum controller_act act;
	struct buffer request;	     /* arguments of the act; owned. Initialise with {0} */
	struct probe_report *report; /* gets the controller's report added to it */
	void *result;		     /* result_bytes long; unchanged if the controller died */
	size_t result_bytes;
	/*
	 * True if a controller died before it had reported. Its changes stay until the next change
	 * undoes them, like those of any controller that has died.
	 */
	bool died;
};

/*
 * Performs the work, and frees the request. Only one thread at a time may call it. Errors: those of
 * the work; PROBE_ERROR_STATE (the controller died or took too long, twice), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY, PROBE_ERROR_UNSUPPORTED (on this instruction set).
 */
PROBE_MUST_CHECK struct probe_error *helper_run(struct helper_work *work);
/*
 * Ends the controller. Call it with the lock, before the lock is released. Until then the
 * controller stays, for more work of the thread that has the lock.
 */
void helper_end(void);

/*
 * Loads the libraries that helper_run() needs. Call it without the lock: it takes the loader's
 * lock, which a thread that waits for our lock may hold.
 */
void helper_prepare(void);

/*
 * True in a controller that is a copy of this process, and in the caller and the forker while a
 * controller is started. There, functions connected to probes are not called, because they belong
 * to the program. These threads have no record of their calls (callers.h) meanwhile. So this
 * flag is read only at hits of threads without a record.
 */
extern __thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

#endif
