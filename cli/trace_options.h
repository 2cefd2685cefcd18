/* SPDX-License-Identifier: MIT */
/* The command line of `probectl trace`, parsed. */
#ifndef CLI_TRACE_OPTIONS_H
#define CLI_TRACE_OPTIONS_H

#include "cli/options.h"
#include "cli/request.h"
#include "cli/trace.h"

struct trace_options {
	struct common_options common;
	struct request_options request;
	struct tracer_options tracer;
	struct trace_settings settings;
	const char *output;
	uint64_t ring_bytes, string_bytes;
	bool follow, no_follow;

	const struct trace_tracer *first; /* once there are tracers: for what all would say */
};

#endif
