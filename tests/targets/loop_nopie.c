/* SPDX-License-Identifier: MIT */
/* loop.c, not position-independent: a pun's address is then known.
 * flags: -fno-pie -no-pie -pthread -D_GNU_SOURCE */
#include "loop.c"
