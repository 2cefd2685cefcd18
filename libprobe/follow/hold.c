/* SPDX-License-Identifier: MIT */
/*
 * A thread that a guardian holds is in execve(2), and is to be traced before it goes on.
 *
 * ptrace(2) takes a lock (cred_guard_mutex) that execve(2) holds, too: since Linux 6.8 it opens the
 * program's file before it takes the lock, but the interpreter of a script after it, and older
 * kernels open all files after it. Seizing a thread that holds the lock would wait for the
 * guardian, who waits for us. So
 *
 *	the file is the program's	seized, then let go: its execve(2) stops for certain
 *	it is an interpreter's, or	let go, then seized: we wait for the lock, which is given
 *	that is not known		back before the event of execve(2). Mostly we are in time
 *
 * The kernel tells of a thread before it waits. What it executes is known only then, and where
 * others want the processor, that takes a while.
 *
 * One that we miss is released at its next system call, and found by looking.
 *
 * Which file it is tells the path that the thread has passed to execve(2). It is looked up without
 * asking any file system (RESOLVE_CACHED): the kernel has just looked it up itself.
 *
 * Sources: fs/exec.c, kernel/ptrace.c of Linux; proc_pid_syscall(5); openat2(2).
 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/process/process.h"
#include "libprobe/follow/follow.h"
#include "libprobe/base/procfs.h"

enum {
	LINUX_MAJOR = 6,
	LINUX_MINOR = 8,
	EVENTS_MAX = 64,
	QUEUED_NS = 50000000 /* at most, until a thread waits; a guardian holds ten times as long */
};

/* Where the path is that a thread has passed to execve(2); 0: not known, or `running_ret`. */
static uint64_t path_address(pid_t tid, bool *running_ret)
{
	char path[48], text[256] = "";
	unsigned long address;
	long call;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)tid);
	if (file_read(path, text, sizeof(text)) && sscanf(text, "%ld %lx", &call, &address) == 2)
		return call == SYS_execve ? address : 0;
	*running_ret = strncmp(text, "running", strlen("running")) == 0;
	return 0;
}

/* Opens a path as a thread sees it, to identify the file; -1: the kernel does not have it at hand.
 */
static int open_as_seen(pid_t tid, const char *name)
{
	char from[48];
	int folder, fd;

	snprintf(from, sizeof(from), "/proc/%d/%s", (int)tid, name[0] == '/' ? "root" : "cwd");
	folder = open(from, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -1;
	fd = cached_open(folder, name, name[0] == '/' ? RESOLVE_IN_ROOT : 0);
	close(folder);
	return fd;
}

/* Is it known that the thread does not hold the lock? A running one has not begun to wait yet. */
static bool may_be_seized(const struct guardian_event *event, bool *running_ret)
{
	char name[RIGHTS_PATH_MAX];
	uint64_t address = procfs_kernel_is_since(LINUX_MAJOR, LINUX_MINOR)
				   ? path_address(event->tid, running_ret)
				   : 0;
	struct file_id file;
	bool same;
	int fd;

	if (!address || !rights_read_path(event->tid, address, name))
		return false;
	fd = open_as_seen(event->tid, name);
	if (fd < 0)
		return false;
	same = cached_identify(fd, &file) && file_id_same(&file, &event->file);
	close(fd);
	return same;
}

/* False, unless `at_once`: the thread does not wait yet, so it is not known what it executes. */
static bool serve(struct launches *launches, struct guardian *guardian,
	const struct guardian_event *event, bool at_once)
{
	bool running = false, seized;
	pid_t pid;

	/* We have been stopped, or were busy: it has gone on. */
	if (clock_monotonic_ns() >= event->until_ns) {
		launches->missed++;
		return true;
	}
	pid = (pid_t)procfs_status_number(event->tid, "Tgid:");
	seized = pid > 0 && may_be_seized(event, &running);
	if (running && !at_once)
		return false;
	if (seized)
		launches_begin(launches, pid, event->tid, &event->file);
	guardian_allow(guardian, event);
	if (pid > 0 && !seized)
		launches_begin(launches, pid, event->tid, &event->file);
	return true;
}

void hold_serve(struct launches *launches, struct guardian *guardian)
{
	static const struct timespec a_moment = {.tv_nsec = 100 * 1000};
	const uint64_t last_ns = clock_monotonic_ns() + QUEUED_NS;
	struct guardian_event events[EVENTS_MAX];
	size_t count = 0, left;
	bool at_once;

	do {
		at_once = clock_monotonic_ns() >= last_ns;
		while (count < EVENTS_MAX && guardian_next(guardian, &events[count]))
			count++;
		left = 0;
		for (size_t i = 0; i < count; i++)
			if (!serve(launches, guardian, &events[i], at_once))
				events[left++] = events[i];
		count = left;
		if (count)
			nanosleep(&a_moment, NULL);
	} while (count);
	launches->missed += guardian_missed(guardian);
}

void hold_finish(struct launches *launches, struct guardian *guardian)
{
	struct guardian_event event;

	/* What still waits starts after the end. */
	while (guardian_next(guardian, &event))
		launches->missed += clock_monotonic_ns() >= event.until_ns;
	launches->missed += guardian_missed(guardian);
}

bool hold_has_started(pid_t pid, const struct file_id *file)
{
	char path[48];
	struct file_id now;
	bool same;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return true;
	same = cached_identify(fd, &now) && file_id_same(&now, file);
	close(fd);
	return same;
}
