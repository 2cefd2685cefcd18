/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_SELF_H
#define LIBPROBE_SELF_SELF_H

#include "libprobe/self/helper.h"

/*
 * One change at a time in this process. A child that is forked meanwhile finds it
 * unlocked, and complete; a thread that is cancelled (pthread_cancel(3)) lives until it is
 * unlocked. What self_lock() returns is for self_unlock().
 */
int self_lock(void);
void self_unlock(int cancel);

/* With the lock, in a child that was just forked (functions of hooks: connect.c). */
void self_after_fork(void);

#endif
