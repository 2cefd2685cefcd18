/* SPDX-License-Identifier: MIT */
/* Unwinding from connected functions through stubs to the probed function. */
#ifndef LIBPROBE_SELF_UNWIND_H
#define LIBPROBE_SELF_UNWIND_H

#include "arch/arch.h"

struct unwind;

/* Loads the unwinder now, so that it need not be loaded when a hook is attached. */
void unwind_prepare(void);

#endif
