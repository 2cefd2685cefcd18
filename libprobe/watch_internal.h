/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_WATCH_INTERNAL_H
#define LIBPROBE_WATCH_INTERNAL_H

#include "libprobe/launch.h"
#include "probe/watch.h"

/* The programs that a watch holds; owned by it. */
struct launches *watch_launches(struct probe_watch *watch);

#endif
