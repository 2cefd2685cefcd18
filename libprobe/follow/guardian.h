/* SPDX-License-Identifier: MIT */
/* Holding processes in execve(2), each for a limited time, whatever happens to us. */
#ifndef LIBPROBE_FOLLOW_GUARDIAN_H
#define LIBPROBE_FOLLOW_GUARDIAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/process/distant.h"

struct guardian;

/* A thread that is in execve(2) of one of the files. */
struct guardian_event {
	uint32_t id;
	uint32_t missed; /* see guardian_missed() */
	pid_t tid;
	uint64_t until_ns; /* CLOCK_MONOTONIC: then it is let go */
	struct file_id file;
};

/*
 * Holds whoever executes one of these files, until guardian_allow(), or for half a second. NULL:
 * the kernel does not allow it (it takes CAP_SYS_ADMIN), or not for these files, or one of them is
 * served by another program or machine, which might never answer.
 */
struct guardian *guardian_start(const char *const *files, size_t count);
/* Lets everybody go. NULL is allowed. */
void guardian_end(struct guardian *guardian);

/* Readable when a thread waits; when `is_gone`, for ever. */
int guardian_fd(const struct guardian *guardian);
/* The next thread that waits; false: there is none. */
bool guardian_next(struct guardian *guardian, struct guardian_event *ret);
/* How many more executed one of the files, and were not held, since the last call. */
size_t guardian_missed(struct guardian *guardian);
void guardian_allow(struct guardian *guardian, const struct guardian_event *event);
/* Looks at the paths again: a file may have been replaced. */
void guardian_renew(struct guardian *guardian);
/* Has it ended by itself? Then nobody is held any more. */
bool guardian_is_gone(const struct guardian *guardian);

#endif
