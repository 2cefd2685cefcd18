/* SPDX-License-Identifier: MIT */
/* Lets unwinders go from a connected function, through the stub, to the probed function. */
#ifndef LIBPROBE_SELF_UNWIND_H
#define LIBPROBE_SELF_UNWIND_H

#include "arch/arch.h"

struct unwind;

/* Loads the unwinder, so that attaching a hook need not. */
void unwind_prepare(void);

#endif
