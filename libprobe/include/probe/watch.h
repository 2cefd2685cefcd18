/* SPDX-License-Identifier: MIT */
/*
 * Watches for processes that execute another program (execve(2)): that replaces their memory, and
 * everything that was switched on in it.
 *
 * If a process of a session with options.watch starts a program through libc, the program is held
 * before any of its code runs. Other processes are not traced, so their programs are noticed some
 * milliseconds later.
 *
 * A watch traces (ptrace(2)) the processes that it holds. So one thread must make all calls for
 * it, the same that polls those sessions. If this process is stopped (SIGSTOP) while it holds
 * others, it gets SIGCONT after half a second.
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
 * Frees a watch. Processes that it holds continue. Free the sessions that use it first. NULL is
 * allowed.
 */
void probe_watch_free(struct probe_watch *watch);

/*
 * Adds a process. Its program is the one whose probes were switched on, if any were, or the one
 * that it runs now. The target may be closed afterwards. Errors: PROBE_ERROR_NOT_FOUND,
 * PROBE_ERROR_PERMISSION, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_add(
	struct probe_watch *watch, const struct probe_target *target);

/* Processes that are wanted, whoever starts them. */
struct probe_newcomers {
	/*
	 * Is this process one of them? Called often, for all processes that are not watched; so it
	 * only looks at /proc, and is quick. `is_new` is false in the first round, for what may
	 * have been there before. Forked children of watched processes are not asked for as long
	 * as the sessions of their parent have their hits.
	 */
	bool (*is_wanted)(pid_t pid, bool is_new, void *data);
	void *data;
	/* If not empty, only processes that run one of these programs are wanted. Copied. */
	const char *const *files;
	size_t file_count;
};

/*
 * Also watches for such processes from now on. For root, what executes one of the files is held,
 * for half a second at most. Otherwise processes are found by looking: if the files are known, when
 * one is opened; else every 2 to 20 ms. Once for a watch, before the first probe_watch_next().
 * Starts a process that is not our child. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_seek(
	struct probe_watch *watch, const struct probe_newcomers *newcomers);

/* A process that has executed another program, or is new. */
struct probe_watch_event {
	struct probe_target *target; /* the caller closes it; NULL: no such process */
	bool is_child;		     /* a descendant of a process that was added */
	bool is_newcomer;	     /* found by probe_watch_seek() */
	/*
	 * It stands still. Start sessions, then call probe_target_release(); closing the target
	 * releases it, too. False: the process runs.
	 */
	bool held;
	/*
	 * How long code has been running in which no probe was looked for, at most. Of a held one
	 * mostly 0: none of its code has run, or only what has no probe that is wanted
	 * (probe_watch_pass_over()).
	 */
	uint64_t unseen_ns;
};

/*
 * Returns the next process that has executed another program, as soon as its libraries are
 * loaded. From then on it is watched as that program. Call this often, each time until there is
 * no process left: it takes a few milliseconds at most, waits for no single process, and limits
 * how often it really looks. A process that takes too long to load, or is held for 2 seconds
 * before it is returned, continues, and is returned when it runs. An error concerns one process,
 * and is returned once. Errors: PROBE_ERROR_PERMISSION (the program runs as another user),
 * PROBE_ERROR_ENDED (it was expected to have no probe that is wanted, has mapped code where that is
 * not known, and has ended or become another program; or so many were to be held at once that some
 * were not), PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_next(
	struct probe_watch *watch, struct probe_watch_event *ret);

/*
 * Ends the watch: lets go of all that are held or on their way, and holds nobody else. Returns what
 * was lost and probe_watch_next() has not said yet: call it until it returns NULL. How many
 * processes were not held, probe_watch_next() says only when they are twice as many as before, and
 * how many newcomers it saw that ended before it could return them, it does not say. Errors:
 * PROBE_ERROR_ENDED (its message is about all that it concerns), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_finish(struct probe_watch *watch);

/*
 * Says that sessions could not be started for a process, before its target is closed. If it is a
 * newcomer that has ended, probe_watch_finish() counts it with those that ended before they were
 * returned.
 */
void probe_watch_untraced(struct probe_watch *watch, const struct probe_watch_event *event);

/*
 * Says that a held program has no probe that is wanted, though all of its sessions follow
 * libraries. If the program and its libraries import no function that starts a process or a thread,
 * executes a program or loads code, it is not returned when it starts again, unless it runs for
 * more than some milliseconds; sessions for it must then follow libraries again. If it did one of
 * these all the same, unseen_ns or an error says so.
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
