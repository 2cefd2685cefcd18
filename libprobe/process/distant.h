/* SPDX-License-Identifier: MIT */
/* Files of file systems that may not answer: see distant.c. */
#ifndef LIBPROBE_PROCESS_DISTANT_H
#define LIBPROBE_PROCESS_DISTANT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Does a program or another machine serve the files of a device, as a process has it
 * mounted? Also if nothing tells. No file system is asked.
 */
bool distant_is(pid_t pid, uint32_t dev_major, uint32_t dev_minor);

/*
 * A file in memory with the content of one that `open` opens (-1 and *err_ret: not), in a
 * process of its own; the caller closes it. -1 where it cannot be opened or read: *err_ret
 * is then the errno, 0 (as `open` says), or ETIMEDOUT where it does not answer in time.
 */
int distant_copy(int (*open)(void *data, int *err_ret), void *data, int *err_ret);

#endif
