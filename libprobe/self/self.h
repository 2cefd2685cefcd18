/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_SELF_H
#define LIBPROBE_SELF_SELF_H

#include "libprobe/self/helper.h"

/*
 * Serialises changes in this process. A child forked meanwhile sees the lock free, and
 * consistent state. While a thread holds the lock, it cannot be cancelled (pthread_cancel(3)).
 * Pass what self_lock() returns to self_unlock().
 */
int self_lock(void);
void self_unlock(int cancel);

/* With the lock, in a child that was just forked (functions of hooks: connect.c). */
void self_after_fork(void);

#endif
