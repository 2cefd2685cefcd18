/* SPDX-License-Identifier: MIT */
/* What enable, disable, run and trace share: what to switch, and what came of it. */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"
#include "probe/target.h"

/* How many there are of the counts by plan, by number; that of 0 is of no plan. */
enum { PLANS = sizeof(((struct probe_report *)0)->plans) / sizeof(size_t) };

/* Initialise with {0}; there is nothing to give back. */
struct request_options {
	bool keep_going, verbose;
	const char *plan_text; /* the value of --plan, or NULL */

	enum probe_plan plans[PLANS];
	struct probe_request request; /* once request_init() has returned */
};

#define OPTION_PLAN_HELP                                                                           \
	"ways of patching, in order (default: toggle,behind,hop,pun,nop,before,twin,part,call)"

/* clang-format off */
#define OPTIONS_KEEP_GOING(options)                                                                \
	OPTION(0, "keep-going", FLAG, NULL, &(options)->keep_going,                                \
		"leave out the sites that cannot be patched, also of probes named exactly")
#define OPTIONS_VERBOSE(options)                                                                   \
	OPTION('v', "verbose", FLAG, NULL, &(options)->verbose,                                    \
		"name each site that cannot be patched")
#define OPTIONS_PLAN(options)                                                                      \
	OPTION(0, "plan", STRING, "LIST", &(options)->plan_text, OPTION_PLAN_HELP)
/* clang-format on */

/*
 * Makes options->request of the PROBEs of a command line, given with -e or as
 * operands; `common` keeps them. Errors: PROBE_ERROR_USAGE (there are none; one
 * is malformed; --plan names what is no plan), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *request_init(
	struct request_options *options, struct common_options *common);

/* The same if something other than options->request names the probes. */
PROBE_MUST_CHECK struct probe_error *request_init_plans(
	struct request_options *options, struct common_options *common);

/* How much of a report has been printed; it grows while a session follows libraries. */
struct report_told {
	size_t refusals, sites, notes;
};

/* Which refused sites get a line. */
enum refusals_shown {
	REFUSALS_NAMED, /* those of probes that were named; the others share one */
	REFUSALS_ALL,	/* those that wildcards match, too: where nothing was changed */
	REFUSALS_EACH	/* -v: also several sites of a probe with the same reason */
};

static inline enum refusals_shown refusals_shown(bool error, bool verbose)
{
	return verbose ? REFUSALS_EACH : error ? REFUSALS_ALL : REFUSALS_NAMED;
}

/* Prints the refused sites of a report that are new on stderr. Returns whether one was named. */
bool report_refusals_since(const struct probe_report *report, pid_t pid, enum refusals_shown shown,
	struct report_told *told);
/* All of them. */
void report_refusals(const struct probe_report *report, pid_t pid, enum refusals_shown shown);
/* The notes, which nothing else prints; those that are new, or all. */
void report_notes_since(const struct probe_report *report, struct report_told *told);
void report_notes(const struct probe_report *report);

/*
 * Says after an error that something is missing: the process has ended, or has closed its
 * libraries, so list files instead.
 */
#define REQUEST_NEXT_STEP " (`probectl list FILE` shows what a program or library has)"

#endif
