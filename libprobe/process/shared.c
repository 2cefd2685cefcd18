/* SPDX-License-Identifier: MIT */
/*
 * The target makes a memfd, and the controller opens it through /proc/PID/fd. In between, other
 * threads of the target run, and the number may come to name another file: one that the
 * controller may write but the target may not, or a device that reacts to being opened. So the
 * controller first looks the name up without opening it (O_PATH), and opens and writes only a
 * memfd that is still in its initial state.
 *
 * Access to a mapping past the end of its file raises SIGBUS. So the file's size is sealed
 * (fcntl(2), "File Sealing") before it is mapped here.
 *
 * With the sysctl vm.memfd_noexec, kernels from 6.3 on seal the mode of such a file
 * (F_SEAL_EXEC), so that execve(2) refuses it; some refuse to create one without that flag.
 * Code can be mapped from it all the same. Source: Documentation/userspace-api/mfd_noexec.rst
 * of Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "libprobe/process/procfs.h"
#include "libprobe/process/shared.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

_Static_assert(
	SHARED_MEMFD_FLAGS == (MFD_CLOEXEC | MFD_ALLOW_SEALING), "as memfd_create(2) has it");

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static struct probe_error *replaced(pid_t pid)
{
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d has replaced the shared memory that it made "
		"for probectl",
		pid);
}

static bool is_empty_memfd(int path_fd)
{
	struct statfs fs;
	struct stat st;

	return fstat(path_fd, &st) == 0 && fstatfs(path_fd, &fs) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size == 0 && st.st_nlink == 0 && fs.f_type == TMPFS_MAGIC;
}

static struct probe_error *set_size(pid_t pid, int fd, size_t size)
{
	struct stat st;

	int seals = fcntl(fd, F_GET_SEALS);

	/* Files of a file system start with F_SEAL_SEAL. */
	if (seals < 0 || seals & ~F_SEAL_EXEC)
		return replaced(pid);
	if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return probe_error_system(
			errno, "process %d: %zu bytes of shared memory", pid, size);
	if (fstat(fd, &st) < 0 || (size_t)st.st_size != size)
		return replaced(pid);
	return NULL;
}

struct probe_error *shared_open(pid_t pid, int64_t fd, size_t size, int *fd_ret)
{
	struct probe_error *error;
	char path[64];
	int path_fd, err = 0;

	*fd_ret = -1;
	snprintf(path, sizeof(path), "/proc/%d/fd/%jd", pid, (intmax_t)fd);
	path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return probe_error_system(errno, "%s", path);
	if (is_empty_memfd(path_fd)) {
		*fd_ret = procfs_open_regular(path_fd, O_RDWR);
		err = errno;
	}
	close(path_fd);
	if (*fd_ret < 0)
		return procfs_no_room(err) ? probe_error_system(err, "%s", path) : replaced(pid);
	error = set_size(pid, *fd_ret, size);
	if (error) {
		close(*fd_ret);
		*fd_ret = -1;
	}
	return error;
}

bool shared_is_code(const struct mapping *m)
{
	return m->executable && !m->writable && !m->is_shared &&
	       strcmp(m->path, "/memfd:" SHARED_NAME) == 0;
}
