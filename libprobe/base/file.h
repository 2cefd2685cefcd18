/* SPDX-License-Identifier: MIT */
/* Small files of /proc and /sys; and files for output, which another user may have prepared. */
#ifndef LIBPROBE_BASE_FILE_H
#define LIBPROBE_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* The modes of what output makes: for the user alone. */
enum { FILE_MODE = 0600, FOLDER_MODE = 0700 };

/* Reads a small file and terminates its text; returns its length, or 0. */
size_t file_read(const char *path, char *buffer, size_t size);
/* The same with as many reads as it takes; text beyond `size` is dropped. */
size_t file_read_whole(const char *path, char *buffer, size_t size);

/*
 * Opens a folder: *ret is a descriptor of it. If it is missing and `make` is true, creates it.
 * Follows no link of another user (place.c), nor does probe_output_open() (probe/sink.h). Errors:
 * PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *file_folder(const char *path, bool make, int *ret);

/*
 * Opens (O_PATH) the folder of an absolute path's last component, which need not exist. `root` is
 * the folder / of a process, and `user` is whose links it follows beside root's. Errors: as above.
 */
PROBE_MUST_CHECK struct probe_error *file_parent(
	const char *root, uid_t user, const char *path, int *ret);

/*
 * A description of our own for what a descriptor writes to, which does not block; the descriptor's
 * is shared with the shell and with programs that we start. -1: it is neither a terminal nor a
 * pipe, its reader is gone, or it is another user's.
 */
int file_reopen(int fd);

#endif
