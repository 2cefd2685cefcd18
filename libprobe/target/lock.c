/* SPDX-License-Identifier: MIT */
/*
 * The lock is one on a file of /proc/PID, which lasts no longer than the controller that has it.
 *
 * A change takes milliseconds, but seconds where the machine is busy or the program has thousands
 * of sites, and several controllers may wait for one. So the limit is far above that: it is there
 * for a controller that is itself stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/process/procfs.h"
#include "libprobe/target/lock.h"
#include "libprobe/target/target.h"

#define SECOND_NS UINT64_C(1000000000)
#define PATIENCE_NS (20 * SECOND_NS)
#define PATIENCE_LENT_NS (5 * SECOND_NS) /* a thread of the target waits for us */
#define PATIENCE_HURRY_NS (SECOND_NS / 10)
#define PAUSE_NS 10000000

static uint64_t patience_ns(const struct probe_target *target)
{
	return target->hurry ? PATIENCE_HURRY_NS : target->lender ? PATIENCE_LENT_NS : PATIENCE_NS;
}

static int open_status(pid_t pid, char path[48])
{
	snprintf(path, 48, "/proc/%d/status", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* `told`: how many seconds the listener knows of. It is told of each, also if we were delayed. */
static bool may_wait(const struct probe_target *target, uint64_t waited_ns, unsigned int *told)
{
	if (waited_ns >= patience_ns(target))
		return false;
	if (!target->on_wait || waited_ns / SECOND_NS <= *told)
		return true;
	++*told;
	return target->on_wait(target->pid, *told, target->on_wait_data);
}

struct probe_error *lock_target(const struct probe_target *target, int *fd_ret)
{
	uint64_t since = clock_monotonic_ns();
	unsigned int told = 0;
	char path[48];

	*fd_ret = open_status(target->pid, path);
	if (*fd_ret < 0)
		return errno == ENOENT ? procfs_no_process(target->pid)
				       : probe_error_system(errno, "%s", path);
	while (flock(*fd_ret, LOCK_EX | LOCK_NB) < 0) {
		if (!may_wait(target, clock_monotonic_ns() - since, &told)) {
			close(*fd_ret);
			*fd_ret = -1;
			return probe_error_new(PROBE_ERROR_STATE,
				"another probectl is changing the probes of process %d: try again",
				target->pid);
		}
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	return NULL;
}

bool lock_is_taken(pid_t pid)
{
	char path[48];
	int fd = open_status(pid, path);
	bool taken = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;

	if (fd >= 0)
		close(fd);
	return taken;
}
