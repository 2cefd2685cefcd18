/* SPDX-License-Identifier: MIT */
/*
 * Targets as their users see them: opened, changed, and closed. Some stay stopped from one call to
 * the next: those that were started (libprobe/follow/spawn.c, libprobe/follow/launch.c), and those
 * that were stopped to be changed in several steps.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

/* ---- Processes --------------------------------------------------------------------- */

struct probe_target *target_create(pid_t pid, uint64_t start_time)
{
	struct probe_target *target = malloc(sizeof(*target));

	if (target)
		*target = (struct probe_target){.pid = pid, .start_time = start_time, .mem = -1};
	return target;
}

/* Does the process run this program? */
static struct probe_error *check_exe(pid_t pid, const char *exe)
{
	char path[48], link[4096];
	struct stat wanted, running;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", procfs_living(pid));
	if (stat(exe, &wanted) < 0)
		return probe_error_system(errno, "%s", exe);
	if (stat(path, &running) < 0)
		return errno == ENOENT ? procfs_no_process(pid)
				       : probe_error_system(errno, "%s", path);
	if (wanted.st_dev == running.st_dev && wanted.st_ino == running.st_ino)
		return NULL;
	length = readlink(path, link, sizeof(link) - 1);
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
	char path[48], link[4096];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", procfs_living(target->pid));
	length = readlink(path, link, sizeof(link) - 1);
	/* The id may be another process's by now. */
	if (!probe_target_alive(target) || (length < 0 && errno == ENOENT))
		return procfs_no_process(target->pid);
	if (length < 0)
		return probe_error_system(errno, "%s", path);
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

void probe_target_set_patience(struct probe_target *target, struct probe_patience *patience)
{
	target->patience = patience;
	patience_join(target);
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
	/* An exiting process frees its memory before it becomes a zombie. */
	if (procfs_status_number(pid, "VmSize:") >= 0)
		return true;
	/* The main thread may end before the others do. */
	return procfs_thread_state(pid, pid) == 'Z' && procfs_status_number(pid, "Threads:") > 1;
}

bool target_is_there(const struct probe_target *target)
{
	uint64_t image;

	if (target->mem < 0)
		return probe_target_alive(target);
	if (!memory_is_there(target->mem))
		return false;
	/* After execve(2), a reader of /proc/PID/maps keeps the old program's memory alive. */
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

/* ---- Held ---------------------------------------------------------------------------- */

/* Stops it. Another controller that is changing it must finish first. */
static struct probe_error *stop(struct probe_target *target)
{
	AUTO_CHANGE struct change c;
	struct probe_error *error = change_begin(target, &c);

	if (!error)
		error = change_stop(&c);
	if (error)
		return error;
	target->control = c.control;
	target->held = target->attached = true;
	c.stopped = false;
	/* Other processes need not wait while our caller decides. */
	control_calm(&target->control);
	return NULL;
}

struct probe_error *probe_target_attach(struct probe_target *target)
{
	if (target->held)
		return probe_error_new(PROBE_ERROR_STATE, "process %d is %s already", target->pid,
			target->attached ? "attached to" : "held");
	return stop(target);
}

bool target_let_go(struct probe_target *target)
{
	bool collect = target->attached && target->dropped;

	target->held = target->alone = target->hurry = target->attached = target->dropped = false;
	control_resume(&target->control);
	return collect && probe_target_alive(target);
}

void target_free(struct probe_target *target)
{
	if (target->mem >= 0)
		close(target->mem);
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
