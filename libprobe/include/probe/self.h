/* SPDX-License-Identifier: MIT */
/*
 * A program's own probes, switched from within it (docs/self.md).
 *
 * What is switched on here counts as what `probectl enable -p` switches on from
 * outside: both may act on one probe at once, and either can undo it. Functions may
 * be connected to probes, and are called where those are hit.
 *
 * Everything that changes probes stops the other threads of the process for a
 * fraction of a millisecond. It is done by a short-lived copy of the process
 * (fork(2)), which the program's own wait(2) and SIGCHLD do not see, but its handlers
 * of pthread_atfork(3) do; where kernel.yama.ptrace_scope is 1, the copy is named with
 * PR_SET_PTRACER (prctl(2)), in place of whom the program may have named itself.
 *
 * All functions may be called by any thread; none from a handler of signals. A thread that is
 * cancelled meanwhile (pthread_cancel(3)) ends behind those that change something.
 * Errors of all that change something, beside their own: PROBE_ERROR_PERMISSION (the
 * process is not dumpable, a debugger is attached ...), PROBE_ERROR_UNSUPPORTED (it
 * cannot be patched, see probe_target_open()), PROBE_ERROR_STATE (another controller is
 * at it, or the copy did not finish in time: try again), PROBE_ERROR_SYSTEM.
 */
#ifndef PROBE_SELF_H
#define PROBE_SELF_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "list.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Switching -------------------------------------------------------------- */

/* Adds the sites of all modules of this process to a list, with their state. */
PROBE_MUST_CHECK struct probe_error *probe_self_list(struct probe_list *list);

/* probe_target_enable() and probe_target_disable() of this process. */
PROBE_MUST_CHECK struct probe_error *probe_self_enable(
	const struct probe_request *request, struct probe_report *report);
PROBE_MUST_CHECK struct probe_error *probe_self_disable(
	const struct probe_request *request, struct probe_report *report);

/*
 * probe_target_status() of this process. *ret is one block, with all that it points
 * to, to be freed with free(). Nothing is stopped.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_status(
	struct probe_status **ret, size_t *count_ret);

/* ---- Functions ---------------------------------------------------------------- */

/* A hit of a probe, valid during the call that it is handed over to. */
struct probe_self_hit {
	const char *provider, *name, *path;
	uint64_t pc; /* run-time address of the site */
	const struct probe_value *args;
	size_t arg_count;
	/* How many functions of this thread are being run by probes that this hit is within. */
	unsigned int depth;
};

/*
 * Connects a function to all probes of the process that a pattern (probe/pattern.h)
 * matches: `provider:name(arg0,str(arg1))` says what it gets of the arguments. Functions
 * of one hit are called in no particular order. From the return on, every hit calls it.
 *
 * The function is called in the thread that hit, at the site, on its stack. What it does to
 * the program's data, the probed function finds done when it goes on; registers and errno
 * are as they were. It may do all that could be done at the site (malloc, say, unless
 * that is in malloc), look at the stack (backtrace(3)), hit other probes, and the
 * same one again: hits within it call functions as well, and hit->depth tells. It has to
 * return: neither longjmp(3) nor an exception nor pthread_exit(3) may leave it.
 *
 * Strings and aggregates (struct probe_value) are not copied: their bytes are the
 * program's.
 *
 * A probe with a function is on: its semaphores are raised, and each pattern counts as
 * a reference, which disabling does not take. A child that is forked has the same
 * functions at the same probes.
 *
 * Errors, beside those above: PROBE_ERROR_NOT_FOUND (no probe matches),
 * PROBE_ERROR_REFUSED (names the first probe that cannot be patched, and why),
 * PROBE_ERROR_STATE (the same function with the same data is connected already),
 * PROBE_ERROR_USAGE (the pattern, or no function); nothing is connected then.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_register(const char *pattern,
	void (*function)(const struct probe_self_hit *hit, void *data), void *data);

/*
 * Takes it away again, by the same pattern (letter by letter), function and data.
 * Returns when no other thread is in the function on behalf of this connection, so
 * `data` can be freed; in the function itself, it does not wait for its own thread. When
 * the last function of a pattern is gone, the sites are as they were.
 *
 * Errors, beside those above: PROBE_ERROR_NOT_FOUND (it is not connected, or is being
 * taken away). With any other error the function is not called any more all the same,
 * but the sites are still patched, until functions are registered or taken away again.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_unregister(const char *pattern,
	void (*function)(const struct probe_self_hit *hit, void *data), void *data);

/*
 * Connects the functions also to the probes of libraries that were opened (dlopen(3))
 * since; to be called after that. Sites there that cannot be patched are put into the
 * report. What was in libraries that were closed is forgotten.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_update(struct probe_report *report);

#ifdef __cplusplus
}
#endif
#endif
