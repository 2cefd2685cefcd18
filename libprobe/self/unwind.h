/* SPDX-License-Identifier: MIT */
/*
 * Lets unwinders find the way from a connected function, through the stub, to the probed function.
 */
#ifndef LIBPROBE_SELF_UNWIND_H
#define LIBPROBE_SELF_UNWIND_H

#include "arch/arch.h"

struct unwind;

/* Loads the unwinder now, so that it need not be loaded when a hook is attached. */
void unwind_prepare(void);

#endif
