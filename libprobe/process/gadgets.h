/* SPDX-License-Identifier: MIT */
/* Machine code of the target itself that remote system calls use. */
#ifndef LIBPROBE_PROCESS_GADGETS_H
#define LIBPROBE_PROCESS_GADGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/process.h"
#include "libprobe/base/error.h"
#include "libprobe/process/memory.h"

struct maps;
struct modules;

/* Finds the gadgets in the target's modules, or its vDSO. PROBE_ERROR_UNSUPPORTED: it lacks one. */
PROBE_MUST_CHECK struct probe_error *gadgets_find(pid_t pid, const struct maps *maps,
	const struct modules *modules, struct arch_gadgets *ret);

/*
 * Are they still there? execve(2) may have removed them. `more` (size 0: nothing) is read in the
 * same call, because threads are stopped meanwhile; its buffer is 0 if it cannot be read.
 */
bool gadgets_are_there(
	pid_t pid, const struct arch_gadgets *gadgets, const struct memory_piece *more);

#endif
