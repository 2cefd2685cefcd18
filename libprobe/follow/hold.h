/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_FOLLOW_HOLD_H
#define LIBPROBE_FOLLOW_HOLD_H

#include "libprobe/follow/guardian.h"
#include "libprobe/follow/launch.h"

/* Follows the threads that a guardian holds into the programs that they execute. */
void hold_serve(struct launches *launches, struct guardian *guardian);

#endif
