/* SPDX-License-Identifier: MIT */
#define LOOP_NOPIE 1
#include "loop_sites.S"
