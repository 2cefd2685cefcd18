/* SPDX-License-Identifier: MIT */
/*
 * Tracers, built-in or loaded. To add one that gathers or records what stubs already
 * support, add a row to builtin.c.
 */
#ifndef LIBPROBE_SESSION_TRACER_H
#define LIBPROBE_SESSION_TRACER_H

#include "libprobe/base/error.h"
#include "probe/tracer.h"

struct tracer_kind {
	const char *name;  /* NULL in the last row */
	const char *usage; /* what is typed after -t */
	const char *help;
	enum probe_tracer_output output;
	bool needs_value; /* an expression follows the name */
	bool has_pairs;
	bool has_spans;	 /* its hits are pairs (probe_session_options.spans) */
	bool is_several; /* see probe_tracer_part() */
	/* With has_pairs: how operands pair by default. */
	enum probe_pairing pairing;
	struct probe_gather gather; /* its flags: what is gathered */
	struct probe_view view;	    /* its columns, order, chart and times */
};

/* A parsed -t. */
struct probe_tracer_spec {
	const struct tracer_kind *kind;
	char *text;			    /* the others point into it */
	char *name;			    /* of a loaded tracer, its path */
	char *operand;			    /* after the first comma, or NULL */
	const struct tracer_kind *exporter; /* its rows are metrics (exported.c); else NULL */
};

/* The tracer with this name, or NULL. */
const struct tracer_kind *tracer_find(const char *name);

/* Turns the spec of `pcp` or `metrics` into that of the tracer after it. Errors: PROBE_ERROR_USAGE.
 */
PROBE_MUST_CHECK struct probe_error *tracer_exported_parse(struct probe_tracer_spec *spec);

/* What follows the name `stack` or `heap` (stack.c). Errors: PROBE_ERROR_USAGE. */
struct tracer_stack_options {
	bool frames, folded, flamegraph, pprof;
	bool live, total; /* of a heap */
	uint16_t bytes;	  /* of the copies; 0: default */
};
PROBE_MUST_CHECK struct probe_error *tracer_stack_parse(
	const struct probe_tracer_spec *spec, struct tracer_stack_options *ret);
/* Sets the session's options accordingly. */
PROBE_MUST_CHECK struct probe_error *tracer_stack_configure(
	const struct probe_tracer_spec *spec, struct probe_session_options *options);
/* Whether its output is call stacks, with the options above. */
static inline bool tracer_has_stacks(const struct tracer_kind *kind)
{
	return kind->output == PROBE_TRACER_STACKS || kind->output == PROBE_TRACER_HEAP;
}

/* In the order of the list that users see. The last one has no name: shared objects. */
extern const struct tracer_kind tracer_builtin[];

#endif
