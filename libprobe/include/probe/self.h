/* SPDX-License-Identifier: MIT */
/*
 * A program's own probes, switched by the program itself (docs/self.md).
 *
 * Probes that are enabled here and by `probectl enable -p` share one reference count, and either
 * side can disable them. Functions can be connected to probes; each hit then calls them.
 *
 * A call that changes probes stops the other threads of the process for a fraction of a
 * millisecond. A short-lived process makes the change: it executes libprobe.so, so its time does
 * not depend on how much memory the program uses. The program's wait(2) and SIGCHLD do not see this
 * process. If kernel.yama.ptrace_scope is 1, it is named with PR_SET_PTRACER (prctl(2)), which
 * replaces a process that the program has named. Sometimes libprobe.so cannot be executed: under a
 * filter of system calls, or in a program that is linked with libprobe.a, unless the same build of
 * libprobe.so is installed. Then a copy of the process (fork(2)) makes the change:
 * pthread_atfork(3) handlers run, and the change takes longer the more memory is in use.
 *
 * Any thread may call these functions, but a signal handler must not. A thread that is cancelled
 * (pthread_cancel(3)) first finishes a call that changes something. Besides their own errors, all
 * functions of this header have: PROBE_ERROR_PERMISSION (the process is not dumpable, a debugger is
 * attached ...), PROBE_ERROR_UNSUPPORTED (the process cannot be patched; see probe_target_open()),
 * PROBE_ERROR_BUSY (another controller changes the process), PROBE_ERROR_STATE (the change was not
 * done in time: try again), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
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

/* Adds to a list the sites, with their state, of all files that this process has mapped. */
PROBE_MUST_CHECK struct probe_error *probe_self_list(struct probe_list *list);

/*
 * Enable and disable probes of this process, as probe_target_enable() and probe_target_disable()
 * do.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_enable(
	const struct probe_request *request, struct probe_report *report);
PROBE_MUST_CHECK struct probe_error *probe_self_disable(
	const struct probe_request *request, struct probe_report *report);
/* Makes several changes of this process's probes in one call, as probe_target_switch() does. */
PROBE_MUST_CHECK struct probe_error *probe_self_switch(const struct probe_action *actions,
	size_t count, const struct probe_request *request, struct probe_report *report);

/*
 * Reads the state of every probe of this process, as probe_target_status() does, without stopping
 * any thread. *ret is one block, strings included; free it with free().
 */
PROBE_MUST_CHECK struct probe_error *probe_self_status(
	struct probe_status **ret, size_t *count_ret);

/* ---- Functions ---------------------------------------------------------------- */

/* A hit, as a connected function gets it. Valid during the call of the function. */
struct probe_self_hit {
	const char *provider, *name, *path;
	uint64_t pc; /* run-time address of the site */
	const struct probe_value *args;
	size_t arg_count;
	/* The number of connected functions that this thread already executes. */
	unsigned int depth;
	void (*function)(void); /* given to probe_self_register_typed(); NULL otherwise */
};

/*
 * Connects a function to all probes of the process that a pattern (probe/pattern.h) matches. As
 * soon as this call returns, every hit calls the function. A list in the pattern,
 * `provider:name(arg0,str(arg1))`, selects the arguments that the function gets.
 *
 * A hit calls the functions that are connected to its probe in a fixed order, whatever patterns
 * connected them. Functions with a higher priority are called first (probe_self_register_prio());
 * functions of one priority are called in the order in which they were registered. The Linux
 * kernel's tracepoints have the same order (tracepoint_probe_register_prio()).
 *
 * The function runs in the thread of the hit, at the site, on the thread's stack. It may change the
 * program's data; registers and errno are restored when it returns. It may do whatever the code at
 * the site may do: call malloc(3) (unless the site is in malloc), inspect the stack (backtrace(3)),
 * and hit probes, even the same probe. These hits call functions, too, and hit->depth counts the
 * nesting. The function must return: longjmp(3), an exception or pthread_exit(3) must not leave it.
 *
 * Strings and aggregates (struct probe_value) are not copied: the function gets pointers to the
 * program's bytes.
 *
 * A probe with a function is enabled: its semaphores are raised. Its functions hold at least one
 * reference, which disabling does not remove. A forked child has the same functions at the same
 * probes.
 *
 * Errors, besides those of all functions of this header: PROBE_ERROR_NOT_FOUND (no probe matches,
 * and libraries are not followed), PROBE_ERROR_REFUSED (the message names the first probe that
 * cannot be patched, and why), PROBE_ERROR_STATE (the same function with the same data is already
 * connected), PROBE_ERROR_USAGE (a mistake in the pattern, an argument that a probe does not have,
 * or no function). After an error nothing is connected.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_register(const char *pattern,
	void (*function)(const struct probe_self_hit *hit, void *data), void *data);

/*
 * Connects a function as probe_self_register() does, with a priority. Functions with a higher
 * priority are called earlier; any number is allowed, and probe_self_register() uses
 * PROBE_SELF_PRIORITY. The same function with the same data can be connected only once with a
 * pattern, whatever its priority. Errors: as probe_self_register().
 */
