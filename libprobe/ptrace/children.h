/* SPDX-License-Identifier: MIT */
/* Processes that a target has forked. They have copies of its patched code and its registry. */
#ifndef LIBPROBE_PTRACE_CHILDREN_H
#define LIBPROBE_PTRACE_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/*
 * The pids of the children of all threads, ended by 0; to be freed. NULL: none, or no memory. If
 * others end meanwhile, one may be left out.
 */
pid_t *children_of(pid_t pid);
/* Of one thread. */
pid_t *children_of_thread(pid_t pid, pid_t tid);

/*
 * Does a process share the memory of another one, for example its parent, as a child of vfork(2)
 * does until it executes another program? Then both have the same probes. False if the kernel does
 * not allow the comparison (kcmp(2)).
 */
bool children_share(pid_t pid, pid_t other);

/*
 * The processes that share the memory of a process without being its threads (clone(2) with
 * CLONE_VM), among its children, grandchildren, parent and siblings. Ended by 0; to be freed. NULL:
 * none, or no memory.
 */
pid_t *children_sharing(pid_t pid);
/*
 * Appends to that list, which may be NULL, those whose ids were assigned after `from`, up to `to`
 * (see procfs_last_pid()). False without memory.
 */
bool children_add_sharing(pid_t pid, long from, long to, pid_t **list);
/* All children, except those that share its memory; as children_of(), but none is left out. */
pid_t *children_apart(pid_t pid);

#endif
