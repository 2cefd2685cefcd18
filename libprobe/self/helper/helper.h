/* SPDX-License-Identifier: MIT */
/*
 * Changes this process's probes from a controller, a process that ends before the lock is released.
 */
#ifndef LIBPROBE_SELF_HELPER_H
#define LIBPROBE_SELF_HELPER_H

#include <stdbool.h>

#include "libprobe/base/buffer.h"
#include "libprobe/self/helper/controller.h"
#include "probe/target.h"

/* Limit of a request, after which the controller ends itself and its caller gives up. */
enum { HELPER_SECONDS = 20 };

struct helper_work {
	enum controller_act act;
	struct buffer request;	     /* arguments of the act; owned. Initialise with {0} */
	struct probe_report *report; /* gets the controller's report added to it */
	void *result;		     /* result_bytes long; unchanged if the controller died */
	size_t result_bytes;
	/* A controller died before it had reported. The next change undoes its changes. */
	bool died;
};

/*
 * Performs the work, for one thread at a time, and frees the request. Errors: the work's;
 * PROBE_ERROR_STATE (the controller died or took too long, twice), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY, PROBE_ERROR_UNSUPPORTED (on this instruction set).
 */
PROBE_MUST_CHECK struct probe_error *helper_run(struct helper_work *work);
/*
 * Ends the controller, which stays for more work until the lock is released. Call it with the lock.
 */
void helper_end(void);

/*
 * Loads libraries for helper_run(). Call it without our lock: it takes the loader's, whose holder
 * may wait for ours.
 */
void helper_prepare(void);

/*
 * True in a copied controller, and in the caller and the forker while one is started. There,
 * connected functions, which are the program's, are not called. These threads have no record
 * (callers.h) meanwhile, so only hits without a record read this.
 */
extern __thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

#endif
