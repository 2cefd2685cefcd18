/* SPDX-License-Identifier: MIT */
/* probectl record --full=loop and --full=stop: what is in the rings is written at the end. */
#ifndef CLI_TRACE_RECORD_STREAM_H
#define CLI_TRACE_RECORD_STREAM_H

#include "cli/trace/options.h"

/*
 * Runs such a record from its begin to its end. Errors: PROBE_ERROR_USAGE (options that
 * do not go with it), and whatever keeps it from starting.
 */
PROBE_MUST_CHECK struct probe_error *record_stream(struct trace_options *options, int *status_ret);

#endif
