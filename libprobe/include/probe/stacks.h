/* SPDX-License-Identifier: MIT */
/* Counts by call stack: of hits that have one, or of what a session gathered by stack. */
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

/* Hits of one probe, by threads of one name, with one stack. */
struct probe_stacks_row {
	const char *provider, *name;
	const char *comm; /* or NULL */
	struct probe_stack stack;
	uint64_t count;
};

/* Makes an empty collection. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_stacks_create(struct probe_stacks **ret);
/* Frees a collection, before the sessions whose stacks were added. NULL is allowed. */
void probe_stacks_free(struct probe_stacks *stacks);

/*
 * Adds `count` hits; names and stack are copied, frames are the session's. `comm`
 * may be NULL. Beyond some 100,000 different stacks, hits of new ones are only
 * counted: probe_stacks_left_out(). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_stacks_add(struct probe_stacks *stacks,
	const struct probe_session_probe *probe, const char *comm, const struct probe_stack *stack,
	uint64_t count);

/*
 * Adds all that a session with PROBE_STACK_FRAMES has gathered so far. Before it
 * is added again, probe_stacks_clear() has to take away what was added before.
 * Errors: those of probe_session_rows() and probe_session_stack().
 */
PROBE_MUST_CHECK struct probe_error *probe_stacks_add_session(
	struct probe_stacks *stacks, struct probe_session *session, const char *comm);

/* Sets all counts to 0; what was marked stays so. */
void probe_stacks_clear(struct probe_stacks *stacks);

/* From here on an interval begins. */
void probe_stacks_mark(struct probe_stacks *stacks);

/*
 * The stacks with hits, most first; with `is_interval`, hits since the last mark.
 * *ret is to be freed with free(), and points into `stacks`. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_stacks_rows(const struct probe_stacks *stacks,
	bool is_interval, struct probe_stacks_row **ret, size_t *count_ret);

/* Hits of stacks that there was no room for. */
uint64_t probe_stacks_left_out(const struct probe_stacks *stacks);

#ifdef __cplusplus
}
#endif
#endif
