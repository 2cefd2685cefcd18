/* SPDX-License-Identifier: MIT */
/*
 * The target itself creates the file, with its own rights and in its own view of the file system,
 * and only if it does not exist (O_EXCL). So no file is overwritten. But the kernel follows any
 * link on the way to the file's folder. So we find the folder first, following only links of the
 * target's user and of root (base/place.c), and check that the new file is in it.
 *
 * A hit writes into the file's pages, and that must never fail: the kernel sends SIGBUS if the file
 * system has no room for a page when it is first touched, or if the file was truncated. So all room
 * is allocated beforehand (fallocate(2)), only on file systems that keep it, and the file's mode
 * lets nobody open it for writing, not even its owner. A hit must not wait for a server or another
 * process either, as it would on network file systems and FUSE.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "arch/layout.h"
#include "libprobe/base/array.h"
#include "libprobe/base/file.h"
#include "libprobe/base/page.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum { PATH_BYTES_MAX = 4096 };

struct probe_error *lasting_check(const char *path)
{
	const char *name = strrchr(path, '/');

	if (*path != '/' || strlen(path) >= PATH_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s: the process itself makes the file; give an absolute path, as it sees "
			"it",
			path);
	if (!shared_is_lasting_name(path) || strlen(name + 1) == strlen(SHARED_SUFFIX))
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s: the name has to end in %s, by which the memory of a flight recorder "
			"is "
			"known (%s%s)",
			path, SHARED_SUFFIX, path, SHARED_SUFFIX);
	return NULL;
}

/* ---- Room ------------------------------------------------------------------------------- */

static bool keeps_room(const struct statfs *fs)
{
	return fs->f_type == TMPFS_MAGIC || fs->f_type == EXT4_SUPER_MAGIC ||
	       fs->f_type == XFS_SUPER_MAGIC;
}

static struct probe_error *keeps_none(const char *path)
{
	return probe_error_new(PROBE_ERROR_USAGE,
		"%s is on a file system on which a hit could wait or fail; a flight recorder's "
		"file "
		"can be on tmpfs (/dev/shm, /run), ext4 or XFS",
		path);
}

struct probe_error *lasting_room(pid_t pid, const char *path, uint64_t *ret)
{
	int length = (int)(strrchr(path, '/') - path);
	char *folder = NULL;
	struct probe_error *error = NULL;
	struct statfs fs;

	if (asprintf(&folder, "/proc/%d/root/%.*s", procfs_living(pid), length, path) < 0)
		return probe_error_no_memory();
	if (statfs(folder, &fs) < 0)
		error = probe_error_system(
			errno, "%.*s, as process %d sees it", length + !length, path, pid);
	else if (!keeps_room(&fs))
		error = keeps_none(path);
	else
		*ret = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	/*
	 * The pages of a tmpfs are memory: the kernel may refuse to commit what the file system has
	 * free.
	 */
	if (!error && fs.f_type == TMPFS_MAGIC && overcommit_room() < *ret)
		*ret = overcommit_room();
	free(folder);
	return error;
}

/* The header comes first: if we die before the file is registered, it shows whose file it is. */
static struct probe_error *take_room(pid_t pid, int fd, const struct lasting_file *file)
{
	const struct data_header header = {.magic = DATA_MAGIC, .maker = lasting_maker(pid)};
	const struct reg_session *l = file->layout;
	struct data_extent extent;

