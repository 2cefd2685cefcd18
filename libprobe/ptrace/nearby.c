/* SPDX-License-Identifier: MIT */
/*
 * A tracer that follows a thread from stop to stop sleeps while the thread runs, and the thread
 * sleeps while the tracer runs. On one processor this is a context switch of a few microseconds. On
 * two, each has to wake the other from its idle state, which costs ten times as much on a virtual
 * machine. The scheduler leaves both where they are, but starts each new process and program on the
 * idlest processor.
 *
 * Source: sched(7), sched_setaffinity(2).
 */
#include <sched.h>

#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

void nearby_move(pid_t pid, pid_t tid)
{
	int cpu = seccomp_may_call(SECCOMP_OWN_MOVE) ? procfs_thread_cpu(pid, tid) : -1;
	cpu_set_t before, there;

	if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == sched_getcpu() ||
		sched_getaffinity(0, sizeof(before), &before) < 0 || !CPU_ISSET(cpu, &before))
		return;
	CPU_ZERO(&there);
	CPU_SET(cpu, &there);
	if (sched_setaffinity(0, sizeof(there), &there) == 0)
		sched_setaffinity(0, sizeof(before), &before);
}
