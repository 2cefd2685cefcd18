/* SPDX-License-Identifier: MIT */
/*
 * A stopped thread of the target makes a memfd, and the controller takes the open file by
 * pidfd_getfd(2), which opens nothing and is one call. Where that cannot be, it opens the file
 * through /proc/PID/task/TID/fd. Other threads run meanwhile, and the number may come to name
 * another file: one that the controller may write but the target may not, or a device that reacts
 * to being opened. So the controller first looks the name up without opening it (O_PATH), and
 * opens and writes only a memfd that is still in its initial state.
 *
 * Access to a mapping past the end of its file raises SIGBUS. So the file's size is sealed
 * (fcntl(2), "File Sealing") before it is mapped here. The target may have mapped it already, but
 * learns the address only after the size is set.
 *
 * With the sysctl vm.memfd_noexec, kernels from 6.3 on seal the mode of such a file
 * (F_SEAL_EXEC), so that execve(2) refuses it; some refuse to create one without that flag.
 * Code can be mapped from it all the same. Source: Documentation/userspace-api/mfd_noexec.rst
 * of Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

_Static_assert(
	SHARED_MEMFD_FLAGS == (MFD_CLOEXEC | MFD_ALLOW_SEALING), "as memfd_create(2) has it");

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct probe_error *shared_replaced(pid_t pid)
{
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d has closed or replaced the shared memory that it made for probectl: "
		"try again",
		pid);
}

/* Threads may have tables of descriptors of their own (unshare(2)). */
static void path_of(pid_t pid, pid_t tid, int64_t fd, char *path, size_t size)
{
	snprintf(path, size, "/proc/%d/task/%d/fd/%jd", pid, tid, (intmax_t)fd);
}

bool shared_is_same(pid_t pid, pid_t tid, int64_t fd, int ours, bool is_taken)
{
	char path[64], link[PATH_MAX];
	struct stat a, b;
	ssize_t length;

	/* One that was taken is the same open file, one that was opened is not. */
	if (is_taken && syscall(SYS_kcmp, gettid(), tid, KCMP_FILE, ours, fd) == 0)
		return true;
	path_of(pid, tid, fd, path, sizeof(path));
	length = readlink(path, link, sizeof(link) - 1);
	link[length < 0 ? 0 : length] = '\0';
	/* Of any other file not even the status: its file system might never answer. */
	return (strcmp(link, "/memfd:" SHARED_NAME " (deleted)") == 0 ||
		       (ours >= 0 && shared_is_lasting_name(link))) &&
	       (ours < 0 || (stat(path, &a) == 0 && fstat(ours, &b) == 0 && a.st_dev == b.st_dev &&
				    a.st_ino == b.st_ino));
}

static bool is_empty_memfd(int path_fd)
{
	struct statfs fs;
	struct stat st;

	return fstat(path_fd, &st) == 0 && fstatfs(path_fd, &fs) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size == 0 && st.st_nlink == 0 && fs.f_type == TMPFS_MAGIC;
}

struct probe_error *shared_set_size(pid_t pid, int fd, size_t size)
{
	struct stat st;

	int seals = fcntl(fd, F_GET_SEALS);

	/* Files of a file system start with F_SEAL_SEAL. */
	if (seals < 0 || seals & ~F_SEAL_EXEC)
		return shared_replaced(pid);
	if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return probe_error_system(
			errno, "process %d: %zu bytes of shared memory", pid, size);
	if (fstat(fd, &st) < 0 || (size_t)st.st_size != size)
		return shared_replaced(pid);
	return NULL;
}

/* Takes the target's own open file, if it is an empty memfd; -1: it cannot be taken, or is not. */
static int take_file(int pidfd, int64_t fd)
{
	int ours = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, (int)fd, 0);

	if (ours < 0 || is_empty_memfd(ours))
		return ours;
	close(ours);
	return -1;
}

struct probe_error *shared_open(pid_t pid, pid_t tid, int pidfd, int64_t fd, int *fd_ret)
{
	char path[64];
	int path_fd, err = 0;

	/* A pidfd is that of the first thread, and so are the descriptors. */
	*fd_ret = tid == pid ? take_file(pidfd, fd) : -1;
	if (*fd_ret >= 0)
		return NULL;
	path_of(pid, tid, fd, path, sizeof(path));
	path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return errno == ENOENT ? shared_replaced(pid)
				       : probe_error_system(errno, "%s", path);
	if (is_empty_memfd(path_fd)) {
		*fd_ret = procfs_open_regular(path_fd, O_RDWR);
		err = errno;
	}
	close(path_fd);
	if (*fd_ret >= 0)
		return NULL;
	return procfs_no_room(err) ? probe_error_system(err, "%s", path) : shared_replaced(pid);
}

bool shared_is_lasting_name(const char *path)
{
	size_t length = strlen(path), suffix = sizeof(SHARED_SUFFIX) - 1;

	return *path == '/' && length > suffix && !strcmp(path + length - suffix, SHARED_SUFFIX);
}

bool shared_is_lasting(const struct mapping *m)
{
	return m->is_shared && m->writable && !m->executable && shared_is_lasting_name(m->path);
}

bool shared_is_data(const struct mapping *m)
{
	return shared_is_lasting(m) ||
	       (!m->executable && strcmp(m->path, "/memfd:" SHARED_NAME) == 0);
}

bool shared_is_code(const struct mapping *m)
{
	return m->executable && !m->writable && !m->is_shared &&
	       strcmp(m->path, "/memfd:" SHARED_NAME) == 0;
}

bool shared_is_named(const struct mapping *m)
{
	return strcmp(m->path, "/memfd:" SHARED_NAME) == 0 || shared_is_lasting_name(m->path);
}

bool shared_any(const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		if (shared_is_code(&maps->items[i]) || shared_is_data(&maps->items[i]))
			return true;
	return false;
}
