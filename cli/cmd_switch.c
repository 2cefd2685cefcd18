/* SPDX-License-Identifier: MIT */
/*
 * probectl enable, probectl disable: one adds one to the reference counters of
 * probes, the other takes one away.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/kept.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "probe/target.h"

/* What differs between the two. */
struct direction {
	const char *past;	/* "enabled" */
	bool patches;		/* so it has plans, and tracers */
	const char *keep_going; /* what the option does */
	struct probe_error *(*switch_probes)(struct probe_target *target,
		const struct probe_request *request, struct probe_report *report);
	const char *synopsis, *help;
};

struct switch_options {
	const struct direction *direction;
	struct kept_options kept;    /* processes and PROBEs; with -t, all of it */
	struct trace_tracer *tracer; /* of enable -t; else NULL */
	struct string_list pairs;
	const char *exe;
	bool force, atomic, quiet;
	unsigned int verbose;
};

/* ---- Reporting -------------------------------------------------------------- */

static void report_plans(const struct probe_report *report)
{
	const char *before = "; plans:";

	for (int plan = PROBE_PLAN_NONE + 1; plan < PROBE_PLAN_COUNT; plan++) {
		if (!report->plans[plan])
			continue;
		printf("%s %zu %s", before, report->plans[plan], probe_plan_name(plan));
		before = ",";
	}
	printf("; stopped for %.1f us", (double)report->stop_ns / 1000);
}

/* The one line that says what was done. */
static void report_done(const struct direction *direction, const struct switch_options *options,
	pid_t pid, const struct probe_report *report)
{
	if (options->quiet)
		return;
	printf("%zu probe%s, %zu site%s %s in %d", COUNTED(report->probes), COUNTED(report->sites),
		direction->past, (int)pid);
	if (report->refusal_count)
		printf("; %zu refused", report->refusal_count);
	if (options->verbose)
		report_plans(report);
	putchar('\n');
}

/* Somebody else's bytes are where ours have been. */
static void report_left(const struct probe_bad_site *site, void *data)
{
	const struct probe_target *target = data;

	if (site->left)
		print_bad_site(site, probe_target_pid(target),
			"; it is left as it is, and so is the code behind it (probectl repair)");
}

/* ---- Doing ------------------------------------------------------------------ */

static struct probe_error *switch_target(const struct direction *direction,
	const struct switch_options *options, struct probe_target *target,
	struct probe_report *report)
{
	struct probe_error *error =
		options->tracer
			? kept_start(target, &options->kept, options->tracer, report)
			: direction->switch_probes(target, &options->kept.request.request, report);

	report_refusals(report);
	if (!error)
		report_done(direction, options, probe_target_pid(target), report);
	if (!error && report->left)
		error = probe_target_bad_sites(target, report_left, target);
	return error;
}

/* *left_ret: sites that somebody else has changed were left as they are. */
static struct probe_error *switch_process(const struct direction *direction,
	const struct switch_options *options, pid_t pid, bool *left_ret)
{
	struct probe_report report = {0};
	struct probe_target *target = NULL;
	struct probe_error *error = probe_target_open(pid, options->exe, &target);

	if (!error)
		error = switch_target(direction, options, target, &report);
	*left_ret |= report.left != 0;
	probe_report_deinit(&report);
	probe_target_close(target);
	return error;
}

static void note_status(int its, int *status)
{
	if (its != STATUS_DONE && *status != STATUS_FAILED)
		*status = its;
}

/* Every process, even if one fails; they are independent of each other. */
static int switch_all(const struct direction *direction, const struct switch_options *options)
{
	const struct common_options *common = &options->kept.common;
	struct mistake mistake = {0};
	struct probe_error *error;
	int status = STATUS_DONE;
	bool left = false;

	for (size_t i = 0; i < common->pids.count; i++) {
		pid_t pid = common->pids.items[i];

		error = switch_process(direction, options, pid, &left);
		if (error && !mistake_take(&mistake, pid, error))
			note_status(report_error(processes_error(common, pid, error)), &status);
	}
	error = mistake_end(&mistake, common, common->pids.count);
	if (error)
		note_status(report_error(error), &status);
	return left ? STATUS_FAILED : status;
}

/* ---- The command line ------------------------------------------------------- */

/* "START,END" becomes two PROBEs, one behind the other. */
static struct probe_error *pair_add(struct pattern_list *patterns, const char *text)
{
	const char *comma = strchr(text, ',');
	struct probe_error *error;
	char *start;

	if (!comma || comma == text || !comma[1] || strchr(comma + 1, ','))
		return probe_error_new(
			PROBE_ERROR_USAGE, "--pair %s: give two PROBEs, --pair START,END", text);
	start = strndup(text, (size_t)(comma - text));
	if (!start)
		return probe_error_no_memory();
	error = options_add_pattern(patterns, start);
	free(start);
	return error ? error : options_add_pattern(patterns, comma + 1);
}

