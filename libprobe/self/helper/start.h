/* SPDX-License-Identifier: MIT */
/* Starts the process that changes this one, and ends it. */
#ifndef LIBPROBE_SELF_START_H
#define LIBPROBE_SELF_START_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* A controller that was started. Initialise with START_NONE. */
struct start {
	int ends[2];		/* of a socket: ours, and (until it was started) the controller's */
	pid_t caller;		/* this process, the forker's parent */
	pid_t forker, pid;	/* the controller's parent, and itself; 0: there is none */
	_Atomic int controller; /* itself, as a descriptor (pidfd); or -1 */
	char *stack;		/* of the forker */
	_Atomic uint32_t *word; /* futex, there: the controller's pid, or -errno; 0: not yet */
	int image;		/* what it executes, borrowed; or -1 */
	char socket[12];	/* the number of its end, for the program */
};
#define START_NONE                                                                                 \
	((struct start){.ends = {-1, -1}, .controller = -1, .stack = MAP_FAILED, .image = -1})

#endif
