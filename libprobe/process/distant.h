/* SPDX-License-Identifier: MIT */
/* Files of file systems that may not answer: see distant.c. */
#ifndef LIBPROBE_PROCESS_DISTANT_H
#define LIBPROBE_PROCESS_DISTANT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Whether a program or another machine serves the files of a device, as a process has it
 * mounted; true if unknown. Accesses no file system.
 */
bool distant_is(pid_t pid, uint32_t dev_major, uint32_t dev_minor);

/*
 * Runs `open` (returns -1 and *err_ret on failure) in a helper process and returns an in-memory
 * copy of the file, which the caller closes. On failure returns -1; *err_ret is the errno, 0
 * (if `open` says so), or ETIMEDOUT if there is no answer in time.
 */
int distant_copy(int (*open)(void *data, int *err_ret), void *data, int *err_ret);

/* The identity of a file, as the kernel has it cached: no file system is asked. */
struct file_id {
	dev_t device;
	ino_t inode;
};

bool file_id_same(const struct file_id *a, const struct file_id *b);

/*
 * Opens a path relative to a folder, with O_PATH and flags of openat2(2). Returns -1 if the kernel
 * has not cached the path, is older than Linux 5.12, or a seccomp filter forbids us the call.
 */
int cached_open(int folder, const char *name, uint64_t resolve);
/* Identifies an open file. */
bool cached_identify(int fd, struct file_id *ret);
/* Does a program or another machine serve the file, as far as our mounts tell? */
bool file_is_distant(const struct file_id *file);

#endif
