/* SPDX-License-Identifier: MIT */
/* Files of file systems that may not answer: see distant.c. */
#ifndef LIBPROBE_MODULES_DISTANT_H
#define LIBPROBE_MODULES_DISTANT_H

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

#endif
