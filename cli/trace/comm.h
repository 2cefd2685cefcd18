/* SPDX-License-Identifier: MIT */
/* The names of threads (/proc/PID/task/TID/comm), remembered. */
#ifndef CLI_TRACE_COMM_H
#define CLI_TRACE_COMM_H

#include <stdint.h>
#include <sys/types.h>

struct comm_cache;

enum { COMM_BYTES = 16 }; /* TASK_COMM_LEN of the kernel, with its NUL */

/* NULL without memory. */
struct comm_cache *comm_cache_create(void);
void comm_cache_free(struct comm_cache *cache);

/*
 * The name of a thread that hit a probe at time_ns. It is read when the thread is first seen, and
 * again when it is seen a tenth of a second or more later, for threads rename themselves and
 * numbers are used again. A thread that is gone keeps the name that was read last. If none was, its
 * name is not known: its process, or the one that has forked it, may have another one. Owned by the
 * cache, valid until the next call; NULL: not known.
 */
const char *comm_cache_get(struct comm_cache *cache, pid_t pid, pid_t tid, uint64_t time_ns);
/* The same, of what has been read: the thread is gone, and another one may have its numbers. */
const char *comm_cache_known(struct comm_cache *cache, pid_t pid, pid_t tid);

/* Forgets the names of a process that has become another program. */
void comm_cache_forget(struct comm_cache *cache, pid_t pid);

#endif
