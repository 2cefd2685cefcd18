/* SPDX-License-Identifier: MIT */
/* The names of threads (/proc/PID/task/TID/comm), remembered. */
#ifndef CLI_TRACE_COMM_H
#define CLI_TRACE_COMM_H

#include <stdint.h>
#include <sys/types.h>

struct comm_cache;

/* NULL without memory. */
struct comm_cache *comm_cache_create(void);
void comm_cache_free(struct comm_cache *cache);

/*
 * The name of a thread that hit a probe at time_ns. Read when the thread is first
 * seen, and again when it is seen a second or more later, for threads rename
 * themselves and numbers are used again; a thread that is gone keeps its last
 * name, or has its process's, as far as that is known. Owned by the cache, valid until the next
 * call; NULL where nothing is known.
 */
const char *comm_cache_get(struct comm_cache *cache, pid_t pid, pid_t tid, uint64_t time_ns);

/*
 * The same of a thread of `target`, or of a process that was forked from it. One that ended before
 * its name could be read has that of its target: a fork has its parent's until it changes it.
 */
const char *comm_cache_get_forked(
	struct comm_cache *cache, pid_t pid, pid_t tid, uint64_t time_ns, pid_t target);

/* Remembers the name of a process that may be gone when its first hit is read. */
void comm_cache_add(struct comm_cache *cache, pid_t pid);

/* Forgets the names of a process that has become another program. */
void comm_cache_forget(struct comm_cache *cache, pid_t pid);

#endif
