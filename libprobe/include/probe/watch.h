/* SPDX-License-Identifier: MIT */
/*
 * Watching for processes that become another program (execve(2)): their memory
 * is replaced, and with it all that was switched on in it.
 *
 * Programs that libc is asked to start by processes of sessions with options.watch are
 * held before any code of them runs. No tracer is attached to anybody else, so other
 * programs are noticed some milliseconds later.
 *
 * A watch traces those that it holds, by ptrace(2): it is used by one thread, the
 * one that polls those sessions.
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

/* Begins to watch. With `children`, also the children of the processes, and theirs, are watched. */
PROBE_MUST_CHECK struct probe_error *probe_watch_create(bool children, struct probe_watch **ret);
/* Ends watching; whom it holds goes on. Its sessions are to be gone. NULL is allowed. */
void probe_watch_free(struct probe_watch *watch);

/*
 * Watches a process from here on, as the program that it was when its probes were
 * switched on, or else is now. Nothing of the target is kept. Errors: PROBE_ERROR_NOT_FOUND,
 * PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_add(
	struct probe_watch *watch, const struct probe_target *target);

/* A process that has become another program. */
struct probe_watch_event {
	struct probe_target *target; /* the caller's to close; NULL: there is none */
	bool is_child;		     /* of a process that was added, not that process itself */
	/*
	 * None of its code has run yet: for a session of its own, and probe_target_release();
	 * closing it lets it go, too. Else it is running.
	 */
	bool held;
	uint64_t unseen_ns; /* it has been running for so long, at the most */
};

/*
 * The next process that has become another program, once its libraries have
 * been loaded; it is watched as that program from here on. Takes some milliseconds at
 * the most, waits for no single process, and looks at most as often as costs little: to be
 * called until there is no more, and that often. A process that is on its way for too
 * long, or has been held for 2 seconds without being taken, goes on, and is told when
 * it runs. Errors concern one process, and are told once:
 * PROBE_ERROR_PERMISSION (the program runs as somebody else).
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_next(
	struct probe_watch *watch, struct probe_watch_event *ret);

/*
 * Nothing is wanted of a program that is held: its sessions, all with follow_libraries, have
 * no probe. When the same file is started again, it is held before its loader has mapped
 * any library, which costs least. Its sessions are to have follow_libraries again: they see
 * its libraries before any constructor runs, but not what a library's own code does while it is
 * relocated (ifunc resolvers).
 */
void probe_watch_pass_over(struct probe_watch *watch, const struct probe_target *target);

/*
 * A descriptor that becomes readable when a process waits for probe_watch_next() to be
 * called: at once, for it is held.
 */
int probe_watch_fd(const struct probe_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
