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
 * Returns the name of a thread that hit a probe at time_ns, or NULL. It is valid until the next
 * call.
 *
 * A name is read again after 0.1 s, because threads rename themselves and thread ids are reused.
 * The last name of an ended thread stays valid for up to 1 s. If the thread ended before its name
 * was read, the name is unknown: those of its process and its parent may differ.
 */
const char *comm_cache_get(struct comm_cache *cache, pid_t pid, pid_t tid, uint64_t time_ns);
/* Returns the cached name of an ended thread, or NULL. Another thread may have its id by now. */
const char *comm_cache_known(struct comm_cache *cache, pid_t pid, pid_t tid);

/* Forgets the names of a process that has executed another program. */
void comm_cache_forget(struct comm_cache *cache, pid_t pid);

#endif
