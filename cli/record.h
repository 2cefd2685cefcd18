/* SPDX-License-Identifier: MIT */
/* A record in progress: cmd_record.c reads the command line, record.c runs it. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options.h"
#include "cli/request.h"
#include "probe/ctf.h"

struct record_options {
	struct common_options common;
	struct request_options request;
	const char *directory, *rotate_text;
	struct probe_ctf_options rotate;
	uint64_t ring_bytes, string_bytes, duration_ns;
	bool follow, no_follow, quiet;
};

/* Records from begin to end. */
PROBE_MUST_CHECK struct probe_error *record_command(
	struct record_options *options, int *status_ret);

#endif
