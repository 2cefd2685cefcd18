/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"

enum { VALUE_BYTES = 512, STAT_BYTES = 1024 };

struct procfs_path procfs_path(const char *format, ...)
{
	struct procfs_path path;
	va_list ap;

	va_start(ap, format);
	vsnprintf(path.text, sizeof(path.text), format, ap);
	va_end(ap);
	return path;
}

/*
 * Reads the text after a key of the status file. Returns false if it is missing (errno is 0 if the
 * file was readable). Reads line by line, because the line of groups may be long.
 */
static bool status_value(pid_t pid, const char *key, char value[VALUE_BYTES])
{
	size_t have = 0, length = strlen(key);
	bool found = false, skipped = false; /* skipped: the line is too long for the buffer */
	AUTO_FD int fd = open(procfs_path("/proc/%d/status", pid).text, O_RDONLY | O_CLOEXEC);
	char buffer[4096];
	ssize_t got;

	if (fd < 0)
		return false;
	while (!found && (got = read(fd, buffer + have, sizeof(buffer) - have)) > 0) {
		char *line = buffer, *end = buffer + have + got, *newline;

		while (!found && (newline = memchr(line, '\n', (size_t)(end - line)))) {
			*newline = '\0';
			found = !skipped && strncmp(line, key, length) == 0;
			if (found)
				snprintf(value, VALUE_BYTES, "%s", line + length);
			skipped = false;
			line = newline + 1;
		}
		have = (size_t)(end - line);
		skipped |= have == sizeof(buffer);
		have = skipped ? 0 : have;
		memmove(buffer, line, have);
	}
	if (!found)
		errno = 0;
	return found;
}

long procfs_status_number(pid_t pid, const char *key)
{
	char value[VALUE_BYTES];

	return status_value(pid, key, value) ? strtol(value, NULL, 10) : -1;
}

size_t procfs_status_numbers(pid_t pid, const char *key, long ret[PROCFS_NUMBERS_MAX])
{
	char value[VALUE_BYTES], *rest = NULL;
	size_t count = 0;

	if (!status_value(pid, key, value))
		return 0;
	for (char *word = strtok_r(value, " \t", &rest); word && count < PROCFS_NUMBERS_MAX;
		word = strtok_r(NULL, " \t", &rest))
		ret[count++] = strtol(word, NULL, 10);
	return count;
}

long procfs_status_last_number(pid_t pid, const char *key)
{
	long numbers[PROCFS_NUMBERS_MAX];
	size_t count = procfs_status_numbers(pid, key, numbers);

	return count ? numbers[count - 1] : -1;
}

bool procfs_status_has(pid_t pid, const char *key, const char *word)
{
	char value[VALUE_BYTES];

	return status_value(pid, key, value) && strstr(value, word);
}

bool procfs_status_text(pid_t pid, const char *key, char *buffer, size_t size)
{
	char value[VALUE_BYTES], *rest = NULL, *word;

	if (!status_value(pid, key, value))
		return false;
	word = strtok_r(value, " \t", &rest);
	if (!word || strlen(word) >= size)
		return false;
	strcpy(buffer, word);
	return true;
}

bool procfs_is_same_text(pid_t pid, const char *name)
{
	enum { TEXT_MAX = 8192 }; /* a long name for each hierarchy of cgroups(7) */
	char ours[TEXT_MAX], theirs[TEXT_MAX];
	size_t length = file_read(procfs_path("/proc/self/%s", name).text, ours, sizeof(ours));

	return length && length < sizeof(ours) - 1 &&
	       file_read(procfs_path("/proc/%d/%s", pid, name).text, theirs, sizeof(theirs)) ==
		       length &&
	       memcmp(ours, theirs, length) == 0;
}

bool procfs_is_same_link(pid_t pid, const char *name)
{
	char ours[PATH_MAX], theirs[PATH_MAX];
	ssize_t length = readlink(procfs_path("/proc/self/%s", name).text, ours, sizeof(ours));

	return length > 0 &&
	       readlink(procfs_path("/proc/%d/%s", pid, name).text, theirs, sizeof(theirs)) ==
		       length &&
	       memcmp(ours, theirs, (size_t)length) == 0;
}

long procfs_file_number(const char *path)
{
	char buffer[64];

	return file_read(path, buffer, sizeof(buffer)) ? strtol(buffer, NULL, 10) : -1;
}

