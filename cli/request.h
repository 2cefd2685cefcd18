/* SPDX-License-Identifier: MIT */
/*
 * Declarations for enable, disable, run and trace: which probes to switch, and the report of
 * the result.
 */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"
#include "probe/target.h"

/* Number of elements in probe_report.plans. Element 0 counts sites without a plan. */
enum { PLANS = sizeof(((struct probe_report *)0)->plans) / sizeof(size_t) };

/* Initialise with {0}. There is nothing to free. */
struct request_options {
	bool keep_going, verbose;
	const char *plan_text; /* the value of --plan, or NULL */

	enum probe_plan plans[PLANS];
	struct probe_request request; /* the request, set by request_init() */
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
 * Makes options->request from the PROBEs of a command line, given with -e or as operands.
 * `common` owns the PROBEs. Errors: PROBE_ERROR_USAGE (no PROBE, a malformed PROBE, or an
 * unknown plan in --plan), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *request_init(
	struct request_options *options, struct common_options *common);

/* As request_init(), for a command that does not take its probes from options->request. */
PROBE_MUST_CHECK struct probe_error *request_init_plans(
	struct request_options *options, struct common_options *common);

/* The part of a report that has been printed. A report grows while a session follows libraries. */
struct report_told {
	size_t refusals, sites, notes;
};

/* Selects the refused sites that get a line of their own. */
enum refusals_shown {
	REFUSALS_NAMED, /* sites of probes named exactly; one line sums up the rest */
	REFUSALS_ALL,	/* also sites of probes that wildcards match; used if nothing was changed */
	REFUSALS_EACH	/* -v: also each of several sites of a probe with the same reason */
};

static inline enum refusals_shown refusals_shown(bool error, bool verbose)
{
	return verbose ? REFUSALS_EACH : error ? REFUSALS_ALL : REFUSALS_NAMED;
}

/*
 * Prints the refused sites of a report that are not yet printed, on standard error. Returns
 * whether one belongs to a probe named exactly.
 */
bool report_refusals_since(const struct probe_report *report, pid_t pid, enum refusals_shown shown,
	struct report_told *told);
/* Prints all refused sites of a report. */
void report_refusals(const struct probe_report *report, pid_t pid, enum refusals_shown shown);
/* Prints the notes of a report to standard error: those not yet printed, or all. */
void report_notes_since(const struct probe_report *report, struct report_told *told);
void report_notes(const struct probe_report *report);

/*
 * Appended to an error about a missing probe: the process may have ended or closed its
 * libraries, so listing a file can help.
 */
#define REQUEST_NEXT_STEP " (`probectl list FILE` shows what a program or library has)"

#endif
