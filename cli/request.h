/* SPDX-License-Identifier: MIT */
/* Shared by enable, disable, run and trace: the probes to switch, and the report of the result. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"
#include "probe/target.h"

/* Number of elements in probe_report.plans. Element 0 is the number of sites without a plan. */
enum { PLANS = sizeof(((struct probe_report *)0)->plans) / sizeof(size_t) };

/* Initialise with {0}. Free with request_deinit() if the command has OPTIONS_ACTIONS. */
struct request_options {
	bool keep_going, many, verbose;
	const char *plan_text; /* the value of --plan, or NULL */
	struct string_list pairs;
	/* PROBEs and pairs to switch in the direction that is not the command's own. */
	struct pattern_list others;
	struct string_list other_pairs;
	bool disables; /* the command's own direction */

	enum probe_plan plans[PLANS];
	struct probe_request request; /* the request that request_init() makes */
	/*
	 * If some PROBEs are switched in the other direction, or some are pairs and some are not:
	 * what to pass to probe_target_switch(), in order. Otherwise there are none.
	 */
	struct probe_action *actions;
	size_t action_count;
};

/* The names of all plans, in the default order. */
#define PLAN_NAMES(separator) PROBE_PLANS(PLAN_NAME, separator)
#define PLAN_NAME(constant, number, name) #name
#define OPTION_PLAN_HELP "ways of patching, in order (default: " PLAN_NAMES(",") ")"

/* clang-format off */
#define OPTIONS_KEEP_GOING(options)                                                                \
	OPTION(0, "keep-going", FLAG, NULL, &(options)->keep_going,                                \
		"leave out the sites that cannot be patched, also of probes named exactly")
#define OPTIONS_MANY(options)                                                                      \
	OPTION(0, "many", FLAG, NULL, &(options)->many,                                            \
		"allow more than 1,000 functions in a process")
/* Pairs, and what is switched in the direction that is not options->disables. */
#define OPTIONS_ACTIONS(options)                                                                   \
	OPTION(0, "pair", STRINGS, "START,END", &(options)->pairs,                                 \
		"END is enabled before START, and disabled after it"),                             \
	OPTION(0, OTHER_WAY(options, ""), PATTERN, NULL, &(options)->others,                       \
		OTHER_WAY(options, " this PROBE in the same change; may be repeated")),            \
	OPTION(0, OTHER_WAY(options, "-pair"), STRINGS, "START,END", &(options)->other_pairs,      \
		OTHER_WAY(options, " this pair in the same change"))
#define OTHER_WAY(options, text) ((options)->disables ? "enable" text : "disable" text)
#define OPTIONS_VERBOSE(options)                                                                   \
	OPTION('v', "verbose", FLAG, NULL, &(options)->verbose,                                    \
		"name each site that cannot be patched")
#define OPTIONS_PLAN(options)                                                                      \
	OPTION(0, "plan", STRING, "LIST", &(options)->plan_text, OPTION_PLAN_HELP)
/* clang-format on */

/*
 * Makes options->request from PROBEs and pairs, which `common` owns, and options->actions if they
 * are mixed. The patterns of the request are those in the command's own direction. Errors:
 * PROBE_ERROR_USAGE (no PROBE, a malformed one or a malformed pair, or an unknown plan in --plan),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *request_init(
	struct request_options *options, struct common_options *common);
void request_deinit(struct request_options *options);

/*
 * Makes the changes of options->actions, of which there must be some, with the other members of
 * `request`. Errors: as probe_target_switch().
 */
PROBE_MUST_CHECK struct probe_error *request_switch(const struct request_options *options,
	struct probe_target *target, const struct probe_request *request,
	struct probe_report *report);

/* How much of a report was printed. It grows while a session follows libraries. */
struct report_told {
	size_t refusals, sites, notes;
};

/* Which refused sites get a line of their own. */
enum refusals_shown {
	/* Sites of probes that were named exactly. One line sums up the other sites. */
	REFUSALS_NAMED,
	/* Prints also sites that only wildcards match. One line for each reason and probe. */
	REFUSALS_ALL,
	/* Prints each site, even if others of its probe have the same reason. Used with -v. */
	REFUSALS_EACH
};

static inline enum refusals_shown refusals_shown(bool error, bool verbose)
{
	return verbose ? REFUSALS_EACH : error ? REFUSALS_ALL : REFUSALS_NAMED;
}

/*
 * Prints the refused sites of a report that were not printed before. Returns true if any of them
 * belongs to a probe that was named exactly.
 */
bool report_refusals_since(const struct probe_report *report, pid_t pid, enum refusals_shown shown,
	struct report_told *told);
/* Prints all refused sites of a report. */
void report_refusals(const struct probe_report *report, pid_t pid, enum refusals_shown shown);
/* Print the notes of a report: all, or only those that were not printed before. */
void report_notes_since(const struct probe_report *report, struct report_told *told);
void report_notes(const struct probe_report *report);

/*
 * Follows an error about a missing probe, because the process may have ended or closed a library.
 */
#define REQUEST_NEXT_STEP                                                                          \
	" (`probectl list [--functions] FILE` shows what a program or library has)"
