/* SPDX-License-Identifier: MIT */
/* Which thread of a process is borrowed for system calls. */
#ifndef LIBPROBE_PTRACE_CHOOSE_H
#define LIBPROBE_PTRACE_CHOOSE_H

#include <stddef.h>
#include <sys/types.h>

#include "libprobe/base/error.h"
#include "libprobe/process/seccomp.h"

enum { CHOOSE_LOOKS = 64 }; /* threads that are tried, to find one that does not sleep */

/* Threads that were found unable only after they had stopped. */
struct choose_unable {
	pid_t tids[CHOOSE_LOOKS];
	size_t count;
};

/*
 * The thread that loses least by being borrowed; 0: there is none. Threads in `unable` are left
 * out; if it is full, all are. `seccomp` may be NULL. Errors: PROBE_ERROR_NOT_FOUND,
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *choose_thread(pid_t pid, const struct seccomp *seccomp,
	const struct choose_unable *unable, pid_t *best_ret);

#endif
