/* SPDX-License-Identifier: MIT */
/* Call stacks of one process: from the copies of its stubs to frames with names. */
#ifndef LIBPROBE_SESSION_UNWINDER_H
#define LIBPROBE_SESSION_UNWINDER_H

#include <sys/types.h>

#include "arch/arch.h"
#include "probe/target.h"

struct unwinder;

struct unwinder_options {
	bool mangled; /* symbols stay as they are in files */
	bool lines;   /* frames have source lines, where there is debug information */
};

/*
 * Prepares for a process whose modules are read now. Errors:
 * PROBE_ERROR_UNSUPPORTED (stacks of this machine cannot be unwound; libdw is missing), those of
 * modules_read().
 */
PROBE_MUST_CHECK struct probe_error *unwinder_create(
	const struct arch *arch, pid_t pid, struct unwinder_options options, struct unwinder **ret);
/* NULL is allowed. */
void unwinder_free(struct unwinder *unwinder);

/* Reads the process's modules again. If that fails, the known ones stay. */
void unwinder_refresh(struct unwinder *unwinder);

/*
 * The distance from the stack pointer to the return address, at a site where the
 * function has no frame of its own that the frame pointer leads to; -1 where it
 * has, or that is not known.
 */
int32_t unwinder_return_offset(struct unwinder *unwinder, uint64_t pc);

/* A thread at a site. Everything except `pc` comes from the target and is not trusted. */
struct unwinder_thread {
	uint64_t pc;
	const uint64_t *registers; /* those of arch->unwind_registers */
	const uint8_t *bytes;	   /* from the stack pointer on */
	size_t length;
};

/* Unwinds. *ret is valid until the next call. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *unwinder_copy(
	struct unwinder *unwinder, const struct unwinder_thread *thread, struct probe_stack *ret);

/*
 * The same of return addresses (u64), the innermost first. `caller` is that of the
 * site's function, where it is not among them; else 0.
 */
PROBE_MUST_CHECK struct probe_error *unwinder_frames(struct unwinder *unwinder, uint64_t pc,
	uint64_t caller, const void *returns, size_t count, struct probe_stack *ret);

#endif
