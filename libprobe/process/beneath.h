/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PROCESS_BENEATH_H
#define LIBPROBE_PROCESS_BENEATH_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Opens a regular file by a path that a target's maps state, below `root` (a
 * directory, "/" or /proc/PID/root), for reading. No symbolic link is followed: the
 * kernel states paths without any, so one that is there now was put there since,
 * and one of the target's would be looked up in our own root. What is no
 * regular file, or not the one that `wanted` accepts, is not opened at all: that
 * alone has effects on devices and pipes.
 *
 * Returns the descriptor; -1 with *err_ret: errno, or 0 where another file is there.
 */
int beneath_open(const char *root, const char *path,
	bool (*wanted)(const struct stat *st, const void *data), const void *data, int *err_ret);

#endif
