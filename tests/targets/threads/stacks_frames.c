/* SPDX-License-Identifier: MIT */
/* stacks.c, with frame pointers.
 * flags: -D_GNU_SOURCE -fno-omit-frame-pointer -fno-optimize-sibling-calls */
#include "stacks.c"
