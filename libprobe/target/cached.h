/* SPDX-License-Identifier: MIT */
/* What the kernel knows of files by itself: nothing here waits for a file system. */
#ifndef LIBPROBE_TARGET_CACHED_H
#define LIBPROBE_TARGET_CACHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct file_id {
	dev_t device;
	ino_t inode;
};

bool file_id_same(const struct file_id *a, const struct file_id *b);

/*
 * Opens a path from a folder, with O_PATH and flags of openat2(2); -1: the kernel does not have it
 * at hand, or is older than Linux 5.12, or a seccomp filter forbids it to us.
 */
int cached_open(int folder, const char *name, uint64_t resolve);
/* Which file an open one is. */
bool cached_identify(int fd, struct file_id *ret);
/* Does a program or another machine serve it, as far as we see? */
bool file_is_distant(const struct file_id *file);

#endif
