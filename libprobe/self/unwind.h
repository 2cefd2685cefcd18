/* SPDX-License-Identifier: MIT */
/* Unwinding from connected functions through stubs to the probed function. */
#ifndef LIBPROBE_SELF_UNWIND_H
#define LIBPROBE_SELF_UNWIND_H

#include "arch/arch.h"

struct unwind;

/* Loads the unwinder, so that unwind_add() need not do it later. */
void unwind_prepare(void);

#endif
