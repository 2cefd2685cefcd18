/* SPDX-License-Identifier: MIT */
/*
 * Finds out how a process that is not our child has ended: from /proc/PID/stat until its parent has
 * waited for it, then only from a pidfd opened before (PIDFD_GET_INFO, since Linux 6.15).
 *
 * Sources: proc_pid_stat(5), exit_code; include/uapi/linux/pidfd.h of Linux.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

enum { INFO_EXIT = 1 << 3 };

/* The first version of the kernel's struct pidfd_info. */
struct info {
	uint64_t mask, cgroup;
	uint32_t pid, thread_group, parent, ids[8];
	int32_t exit_code;
};
_Static_assert(sizeof(struct info) == 64, "PIDFD_INFO_SIZE_VER0");

void fate_begin(struct probe_target *target)
{
	if (target->events)
		return;
	target->events = cgroup_events(target->pid);
	target->kills = cgroup_kills(target->events);
}

/* Gets the wait status of an ended process. Returns false if unknown. */
static bool exit_status(const struct probe_target *target, int pidfd, int *ret)
{
	struct info info = {.mask = INFO_EXIT};

	if (procfs_exit_status(target->pid, target->start_time, ret))
		return true;
	if (pidfd < 0 || ioctl(pidfd, _IOWR(0xff, 11, struct info), &info) < 0 ||
		!(info.mask & INFO_EXIT))
		return false;
	*ret = info.exit_code;
	return true;
}

void probe_target_fate(const struct probe_target *target, int pidfd, struct probe_fate *ret)
{
	bool killed = cgroup_kills(target->events) > target->kills;
	int status;

	*ret = (struct probe_fate){0};
	if (exit_status(target, pidfd, &status) && WIFSIGNALED(status))
		ret->signal = WTERMSIG(status);
	ret->out_of_memory = killed && ret->signal == SIGKILL;
}
