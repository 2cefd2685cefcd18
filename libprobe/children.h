/* SPDX-License-Identifier: MIT */
/* Processes that a target has forked, and that have its patched code and its registry. */
#ifndef LIBPROBE_CHILDREN_H
#define LIBPROBE_CHILDREN_H

#include <stdint.h>
#include <sys/types.h>

#include "probe/error.h"

/* The pids of the children of all threads, ended by 0; to be freed. NULL: none, or no memory. */
pid_t *children_of(pid_t pid);

/*
 * The process of a thread id, by a small cache; a thread that is gone is taken
 * for a process of its own.
 */
enum { CHILDREN_CACHE = 1024 };
struct children_cache {
	pid_t tids[CHILDREN_CACHE], pids[CHILDREN_CACHE];
};
pid_t children_process_of(struct children_cache *cache, pid_t tid);

#endif
