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

/* A started controller. Initialise with START_NONE. */
struct start {
	int ends[2];  /* of a socket: ours, and the controller's until the controller has started */
	pid_t caller; /* this process, the forker's parent */
	pid_t forker, pid;	/* the controller's parent, and the controller; 0 if not started */
	_Atomic int controller; /* descriptor of the controller (pidfd), or -1 */
	char *stack;		/* the forker's stack */
	/* Futex on the forker's stack: the controller's pid, -errno, or 0 before the report. */
	_Atomic uint32_t *word;
	int image;	 /* descriptor of the program to execute, borrowed; or -1 */
	char socket[12]; /* number of the controller's end of the socket, as text */
};
#define START_NONE                                                                                 \
	((struct start){.ends = {-1, -1}, .controller = -1, .stack = MAP_FAILED, .image = -1})

#endif
