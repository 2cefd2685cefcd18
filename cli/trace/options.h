/* SPDX-License-Identifier: MIT */
/* The command lines of `probectl trace` and `probectl record`, parsed. */
#ifndef CLI_TRACE_OPTIONS_H
#define CLI_TRACE_OPTIONS_H

#include "cli/options.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/trace/trace.h"
#include "probe/ctf.h"

/* Initialise with {.settings = {.top = TRACER_TOP}}. */
struct trace_options {
	struct common_options common;
	struct request_options request;
	struct tracer_options tracer;
	struct trace_settings settings;
	const char *output;		/* a file; NULL: the standard output */
	const char *directory;		/* of a record, which then takes the hits; else NULL */
	struct probe_ctf_options parts; /* of a record */
	enum record_full full;		/* likewise; cli/trace/report.c */
	uint64_t wait_ns;		/* --full=wait: how long a hit may wait for room; or 0 */
	uint64_t ring_bytes, string_bytes;

	const struct trace_tracer *first; /* once there are tracers: for what all would say */
};

/* clang-format off */
/* Until when, and how hits are taken. */
#define OPTIONS_TRACE(options)                                                                     \
	OPTION('n', "hits", NUMBER, "COUNT", &(options)->settings.hits_max,                        \
		"stop after COUNT hits"),                                                          \
	OPTION('d', "duration", DURATION, "SECONDS", &(options)->settings.duration_ns,             \
		"stop after this time"),                                                           \
	OPTION('s', "strings", NUMBER, "N", &(options)->string_bytes,                              \
		"also take up to N bytes of the text that each pointer points to"),                \
	OPTION('b', "buffer", SIZE, NULL, &(options)->ring_bytes,                                  \
		"size of the ring buffer of each CPU, where hits wait"),                           \
	OPTIONS_FOLLOW(&(options)->common),                                                        \
	OPTIONS_KEEP_GOING(&(options)->request),                                                   \
	OPTIONS_VERBOSE(&(options)->request),                                                      \
	OPTIONS_PLAN(&(options)->request),                                                         \
	OPTION('q', "quiet", FLAG, NULL, &(options)->settings.quiet,                               \
		"print no summary on standard error")
/* clang-format on */

/* Refuses options that no tracer of the trace takes (check.c). Errors: PROBE_ERROR_USAGE. */
PROBE_MUST_CHECK struct probe_error *trace_check_tracers(
	const struct trace *trace, const struct trace_options *options);

/*
 * Of --full: `wait`, or `wait:TIME`. Anything else is left to the caller: 0. Errors:
 * PROBE_ERROR_USAGE (TIME is none, or too long).
 */
PROBE_MUST_CHECK struct probe_error *trace_parse_wait(const char *text, uint64_t *ns_ret);

/*
 * Checks what was parsed, and runs the trace from its begin to its end. Errors:
 * PROBE_ERROR_USAGE, and whatever keeps it from starting.
 */
PROBE_MUST_CHECK struct probe_error *trace_options_run(
	struct trace_options *options, int *status_ret);

#endif
