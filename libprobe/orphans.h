/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_ORPHANS_H
#define LIBPROBE_ORPHANS_H

#include "libprobe/change.h"

/*
 * Unmaps data of sessions that never came to be: their controllers were killed
 * before the registry named them. Nothing else knows of it. Errors: those of
 * change_run().
 */
PROBE_MUST_CHECK struct probe_error *orphans_unmap(struct change *change);

#endif
