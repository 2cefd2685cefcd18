/* SPDX-License-Identifier: MIT */
/*
 * A process may have dropped pages of shared memory (MADV_DONTNEED), or not have touched them
 * since fork(2): its pagemap does not show them, but their content still exists. Reading it
 * through the process's memory would also allocate pages for everything that was never written.
 * The file that is mapped there shows what was written (SEEK_DATA of lseek(2)), and reading the
 * file allocates nothing. Memory without a path has a file, too:
 *
 *   /proc/PID/map_files/START-END  any file; needs CAP_CHECKPOINT_RESTORE
 *   /proc/PID/fd/N                 of memfd_create(2), while it is open
 *   /proc/PID/root/PATH            if device and inode are the mapping's
 *
 * Device files are neither opened nor read through the process, because that has effects. Files
 * on a file system that may not answer are skipped (libprobe/process/distant.c).
 *
 * Sources: proc_pid_map_files(5), lseek(2); mm/shmem.c and fs/hugetlbfs/inode.c of Linux (the
 * latter reports the whole file as data).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "libprobe/process/process.h"

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

static bool is_of(const struct stat *st, const void *data)
{
	const struct mapping *mapping = data;

	return S_ISREG(st->st_mode) && st->st_ino == mapping->inode;
}

static int open_map_file(struct backing *backing, const struct mapping *mapping)
{
	char path[96];
	struct stat st;
	int fd;

	if (backing->no_map_files)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)backing->pid,
		(unsigned long long)mapping->start, (unsigned long long)mapping->end);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		backing->no_map_files = errno == EPERM || errno == EACCES;
		return -1;
	}
	/* The mapping may have been replaced since /proc/PID/maps was read. */
	if (fstat(fd, &st) == 0 && is_of(&st, mapping))
		return fd;
	close(fd);
	return -1;
}

static int open_path(const struct backing *backing, const struct mapping *mapping)
{
	struct stat st;
	char root[48];
	int fd, err;

	if (mapping->deleted || *mapping->path != '/')
		return -1;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)backing->pid);
	fd = beneath_open(root, mapping->path, is_of, mapping, &err);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && major(st.st_dev) == mapping->dev_major &&
		minor(st.st_dev) == mapping->dev_minor)
		return fd;
	close(fd);
	return -1;
}

int backing_open(struct backing *backing, const struct mapping *mapping)
{
	int fd = open_map_file(backing, mapping), err;

	if (fd < 0)
		fd = memfds_open(&backing->memfds, backing->pid, mapping, &err);
	return fd < 0 ? open_path(backing, mapping) : fd;
}

bool backing_next(int fd, uint64_t offset, uint64_t end, uint64_t *start_ret, uint64_t *end_ret)
{
	off_t data = lseek(fd, (off_t)offset, SEEK_DATA), hole;

	if (data < 0 && errno == ENXIO)
		return false;
	/* The file system does not know: everything may be data. */
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
