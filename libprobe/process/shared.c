/* SPDX-License-Identifier: MIT */
/*
 * Takes a memfd from a target. A stopped thread of the target creates the memfd, and the controller
 * takes the open file by pidfd_getfd(2), which is one call and opens nothing. If this call is not
 * possible, the controller opens the file through /proc/PID/task/TID/fd. Other threads run in the
 * meantime. They may close the descriptor and open another file with its number: one that the
 * controller may write but the target may not, or a device that reacts to being opened. So the
 * controller first identifies the file without opening it (O_PATH). It opens and writes only a
 * memfd that is still in its initial state.
 *
 * Access to a mapping past the end of its file raises SIGBUS. So the file's size is sealed
 * (fcntl(2), "File Sealing") before it is mapped here. The target may have mapped it already, but
 * learns the address only after the size is set.
 *
 * With the sysctl vm.memfd_noexec, kernels from 6.3 on seal the mode of such a file (F_SEAL_EXEC),
 * so that execve(2) refuses it; some refuse to create a file without that flag. Code can still be
 * mapped from the file. Source: Documentation/userspace-api/mfd_noexec.rst of Linux.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/array.h"
#include "libprobe/process/process.h"

/* ==== Shared ================================================================================== */

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

/* Threads may have their own descriptors (unshare(2)). */
struct procfs_path descriptor_path(pid_t pid, pid_t tid, int64_t fd)
{
	return procfs_path("/proc/%d/task/%d/fd/%jd", pid, tid, (intmax_t)fd);
}

bool shared_is_same(pid_t pid, pid_t tid, int64_t fd, int ours, bool is_taken)
{
	struct procfs_path path = descriptor_path(pid, tid, fd);
	char link[PATH_MAX];
	struct stat a, b;
	ssize_t length;

	/* A pidfd_getfd(2) descriptor shares the target's open file, an open(2) one does not. */
	if (is_taken && syscall(SYS_kcmp, gettid(), tid, KCMP_FILE, ours, fd) == 0)
		return true;
	length = readlink(path.text, link, sizeof(link) - 1);
	link[length < 0 ? 0 : length] = '\0';
	/* Do not even ask for the status of any other file: its file system might never answer. */
	return (strcmp(link, "/memfd:" SHARED_NAME " (deleted)") == 0 ||
		       (ours >= 0 && shared_is_lasting_name(link))) &&
	       (ours < 0 || (stat(path.text, &a) == 0 && fstat(ours, &b) == 0 &&
				    a.st_dev == b.st_dev && a.st_ino == b.st_ino));
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

	/* F_SEAL_SEAL is set from the start in a file that may not be sealed (tmpfs). */
	if (seals < 0 || seals & ~F_SEAL_EXEC)
		return shared_replaced(pid);
	if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return probe_error_system(
			errno, "process %d: %zu bytes of shared memory", pid, size);
	if (fstat(fd, &st) < 0 || (size_t)st.st_size != size)
		return shared_replaced(pid);
	return NULL;
}

struct probe_error *shared_open(pid_t pid, pid_t tid, int pidfd, int64_t fd, int *fd_ret)
{
	struct procfs_path path = descriptor_path(pid, tid, fd);
	AUTO_FD int path_fd = -1;
	int err = 0;

