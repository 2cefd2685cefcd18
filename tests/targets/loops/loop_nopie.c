/* SPDX-License-Identifier: MIT */
/*
 * loop.c, not position-independent, so that a pun's address is known.
 * flags: -fno-pie -no-pie -pthread -D_GNU_SOURCE
 */
#include "loop.c"
