/* SPDX-License-Identifier: MIT */
/* How much memory the kernel still promises, where it promises no more than it has. */
#ifndef LIBPROBE_PROCESS_OVERCOMMIT_H
#define LIBPROBE_PROCESS_OVERCOMMIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Can a store into a hole of a memory file fail although no process reaches a limit of its own?
 * So it is with the sysctl vm.overcommit_memory=2.
 */
bool overcommit_is_strict(void);

/* The bytes that processes may still commit; UINT64_MAX if it is not strict. */
uint64_t overcommit_room(void);

/* For tests: the same, with `folder` in place of /proc. */
uint64_t overcommit_room_in(const char *folder);

/*
 * Allocates [start, end) of a memory file, so that no store into it fails. The pages keep what they
 * hold. Returns 0, or an error of fallocate(2): ENOSPC if there is not enough.
 */
int overcommit_fill(int fd, uint64_t start, uint64_t end);

#endif
