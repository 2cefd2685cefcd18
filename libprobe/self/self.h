/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_SELF_H
#define LIBPROBE_SELF_SELF_H

#include "libprobe/self/helper/helper.h"
#include "probe/self.h"

/*
 * Takes the lock that serialises changes in this process. If a child is forked meanwhile, the lock
 * is free in the child, and the state is consistent. While a thread holds the lock, the thread
 * cannot be cancelled (pthread_cancel(3)). Pass the result of self_lock() to self_unlock().
 */
int self_lock(void);
void self_unlock(int cancel);

typedef void followed_call(
	const struct probe_report *report, const struct probe_error *error, void *data);

/* The report, and its receiver, when functions were connected to the probes of opened libraries. */
struct followed {
	struct probe_report report;
	struct probe_error *error;
	followed_call *told;
	void *data;
};

#endif
