/* SPDX-License-Identifier: MIT */
/*
 * Programs that the processes of a session start: they are held before any code of
 * them runs, as spawned ones are.
 */
#ifndef LIBPROBE_LAUNCH_H
#define LIBPROBE_LAUNCH_H

#include "libprobe/gate.h"
#include "libprobe/target_internal.h"

/* Held targets, the oldest first. Initialise with {0}. */
struct launches {
	struct probe_target **items;
	size_t count;
};

/*
 * Serves the gate at execve(), whose struct probe_gate has the address `shared` in
 * the target: threads that wait there are followed into the program that they
 * start. With `children`, also those of children; else these are let go. What
 * cannot be followed goes on as it would have, and is found by a
 * struct probe_watch.
 */
void launch_catch(
	struct launches *launches, pid_t pid, bool children, struct gate *gate, uint64_t shared);

/* The next held program, the caller's to release or to close; NULL: there is none. */
struct probe_target *launch_take(struct launches *launches);
/* Lets go who is still held. */
void launches_deinit(struct launches *launches);

#endif
