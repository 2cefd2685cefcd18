/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread -static */
/* launch, whose execve() is no library's. */
#include "launch.c"
