/* SPDX-License-Identifier: MIT */
/*
 * Watching for processes that become another program (execve(2)): their memory
 * is replaced, and with it all that was switched on in it.
 *
 * No tracer is attached meanwhile, so this is noticed some milliseconds later.
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
/* Ends watching. NULL is allowed. */
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
	uint64_t unseen_ns;	     /* it has been running for so long, at the most */
};

/*
 * The next process that has become another program, once its libraries have
 * been loaded; it is watched as that program from here on. Never blocks, and
 * looks at most as often as costs little: to be called until there is no more,
 * and that often. Errors concern one process, and are told once:
 * PROBE_ERROR_PERMISSION (the program runs as somebody else).
 */
PROBE_MUST_CHECK struct probe_error *probe_watch_next(
	struct probe_watch *watch, struct probe_watch_event *ret);

#ifdef __cplusplus
}
#endif
#endif
