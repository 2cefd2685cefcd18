/* SPDX-License-Identifier: MIT */
/*
 * Under a tracer without privileges, the kernel ignores the bits and capabilities that would make a
 * file run as another user.
 *
 * Source: ptrace(2), "execve(2) under ptrace"; execve(2).
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "libprobe/follow/follow.h"
#include "libprobe/process/process.h"

enum {
	SEEN_PATH_MAX = RIGHTS_PATH_MAX + 64,
	INTERPRETER_MAX = 256, /* of a script: BINPRM_BUF_SIZE */
	SCRIPTS_MAX = 6	       /* one interprets the other; the kernel allows five */
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

bool rights_read_path(pid_t pid, uint64_t address, char text[RIGHTS_PATH_MAX])
{
	size_t page = sysconf(_SC_PAGESIZE), length = 0;

	/* Page by page: the next one may not be mapped. */
	while (length < RIGHTS_PATH_MAX) {
		size_t left = page - (address + length) % page;
		size_t room = RIGHTS_PATH_MAX - length;
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

static void path_seen_by(pid_t pid, const char *name, char path[SEEN_PATH_MAX])
{
	snprintf(path, SEEN_PATH_MAX, "/proc/%d/%s/%s", pid, name[0] == '/' ? "root" : "cwd", name);
}

/* *executes_ret: as far as the files tell, execve(2) will not fail. */
static bool looks_safe(pid_t pid, uint64_t address, bool *executes_ret)
{
	char text[RIGHTS_PATH_MAX], path[SEEN_PATH_MAX], first[INTERPRETER_MAX];

	*executes_ret = true;
	if (!rights_read_path(pid, address, text))
		return false;
	path_seen_by(pid, text, path);
	for (unsigned int i = 0; i < SCRIPTS_MAX; i++) {
		const char *interpreter = first + 2;

		if (changes_user(path, first))
			return false;
		*executes_ret &= access(path, X_OK) == 0;
		if (strncmp(first, "#!", 2) != 0) {
			*executes_ret &= memcmp(first, ELFMAG, SELFMAG) == 0;
			return true;
		}
		interpreter += strspn(interpreter, " \t");
		first[interpreter - first + strcspn(interpreter, " \t\n")] = '\0';
		path_seen_by(pid, interpreter, path);
	}
	return false;
}

bool rights_stay(pid_t pid, uint64_t address)
{
	bool executes;

	return geteuid() == 0 || looks_safe(pid, address, &executes);
}

bool rights_stay_at_once(pid_t pid, uint64_t address)
{
	bool executes;

	return geteuid() == 0 || (looks_safe(pid, address, &executes) && executes);
}
