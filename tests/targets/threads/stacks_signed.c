/* SPDX-License-Identifier: MIT */
/* stacks.c, which signs return addresses on aarch64.
 * flags: -D_GNU_SOURCE -fomit-frame-pointer -fno-optimize-sibling-calls */
#ifdef __aarch64__
#define PROTECTED __attribute__((target("branch-protection=pac-ret+leaf")))
#endif
#include "stacks.c"
