/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/procfs.h"

/* Reads a small file; returns its length, or 0. The text is terminated. */
static size_t read_file(const char *path, char *buffer, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	buffer[0] = '\0';
	if (fd < 0)
		return 0;
	length = read(fd, buffer, size - 1);
	close(fd);
	if (length <= 0)
		return 0;
	buffer[length] = '\0';
	return length;
}

/* What follows a key of the status file, or NULL. */
static const char *status_value(pid_t pid, const char *key, char *buffer, size_t size)
{
	char path[48];
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	read_file(path, buffer, size);
	for (line = buffer; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, strlen(key)) == 0)
			return line + strlen(key);
	}
	return NULL;
}

long procfs_status_number(pid_t pid, const char *key)
{
	char buffer[4096];
	const char *value = status_value(pid, key, buffer, sizeof(buffer));

	return value ? strtol(value, NULL, 10) : -1;
}

bool procfs_status_has(pid_t pid, const char *key, const char *word)
{
	char buffer[4096];
	const char *value = status_value(pid, key, buffer, sizeof(buffer));

	if (!value)
		return false;
	buffer[value - buffer + strcspn(value, "\n")] = '\0';
	return strstr(value, word) != NULL;
}

long procfs_file_number(const char *path)
{
	char buffer[64];

	return read_file(path, buffer, sizeof(buffer)) ? strtol(buffer, NULL, 10) : -1;
}

void procfs_comm(pid_t pid, char *buffer, size_t size)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (!read_file(path, buffer, size))
		snprintf(buffer, size, "?");
	buffer[strcspn(buffer, "\n")] = '\0';
}

/*
 * Field n (counted from 1, as proc_pid_stat(5) does) of a stat file, for n > 2;
 * the command in parentheses may hold anything.
 */
static const char *stat_field(const char *path, int n, char *buffer, size_t size)
{
	const char *field;

	if (!read_file(path, buffer, size))
		return NULL;
	field = strrchr(buffer, ')');
	for (int i = 2; field && i < n; i++) {
		field = strchr(field, ' ');
		field = field ? field + 1 : NULL;
	}
	return field;
}

char procfs_thread_state(pid_t pid, pid_t tid)
{
	char path[64], buffer[1024];
	const char *field;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	field = stat_field(path, 3, buffer, sizeof(buffer));
	return field ? *field : 0;
}

uint64_t procfs_start_time(pid_t pid)
{
	char path[48], buffer[1024];
	const char *field;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	field = stat_field(path, 22, buffer, sizeof(buffer));
	return field ? strtoull(field, NULL, 10) : 0;
}
