/* SPDX-License-Identifier: MIT */
/*
 * The built-in tracers: one table each, in a file of its own. Both halves of what
 * erl_tracer's operations do, deciding and acting, are compiled into the stubs of
 * a session; a table says what these have to gather, and what is shown of it.
 *
 * To add one, write its file, and name it in builtin.c.
 */
#ifndef TRACER_TRACER_H
#define TRACER_TRACER_H

#include "probe/tracer.h"

struct tracer_kind {
	const char *name;
	const char *usage; /* what is typed behind -t */
	const char *help;
	enum probe_tracer_output output;
	bool needs_value; /* an expression behind the name */
	bool has_pairs;
	/* How operands pair where the user does not say; with has_pairs. */
	enum probe_pairing pairing;
	struct probe_gather gather; /* its flags: what is added up */
	struct probe_view view;	    /* its columns, order, chart and times */
};

/* A parsed -t. */
struct probe_tracer_spec {
	const struct tracer_kind *kind;
	char *text;    /* what the others point into */
	char *name;    /* of a loaded one, its path */
	char *operand; /* behind the first comma, or NULL */
	bool exported; /* its rows are metrics (pcp.c) */
};

extern const struct tracer_kind tracer_count, tracer_sum, tracer_min, tracer_max, tracer_avg,
	tracer_hist, tracer_latency, tracer_transaction, tracer_point, tracer_observe,
	tracer_counter, tracer_print, tracer_json, tracer_ring, tracer_stack, tracer_pcp,
	tracer_loaded;

/* The tracer of a name, or NULL. */
const struct tracer_kind *tracer_find(const char *name);

/* Makes a spec of `pcp` that of what stands behind it. Errors: PROBE_ERROR_USAGE. */
PROBE_MUST_CHECK struct probe_error *tracer_pcp_parse(struct probe_tracer_spec *spec);

/* What stands behind the name `stack` (stack.c). Errors: PROBE_ERROR_USAGE. */
struct tracer_stack_options {
	bool frames, folded;
	uint16_t bytes; /* of the copies; 0: not said */
};
PROBE_MUST_CHECK struct probe_error *tracer_stack_parse(
	const char *operand, struct tracer_stack_options *ret);
/* Sets the session's options accordingly. */
PROBE_MUST_CHECK struct probe_error *tracer_stack_configure(
	const char *operand, struct probe_session_options *options);

/* All that have a name, in the order in which they are listed; ends with NULL. */
extern const struct tracer_kind *const tracer_builtin[];

#endif
