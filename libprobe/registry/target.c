/* SPDX-License-Identifier: MIT */
/*
 * Targets: opened, changed, closed. Some stay stopped between two calls: started ones
 * (libprobe/follow/launch.c), and those that several steps change.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"

/* ==== Target ================================================================================== */

/* ---- Processes --------------------------------------------------------------------- */

struct probe_target *target_create(pid_t pid, uint64_t start_time)
{
	struct probe_target *target = malloc(sizeof(*target));

	if (target)
		*target = (struct probe_target){.pid = pid, .start_time = start_time, .mem = -1};
	return target;
}

static struct probe_error *check_exe(pid_t pid, const char *exe)
{
	struct procfs_path path = procfs_path("/proc/%d/exe", procfs_living(pid));
	struct stat wanted, running;
	char link[4096];
	ssize_t length;

	if (stat(exe, &wanted) < 0)
		return probe_error_system(errno, "%s", exe);
	if (stat(path.text, &running) < 0)
		return errno == ENOENT ? procfs_no_process(pid)
				       : probe_error_system(errno, "%s", path.text);
	if (wanted.st_dev == running.st_dev && wanted.st_ino == running.st_ino)
		return NULL;
	length = readlink(path.text, link, sizeof(link) - 1);
	link[length < 0 ? 0 : length] = '\0';
	return probe_error_new(
		PROBE_ERROR_STATE, "process %d does not run %s but %s", pid, exe, link);
}

struct probe_error *probe_target_open(pid_t pid, const char *exe, struct probe_target **ret)
{
	struct probe_error *error = procfs_check();
	uint64_t start;

	if (error)
		return error;
	start = procfs_start_time(pid);
	if (!start)
		return procfs_no_room(errno) ? probe_error_system(errno, "/proc/%d/stat", pid)
					     : procfs_no_process(pid);
	if (procfs_is_zombie(pid))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has ended, and its parent has not waited for it yet", pid);
	if (procfs_is_kernel_thread(pid))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d is a kernel thread, which has no probes", pid);
	error = exe ? check_exe(pid, exe) : NULL;
	if (error)
		return error;
	*ret = target_create(pid, start);
	return *ret ? NULL : probe_error_no_memory();
}

struct probe_error *probe_target_executable(const struct probe_target *target, char **ret)
{
	struct procfs_path path = procfs_path("/proc/%d/exe", procfs_living(target->pid));
	char link[4096];
	ssize_t length = readlink(path.text, link, sizeof(link) - 1);

	/* The pid may belong to another process by now. */
	if (!probe_target_alive(target) || (length < 0 && errno == ENOENT))
		return procfs_no_process(target->pid);
	if (length < 0)
		return probe_error_system(errno, "%s", path.text);
	link[length] = '\0';
	*ret = strdup(link);
	return *ret ? NULL : probe_error_no_memory();
}

void probe_target_on_wait(struct probe_target *target,
	bool (*on_wait)(pid_t pid, unsigned int seconds, const char *holder, void *data),
	void *data)
{
	target->on_wait = on_wait;
	target->on_wait_data = data;
}

pid_t probe_target_pid(const struct probe_target *target)
{
	return target->pid;
}

bool probe_target_alive(const struct probe_target *target)
{
	pid_t pid = target->pid;

	if (procfs_start_time(pid) != target->start_time)
		return false;
	/* Look for memory first: an exiting process frees it before it becomes a zombie. */
	if (procfs_status_number(pid, "VmSize:") >= 0)
		return true;
	/* The main thread may end before the other threads do. */
	return procfs_thread_state(pid, pid) == 'Z' && procfs_status_number(pid, "Threads:") > 1;
}

bool target_is_there(const struct probe_target *target)
{
	uint64_t image;

	if (target->mem < 0)
		return probe_target_alive(target);
	if (!memory_is_there(target->mem))
		return false;
	/*
	 * After execve(2), `mem` stays readable while a reader of /proc/PID/maps holds the old
	 * memory, so the image is compared, too.
	 */
	return !target->image || !auxv_read_image(target->pid, &image) || image == target->image;
}

bool probe_target_frozen(const struct probe_target *target)
{
	char group[CGROUP_PATH_BYTES];

	return cgroup_frozen(target->pid, group);
}

const char *target_string(struct probe_target *target, const char *text)
{
	size_t size = strlen(text) + 1;
	struct target_text *copy = malloc(sizeof(*copy) + size);

	if (!copy)
		return NULL;
	memcpy(copy->text, text, size);
	copy->next = target->texts;
	target->texts = copy;
	return copy->text;
}

/* ---- Release ------------------------------------------------------------------------- */

bool target_let_go(struct probe_target *target)
{
	bool collect = target->attached && target->dropped;

	target->held = target->alone = target->hurry = target->attached = target->dropped = false;
	target->held_ns = control_resume(&target->control);
	return collect && probe_target_alive(target);
}

void target_free(struct probe_target *target)
{
	cleanup_fd(&target->mem);
	while (target->texts) {
		struct target_text *text = target->texts;

		target->texts = text->next;
		free(text);
	}
	files_release(target->files);
	free(target->served);
	free(target->events);
	free(target);
}

/* ==== Fate ==================================================================================== */

/*
 * Finds out how a process that is not our child has ended: from /proc/PID/stat until its parent has
 * waited for it; after that, only from a pidfd opened earlier (PIDFD_GET_INFO, since Linux 6.15).
 *
 * Sources: proc_pid_stat(5), exit_code; include/uapi/linux/pidfd.h of Linux.
 */

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

void probe_target_fate(const struct probe_target *target, int pidfd, struct probe_fate *ret)
{
	bool killed = cgroup_kills(target->events) > target->kills;
	struct info info = {.mask = INFO_EXIT};
	int status = 0;

	*ret = (struct probe_fate){0};
	if (!procfs_exit_status(target->pid, target->start_time, &status) && pidfd >= 0 &&
		ioctl(pidfd, _IOWR(0xff, 11, struct info), &info) >= 0 && info.mask & INFO_EXIT)
		status = info.exit_code;
	if (WIFSIGNALED(status))
		ret->signal = WTERMSIG(status);
	ret->out_of_memory = killed && ret->signal == SIGKILL;
}
