/* SPDX-License-Identifier: MIT */
/*
 * Reads small files of /proc and /sys, and opens output files, whose paths another user may have
 * prepared.
 */
#ifndef LIBPROBE_BASE_FILE_H
#define LIBPROBE_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* The modes of created output files and folders: only the user can read them. */
enum { FILE_MODE = 0600, FOLDER_MODE = 0700 };

/* Reads a small file with one read and terminates its text. Returns the text's length, or 0. */
size_t file_read(const char *path, char *buffer, size_t size);
/* Reads a whole file, with as many reads as necessary. Text beyond `size` is dropped. */
size_t file_read_whole(const char *path, char *buffer, size_t size);

/*
 * Opens a folder, and sets *ret to its descriptor. If the folder is missing and `make` is true,
 * creates it first. Like probe_output_open() (probe/sink.h), follows no link that belongs to
 * another user (place.c). Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *file_folder(const char *path, bool make, int *ret);

/*
 * Opens (O_PATH) the folder that contains the last component of an absolute path; the component
 * itself need not exist. `root` is the root folder of a process. Only links that belong to `user`
 * or root are followed. Errors: as for file_folder().
 */
PROBE_MUST_CHECK struct probe_error *file_parent(
	const char *root, uid_t user, const char *path, int *ret);

/*
 * Opens the terminal or pipe behind a descriptor once more, in non-blocking mode. The mode of the
 * descriptor itself cannot be changed, because the shell and programs that we start share it.
 * Returns -1 if the descriptor is neither a terminal nor a pipe, if its reader is gone, or if it
 * belongs to another user.
 */
int file_reopen(int fd);

#endif
