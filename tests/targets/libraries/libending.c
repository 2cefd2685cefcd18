/* SPDX-License-Identifier: MIT */
/*
 * flags: -D_GNU_SOURCE
 *
 * For LD_PRELOAD: the process ENDING is killed when probectl is about to change it for the second
 * time, which begins with a lock of a file in its folder of /proc.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_file_of(int fd, const char *pid)
{
	char path[64], link[64] = "", wanted[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	snprintf(wanted, sizeof(wanted), "/proc/%s/", pid);
	length = readlink(path, link, sizeof(link) - 1);
	return length > 0 && strncmp(link, wanted, strlen(wanted)) == 0;
}

/* Also when nobody waits for it: it is a zombie then. */
static void end(const char *pid)
{
	char path[64], text[512], state = 'R';
	size_t length;
	FILE *file;

	kill((pid_t)atoi(pid), SIGKILL);
	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	while (state != 'Z' && (file = fopen(path, "re"))) {
		length = fread(text, 1, sizeof(text) - 1, file);
		text[length] = '\0';
		fclose(file);
		if (!length || sscanf(text, "%*d (%*[^)]) %c", &state) != 1)
			return;
		usleep(1000);
	}
}

int flock(int fd, int operation)
{
	static int changes;
	const char *pid = getenv("ENDING");

	if (pid && operation & LOCK_EX && is_file_of(fd, pid) && ++changes == 2)
		end(pid);
	return (int)syscall(SYS_flock, fd, operation);
}
