/* SPDX-License-Identifier: MIT */
/*
 * Tracers, built in or loaded. To add one that gathers or records what stubs know already,
 * add a row to builtin.c.
 */
#ifndef LIBPROBE_TRACER_TRACER_H
#define LIBPROBE_TRACER_TRACER_H

#include "libprobe/base/error.h"
#include "probe/tracer.h"

struct tracer_kind {
	const char *name;  /* or NULL, of the last one */
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

/* In the order in which they are listed. The last one has no name: that of shared objects. */
extern const struct tracer_kind tracer_builtin[];

#endif
