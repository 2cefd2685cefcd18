/* SPDX-License-Identifier: MIT */
/* The parsed command line of `probectl trace` or `probectl record`. */
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
	const char *output; /* file to write; NULL for standard output */
	/* Directory of the recording; NULL for `probectl trace`. */
	const char *directory;
	struct probe_ctf_options parts; /* options of the recording */
	enum record_full full;		/* what the recording does when rings are full */
	/* With --full=wait, how long a hit may wait for ring space; otherwise 0. */
	uint64_t wait_ns;
	uint64_t ring_bytes, string_bytes;
};

/* clang-format off */
/* Options for the end of the trace and for the way hits are taken. */
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

/*
 * Parses `wait` or `wait:TIME` of --full; otherwise *ns_ret is 0. Errors: PROBE_ERROR_USAGE (TIME
 * is invalid or too long).
 */
PROBE_MUST_CHECK struct probe_error *trace_parse_wait(const char *text, uint64_t *ns_ret);

/*
 * Checks the options and runs the whole trace (setup.c). Errors: PROBE_ERROR_USAGE; any of the
 * start.
 */
PROBE_MUST_CHECK struct probe_error *trace_command(struct trace_options *options, int *status_ret);

#endif
