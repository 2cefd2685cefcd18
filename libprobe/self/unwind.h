/* SPDX-License-Identifier: MIT */
/* Unwinding from connected functions through stubs to the probed function. */
#ifndef LIBPROBE_SELF_UNWIND_H
#define LIBPROBE_SELF_UNWIND_H

#include "arch/arch.h"

struct unwind;

/* Loads the unwinder; unwind_add() does so, too. */
void unwind_prepare(void);

/*
 * Registers stubs with this process's unwinder (backtrace(3), _Unwind_Backtrace()). Returns
 * NULL if there is no unwinder or no memory: backtraces then end at the stub.
 */
struct unwind *unwind_add(const struct arch *arch, const struct arch_extent *stubs, size_t count);
/* Call it before other code can be mapped where the stubs were. NULL is allowed. */
void unwind_remove(struct unwind *unwind);

#endif
