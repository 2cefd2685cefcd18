/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"

void cleanup_fd(int *fd)
{
	int err = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = err;
}

void cleanup_dir(DIR **dir)
{
	int err = errno;

	if (*dir)
		closedir(*dir);
	errno = err;
}

void cleanup_file(FILE **file)
{
	int err = errno;

	if (*file)
		fclose(*file);
	errno = err;
}

size_t file_read(const char *path, char *buffer, size_t size)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	buffer[0] = '\0';
	if (fd < 0)
		return 0;
	length = read(fd, buffer, size - 1);
	if (length <= 0)
		return 0;
	buffer[length] = '\0';
	return length;
}

size_t file_read_whole(const char *path, char *buffer, size_t size)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t got;

	while (fd >= 0 && (got = read(fd, buffer + length, size - 1 - length)) > 0)
		length += (size_t)got;
	buffer[length] = '\0';
	return length;
}

char *file_in_path(const char *name)
{
	const char *at = getenv("PATH");
	struct stat st;

	if (!*name || strchr(name, '/'))
		return NULL;
	while (at) {
		size_t length = strcspn(at, ":");
		char *path;

		/* An empty part is the current directory (POSIX, "Environment Variables"). */
		if (asprintf(&path, "%.*s%s%s", (int)length, at, length ? "/" : "./", name) < 0)
			return NULL;
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
			return path;
		free(path);
		at = at[length] ? at + length + 1 : NULL;
	}
	return NULL;
}

int file_reopen(int fd)
{
	char path[sizeof("/proc/self/fd/-2147483648")];
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!isatty(fd) && (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode)))
		return -1;
	/* Keep O_DIRECT: it makes a pipe keep each write as a packet (pipe(2)). */
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (flags & O_DIRECT));
}

bool file_write(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENOSPC;
		if (n <= 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}
