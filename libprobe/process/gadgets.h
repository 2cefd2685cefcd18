/* SPDX-License-Identifier: MIT */
/* Machine code that a target has anyway, and that remote system calls need. */
#ifndef LIBPROBE_PROCESS_GADGETS_H
#define LIBPROBE_PROCESS_GADGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/process.h"
#include "libprobe/base/error.h"

struct modules;

/* Finds the gadgets in the target's modules. PROBE_ERROR_UNSUPPORTED where it has none. */
PROBE_MUST_CHECK struct probe_error *gadgets_find(
	const struct modules *modules, struct arch_gadgets *ret);

/* Are they still there? execve(2) may have taken them away. */
bool gadgets_are_there(pid_t pid, const struct arch_gadgets *gadgets);

#endif
