/* SPDX-License-Identifier: MIT */
/* Reads small files of /proc and /sys, writes to descriptors, and opens output files safely. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* Created output files and folders are only for the user. */
enum { FILE_MODE = 0600, FOLDER_MODE = 0700 };

/* Reads a small file at once, and ends it with a NUL. Returns the text's length, or 0. */
size_t file_read(const char *path, char *buffer, size_t size);
/* Reads a whole file, but drops text beyond `size`. */
size_t file_read_whole(const char *path, char *buffer, size_t size);
/* Writes all bytes. Returns false with errno on failure. */
bool file_write(int fd, const void *bytes, size_t size);

/*
 * Opens a folder, or with `make` creates it. Like probe_output_open() (probe/sink.h), follows no
 * other user's links (place.c). Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *file_folder(const char *path, bool make, int *ret);

/*
 * Opens (O_PATH) the folder of an absolute path's last component, which need not exist, below a
 * process's `root`. Follows only links of `user` and root. Errors: as file_folder().
 */
PROBE_MUST_CHECK struct probe_error *file_parent(
	const char *root, uid_t user, const char *path, int *ret);

/*
 * Returns the path of the program that a shell would start for a name without a slash, or NULL. The
 * caller frees it.
 */
char *file_in_path(const char *name);

/*
 * Opens a descriptor's terminal or pipe again, in non-blocking mode, because the shell and our
 * programs share the descriptor. Returns -1 if it is neither, has no reader, or is another user's.
 */
int file_reopen(int fd);
