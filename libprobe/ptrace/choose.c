/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

/*
 * What it costs a thread to make calls for us, from what it is doing (proc_pid_syscall(5)).
 * A call that the kernel begins again by a block of data of the thread's would end with
 * EINTR if we died; one that cannot stop is no choice at all.
 */
enum cost { COST_NONE, COST_RESTART, COST_WAIT, COST_BLOCK, COST_UNFIT };

static enum cost cost_of(pid_t pid, pid_t tid)
{
	char path[64], text[256];
	char state, *rest;
	long number;

	errno = 0;
	state = procfs_thread_state(pid, tid);
	if (!state && procfs_no_room(errno))
		return COST_RESTART;
	if (!state || strchr("ZXxD", state))
		return COST_UNFIT;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	if (!file_read(path, text, sizeof(text)))
		return COST_RESTART;
	number = strtol(text, &rest, 10);
	if (rest == text || number < 0) /* "running", or "-1": in none */
		return COST_NONE;
	return restart_has_block(number, rest) ? COST_BLOCK
	       : restart_is_wait(number)       ? COST_WAIT
					       : COST_RESTART;
}

static bool is_unable(const struct choose_unable *unable, pid_t tid)
{
	for (size_t i = 0; i < unable->count; i++)
		if (unable->tids[i] == tid)
			return true;
	return unable->count == CHOOSE_LOOKS;
}

struct probe_error *choose_thread(pid_t pid, const struct seccomp *seccomp,
	const struct choose_unable *unable, pid_t *best_ret)
{
	DIR *threads = procfs_threads(pid);
	enum cost least = COST_UNFIT;
	pid_t tid;

	*best_ret = 0;
	if (!threads)
		return errno == ENOENT ? procfs_no_process(pid)
				       : probe_error_system(errno, "/proc/%d/task", pid);
	for (int i = 0; i < CHOOSE_LOOKS && least && (tid = procfs_next_thread(pid, threads));) {
		enum cost cost = COST_UNFIT;

		if (!is_unable(unable, tid) && seccomp_may_run(seccomp, tid))
			cost = cost_of(pid, tid);
		if (cost < least) {
			least = cost;
			*best_ret = tid;
		}
		i += cost < COST_UNFIT;
	}
	closedir(threads);
	return NULL;
}
