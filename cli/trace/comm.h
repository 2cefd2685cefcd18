/* SPDX-License-Identifier: MIT */
/* A cache of the names of threads (/proc/PID/task/TID/comm). */
#ifndef CLI_TRACE_COMM_H
#define CLI_TRACE_COMM_H

#include <stdint.h>
#include <sys/types.h>

struct comm_cache;

enum { COMM_BYTES = 16 }; /* the kernel's TASK_COMM_LEN, which includes the NUL */

/* Creates an empty cache. Returns NULL on lack of memory. */
struct comm_cache *comm_cache_create(void);
void comm_cache_free(struct comm_cache *cache);

/*
 * Returns the name of a thread that hit a probe at time_ns, or NULL if the name is unknown. The
 * cache owns the name; it is valid until the next call.
 *
 * The cache reads a name when it first sees the thread. It reads the name again if it sees the
 * thread 0.1 s or more later, because threads rename themselves and thread ids are reused. The
 * last name of a thread that has ended stays valid for up to 1 s. If the thread ended before its
 * name was read, the name is unknown: the names of the process and of its parent may be different.
 */
const char *comm_cache_get(struct comm_cache *cache, pid_t pid, pid_t tid, uint64_t time_ns);
/*
 * Returns the cached name of a thread that has ended, or NULL if the cache has no name for it. The
 * name is not read again, because another thread may now have the same id.
 */
const char *comm_cache_known(struct comm_cache *cache, pid_t pid, pid_t tid);

/* Forgets the names of a process that has executed another program. */
void comm_cache_forget(struct comm_cache *cache, pid_t pid);

#endif
