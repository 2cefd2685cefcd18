/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_FOLLOW_WATCH_H
#define LIBPROBE_FOLLOW_WATCH_H

#include "libprobe/follow/launch.h"
#include "probe/watch.h"

/* The programs that a watch holds; owned by it. */
struct launches *watch_launches(struct probe_watch *watch);

#endif
