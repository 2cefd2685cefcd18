/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_TARGET_FATE_H
#define LIBPROBE_TARGET_FATE_H

#include "probe/target.h"

/* Notes, once, the values that probe_target_fate() compares with. */
void fate_begin(struct probe_target *target);

#endif
