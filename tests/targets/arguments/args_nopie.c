/* SPDX-License-Identifier: MIT */
/* args.c, not position-independent, with absolute addresses as operands.
 * flags: -fno-pie -no-pie -D_GNU_SOURCE */
#define ARGS_NOPIE 1
#include "args.c"
