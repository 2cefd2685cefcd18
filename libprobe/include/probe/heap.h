/* SPDX-License-Identifier: MIT */
/*
 * Memory by the call stacks that have allocated it: all that was allocated, and what of it has
 * not been freed. It is told by two probes, of which the first has the arguments (pointer,
 * bytes) or (pointer, bytes, weight), and the second (pointer). With a weight, as
 * otel_memory:alloc has it, an allocation is a sample, which stands for so many bytes.
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
 * Adds a hit of a session with begin_stacks, in the order of probe_session_poll(): that of a begin
 * allocates, that of an end frees. Each process has pointers of its own. The pointer 0 is no
 * memory. `comm` is the name of the thread, or NULL, and is copied. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_heap_add(struct probe_heap *heap,
	const struct probe_session *session, const struct probe_session_probe *probe,
	const struct probe_hit *hit, const char *comm);

/*
 * To be called before a session is freed whose hits were added, unless no more hits will be. What
 * it has not freed stays live.
 */
void probe_heap_forget(struct probe_heap *heap, const struct probe_session *session);

/* Begins an interval: probe_heap_rows() can return what was allocated since then. */
void probe_heap_mark(struct probe_heap *heap);

/*
 * Returns the stacks that have allocated, those with most bytes first, which `count` has: with
 * `live`, of what is not freed, else of all. With `is_interval`, total_bytes and total_count are
 * those since the last mark, and stacks with nothing new and nothing live are left out; what is
 * live is so now. *ret points into `heap`; free it with free(). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_heap_rows(const struct probe_heap *heap, bool live,
	bool is_interval, struct probe_stacks_row **ret, size_t *count_ret);

/* What makes figures inexact. Lost hits come on top (struct probe_session_probe). */
struct probe_heap_doubts {
	uint64_t unknown_frees; /* of memory whose allocation was not seen: it is older */
	uint64_t unfreed;	/* allocations at a place that was not free: a free was not seen */
	uint64_t unreadable;	/* hits whose arguments are not a pointer, and bytes */
	uint64_t left_out;	/* allocations with new stacks, after about 100,000 of these */
	uint64_t untracked;	/* allocations that never count as live: 4 million others did */
};
struct probe_heap_doubts probe_heap_doubts(const struct probe_heap *heap);

#ifdef __cplusplus
}
#endif
#endif
