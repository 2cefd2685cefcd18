/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/process/process.h"

struct memfd {
	struct stat st;
	char number[16]; /* its name in /proc/PID/fd */
};

/* The link's text is "/memfd:NAME (deleted)"; no open file with a path looks like that. */
static bool is_memfd(int folder, const char *name, struct stat *st)
{
	static const char prefix[] = "/memfd:";
	char link[sizeof(prefix) - 1];

	return readlinkat(folder, name, link, sizeof(link)) == (ssize_t)sizeof(link) &&
	       memcmp(link, prefix, sizeof(link)) == 0 && fstatat(folder, name, st, 0) == 0 &&
	       S_ISREG(st->st_mode);
}

static void add(struct memfds *memfds, const char *name, const struct stat *st)
{
	struct memfd *memfd;

	if (strlen(name) >= sizeof(memfd->number) || !ARRAY_ROOM(memfds->items, memfds->count))
		return;
	memfd = &memfds->items[memfds->count++];
	memfd->st = *st;
	strcpy(memfd->number, name);
}

static void read_all(struct memfds *memfds, pid_t pid)
{
	const struct dirent *entry;
	char path[48];
	DIR *dir;

	memfds->is_read = true;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		struct stat st;

		if (entry->d_name[0] != '.' && is_memfd(dirfd(dir), entry->d_name, &st))
			add(memfds, entry->d_name, &st);
	}
	if (dir)
		closedir(dir);
}

static bool is_of(const struct stat *st, const struct mapping *mapping)
{
	return st->st_ino == mapping->inode && major(st->st_dev) == mapping->dev_major &&
	       minor(st->st_dev) == mapping->dev_minor;
}

/* The number may name another file by now, and opening a device has effects. */
static int open_number(pid_t pid, const char *number, const struct mapping *mapping)
{
	char path[64];
	struct stat st;
	int named, fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, number);
	named = open(path, O_PATH | O_CLOEXEC);
	if (named < 0)
		return -1;
	if (fstat(named, &st) == 0 && S_ISREG(st.st_mode) && is_of(&st, mapping)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", named);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	close(named);
	return fd;
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
