/* SPDX-License-Identifier: MIT */
/* Which thread has written a record: the ids in records, as we know them. */
#ifndef LIBPROBE_REGISTRY_WRITERS_H
#define LIBPROBE_REGISTRY_WRITERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Finds the process and thread of a record, with a small cache. Records hold the thread's id in the
 * target's own pid namespace; this finds its id in ours. If a child's thread is gone, only the id
 * is known, and it counts as a process of its own.
 */
enum { WRITERS = 1024 };
struct writers {
	pid_t root;    /* the target */
	bool children; /* hits may be those of its children, too */
	bool foreign;  /* the target is in another namespace than we are */
	uint64_t next_scan_ns;
	pid_t tids[WRITERS], pids[WRITERS];
	pid_t outer[WRITERS]; /* ids as we know them */
};
void writers_init(struct writers *cache, pid_t root, bool children);
/*
 * Remembers the present threads, for records that are read after they have ended. Limits how often
 * it really looks.
 */
void writers_learn(struct writers *cache);
/* `word` is a record's: an id (0: unknown), and whether it is a child's. */
void writers_find(struct writers *cache, uint32_t word, pid_t *pid_ret, pid_t *tid_ret);

#endif
