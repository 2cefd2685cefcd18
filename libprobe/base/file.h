/* SPDX-License-Identifier: MIT */
/* Small files of /proc and /sys. */
#ifndef LIBPROBE_BASE_FILE_H
#define LIBPROBE_BASE_FILE_H

#include <stddef.h>

/* Reads a small file and terminates its text; returns its length, or 0. */
size_t file_read(const char *path, char *buffer, size_t size);
/* The same with as many reads as it takes; text beyond `size` is dropped. */
size_t file_read_whole(const char *path, char *buffer, size_t size);

#endif