	if (pwrite(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return probe_error_system(errno, "cannot write %s", file->path);

	if (ftruncate(fd, (off_t)l->data_size) < 0)
		return probe_error_system(errno, "cannot make %s", file->path);
	for (uint32_t i = 0; data_extent(l, i, &extent); i++)
		if (fallocate(fd, 0, (off_t)extent.start, (off_t)(extent.end - extent.start)) < 0)
			return probe_error_system(errno,
				"there is no room for %s, which takes %ju MiB (-b makes it "
				"smaller)",
				file->path, (uintmax_t)(data_bytes(l) >> 20) + 1);
	/* Even its owner would kill the process by truncating it. */
	if (fchmod(fd, 0400) < 0)
		return probe_error_system(errno, "cannot protect %s", file->path);
	return NULL;
}

struct probe_error *lasting_find(pid_t pid, const char *path, int *ret)
{
	/* The last number is the file system UID, which decides about access to files. */
	long user = procfs_status_last_number(pid, "Uid:");
	char root[48];

	*ret = -1;
	if (user < 0)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid);
	snprintf(root, sizeof(root), "/proc/%d/root", procfs_living(pid));
	return file_parent(root, (uid_t)user, path, ret);
}

/* Does the file's name in the folder lead to the open file? */
static bool is_in_place(int fd, const struct lasting_file *file)
{
	const char *name = strrchr(file->path, '/') + 1;
	struct stat st, named;

	return fstat(fd, &st) == 0 &&
	       fstatat(file->folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == named.st_dev && st.st_ino == named.st_ino;
}

static bool is_new(int fd, struct statfs *fs)
{
	struct stat st;

	return fstat(fd, &st) == 0 && fstatfs(fd, fs) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size == 0 && st.st_nlink == 1;
}

struct probe_error *lasting_open(
	pid_t pid, pid_t tid, int64_t fd, const struct lasting_file *file, int *fd_ret)
{
	struct probe_error *error;
	struct statfs fs;
	char path[64];
	int path_fd;

	*fd_ret = -1;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%jd", pid, tid, (intmax_t)fd);
	path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return errno == ENOENT ? shared_replaced(pid)
				       : probe_error_system(errno, "%s", path);
	if (!is_new(path_fd, &fs)) {
		error = shared_replaced(pid);
	} else if (!keeps_room(&fs)) {
		error = keeps_none(file->path);
	} else if (!is_in_place(path_fd, file)) {
		error = probe_error_new(PROBE_ERROR_STATE,
			"cannot create %s: its folder was replaced just then", file->path);
	} else {
		*fd_ret = procfs_open_regular(path_fd, O_RDWR);
		error = *fd_ret < 0 ? probe_error_system(errno, "cannot open %s", file->path)
				    : take_room(pid, *fd_ret, file);
	}
	close(path_fd);
	if (!error)
		return NULL;
	if (*fd_ret >= 0)
		close(*fd_ret);
	*fd_ret = -1;
	lasting_remove_open(pid, tid, fd);
	return error;
}

/* ---- Removing --------------------------------------------------------------------------- */

/*
 * Opens a folder below a root. Paths that the kernel reports have no links, so a link was put there
 * later.
 */
static int open_folder(const char *root, const char *path, size_t length)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), fd;
	char *folder = strndup(path, length);

	fd = top < 0 || !folder ? -1
	     : length		? (int)syscall(SYS_openat2, top, folder, &how, sizeof(how))
				: dup(top);
	free(folder);
	if (top >= 0)
		close(top);
	return fd;
}

static bool is_same(const struct stat *st, const struct mapping *m)
{
	return S_ISREG(st->st_mode) && st->st_ino == m->inode &&
	       major(st->st_dev) == m->dev_major && minor(st->st_dev) == m->dev_minor;
}

/* Removes the name if it still refers to the mapped file. */
static bool remove_below(const char *root, const struct mapping *m)
{
	const char *name = strrchr(m->path, '/') + 1;
	size_t length = (size_t)(name - m->path);
	int folder = open_folder(root, m->path + 1, length > 1 ? length - 2 : 0);
	struct stat st;
	bool removed;

	if (folder < 0)
		return false;
	removed = fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_same(&st, m) &&
		  unlinkat(folder, name, 0) == 0;
	close(folder);
	return removed;
}

static void remove_name(pid_t pid, const struct mapping *m)
{
	char root[48];

	snprintf(root, sizeof(root), "/proc/%d/root", procfs_living(pid));
	if (!remove_below("/", m))
		remove_below(root, m);
}

void lasting_remove_open(pid_t pid, pid_t tid, int64_t fd)
{
	char path[64], name[PATH_BYTES_MAX];
	struct mapping m = {.path = name};
	struct stat st;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%jd", pid, tid, (intmax_t)fd);
	length = readlink(path, name, sizeof(name) - 1);
	if (length <= 0)
		return;
	name[length] = '\0';
	if (*name != '/' || !shared_is_lasting_name(name) || stat(path, &st) < 0)
		return;
	m.inode = st.st_ino;
	m.dev_major = major(st.st_dev);
	m.dev_minor = minor(st.st_dev);
	remove_name(pid, &m);
}

uint32_t lasting_maker(pid_t pid)
{
	long own = procfs_status_last_number(pid, "NSpid:");

	return own > 0 ? (uint32_t)own : 0;
}

bool lasting_note(struct lasting_names *names, const struct maps *maps, uint64_t address)
{
	const struct mapping *m = maps_find(maps, address);
	struct mapping copy;

	if (!m || m->deleted || !shared_is_lasting(m))
		return true;
	copy = *m;
	if (!ARRAY_ROOM(names->items, names->count) || !(copy.path = strdup(m->path)))
		return false;
	names->items[names->count++] = copy;
	return true;
}

void lasting_remove(struct lasting_names *names, pid_t pid)
{
	for (size_t i = 0; i < names->count; i++)
		remove_name(pid, &names->items[i]);
	lasting_deinit(names);
}

void lasting_deinit(struct lasting_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free((char *)names->items[i].path);
	free(names->items);
	*names = (struct lasting_names){0};
}