void procfs_comm(pid_t pid, char *buffer, size_t size)
{
	if (!file_read(procfs_path("/proc/%d/comm", pid).text, buffer, size))
		snprintf(buffer, size, "?");
	buffer[strcspn(buffer, "\n")] = '\0';
}

DIR *procfs_threads(pid_t pid)
{
	return opendir(procfs_path("/proc/%d/task", pid).text);
}

int procfs_open_threads(pid_t pid)
{
	return open(procfs_path("/proc/%d/task", pid).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

DIR *procfs_processes(void)
{
	return opendir("/proc");
}

pid_t procfs_next_id(DIR *list)
{
	struct dirent *entry;

	while (list && (entry = readdir(list))) {
		pid_t id = atoi(entry->d_name);

		if (id > 0) /* other entries are not numbers */
			return id;
	}
	return 0;
}

/* Returns field n > 2 of a stat file (proc_pid_stat(5)). The command may have any characters. */
static const char *stat_field(const char *path, int n, char buffer[STAT_BYTES])
{
	const char *field;

	if (!file_read(path, buffer, STAT_BYTES))
		return NULL;
	field = strrchr(buffer, ')');
	for (int i = 2; field && i < n; i++) {
		field = strchr(field, ' ');
		field = field ? field + 1 : NULL;
	}
	return field;
}

static const char *thread_field(pid_t pid, pid_t tid, int n, char buffer[STAT_BYTES])
{
	return stat_field(procfs_path("/proc/%d/task/%d/stat", pid, tid).text, n, buffer);
}

static const char *process_field(pid_t pid, int n, char buffer[STAT_BYTES])
{
	return stat_field(procfs_path("/proc/%d/stat", pid).text, n, buffer);
}

char procfs_thread_state(pid_t pid, pid_t tid)
{
	char buffer[STAT_BYTES];
	const char *field = thread_field(pid, tid, 3, buffer);

	return field ? *field : 0;
}

int procfs_thread_cpu(pid_t pid, pid_t tid)
{
	char buffer[STAT_BYTES];
	const char *field = thread_field(pid, tid, 39, buffer);

	return field ? atoi(field) : -1;
}

struct probe_error *procfs_check(void)
{
	char self[24];
	ssize_t length = readlink("/proc/self", self, sizeof(self) - 1);

	if (length < 0)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"/proc/self: %s: probes are switched through /proc, which must be mounted",
			strerror(errno));
	self[length] = '\0';
	if (strtol(self, NULL, 10) != getpid())
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"/proc belongs to another pid namespace, where process %d is %s: mount the "
			"one of this namespace",
			(int)getpid(), self);
	return NULL;
}

struct probe_error *procfs_no_process(pid_t pid)
{
	struct probe_error *error = procfs_check();

	return error ?: error_numbered(PROBE_ERROR_NOT_FOUND, ESRCH, "there is no process %d", pid);
}

long procfs_last_pid(int fd)
{
	char buffer[128];
	ssize_t length = pread(fd, buffer, sizeof(buffer) - 1, 0);
	const char *last;

	buffer[length < 0 ? 0 : length] = '\0';
	last = strrchr(buffer, ' ');
	return last ? strtol(last, NULL, 10) : -1;
}

pid_t procfs_parent(pid_t pid)
{
	char buffer[STAT_BYTES];
	const char *field = process_field(pid, 4, buffer);

	return field ? (pid_t)strtol(field, NULL, 10) : 0;
}

pid_t procfs_living(pid_t pid)
{
	AUTO_DIR DIR *threads = procfs_thread_state(pid, pid) == 'Z' ? procfs_threads(pid) : NULL;
	pid_t tid;

	while ((tid = procfs_next_thread(pid, threads))) {
		char state = procfs_thread_state(pid, tid);

		if (state && !strchr("ZXx", state))
			return tid;
	}
	return pid;
}

bool procfs_is_zombie(pid_t pid)
{
	/* The main thread may end before the others. */
	return procfs_thread_state(pid, pid) == 'Z' && procfs_status_number(pid, "Threads:") <= 1;
}

bool procfs_kernel_is_since(int major, int minor)
{
	struct utsname name;
	int its_major, its_minor;

	return uname(&name) == 0 && sscanf(name.release, "%d.%d", &its_major, &its_minor) == 2 &&
	       (its_major > major || (its_major == major && its_minor >= minor));
}

