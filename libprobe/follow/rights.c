/* SPDX-License-Identifier: MIT */
/*
 * Under a tracer without privileges, the kernel ignores the bits and capabilities by which a file
 * would run as somebody else.
 *
 * Source: ptrace(2), "execve(2) under ptrace"; execve(2).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "libprobe/follow/rights.h"
#include "libprobe/process/memory.h"

enum {
	PROGRAM_PATH_MAX = 4096,
	INTERPRETER_MAX = 256 /* of a script: BINPRM_BUF_SIZE */
};

/*
 * Would the kernel ignore a file's set-user-ID bit or capabilities because of a tracer? If unknown:
 * true.
 */
static bool changes_user(const char *path, char interpreter[INTERPRETER_MAX])
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t length = fd < 0 ? -1 : pread(fd, interpreter, INTERPRETER_MAX - 1, 0);
	bool changes = stat(path, &st) < 0
			       ? errno != ENOENT
			       : (st.st_mode & (S_ISUID | S_ISGID)) ||
					 getxattr(path, "security.capability", NULL, 0) >= 0;

	if (fd >= 0)
		close(fd);
	interpreter[length > 0 ? length : 0] = '\0';
	return changes;
}

/* Reads a path; false if there is none, or it is too long. */
static bool read_path(pid_t pid, uint64_t address, char text[PROGRAM_PATH_MAX])
{
	size_t page = sysconf(_SC_PAGESIZE), length = 0;

	/* Page by page: the next one may not be mapped. */
	while (length < PROGRAM_PATH_MAX) {
		size_t left = page - (address + length) % page;
		size_t room = PROGRAM_PATH_MAX - length;
		size_t got = memory_read(
			pid, address + length, text + length, left < room ? left : room);

		if (memchr(text + length, '\0', got))
			return true;
		if (!got)
			return false;
		length += got;
	}
	return false;
}

bool rights_stay(pid_t pid, uint64_t address)
{
	char text[PROGRAM_PATH_MAX], path[PROGRAM_PATH_MAX + 64], first[INTERPRETER_MAX];
	char second[INTERPRETER_MAX];
	const char *interpreter = first + 2;

	if (geteuid() == 0)
		return true;
	if (!read_path(pid, address, text))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/%s/%s", pid, text[0] == '/' ? "root" : "cwd", text);
	if (changes_user(path, first))
		return false;
	if (strncmp(first, "#!", 2) != 0)
		return true;
	interpreter += strspn(interpreter, " \t");
	first[interpreter - first + strcspn(interpreter, " \t\n")] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/root/%s", pid, interpreter);
	return !changes_user(path, second);
}
