/* SPDX-License-Identifier: MIT */
/*
 * Any user can serve a file system (FUSE) that never answers. A path is looked up without asking
 * one (RESOLVE_CACHED), and so is the number of a file (AT_STATX_DONT_SYNC).
 *
 * Sources: openat2(2), statx(2).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "libprobe/target/cached.h"
#include "libprobe/modules/distant.h"
#include "libprobe/sandbox/seccomp.h"

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
