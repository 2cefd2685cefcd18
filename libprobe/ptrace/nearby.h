/* SPDX-License-Identifier: MIT */
/* Where the calling thread runs: beside one that it traces. */
#ifndef LIBPROBE_PTRACE_NEARBY_H
#define LIBPROBE_PTRACE_NEARBY_H

#include <sys/types.h>

/*
 * Moves the calling thread to the processor on which another one runs or ran last, if it may run
 * there. Its affinity mask stays as it was.
 */
void nearby_move(pid_t pid, pid_t tid);

#endif
