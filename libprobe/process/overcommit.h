/* SPDX-License-Identifier: MIT */
/* How much memory the kernel will still commit, if it never commits more than it has. */
#ifndef LIBPROBE_PROCESS_OVERCOMMIT_H
#define LIBPROBE_PROCESS_OVERCOMMIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Can a store into a hole of a memory file fail although no process has reached a limit of its own?
 * This is the case if the sysctl vm.overcommit_memory is 2.
 */
bool overcommit_is_strict(void);

/* The bytes that processes may still commit; UINT64_MAX unless overcommit_is_strict(). */
uint64_t overcommit_room(void);

/* The same for tests, with `folder` in place of /proc. */
uint64_t overcommit_room_in(const char *folder);

/*
 * Allocates [start, end) of a memory file, so that no store into it can fail. The contents of its
 * pages stay. Returns 0, or an error of fallocate(2): ENOSPC if too little memory is left.
 */
int overcommit_fill(int fd, uint64_t start, uint64_t end);

#endif
