/* SPDX-License-Identifier: MIT */
/* What a loaded tracer's threads have begun: an end says how long it took. */
#ifndef LIBPROBE_SESSION_OPEN_PAIRS_H
#define LIBPROBE_SESSION_OPEN_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { OPEN_PAIRS_PLACES = 4096, OPEN_PAIRS_DEPTH = 16, OPEN_PAIRS_TRIES = 8 };

/*
 * The begins of one thread and pair that have no end yet, the innermost last. Of a recursion
 * that goes deeper than OPEN_PAIRS_DEPTH, the innermost are not known.
 */
struct open_pair {
	pid_t pid, tid;
	uint32_t pair, depth;
	uint64_t times_ns[OPEN_PAIRS_DEPTH];
};

/* A table of a fixed size: if it is full, the oldest begin gives way. */
struct open_pairs {
	struct open_pair places[OPEN_PAIRS_PLACES];
};

/* Notes a begin. */
void open_pairs_push(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t time_ns);
/* Takes the innermost begin out; false: none is known. */
bool open_pairs_pop(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t *time_ns_ret);

#endif