static struct probe_error *switch_request(struct switch_options *options)
{
	struct common_options *common = &options->kept.common;
	struct probe_error *error;

	if (options->pairs.count && (common->patterns.count || common->operand_count))
		return probe_error_new(PROBE_ERROR_USAGE,
			"--pair names its own PROBEs; use a second command for others");
	for (size_t i = 0; i < options->pairs.count; i++) {
		error = pair_add(&common->patterns, options->pairs.items[i]);
		if (error)
			return error;
	}
	error = request_init(&options->kept.request, common);
	if (error)
		return error;
	options->kept.request.request.force = options->force;
	options->kept.request.request.atomic = options->atomic;
	options->kept.request.request.pairs = options->pairs.count != 0;
	return NULL;
}

/* enable -t: a session with a tracer is left behind. */
static struct probe_error *switch_tracer(struct switch_options *options)
{
	const struct tracer_options *tracer = &options->kept.tracer;

	if (kept_is_wanted(&options->kept)) {
		if (options->force || options->atomic || options->pairs.count)
			return probe_error_new(PROBE_ERROR_USAGE,
				"--force, --atomic and --pair are about reference counts; a "
				"tracer's "
				"session has none");
		return kept_tracer(&options->kept, &options->tracer);
	}
	if (tracer->keys.count || tracer->filter || tracer->pairs || tracer->match ||
		tracer->every || tracer->rate || tracer->keys_max || options->kept.ring_bytes ||
		options->kept.string_bytes)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-k, -f and the like need a tracer; give -t TRACER, too");
	return NULL;
}

static struct probe_error *switch_checked(void *data, int *status_ret)
{
	struct switch_options *options = data;
	struct probe_error *error;

	if (tracers_help(&options->kept.tracer))
		return NULL;
	if (!options->kept.common.pids.count)
		return request_no_pid(&options->kept.common);
	error = switch_request(options);
	if (!error)
		error = switch_tracer(options);
	if (!error)
		*status_ret = switch_all(options->direction, options);
	return error;
}

static const char enable_help[] =
	"Switches probes of running processes on, until `probectl disable`. Each probe\n"
	"counts how often it was enabled. With -t, leaves a session with that tracer in\n"
	"the process; `probectl read` prints what it has gathered.\n";

static const char disable_help[] =
	"Undoes one `probectl enable` of each probe. A probe that nobody else has enabled\n"
	"is then off, and the code is as it was before.\n";

static struct probe_error *switch_command(
	const struct direction *direction, int argc, char **argv, int *status_ret)
{
	struct switch_options options = {.direction = direction};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.kept.common),
		OPTIONS_PROBE(&options.kept.common),
		OPTION(0, "pair", STRINGS, "START,END", &options.pairs,
			"END is enabled before START, and disabled after it"),
		OPTION(0, "force", FLAG, NULL, &options.force,
			"set the state, ignoring the reference count"),
		OPTION(0, "exe", STRING, "PATH", &options.exe,
			"refuse processes that run a program other than PATH"),
		OPTION(0, "atomic", FLAG, NULL, &options.atomic,
			"stop all threads also for changing counters of probes without a site"),
		OPTION(0, "keep-going", FLAG, NULL, &options.kept.request.keep_going,
			direction->keep_going),
		OPTION('v', "verbose", COUNTER, NULL, &options.verbose,
			"print how sites were patched, and how long the process was stopped"),
		OPTION('q', "quiet", FLAG, NULL, &options.quiet, "print nothing but errors"),
		/* Of enable; disable has all the others. */
		OPTIONS_PLAN(&options.kept.request),
		OPTIONS_KEPT(&options.kept),
	};
	const struct command_line line = {
		.synopsis = direction->synopsis,
		.help = direction->help,
		.rows = rows,
		.row_count = sizeof(rows) / sizeof(rows[0]) -
			     (direction->patches ? 0 : 1 + OPTIONS_KEPT_ROWS),
		.common = &options.kept.common,
		.run = switch_checked,
		.data = &options,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	free(options.pairs.items);
	tracers_free(options.tracer, options.tracer ? 1 : 0);
	kept_deinit(&options.kept);
	return error;
}

struct probe_error *cmd_enable(int argc, char **argv, int *status_ret)
{
	static const struct direction enable = {
		.past = "enabled",
		.patches = true,
		.keep_going = "leave out the sites that cannot be patched",
		.switch_probes = probe_target_enable,
		.synopsis = "enable -p PID[,PID...] [OPTIONS] PROBE...",
		.help = enable_help,
	};

	return switch_command(&enable, argc, argv, status_ret);
}

struct probe_error *cmd_disable(int argc, char **argv, int *status_ret)
{
	static const struct direction disable = {
		.past = "disabled",
		.keep_going = "leave out the probes that are off",
		.switch_probes = probe_target_disable,
		.synopsis = "disable -p PID[,PID...] [OPTIONS] PROBE...",
		.help = disable_help,
	};

	return switch_command(&disable, argc, argv, status_ret);
}
