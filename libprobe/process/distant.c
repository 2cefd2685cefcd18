/* SPDX-License-Identifier: MIT */
/*
 * A file that a target has mapped may be on a FUSE file system, which any user can serve, or on a
 * server that no longer answers. Then opening or reading the file may block forever; once the file
 * system has taken the request, not even SIGKILL ends the wait. So we do not touch such files
 * ourselves, but use:
 *
 * 	/proc/PID/maps       the device of the mapped file
 * 	/proc/PID/mountinfo  the type of its file system
 * 	a helper process     opens the file, and copies it into memory (memfd_create(2))
 *
 * The helper has a deadline. It is not our child and holds none of our descriptors: if it blocks,
 * nothing waits for it, and it ends when the file system answers.
 *
 * We assume that a file system on a disk answers. It has a device number of its own.
 *
 * The kernel answers some questions from its caches, without asking the file system: openat2(2)
 * with RESOLVE_CACHED finds a path, and statx(2) with AT_STATX_DONT_SYNC tells a file's number.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/process/process.h"

enum { ANSWER_MS = 5000, COPY_BYTES = 1 << 16, COPIED_BYTES_MAX = 1 << 30 };

/* ---- Distant file systems ----------------------------------------------------------- */

bool distant_is(pid_t pid, uint32_t dev_major, uint32_t dev_minor)
{
	/* File systems without a device that the kernel alone serves. */
	static const char *const local[] = {"tmpfs", "ramfs", "rootfs", "hugetlbfs", "overlay",
		"btrfs", "zfs", "bcachefs", "proc", "sysfs", "devtmpfs", "aufs"};
	char type[PROCFS_MOUNT_TYPE];

	if (dev_major)
		return false;
	if (!procfs_mount_type(pid, dev_major, dev_minor, type))
		return true;
	for (size_t i = 0; i < sizeof(local) / sizeof(*local); i++)
		if (strcmp(type, local[i]) == 0)
			return false;
	return true;
}

/* ---- Questions to the caches -------------------------------------------------------- */

bool file_id_same(const struct file_id *a, const struct file_id *b)
{
	return a->device == b->device && a->inode == b->inode;
}

int cached_open(int folder, const char *name, uint64_t resolve)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED | resolve};

	if (!seccomp_may_call(SECCOMP_OWN_CACHED)) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_openat2, folder, name, &how, sizeof(how));
}

bool cached_identify(int fd, struct file_id *ret)
{
	struct statx st;

	if (!seccomp_may_call(SECCOMP_OWN_CACHED)) {
		errno = EPERM;
		return false;
	}
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st) < 0)
		return false;
	*ret = (struct file_id){makedev(st.stx_dev_major, st.stx_dev_minor), st.stx_ino};
	return true;
}

bool file_is_distant(const struct file_id *file)
{
	return distant_is(getpid(), major(file->device), minor(file->device));
}

/* ---- Copying -------------------------------------------------------------------------- */

static int copy(int from, int to)
{
	static char buffer[COPY_BYTES];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(from, buffer, sizeof(buffer), at)) > 0) {
		if (at + n > COPIED_BYTES_MAX)
			return EFBIG;
		if (pwrite(to, buffer, (size_t)n, at) != n)
			return errno ? errno : EIO;
		at += n;
	}
	return n < 0 ? errno : 0;
}

/* The helper's answer: whether it has copied the file; if not, the errno. */
struct answer {
	bool opened;
	int err;
};

static _Noreturn void serve(
	int (*open)(void *data, int *err_ret), void *data, int memory, int channel)
{
	struct answer answer = {0};
	int fd;

	/* Move both descriptors above 2, then to 0 and 1. */
	memory = fcntl(memory, F_DUPFD, 3);
	channel = fcntl(channel, F_DUPFD, 3);
	dup2(memory, 0);
	dup2(channel, 1);
	/* Our pipes must be closed here, or their readers would wait for the helper to end. */
	if (syscall(SYS_close_range, 2, ~0U, 0) != 0)
		for (fd = 2; fd < (int)sysconf(_SC_OPEN_MAX); fd++)
			close(fd);
	signal(SIGPIPE, SIG_DFL);
	fd = open(data, &answer.err);
	if (fd >= 0) {
		answer.err = copy(fd, 0);
		answer.opened = !answer.err;
	}
	_exit(write(1, &answer, sizeof(answer)) < 0);
}

/* Starts the helper. Forks twice, so that init adopts and reaps the helper. */
static bool start(int (*open)(void *data, int *err_ret), void *data, int memory, int channel)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		child = fork();
		if (child == 0)
			serve(open, data, memory, channel);
		_exit(child < 0);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int distant_copy(int (*open)(void *data, int *err_ret), void *data, int *err_ret)
{
	struct answer answer = {.err = EAGAIN};
	struct pollfd input = {.events = POLLIN};
	int memory, channel[2], ready;
	bool started;

	/* The flag MFD_NOEXEC_SEAL is needed if vm.memfd_noexec is 2. Older kernels lack it. */
	memory = memfd_create("probectl copy", MFD_CLOEXEC | SHARED_MEMFD_NOEXEC_SEAL);
	if (memory < 0 && errno == EINVAL)
		memory = memfd_create("probectl copy", MFD_CLOEXEC);
	if (memory < 0 || pipe2(channel, O_CLOEXEC)) {
		*err_ret = errno;
		cleanup_fd(&memory);
		return -1;
	}
	started = start(open, data, memory, channel[1]);
	close(channel[1]);
	input.fd = channel[0];
	if (started) {
		while ((ready = poll(&input, 1, ANSWER_MS)) < 0 && errno == EINTR)
			;
		answer.err = ready ? EIO : ETIMEDOUT;
		if (ready > 0 && read(channel[0], &answer, sizeof(answer)) != sizeof(answer))
			answer = (struct answer){.err = EIO};
	}
	close(channel[0]);
	*err_ret = answer.err;
	if (!answer.opened)
		cleanup_fd(&memory);
	return memory;
}
