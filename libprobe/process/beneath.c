/* SPDX-License-Identifier: MIT */
/*
 * Opens a file by a path without links, like openat2(2) with RESOLVE_BENEATH and
 * RESOLVE_NO_SYMLINKS, which needs Linux 5.6 and which the filters of many containers forbid.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/process/process.h"

/* Gets the next component of a path. Returns false at the end of the path. */
static bool next_component(const char **path, char name[NAME_MAX + 1])
{
	size_t length;

	*path += strspn(*path, "/");
	length = strcspn(*path, "/");
	if (!length || length > NAME_MAX)
		return false;
	memcpy(name, *path, length);
	name[length] = '\0';
	*path += length;
	return true;
}

/* Returns a descriptor (O_PATH) that names the file without opening it; -1 and errno on failure. */
static int find(const char *root, const char *path)
{
	int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];

	while (at >= 0 && next_component(&path, name)) {
		bool last = path[strspn(path, "/")] == '\0';
		AUTO_FD int folder = at;

		at = -1;
		if (strcmp(name, "..") == 0)
			errno = ELOOP;
		else
			at = openat(folder, name,
				O_PATH | O_NOFOLLOW | O_CLOEXEC | (last ? 0 : O_DIRECTORY));
	}
	return at;
}

int beneath_open(const char *root, const char *path,
	bool (*wanted)(const struct stat *st, const void *data), const void *data, int *err_ret)
{
	AUTO_FD int named = find(root, path);
	struct stat st;
	int fd;

	*err_ret = errno;
	if (named < 0)
		return -1;
	*err_ret = 0;
	if (fstat(named, &st) != 0 || !S_ISREG(st.st_mode) || !wanted(&st, data))
		return -1;
	fd = open(procfs_path("/proc/self/fd/%d", named).text,
		O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	*err_ret = fd < 0 ? errno : 0;
	return fd;
}
