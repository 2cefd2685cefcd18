/* SPDX-License-Identifier: MIT */
/* The auxiliary vector, which execve(2) gives a program, and which fork(2) copies. */
#ifndef LIBPROBE_PROCESS_AUXV_H
#define LIBPROBE_PROCESS_AUXV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { AUXV_MAX = 64 };

struct auxv {
	ssize_t bytes;
	uint64_t items[AUXV_MAX][2]; /* a type (AT_...) and its value */
};

/*
 * Reads that of a process without waiting for its memory. Returns ret->bytes: how many could be
 * read, 0 if it has none; -1 and errno if it may not be opened.
 */
ssize_t auxv_read(pid_t pid, struct auxv *ret);
/*
 * Reads AT_RANDOM of a process, also if its main thread has ended. In the middle of execve(2), it
 * is 0. Returns false if it is unknown.
 */
bool auxv_read_image(pid_t pid, uint64_t *ret);
/* A value, or 0. That of AT_RANDOM is an address in the stack, at random: few programs share it. */
uint64_t auxv_value(const struct auxv *auxv, uint64_t type);

#endif
