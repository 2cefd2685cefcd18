/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_SELF_H
#define LIBPROBE_SELF_SELF_H

#include "libprobe/self/helper.h"

/*
 * One change at a time in this process. A child that is forked meanwhile finds it
 * unlocked, and complete.
 */
void self_lock(void);
void self_unlock(void);

/* With the lock, in a child that was just forked (functions of hooks: connect.c). */
void self_after_fork(void);

#endif
