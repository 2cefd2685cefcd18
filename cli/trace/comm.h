/* SPDX-License-Identifier: MIT */
/* A cache of the names of threads (/proc/PID/task/TID/comm). */
#ifndef CLI_TRACE_COMM_H
#define CLI_TRACE_COMM_H

#include <stdint.h>
#include <sys/types.h>

struct comm_cache;

enum { COMM_BYTES = 16 }; /* the kernel's TASK_COMM_LEN, which includes the NUL */

/* Creates an empty cache. NULL on lack of memory. */
struct comm_cache *comm_cache_create(void);
void comm_cache_free(struct comm_cache *cache);

/*
 * Returns the name of a thread that hit a probe at time_ns. The name is read when the thread is
 * first seen, and again when it is seen 0.1 s or more later, because threads rename themselves
 * and thread ids are reused. A thread that has ended keeps the last name for up to 1 s. If no
 * name was read in time, the name is unknown: the process, or its parent, may have another
 * name. The cache owns the name, which is valid until the next call; NULL if it is unknown.
 */
const char *comm_cache_get(struct comm_cache *cache, pid_t pid, pid_t tid, uint64_t time_ns);
/*
 * Returns the cached name of a thread that has ended, whose id another thread may have; NULL if
 * unknown.
 */
const char *comm_cache_known(struct comm_cache *cache, pid_t pid, pid_t tid);

/* Forgets the names of a process that has executed another program. */
void comm_cache_forget(struct comm_cache *cache, pid_t pid);

#endif
