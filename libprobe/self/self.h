/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_SELF_H
#define LIBPROBE_SELF_SELF_H

#include "libprobe/self/helper/helper.h"
#include "probe/self.h"

/*
 * Takes the lock of changes in this process. In a child forked meanwhile it is free, and the state
 * consistent. A thread with it cannot be cancelled (pthread_cancel(3)). Pass the result to
 * self_unlock().
 */
int self_lock(void);
void self_unlock(int cancel);

typedef void followed_call(
	const struct probe_report *report, const struct probe_error *error, void *data);

/* The report about opened libraries, and its receiver. */
struct followed {
	struct probe_report report;
	struct probe_error *error;
	followed_call *told;
	void *data;
};

#endif
