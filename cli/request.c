/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print/print.h"
#include "cli/cli.h"
#include "cli/request.h"
#include "libprobe/base/cleanup.h"

static struct probe_error *plans_parse(struct request_options *options)
{
	struct probe_request *request = &options->request;
	const char *at = options->plan_text;

	for (;;) {
		size_t length = strcspn(at, ",");
		enum probe_plan plan = probe_plan_named(at, length);

		if (!plan)
			return usage_error(
				"--plan: unknown plan '%.*s'; the plans are " PLAN_NAMES(", "),
				(int)(length < INT16_MAX ? length : INT16_MAX), at);
		for (size_t i = 0; i < request->plan_count; i++) {
			if (options->plans[i] == plan)
				return usage_error("--plan names %s twice", probe_plan_name(plan));
		}
		options->plans[request->plan_count++] = plan;
		if (!at[length])
			break;
		at += length + 1;
	}
	request->plans = options->plans;
	return NULL;
}

/* ---- Actions ---------------------------------------------------------------- */

/* Parses "START,END" into two adjacent PROBEs. */
static struct probe_error *add_pair(struct pattern_list *patterns, const char *text)
{
	const char *comma = strchr(text, ',');
	AUTO_FREE char *start = NULL;

	if (!comma || comma == text || !comma[1] || strchr(comma + 1, ','))
		return usage_error("--pair %s: give two PROBEs, --pair START,END", text);
	if (strlen(comma + 1) == (size_t)(comma - text) &&
		memcmp(text, comma + 1, (size_t)(comma - text)) == 0)
		return usage_error(
			"--pair %s: START and END are the same; give two different PROBEs", text);
	start = strndup(text, (size_t)(comma - text));
	if (!start)
		return probe_error_no_memory();
	return options_add_pattern(patterns, start) ?: options_add_pattern(patterns, comma + 1);
}

/* Appends the PROBEs of each pair to `patterns`. */
static struct probe_error *add_pairs(struct pattern_list *patterns, const struct string_list *pairs)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < pairs->count && !error; i++)
		error = add_pair(patterns, pairs->items[i]);
	return error;
}

/* Makes actions of PROBEs, of which those from number `single` on are pairs. */
static void add_actions(struct request_options *options, bool disable,
	const struct pattern_list *patterns, size_t single)
{
	for (size_t i = 0; i < patterns->count; i += i < single ? 1 : 2)
		options->actions[options->action_count++] =
			(struct probe_action){.disable = disable,
				.pattern = patterns->items[i],
				.end = i < single ? NULL : patterns->items[i + 1]};
}

struct probe_error *request_init(struct request_options *options, struct common_options *common)
{
	struct pattern_list *patterns = &common->patterns, *others = &options->others;
	struct probe_error *error = options_add_operands(common, 0);
	size_t single = patterns->count, other_single = others->count;
	bool mixed = other_single || options->other_pairs.count || (options->pairs.count && single);

	error = error ?: add_pairs(patterns, &options->pairs)
		?: add_pairs(others, &options->other_pairs)
		?: options_catalogue(patterns);
	if (error)
		return error;
	if (!patterns->count && !mixed && !options->request.force)
		return usage_error("no PROBE given; `probectl list` shows what there is");
	options->request = (struct probe_request){
		.force = options->request.force,
		.keep_going = options->keep_going,
		.many = options->many,
		.patterns = (const struct probe_pattern *const *)patterns->items,
		.pattern_count = patterns->count,
		.pairs = options->pairs.count && !mixed,
		.catalogue = patterns->catalogue,
	};
	if (mixed) {
		options->actions =
			calloc(patterns->count + others->count, sizeof(*options->actions));
		if (!options->actions)
			return probe_error_no_memory();
		add_actions(options, options->disables, patterns, single);
		add_actions(options, !options->disables, others, other_single);
	}
	return options->plan_text ? plans_parse(options) : NULL;
}

void request_deinit(struct request_options *options)
{
	free(options->pairs.items);
	free(options->other_pairs.items);
	options_free_patterns(&options->others);
	free(options->actions);
}

struct probe_error *request_switch(const struct request_options *options,
	struct probe_target *target, const struct probe_request *request,
	struct probe_report *report)
{
	struct probe_request all = *request;

	all.patterns = NULL;
	all.pattern_count = 0;
	return probe_target_switch(target, options->actions, options->action_count, &all, report);
}

/* ---- Reporting -------------------------------------------------------------- */

/* Prints a refused site and how many `more` have the same reason. Its names may hold any bytes. */
static void report_refusal(const struct probe_refusal *refusal, size_t more)
{
	fputs("probectl: refused ", stderr);
	print_probe(refusal->provider, refusal->name);
	fprintf(stderr, " at 0x%" PRIx64, refusal->pc);
	if (more)
		fprintf(stderr, " and %zu more site%s", COUNTED(more));
	fputs(" in ", stderr);
	print_printable(stderr, refusal->path);
	fprintf(stderr, ": %s\n", refusal->reason);
}

static bool is_alike(const struct probe_refusal *a, const struct probe_refusal *b)
{
	return a->named == b->named && strcmp(a->provider, b->provider) == 0 &&
	       strcmp(a->name, b->name) == 0 && strcmp(a->path, b->path) == 0 &&
	       strcmp(a->reason, b->reason) == 0;
}

bool report_refusals_since(const struct probe_report *report, pid_t pid, enum refusals_shown shown,
	struct report_told *told)
{
	size_t refused = report->refusal_count - told->refusals, silent = 0;
	/* The common reason of the refusals without a line of their own, or NULL. */
	const char *why = NULL;
	bool named = false;
	size_t first, more;

	for (size_t i = told->refusals; i < report->refusal_count; i++) {
		const struct probe_refusal *refusal = &report->refusals[i];

		if (shown == REFUSALS_EACH)
			report_refusal(refusal, 0);
		else if (shown == REFUSALS_NAMED && !refusal->named)
			why = !silent++ || (why && !strcmp(why, refusal->reason)) ? refusal->reason
										  : NULL;
		named |= refusal->named;
		if (shown == REFUSALS_EACH || (shown == REFUSALS_NAMED && !refusal->named))
			continue;
		/* One line for all with the same text. */
		first = told->refusals;
		while (first < i && !is_alike(&report->refusals[first], refusal))
			first++;
		if (first < i)
			continue;
		more = 0;
		for (size_t k = i + 1; k < report->refusal_count; k++)
			more += is_alike(refusal, &report->refusals[k]);
		report_refusal(refusal, more);
	}
	if (silent)
		fprintf(stderr,
			"probectl: process %d: %zu of %zu sites refused, -v says which%s%s\n",
			(int)pid, refused, refused + report->sites - told->sites, why ? ": " : "",
			why ? why : "");
	told->refusals = report->refusal_count;
	told->sites = report->sites;
	return named;
}

void report_notes_since(const struct probe_report *report, struct report_told *told)
{
	for (; told->notes < report->note_count; told->notes++)
		report_warning("%s", report->notes[told->notes]);
}

void report_notes(const struct probe_report *report)
{
	struct report_told told = {0};

	report_notes_since(report, &told);
}

void report_refusals(const struct probe_report *report, pid_t pid, enum refusals_shown shown)
{
	struct report_told told = {0};

	report_refusals_since(report, pid, shown, &told);
}