	*fd_ret = -1;
	/* A pidfd gives access to the descriptors of the first thread. */
	if (tid == pid && pidfd >= 0)
		*fd_ret = (int)syscall(SYS_pidfd_getfd, pidfd, (int)fd, 0);
	if (*fd_ret >= 0 && is_empty_memfd(*fd_ret))
		return NULL;
	cleanup_fd(fd_ret);
	path_fd = open(path.text, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return errno == ENOENT ? shared_replaced(pid)
				       : probe_error_system(errno, "%s", path.text);
	if (is_empty_memfd(path_fd)) {
		*fd_ret = procfs_open_regular(path_fd, O_RDWR);
		err = errno;
	}
	if (*fd_ret >= 0)
		return NULL;
	return procfs_no_room(err) ? probe_error_system(err, "%s", path.text)
				   : shared_replaced(pid);
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

/* ==== Memfds ================================================================================== */

struct memfd {
	struct stat st;
	char number[16]; /* name of the descriptor in /proc/PID/fd */
};

static void read_all(struct memfds *memfds, pid_t pid)
{
	/* The link of a memfd is "/memfd:NAME (deleted)", unlike that of any path. */
	static const char prefix[] = "/memfd:";
	const size_t length = sizeof(prefix) - 1;
	AUTO_DIR DIR *dir = opendir(procfs_path("/proc/%d/fd", pid).text);
	const struct dirent *entry;

	memfds->is_read = true;
	while (dir && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		char link[sizeof(prefix)];
		struct memfd found;

		if (name[0] == '.' || strlen(name) >= sizeof(found.number) ||
			readlinkat(dirfd(dir), name, link, length) != (ssize_t)length ||
			memcmp(link, prefix, length) != 0 ||
			fstatat(dirfd(dir), name, &found.st, 0) != 0 ||
			!S_ISREG(found.st.st_mode) || !ARRAY_ROOM(memfds->items, memfds->count))
			continue;
		strcpy(found.number, name);
		memfds->items[memfds->count++] = found;
	}
}

bool mapped_is_inode(const struct stat *st, const void *mapping)
{
	return st->st_ino == ((const struct mapping *)mapping)->inode;
}

static bool is_of(const struct stat *st, const struct mapping *mapping)
{
	return mapped_is_inode(st, mapping) && major(st->st_dev) == mapping->dev_major &&
	       minor(st->st_dev) == mapping->dev_minor;
}

/* Opens a memfd by its number, if it is still the mapped file: opening a device has effects. */
static int open_number(pid_t pid, const char *number, const struct mapping *mapping)
{
	AUTO_FD int named =
		open(procfs_path("/proc/%d/fd/%s", pid, number).text, O_PATH | O_CLOEXEC);
	struct stat st;

	if (named < 0 || fstat(named, &st) != 0 || !is_of(&st, mapping))
		return -1;
	return procfs_open_regular(named, O_RDONLY);
}

int memfds_open(struct memfds *memfds, pid_t pid, const struct mapping *mapping, int *err_ret)
{
	int fd = -1;

	errno = 0;
	if (!memfds->is_read)
		read_all(memfds, pid);
	for (size_t i = 0; i < memfds->count && fd < 0; i++)
		if (is_of(&memfds->items[i].st, mapping))
			fd = open_number(pid, memfds->items[i].number, mapping);
	*err_ret = errno;
	return fd;
}

void memfds_deinit(struct memfds *memfds)
{
	free(memfds->items);
	*memfds = (struct memfds){0};
}

/* ==== Backing ================================================================================= */

/*
 * A process may have dropped pages of shared memory (MADV_DONTNEED), or not have touched them since
 * fork(2): its pagemap does not show them, but their contents still exist. Reading them through the
 * process's memory would also allocate all pages that were never written. The file that is mapped
 * there shows which pages were written (SEEK_DATA of lseek(2)), and reading the file allocates
 * nothing. Memory without a path has a file, too:
 *
 *   /proc/PID/map_files/START-END  any file; needs CAP_CHECKPOINT_RESTORE
 *   /proc/PID/fd/N                 of memfd_create(2), while it is open
 *   /proc/PID/root/PATH            if device and inode are the mapping's
 *
 * Device files are neither opened nor read through the process, because that has effects. Files on
 * a file system that may not answer are skipped (libprobe/process/distant.c).
 *
 * Sources: proc_pid_map_files(5), lseek(2); mm/shmem.c and fs/hugetlbfs/inode.c of Linux (the
 * latter reports the whole file as data).
 */

static bool begins_with_one(const char *text, const char *const *starts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

enum backing_kind backing_kind(const struct backing *backing, const struct mapping *mapping)
{
	static const char *const in_memory[] = {"/dev/zero", "/memfd:", "/SYSV", "/dev/shm/",
		"[anon_shmem:", "/anon_hugepage", "/dev/hugepages/"};
	static const char *const devices[] = {"/dev/", "/sys/", "/proc/"};

	if (begins_with_one(mapping->path, in_memory, sizeof(in_memory) / sizeof(*in_memory)))
		return BACKING_MEMORY;
	if (*mapping->path != '/' ||
		begins_with_one(mapping->path, devices, sizeof(devices) / sizeof(*devices)) ||
		distant_is(backing->pid, mapping->dev_major, mapping->dev_minor))
		return BACKING_NONE;
	return BACKING_DISK;
}

struct procfs_path map_file_path(pid_t pid, const struct mapping *mapping)
{
	return procfs_path("/proc/%d/map_files/%jx-%jx", pid, (uintmax_t)mapping->start,
		(uintmax_t)mapping->end);
}

int map_file_open(pid_t pid, const struct mapping *mapping, bool *denied)
{
	struct stat st;
	int fd;

	if (*denied)
		return -1;
	/* O_NONBLOCK: the path may be a FIFO by now. */
	fd = open(map_file_path(pid, mapping).text, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		*denied = errno == EPERM || errno == EACCES;
		return -1;
	}
	/* The mapping may have been replaced since /proc/PID/maps was read. */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && mapped_is_inode(&st, mapping))
		return fd;
	close(fd);
	return -1;
}

static int open_path(const struct backing *backing, const struct mapping *mapping)
{
	struct stat st;
	int fd, err;

	if (mapping->deleted || *mapping->path != '/')
		return -1;
	fd = beneath_open(procfs_path("/proc/%d/root", backing->pid).text, mapping->path,
		mapped_is_inode, mapping, &err);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && is_of(&st, mapping))
		return fd;
	close(fd);
	return -1;
}

int backing_open(struct backing *backing, const struct mapping *mapping)
{
	int fd = map_file_open(backing->pid, mapping, &backing->no_map_files), err;

	if (fd < 0)
		fd = memfds_open(&backing->memfds, backing->pid, mapping, &err);
	return fd < 0 ? open_path(backing, mapping) : fd;
}

bool backing_next(int fd, uint64_t offset, uint64_t end, uint64_t *start_ret, uint64_t *end_ret)
{
	off_t data = lseek(fd, (off_t)offset, SEEK_DATA), hole;

	if (data < 0 && errno == ENXIO)
		return false;
	/* If the file system does not know which bytes are data, all may be data. */
	*start_ret = data < 0 ? offset : (uint64_t)data;
	hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
	*end_ret = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
	return *start_ret < *end_ret;
}

uint64_t backing_data(int fd, uint64_t offset, uint64_t end)
{
	uint64_t bytes = 0, start, next;

	for (; offset < end && backing_next(fd, offset, end, &start, &next); offset = next)
		bytes += next - start;
	return bytes;
}

void backing_deinit(struct backing *backing)
{
	memfds_deinit(&backing->memfds);
	*backing = (struct backing){0};
}
