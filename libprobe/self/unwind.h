/* SPDX-License-Identifier: MIT */
/* Unwinding from connected functions through stubs to the probed function. */
#ifndef LIBPROBE_SELF_UNWIND_H
#define LIBPROBE_SELF_UNWIND_H

#include "arch/arch.h"

struct unwind;

/*
 * Tells this process's unwinder (backtrace(3), _Unwind_Backtrace()) of stubs; NULL:
 * there is none, or no memory, and backtraces end at the stub.
 */
struct unwind *unwind_add(const struct arch *arch, const struct arch_extent *stubs, size_t count);
/* Before other code may come to lie where the stubs were. NULL is allowed. */
void unwind_remove(struct unwind *unwind);

#endif
