/* SPDX-License-Identifier: MIT */
/*
 * probectl record --full=loop and --full=stop: hits stay in the rings until they are asked for, or
 * the record ends.
 */
#ifndef CLI_TRACE_RECORD_STREAM_H
#define CLI_TRACE_RECORD_STREAM_H

#include "cli/trace/options.h"

/* Errors: PROBE_ERROR_USAGE (options that do not go with it). */
PROBE_MUST_CHECK struct probe_error *trace_rings_check(const struct trace_options *options);

#endif
