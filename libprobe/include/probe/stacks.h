/* SPDX-License-Identifier: MIT */
/* Counts of hits by call stack. */
#ifndef PROBE_STACKS_H
#define PROBE_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_stacks;

/* The hits of one probe, in threads of one name, with one call stack. */
struct probe_stacks_row {
	const char *provider, *name;
	const char *comm; /* name of the threads, or NULL */
	struct probe_stack stack;
	uint64_t count; /* hits; for a heap: bytes, live or total as probe_heap_rows() was asked */
	bool is_heap;	/* true if the row is from probe_heap_rows() */
	uint64_t total_bytes, total_count, live_bytes, live_count; /* for a heap only */
};

/* Makes an empty collection. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_stacks_create(struct probe_stacks **ret);
/* Frees a collection. NULL is allowed. */
void probe_stacks_free(struct probe_stacks *stacks);

/*
 * Adds `count` hits. Everything is copied: the session may be freed. `comm` may be NULL. Stacks of
 * two processes count as one stack if their frames are at the same places of the same files. This
 * stack has the addresses (ip) of the process that was added first. Stacks are cut after
 * PROBE_FRAMES_MAX frames. After about 100,000 different stacks or frames, hits with new ones are
 * only counted (probe_stacks_left_out()). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_stacks_add(struct probe_stacks *stacks,
	const struct probe_session_probe *probe, const char *comm, const struct probe_stack *stack,
	uint64_t count);

/*
 * Adds everything that a session with PROBE_STACK_FRAMES has gathered so far. Before the same
 * session is added again, call probe_stacks_clear(). Errors: those of probe_session_rows() and
 * probe_session_stack().
 */
PROBE_MUST_CHECK struct probe_error *probe_stacks_add_session(
	struct probe_stacks *stacks, struct probe_session *session, const char *comm);

/*
 * Adds everything that a session has gathered before the session is freed: probe_stacks_clear()
 * keeps these hits. If the session has been added before, call probe_stacks_clear() first. Errors:
 * as probe_stacks_add_session().
 */
PROBE_MUST_CHECK struct probe_error *probe_stacks_keep_session(
	struct probe_stacks *stacks, struct probe_session *session, const char *comm);

/*
 * Sets all counts to 0, except the hits of probe_stacks_keep_session(). A mark
 * (probe_stacks_mark()) stays.
 */
void probe_stacks_clear(struct probe_stacks *stacks);

/* Begins an interval: probe_stacks_rows() can return the hits since this call. */
void probe_stacks_mark(struct probe_stacks *stacks);

/*
 * Returns the stacks with hits, the most frequent first. With `is_interval`, hits are those since
 * the last mark. *ret points into `stacks`; free it with free(). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_stacks_rows(const struct probe_stacks *stacks,
	bool is_interval, struct probe_stacks_row **ret, size_t *count_ret);

/* Returns the number of hits whose stacks found no room. */
uint64_t probe_stacks_left_out(const struct probe_stacks *stacks);

#ifdef __cplusplus
}
#endif
#endif
