/* SPDX-License-Identifier: MIT */
/*
 * Programs that the processes of sessions start: they are held before any code of
 * them runs, as spawned ones are.
 */
#ifndef LIBPROBE_FOLLOW_LAUNCH_H
#define LIBPROBE_FOLLOW_LAUNCH_H

#include "libprobe/process/distant.h"
#include "libprobe/follow/gate.h"
#include "libprobe/follow/passage.h"
#include "libprobe/ptrace/alarm.h"
#include "libprobe/follow/waiters.h"
#include "libprobe/registry/target.h"

/* A session's gate at execve(). */
struct launch_gate {
	struct gate gate;
	/*
	 * With `children`, programs that its children start are followed as well; otherwise they
	 * are released.
	 */
	struct waiters_place place;
};

/* A thread that has come through a gate. */
struct launch {
	struct passage passage;
	struct launch_gate *gate; /* borrowed; NULL: it has been closed, or there was none */
	bool is_sought;		  /* a guardian held it, who holds whatever its parent is */
	struct file_id file;	  /* what such a one executes */
};

/* All that are on their way, the oldest first. */
struct launches {
	int event; /* an eventfd(2): readable when launches_run() has something to do */
	struct launch_gate **gates; /* borrowed */
	size_t gate_count;
	struct launch *items;
	size_t count;
	struct files *files;	   /* of the programs */
	struct alarm alarm;	   /* is set while there are any */
	struct yield yield;	   /* while they run */
	struct guardian *guardian; /* who holds programs that are sought; borrowed; NULL: nobody */
	/* That were not held, though wanted; how many of them launches_told() has told. */
	size_t missed, missed_told;
	/* The control groups (/proc/PID/cgroup) that had no limit a moment ago; until when. */
	char free_groups[1024];
	uint64_t free_until_ns;
};

/* Errors: PROBE_ERROR_SYSTEM. Call launches_deinit() even after an error. */
PROBE_MUST_CHECK struct probe_error *launches_init(struct launches *launches);
/* Lets everybody go, but gates are to be served still; the caller ends the guardian. */
void launches_end(struct launches *launches);
/* The same, if that has not been done. */
void launches_deinit(struct launches *launches);

/* Serves a gate that is open, and raises launches->event, from here on. */
PROBE_MUST_CHECK struct probe_error *launches_add(
	struct launches *launches, struct launch_gate *gate);
/*
 * Stops serving it. Its threads that have not executed another program yet are released, so that
 * the process can be changed.
 */
void launches_remove(struct launches *launches, const struct launch_gate *gate);

/*
 * Serves the gates: threads that wait there are followed into the programs that they start.
 * Continues with all of them while one may soon be held: a few milliseconds at most. A thread that
 * cannot be followed, or takes too long, is released and later found by a struct probe_watch.
 */
void launches_run(struct launches *launches);

/* Follows a thread in execve(2) of a sought file, unless its process is followed already. */
void launches_begin(struct launches *launches, pid_t pid, pid_t tid, const struct file_id *file);

/*
 * The next held program, which the caller releases or closes; NULL: there is none. How long it has
 * run code that was not looked at: mostly 0. Did it come from a guardian?
 */
struct probe_target *launches_take(
	struct launches *launches, uint64_t *unseen_ns_ret, bool *is_sought_ret);

/*
 * What was lost: of one that has ended, each once; or how many were not held, whenever these are
 * twice as many as before, and at the end if they are more. The caller frees it. NULL: nothing.
 */
PROBE_MUST_CHECK struct probe_error *launches_told(struct launches *launches, bool at_end);

/* Is a process on its way, or did it end there just now? */
bool launches_have(const struct launches *launches, pid_t pid);
/*
 * May a process that is on its way, or at this gate, share the memory of the gate's process? Then
 * its parent cannot be stopped: it waits in vfork(2) until launches_run() has continued.
 */
bool launches_depend(const struct launches *launches, struct launch_gate *gate);

#endif
