/* SPDX-License-Identifier: MIT */
/* What enable, disable, run and trace share: what is to be switched, and what came of it. */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"
#include "probe/target.h"

/* Initialise with {0}; nothing is to be given back. */
struct request_options {
	bool keep_going;
	const char *plan_text; /* the value of --plan, or NULL */

	enum probe_plan plans[PROBE_PLAN_COUNT];
	struct probe_request request; /* once request_init() has returned */
};

/* clang-format off */
#define OPTIONS_KEEP_GOING(options)                                                                \
	OPTION(0, "keep-going", FLAG, NULL, &(options)->keep_going,                                \
		"leave out the sites that cannot be patched")
#define OPTIONS_PLAN(options)                                                                      \
	OPTION(0, "plan", STRING, "LIST", &(options)->plan_text,                                   \
		"ways of patching, in order (default: toggle,behind,pun,nop)")
/* clang-format on */

/*
 * Makes options->request of the PROBEs of a command line, given with -e or as
 * operands; `common` keeps them. Errors: PROBE_ERROR_USAGE (there are none; one
 * is malformed; --plan names what is no plan), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *request_init(
	struct request_options *options, struct common_options *common);

/* Tells what a report holds on stderr: the refused sites, one a line, with the reason; notes. */
void report_refusals(const struct probe_report *report);

/* Only the sites from an index on: a report grows while a session follows libraries. */
void report_refusals_from(const struct probe_report *report, size_t first);
/* Only the notes. */
void report_notes(const struct probe_report *report);

/* Behind what was not there: the process is gone, or has closed its libraries, so ask files. */
#define REQUEST_NEXT_STEP " (`probectl list FILE` shows what a program or library has)"

/* The error for a command line that names no process. */
PROBE_MUST_CHECK struct probe_error *request_no_pid(const struct common_options *common);

#endif
