/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread -static */
/* launch with an execve() that is not in a library. */
#include "launch.c"
