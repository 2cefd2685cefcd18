/* SPDX-License-Identifier: MIT */
/* Processes that a target has forked, and that have its patched code and its registry. */
#ifndef LIBPROBE_STOP_CHILDREN_H
#define LIBPROBE_STOP_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* The pids of the children of all threads, ended by 0; to be freed. NULL: none, or no memory. */
pid_t *children_of(pid_t pid);
/* Of one thread. */
pid_t *children_of_thread(pid_t pid, pid_t tid);

/*
 * Does a process run in the memory of another one, its parent say, as a child of vfork(2)
 * does until it is another program? To change its probes is to change those of the other.
 * False where the kernel does not tell (kcmp(2)).
 */
bool children_share(pid_t pid, pid_t other);

/*
 * The processes that share the memory of a process without being its threads (clone(2) with
 * CLONE_VM): its children, theirs, its parent and that one's children, ended by 0; to be
 * freed. NULL: none, or no memory.
 */
pid_t *children_sharing(pid_t pid);
/*
 * Appends to those, which may be NULL, the ones whose ids were given out behind `from`, up to
 * `to` (see procfs_last_pid()). False without memory.
 */
bool children_add_sharing(pid_t pid, long from, long to, pid_t **list);
/* children_of(), but for those that share its memory. */
pid_t *children_apart(pid_t pid);

/*
 * Whose thread a record names, by a small cache. Records hold the id that the
 * thread has in the target's own pid namespace; this finds the one that we know it
 * by. Of a child's thread that is gone, the id is all there is: it is taken for a
 * process of its own.
 */
enum { CHILDREN_CACHE = 1024 };
struct children_cache {
	pid_t root;    /* the target */
	bool children; /* hits may be those of its children, too */
	bool foreign;  /* the target is in another namespace than we are */
	uint64_t next_scan_ns;
	pid_t tids[CHILDREN_CACHE], pids[CHILDREN_CACHE];
	pid_t outer[CHILDREN_CACHE]; /* ids as we know them */
};
void children_cache_init(struct children_cache *cache, pid_t root, bool children);
/*
 * Remembers the threads that there are, for records that are read once they are gone.
 * Does so no more often than costs little.
 */
void children_learn(struct children_cache *cache);
/* `word` is a record's: an id (0: unknown), and whether it is a child's. */
void children_thread(struct children_cache *cache, uint32_t word, pid_t *pid_ret, pid_t *tid_ret);

#endif
