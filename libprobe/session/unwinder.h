/* SPDX-License-Identifier: MIT */
/* Call stacks of one process: from the copies of its stubs to frames. */
#ifndef LIBPROBE_SESSION_UNWINDER_H
#define LIBPROBE_SESSION_UNWINDER_H

#include "arch/arch.h"
#include "elf/unwind.h"
#include "libprobe/session/naming.h"
#include "probe/target.h"

struct unwinder;

/*
 * Prepares for the process of `naming`, which is borrowed. Errors: PROBE_ERROR_UNSUPPORTED (stacks
 * of this machine cannot be unwound; libdw is missing), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *unwinder_create(
	const struct arch *arch, struct naming *naming, struct unwinder **ret);
/* NULL is allowed. */
void unwinder_free(struct unwinder *unwinder);

/*
 * What the frame pointer may not lead to at a site: the return address and the caller's frame
 * pointer, if call frame information says where they are by the stack pointer.
 */
struct unwind_saved unwinder_saved(struct unwinder *unwinder, uint64_t pc);

/* A thread at a site. Everything except `pc` comes from the target and is not trusted. */
struct unwinder_thread {
	uint64_t pc;
	const void *registers; /* u64 each, those of arch->unwind_registers */
	const uint8_t *bytes;  /* from the stack pointer on */
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
