/* SPDX-License-Identifier: MIT */
/* The file of shared memory: it tells which of a process's pages have content. */
#ifndef LIBPROBE_PROCESS_BACKING_H
#define LIBPROBE_PROCESS_BACKING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/process/memfds.h"
#include "libprobe/process/maps.h"

/* What is known of a process's files. Initialise with the pid; call backing_deinit(). */
struct backing {
	pid_t pid;
	bool no_map_files; /* we may not use them */
	struct memfds memfds;
};

enum backing_kind {
	BACKING_NONE,	/* not examined: a device, or on a file system that may not answer */
	BACKING_MEMORY, /* in memory, whatever its name */
	BACKING_DISK
};

enum backing_kind backing_kind(const struct backing *backing, const struct mapping *mapping);

/* Opens the file of a shared mapping for reading; -1 if that is impossible. */
int backing_open(struct backing *backing, const struct mapping *mapping);

/*
 * The next range with data in [offset, end) of a file; false if there is none. Everything
 * outside such ranges reads as zeros, and reading it allocates nothing.
 */
bool backing_next(int fd, uint64_t offset, uint64_t end, uint64_t *start_ret, uint64_t *end_ret);

/* The amount of data in [offset, end), in bytes. */
uint64_t backing_data(int fd, uint64_t offset, uint64_t end);
void backing_deinit(struct backing *backing);

#endif
