/* SPDX-License-Identifier: MIT */
/*
 * The next stop of a thread that shares the processor with us mostly comes within microseconds, and
 * sched_yield(2) is the cheapest way to let it run. But whoever yields goes behind all that want
 * the processor. If a few programs compute there, each uses its time slice first: a yield then
 * takes some 20 ms, and a program whose loader is followed with a hundred of them, seconds.
 * Somebody who sleeps and is woken goes before them.
 *
 * Source: sched_yield(2); yield_task_fair() in kernel/sched/fair.c of Linux.
 */
#include <sched.h>

#include "libprobe/base/clock.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

enum {
	LONG_NS = 500000,	/* less than a time slice, and more than most stops are apart */
	CROWDED_NS = 1000000000 /* until it is tried again */
};

bool yield_once(struct yield *yield)
{
	uint64_t begun = clock_monotonic_ns(), ended;

	if (begun < yield->crowded_until_ns || !seccomp_may_call(SECCOMP_OWN_MOVE))
		return false;
	sched_yield();
	ended = clock_monotonic_ns();
	if (ended - begun > LONG_NS)
		yield->crowded_until_ns = ended + CROWDED_NS;
	return true;
}
