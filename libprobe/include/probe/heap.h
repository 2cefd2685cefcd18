/* SPDX-License-Identifier: MIT */
/*
 * Sums of memory for each call stack that has allocated some: all bytes that were allocated, and
 * the bytes that have not been freed. Two probes report allocations. The first has the arguments
 * (pointer, bytes) or (pointer, bytes, weight), and the second (pointer). With a weight, as in
 * otel_memory:alloc, an allocation is a sample that stands for `weight` bytes.
 */
#ifndef PROBE_HEAP_H
#define PROBE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "stacks.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_heap;

/* Makes an empty heap. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_heap_create(struct probe_heap **ret);
/* Frees a heap. NULL is allowed. */
void probe_heap_free(struct probe_heap *heap);

/*
 * Adds a hit of a session with begin_stacks, in the order of probe_session_poll(). A start event
 * allocates, an end event frees. Each process has pointers of its own. The pointer 0 is not counted
 * as memory. `comm` is the name of the thread, or NULL, and is copied. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_heap_add(struct probe_heap *heap,
	const struct probe_session *session, const struct probe_session_probe *probe,
	const struct probe_hit *hit, const char *comm);

/*
 * Forgets a session. If hits of a session were added, call this function before you free the
 * session, unless no more hits will be added to the heap. Memory that the session's processes have
 * not freed stays live.
 */
void probe_heap_forget(struct probe_heap *heap, const struct probe_session *session);

/*
 * Begins an interval: probe_heap_rows() can return the memory that was allocated since this call.
 */
void probe_heap_mark(struct probe_heap *heap);

/*
 * Returns the stacks that have allocated memory, sorted by their bytes, largest first. With `live`,
 * `count` of a row is the number of bytes that have not been freed; otherwise, it is the number of
 * all allocated bytes. With `is_interval`, total_bytes and total_count are those since the last
 * mark, and stacks with neither new nor live memory are left out; the live figures are always
 * current. *ret points into `heap`; free it with free(). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_heap_rows(const struct probe_heap *heap, bool live,
	bool is_interval, struct probe_stacks_row **ret, size_t *count_ret);

/* Events that make the figures inexact. For lost hits see struct probe_session_probe. */
struct probe_heap_doubts {
	/* frees of memory that was allocated before the trace began */
	uint64_t unknown_frees;
	/*
	 * allocations at an address already in use: the free of the earlier allocation was not seen
	 */
	uint64_t unfreed;
	uint64_t unreadable; /* hits whose arguments are not a pointer and a number of bytes */
	uint64_t left_out;   /* allocations with new stacks, after about 100,000 stacks */
	/* Allocations that never count as live, because 4 million others already do. */
	uint64_t untracked;
};
struct probe_heap_doubts probe_heap_doubts(const struct probe_heap *heap);

#ifdef __cplusplus
}
#endif
#endif
