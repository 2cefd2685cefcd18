/* SPDX-License-Identifier: MIT */
/* Machine code that a target has anyway, and that remote system calls need. */
#ifndef LIBPROBE_PROCESS_GADGETS_H
#define LIBPROBE_PROCESS_GADGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

struct modules;

enum { GADGETS_SIGRETURNS_MAX = 16 };

/* Addresses are the target's, or (struct file) the file's. */
struct gadgets {
	uint64_t syscall_ret; /* `syscall; ret` */
	uint64_t leave_ret;   /* `leave; ret` */
	/* `mov $15,%eax; syscall`, where signal handlers return to; there may be several */
	uint64_t sigreturns[GADGETS_SIGRETURNS_MAX];
	size_t sigreturn_count;
};

/* Finds the gadgets in the target's modules. PROBE_ERROR_UNSUPPORTED where it has none. */
PROBE_MUST_CHECK struct probe_error *gadgets_find(
	const struct modules *modules, struct gadgets *ret);

/* Are they still there? execve(2) may have taken them away. */
bool gadgets_are_there(pid_t pid, const struct gadgets *gadgets);

#endif