enum { PROBE_SELF_PRIORITY = 10 };
PROBE_MUST_CHECK struct probe_error *probe_self_register_prio(const char *pattern, int priority,
	void (*function)(const struct probe_self_hit *hit, void *data), void *data);

/*
 * Disconnects a function. Pattern (the same text), function and data must be those of
 * probe_self_register(). The call returns when no other thread runs the function for this
 * connection, so that `data` can be freed. The function itself may make this call, which then does
 * not wait for its own thread. When the last function of a site is disconnected, the site is
 * restored.
 *
 * Errors, besides those of all functions of this header: PROBE_ERROR_NOT_FOUND (the function is not
 * connected, or another thread is disconnecting it). If the process has a filter (seccomp(2)) that
 * forbids both membarrier(2) and stopping its threads, the function stays connected, and the
 * message says so. After any other error the function is not called any more, but the sites stay
 * patched until the next call that registers or unregisters a function.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_unregister(const char *pattern,
	void (*function)(const struct probe_self_hit *hit, void *data), void *data);

/*
 * Connect and disconnect a function of any type, as probe_self_register() and
 * probe_self_unregister() do. Each hit calls `through`, which calls hit->function with the
 * arguments that the function takes. The functions of probe/tracepoint.h use this. Errors: as
 * those.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_register_typed(const char *pattern,
	void (*through)(const struct probe_self_hit *hit, void *data), void (*function)(void),
	void *data);
PROBE_MUST_CHECK struct probe_error *probe_self_unregister_typed(
	const char *pattern, void (*function)(void), void *data);

/*
 * probe_self_register() and probe_self_unregister() for a function whose `data` is a pointer of
 * another type than void *. A function that does not take a hit and this pointer is an error of the
 * compiler.
 *
 *	static void count(const struct probe_self_hit *hit, struct counter *counter);
 *	error = PROBE_SELF_REGISTER("shop:order", count, &counter);
 */
#define PROBE_SELF_REGISTER(pattern, function, data)                                               \
	probe_self_register(pattern, PROBE_SELF_TYPED(function, data), data)
#define PROBE_SELF_UNREGISTER(pattern, function, data)                                             \
	probe_self_unregister(pattern, PROBE_SELF_TYPED(function, data), data)

/*
 * Connects the functions to the probes of libraries that were opened (dlopen(3)) since the
 * functions were registered. Call it after opening a library, unless libraries are followed
 * (probe_self_follow()). The report has the sites in these libraries that cannot be patched. Sites
 * in libraries that were closed are forgotten.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_update(struct probe_report *report);

/*
 * Follows libraries until probe_self_unfollow(). When a library is opened (dlopen(3)), functions
 * are connected to its probes before its constructors run, as probe_self_update() does. A pattern
 * that matches nothing yet can be registered, and waits for its library.
 *
 * `told` is called if a library was opened and there is something to report: the report says what
 * was connected and what was refused; `error` says why the rest could not be connected, or is NULL.
 * Both are valid during the call, in the thread that opened the library, or in a thread that
 * changed probes meanwhile. `told` may be NULL.
 *
 * Opening a library then takes longer: it includes a change for each pattern, during which the
 * thread holds the loader's lock. If another thread changes probes and does not finish within two
 * seconds (because it waits for the loader's lock), the library is connected at the end of that
 * change, after its constructors. Libraries in namespaces of their own (dlmopen(3)) are not
 * noticed: call probe_self_update().
 *
 * Errors, besides those of all functions of this header: PROBE_ERROR_STATE (libraries are already
 * followed), PROBE_ERROR_UNSUPPORTED (a static program has no loader), PROBE_ERROR_REFUSED (the
 * loader's function cannot be patched).
 */
PROBE_MUST_CHECK struct probe_error *probe_self_follow(
	void (*told)(
		const struct probe_report *report, const struct probe_error *error, void *data),
	void *data);

/*
 * Stops following libraries. A call of `told` that has begun may still run when this call returns.
 * Patterns that wait for a library stay registered, and probe_self_update() connects them. Errors,
 * besides those of all calls: PROBE_ERROR_STATE (libraries are not followed). After any other error
 * libraries are no longer followed, but the loader stays patched until the next call that registers
 * or unregisters a function.
 */
PROBE_MUST_CHECK struct probe_error *probe_self_unfollow(void);

/* ---- Private: for PROBE_SELF_REGISTER() ------------------------------------------ */

#ifndef __cplusplus
#define PROBE_SELF_TYPED(function, data)                                                           \
	((void)sizeof(char[__builtin_types_compatible_p(PROBE_SELF_TYPE(function),                 \
				   void (*)(const struct probe_self_hit *, PROBE_SELF_TYPE(data))) \
				   ? 1                                                             \
				   : -1]),                                                         \
		(void (*)(const struct probe_self_hit *, void *))(void (*)(void))(function))
/* The type that an expression has as an argument of a function. */
#define PROBE_SELF_TYPE(expression) __typeof__(1 ? (expression) : (expression))
#else
#define PROBE_SELF_TYPED(function, data) probe_self_typed(function, data)
extern "C++" template <class T>
inline void (*probe_self_typed(void (*function)(const struct probe_self_hit *, T *), T *))(
	const struct probe_self_hit *, void *)
{
	return (void (*)(const struct probe_self_hit *, void *))function;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
