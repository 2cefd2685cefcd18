/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PROCESS_BENEATH_H
#define LIBPROBE_PROCESS_BENEATH_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Opens a regular file for reading by a path from a target's maps, below `root` (a directory,
 * "/" or /proc/PID/root). Follows no symbolic links: the kernel reports paths without any, so a
 * link that is there now is newer, and a link in the target's root would be resolved in ours. A
 * file that is not regular, or that `wanted` rejects, is not opened at all, because opening a
 * device or pipe has effects.
 *
 * Returns the descriptor; or -1 with *err_ret: errno, or 0 if another file is there.
 */
int beneath_open(const char *root, const char *path,
	bool (*wanted)(const struct stat *st, const void *data), const void *data, int *err_ret);

#endif