/*
 * io_uring's workers and pollers are tasks of the process since Linux 5.12 (PF_IO_WORKER), vhost's
 * workers since 6.4 (PF_USER_WORKER). In older kernels, the first bit meant PF_VCPU, and the second
 * bit marked users of async_schedule(). Stable kernels from 5.10.162 on have 5.15's io_uring: there
 * only the task's name tells.
 *
 * Source: include/linux/sched.h and io_uring/io-wq.c of Linux.
 */
bool procfs_is_worker(pid_t pid, pid_t tid)
{
	enum { IO_WORKER = 0x10, USER_WORKER = 0x4000 };
	char buffer[STAT_BYTES];
	const char *field = thread_field(pid, tid, 9, buffer);
	unsigned long flags = field ? strtoul(field, NULL, 10) : 0;

	if (flags & IO_WORKER)
		return procfs_kernel_is_since(5, 12) || strstr(buffer, "(iou-");
	return flags & USER_WORKER && procfs_kernel_is_since(6, 4);
}

pid_t procfs_next_thread(pid_t pid, DIR *threads)
{
	pid_t tid;

	while ((tid = procfs_next_id(threads)) && procfs_is_worker(pid, tid))
		;
	return tid;
}

bool procfs_is_kernel_thread(pid_t pid)
{
	enum { KERNEL_THREAD = 0x200000 }; /* PF_KTHREAD, from the same header */
	char buffer[STAT_BYTES];
	const char *field = process_field(pid, 9, buffer);

	return field && strtoul(field, NULL, 10) & KERNEL_THREAD;
}

bool procfs_is_exiting(pid_t pid)
{
	enum { EXITING = 0x4 }; /* PF_EXITING in include/linux/sched.h */
	AUTO_DIR DIR *threads = procfs_threads(pid);
	pid_t tid;

	while ((tid = procfs_next_thread(pid, threads))) {
		char buffer[STAT_BYTES];
		const char *flags = thread_field(pid, tid, 9, buffer);

		/* A thread is gone, or exits: do_exit() sets the flag first. */
		if (flags ? !(strtoul(flags, NULL, 10) & EXITING)
			  : errno != ENOENT && errno != ESRCH)
			return false;
	}
	return threads != NULL;
}

uint64_t procfs_start_time_of(const char *path)
{
	char buffer[STAT_BYTES];
	const char *field;

	errno = 0;
	field = stat_field(path, 22, buffer);
	return field ? strtoull(field, NULL, 10) : 0;
}

uint64_t procfs_start_time(pid_t pid)
{
	return procfs_start_time_of(procfs_path("/proc/%d/stat", pid).text);
}

uint64_t procfs_age_ns(pid_t pid)
{
	uint64_t start = procfs_start_time(pid), now;
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	start *= 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	return !start ? UINT64_MAX : now > start ? now - start : 0;
}

bool procfs_exit_status(pid_t pid, uint64_t start_time, int *ret)
{
	char buffer[STAT_BYTES];
	const char *field;

	if (!procfs_is_zombie(pid) || procfs_start_time(pid) != start_time)
		return false;
	field = process_field(pid, 52, buffer);
	*ret = field ? atoi(field) : 0;
	return field != NULL;
}

bool procfs_no_room(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM;
}

int procfs_open_regular(int path_fd, int flags)
{
	struct stat st;

	if (fstat(path_fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	return open(procfs_path("/proc/self/fd/%d", path_fd).text, flags | O_CLOEXEC);
}

/* ---- Mounts --------------------------------------------------------------------------- */

/* Finds the type of a device's file system in a list of mounts (proc_pid_mountinfo(5)). */
static bool find_type(const char *path, const char *device, char type[PROCFS_MOUNT_TYPE])
{
	AUTO_FILE FILE *file = fopen(path, "re");
	AUTO_FREE char *line = NULL;
	char found[32];
	size_t room = 0;

	while (file && getline(&line, &room, file) > 0) {
		const char *end = strstr(line, " - ");

		if (end && sscanf(line, "%*d %*d %31s", found) == 1 && strcmp(found, device) == 0 &&
			sscanf(end, " - %63s", type) == 1)
			return true;
	}
	return false;
}

bool procfs_mount_type(
	pid_t pid, uint32_t dev_major, uint32_t dev_minor, char type[PROCFS_MOUNT_TYPE])
{
	char device[32];

	snprintf(device, sizeof(device), "%u:%u", dev_major, dev_minor);
	/* A mount below a container's overlay may be only in our list. */
	return find_type(procfs_path("/proc/%d/mountinfo", pid).text, device, type) ||
	       find_type("/proc/self/mountinfo", device, type);
}
