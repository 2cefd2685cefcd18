/* SPDX-License-Identifier: MIT */
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include <stdint.h>
#include <time.h>

enum { NSEC_PER_SEC = 1000000000 };

/* What a clock says, in nanoseconds. */
uint64_t clock_ns(clockid_t clock);

#endif
