/* SPDX-License-Identifier: MIT */
/*
 * Watches for processes that execute another program (execve(2)). The new program replaces their
 * memory, and with it everything that was switched on there.
 *
 * If a process of a session with options.watch starts a program through libc, the program is held
 * before any of its code runs. Other processes are not traced, so their programs are noticed some
 * milliseconds later.
 *
 * A watch traces (ptrace(2)) the processes that it holds, so one thread must make all calls for the
 * watch, and poll the sessions that use it. If the calling process is stopped (SIGSTOP) while it
 * holds others, it gets SIGCONT after half a second.
 */
#ifndef PROBE_WATCH_H
#define PROBE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_watch;

/*
 * Creates a watch. With `children`, the descendants of watched processes are watched, too.
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_create(bool children, struct probe_watch **ret);
/*
 * Frees a watch. Processes that the watch holds continue. Free the sessions that use the watch
 * first. NULL is allowed.
 */
void probe_watch_free(struct probe_watch *watch);

/*
 * Adds a process. Its program is the one whose probes were switched on; if no probes were switched
 * on, the program that it runs now. The target may be closed afterwards. Errors:
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_add(
	struct probe_watch *watch, const struct probe_target *target);

/* Selects processes to watch (newcomers), regardless of which process starts them. */
struct probe_newcomers {
	/*
	 * Tells whether a process is wanted. Called often, for all processes that are not watched,
	 * so it must only look at /proc, and be quick. `is_new` is false in the first round, for
	 * processes that may have existed before. The function is not called for a forked child of
	 * a watched process as long as the sessions of the parent have the child's hits.
	 */
	bool (*is_wanted)(pid_t pid, bool is_new, void *data);
	void *data;
	/* If not empty, only processes that run one of these programs are wanted. Copied. */
	const char *const *files;
	size_t file_count;
};

/*
 * Also watches for newcomers from now on. If the caller is root, a process that executes one of the
 * files is held, for half a second at most. Otherwise processes are found by scanning /proc: if
 * `files` is not empty, when one of the files is opened; else every 2 to 20 ms. Call it once for a
 * watch, before the first probe_watch_next(). Starts a process that is not a child of the caller.
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_seek(
	struct probe_watch *watch, const struct probe_newcomers *newcomers);

/* A process that has executed another program, or is new. */
struct probe_watch_event {
	struct probe_target *target; /* the caller closes it; NULL if no process was found */
	bool is_child;		     /* a descendant of a process that was added */
	bool is_newcomer;	     /* found by probe_watch_seek() */
	/*
	 * True if the process is stopped. Then start sessions, and call probe_target_release();
	 * closing the target releases the process, too. False if the process runs.
	 */
	bool held;
	/*
	 * The longest time for which the process may have run code whose probes were not searched
	 * for, in nanoseconds. It is mostly 0 for a held process: none of its code has run, or only
	 * code without wanted probes (probe_watch_pass_over()).
	 */
	uint64_t unseen_ns;
};

/*
 * Returns the next process that has executed another program, as soon as its libraries are loaded.
 * From then on, the process is watched as that program. Call this function often, each time until
 * it returns no process. It takes a few milliseconds at most, waits for no single process, and
 * limits how often it really scans for processes. A process that takes too long to load, or that is
 * held for 2 seconds before it is returned, continues, and is returned when it runs. An error
 * concerns one process, and is returned once. Errors: PROBE_ERROR_PERMISSION (the program runs as
 * another user), PROBE_ERROR_ENDED (a program was expected to have no wanted probe, but mapped
 * unknown code, and has ended or executed another program; or too many processes had to be held at
 * once, and some were not held), PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_next(
	struct probe_watch *watch, struct probe_watch_event *ret);

/*
 * Ends the watch: releases all processes that it holds or is about to hold, and holds no more.
 * Returns an error for losses that probe_watch_next() has not reported: call this function until it
 * returns NULL. probe_watch_next() reports how many processes were not held only when their number
 * has doubled, and does not report newcomers that ended before it could return them. Errors:
 * PROBE_ERROR_ENDED (one message is about all such processes), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_finish(struct probe_watch *watch);

/*
 * Tells the watch that sessions could not be started for a process. Call it before the target is
 * closed. If the process is a newcomer that has ended, probe_watch_finish() counts it among the
 * newcomers that ended before they were returned.
 */
void probe_watch_untraced(struct probe_watch *watch, const struct probe_watch_event *event);

/*
 * Tells the watch that a held program has no wanted probe, although all of its sessions follow
 * libraries. If the program and its libraries import no function that starts a process or a thread,
 * executes a program or loads code, probe_watch_next() does not return the program when it is
 * started again, unless it runs for more than some milliseconds. Sessions for it must then follow
 * libraries again. If the program did one of these things nevertheless, unseen_ns or an error says
 * so.
 */
void probe_watch_pass_over(struct probe_watch *watch, const struct probe_target *target);

/*
 * Returns a descriptor that becomes readable when a process is held until probe_watch_next() is
 * called; -1 after probe_watch_finish().
 */
int probe_watch_fd(const struct probe_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
