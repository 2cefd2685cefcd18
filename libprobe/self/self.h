/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_SELF_H
#define LIBPROBE_SELF_SELF_H

#include "libprobe/self/helper/helper.h"
#include "probe/self.h"

/*
 * Serialises changes in this process. A child forked meanwhile sees the lock free, and
 * consistent state. While a thread holds the lock, it cannot be cancelled (pthread_cancel(3)).
 * Pass what self_lock() returns to self_unlock().
 */
int self_lock(void);
void self_unlock(int cancel);

/*
 * The same for a thread that may hold the loader's lock, for which the thread with this lock may
 * wait: false if it is not free in time, or this thread's own.
 */
bool self_lock_soon(int *cancel_ret);

typedef void followed_call(
	const struct probe_report *report, const struct probe_error *error, void *data);

/* What was connected in libraries that were opened (connect.c). */
struct followed {
	struct probe_report report;
	struct probe_error *error;
	followed_call *told;
	void *data;
};
/* With the lock: connects what could not be connected when a library was opened. */
void self_catch_up(struct followed *ret);
bool self_is_behind(void);
/* Without the lock: tells the program, and frees it. */
void self_tell(struct followed *followed);

/* With the lock, in a child that was just forked (functions of hooks: connect.c). */
void self_after_fork(void);

#endif
