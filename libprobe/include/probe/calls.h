/* SPDX-License-Identifier: MIT */
/*
 * Calls of functions: how often each was called, how long it ran, with and without the functions
 * that it called, and by whom. A call is a pair of events of one thread (probe/spans.h): the entry
 * and the exit of a function, or what a program's own probes tell of its functions, as those of
 * Python and Java do. Calls nest: when a function returns, calls inside it that have not ended were
 * left by a jump.
 */
#ifndef PROBE_CALLS_H
#define PROBE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "catalogue.h"
#include "error.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_calls;

/*
 * `keys` are KEYs of probe/summary.h: their values at the begin tell functions of one pair apart.
 * Without keys, the catalogue's arguments `class`, `method` and `function` do. Strings are borrowed
 * during the call, the catalogue as long as the calls exist; it may be NULL.
 */
struct probe_calls_options {
	const char *const *keys;
	size_t key_count;
	const struct probe_catalogue *catalogue;
};

/* Errors: PROBE_ERROR_USAGE (not a KEY), PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_calls_create(
	const struct probe_calls_options *options, struct probe_calls **ret);
/* Frees calls. NULL is allowed. */
void probe_calls_free(struct probe_calls *calls);

/*
 * Adds the next event; those of one thread come in the order of time. A loss drops all calls that
 * have not ended. Errors: PROBE_ERROR_UNSUPPORTED (a span of `trace -t span`), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_calls_add(
	struct probe_calls *calls, const struct probe_event *event);

/*
 * Ends a round of reading hits from rings, where nothing tells between which hits others were lost.
 * If some were lost since the last round, the calls that ended in this round or the next one do not
 * count. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_calls_round(struct probe_calls *calls, bool lost);

/* Drops the open calls of a process, which has ended or executed another program. */
void probe_calls_forget(struct probe_calls *calls, pid_t pid);

/* Begins an interval, for probe_calls_rows(). */
void probe_calls_mark(struct probe_calls *calls);

struct probe_calls_sum {
	uint64_t count;	   /* calls that have ended */
	uint64_t self_ns;  /* their time without the calls inside them */
	uint64_t total_ns; /* all their time; of calls inside one of the same, only the outer's */
};

struct probe_calls_edge {
	const char *function; /* the caller or callee; NULL if no traced function called */
	struct probe_calls_sum sum;
};

struct probe_calls_row {
	const char *provider, *pair; /* the pair of probes, as in struct probe_span_pair */
	const char *function;	     /* the name: provider:pair, and values of keys */
	struct probe_calls_sum sum;
	const struct probe_calls_edge *callers, *callees; /* most total time first */
	size_t caller_count, callee_count;
};

/*
 * Returns the functions, most self time first; with `is_interval`, what is new since the last mark.
 * Texts are valid as long as `calls`. Free *ret with free(). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_calls_rows(const struct probe_calls *calls,
	bool is_interval, struct probe_calls_row **ret, size_t *count_ret);

/* Calls that are in no row. */
struct probe_calls_doubts {
	uint64_t unmatched; /* ends without a begin */
	uint64_t open;	    /* begins without an end: left by a jump, or not ended yet */
	uint64_t untimed;   /* calls that ended when hits were lost */
	uint64_t left_out;  /* calls of functions, or callers, beyond what the tables hold */
};
/* Call it after the last event. */
struct probe_calls_doubts probe_calls_finish(struct probe_calls *calls);

#ifdef __cplusplus
}
#endif
#endif
