/* SPDX-License-Identifier: MIT */
/*
 * probectl enable, probectl disable: add one to the reference counts of probes, or subtract one.
 * Options switch some probes in the opposite direction, as part of the same change.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>

#include "cli/cli.h"
#include "cli/kept.h"
#include "cli/options.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "libprobe/base/cleanup.h"
#include "probe/target.h"
#include "probe/trace.h"

/* The differences between `enable` and `disable`. */
struct direction {
	const char *past; /* "enabled" or "disabled", for messages */
	/* The command patches sites, so it has options for plans and tracers. */
	bool patches;
	const char *keep_going; /* help texts of the options --keep-going and --plan */
	const char *plan;
	struct probe_error *(*switch_probes)(struct probe_target *target,
		const struct probe_request *request, struct probe_report *report);
	const char *synopsis, *help;
	const char *no_follow; /* says why the command has no --follow; see struct command_line */
};

struct switch_options {
	const struct direction *direction;
	/* Processes and PROBEs. With -t, also the session that is kept. */
	struct kept_options kept;
	struct trace_tracer *tracer; /* tracer of `enable -t`, or NULL */
	bool force, atomic, quiet;
	unsigned int verbose;
};

/* ---- Reporting -------------------------------------------------------------- */

static void report_done(
	const struct switch_options *options, pid_t pid, const struct probe_report *report)
{
	const char *before = "; plans:";

	printf("%zu probe%s, %zu site%s %s in %d", COUNTED(report->probes), COUNTED(report->sites),
		options->kept.request.others.count ? "switched" : options->direction->past,
		(int)pid);
	if (report->refusal_count)
		printf("; %zu refused", report->refusal_count);
	for (int plan = 1; plan < PLANS && options->verbose; plan++) {
		if (!report->plans[plan])
			continue;
		printf("%s %zu %s", before, report->plans[plan], probe_plan_name(plan));
		before = ",";
	}
	if (options->verbose && report->stop_ns)
		printf("; stopped for %.1f us", (double)report->stop_ns / 1000);
	else if (options->verbose)
		printf("; not stopped");
	putchar('\n');
}

/* Reports a site that was not switched, because another tool has overwritten the patch. */
static void report_left(const struct probe_bad_site *site, void *data)
{
	const struct probe_target *target = data;

	if (site->left)
		print_bad_site(site, probe_target_pid(target),
			"; it is left as it is, and so is the code that its jump leads to "
			"(probectl repair)");
}

/* ---- Switching -------------------------------------------------------------- */

static struct probe_error *switch_target(const struct switch_options *options,
	struct probe_target *target, struct probe_report *report)
{
	const struct probe_request *request = &options->kept.request.request;
	struct probe_error *error;

	if (options->tracer)
		error = kept_start(target, &options->kept, options->tracer, report);
	else if (options->kept.request.action_count)
		error = request_switch(&options->kept.request, target, request, report);
	else
		error = options->direction->switch_probes(target, request, report);
	if (error || !options->quiet) {
		report_refusals(
			report, probe_target_pid(target), refusals_shown(error, options->verbose));
		report_notes(report);
	}
	if (!error && !options->quiet)
		report_done(options, probe_target_pid(target), report);
	if (!error && report->left)
		error = probe_target_bad_sites(target, report_left, target);
	return error;
}

struct switching {
	const struct switch_options *options;
	struct mistake mistake;
	int status;
	bool left; /* some sites were not switched, because another tool has changed them */
};

static pid_t switch_pid(void *data, size_t index)
{
	const struct switching *switching = data;

	return switching->options->kept.common.pids.items[index];
}

static struct probe_error *switch_process(void *data, size_t index, struct probe_patience *patience)
{
	struct switching *switching = data;
	const struct switch_options *options = switching->options;
	const struct common_options *common = &options->kept.common;
	AUTO(probe_report_deinit) struct probe_report report = {0};
	struct probe_target *target = NULL;
	struct probe_error *error = processes_open(common, common->pids.items[index], &target);

	if (!error) {
		probe_target_set_patience(target, patience);
		error = switch_target(options, target, &report);
	}
	switching->left |= report.left != 0;
	probe_target_close(target);
	return error;
}

static void note_status(int its, int *status)
{
	if (its != STATUS_DONE && *status != STATUS_FAILED)
		*status = its;
}

static void switch_end(void *data, size_t index, struct probe_error *error)
{
	struct switching *switching = data;
	const struct common_options *common = &switching->options->kept.common;
	pid_t pid = common->pids.items[index];

	error = processes_unless_ended(common, index, error);
	if (error && !mistake_take(&switching->mistake, pid, error))
		note_status(report_error(processes_error(common, pid, error)), &switching->status);
}

/* ---- The command line ------------------------------------------------------- */

/* Prepares the tracer of the session that `enable -t` leaves behind. */
static struct probe_error *switch_tracer(struct switch_options *options)
{
	const struct tracer_options *tracer = &options->kept.tracer;

	if (kept_is_wanted(&options->kept)) {
		if (options->force || options->atomic || options->kept.request.pairs.count ||
			options->kept.request.action_count)
			return usage_error(
				"--force, --atomic, --pair and --disable are about reference "
				"counts; "
				"a tracer's session has none");
		return kept_tracer(&options->kept, &options->tracer);
	}
	if (tracer->keys.count || tracer->filter || tracer->pairs || tracer->match ||
		tracer->every || tracer->rate || tracer->keys_max || options->kept.ring_bytes ||
		options->kept.string_bytes || options->kept.file)
		return usage_error("-k, -f and the like need a tracer; give -t TRACER, too");
	return NULL;
}

static struct probe_error *switch_checked(void *data, int *status_ret)
{
	struct switch_options *options = data;
	const struct common_options *common = &options->kept.common;
	struct request_options *request = &options->kept.request;
	struct switching switching = {.options = options, .status = STATUS_DONE};
	const struct probe_turn turn = {switch_pid, switch_process, switch_end, &switching};
	struct probe_error *error;

	if (tracers_help(&options->kept.tracer))
		return NULL;
	/*
	 * Over a file size limit (ulimit -f), write(2) must fail, and not kill us during a change.
	 */
	signal(SIGXFSZ, SIG_IGN);
	error = processes_find_running(&options->kept.common);
	/* Without a PROBE, disable --force means every enabled probe. */
	request->request.force = options->force && !options->direction->patches;
	error = error ?: request_init(request, &options->kept.common);
	request->request.force = options->force;
	request->request.atomic = options->atomic;
	error = error ?: switch_tracer(options);
	if (error)
		return error;
	/* Switch all processes even if one fails, because they are independent of each other. */
	probe_take_turns(common->pids.count, &turn);
	error = mistake_end(&switching.mistake, common, common->pids.count);
	if (error)
		note_status(report_error(error), &switching.status);
	*status_ret = switching.left ? STATUS_FAILED : switching.status;
	/* If the report cannot be written, the change is not undone. */
	if (fflush(stdout) == 0 || errno == EPIPE)
		return NULL;
	error = probe_error_system(errno,
		"cannot write which probes were %s; `probectl status` shows what is on",
		options->direction->past);
	__fpurge(stdout);
	clearerr(stdout);
	return error;
}

static const char enable_help[] =
	"Switches probes of running processes on, until `probectl disable`. Each probe\n"
	"counts how often it was enabled. With -t, leaves a session with that tracer in\n"
	"the process; `probectl read` prints what it has gathered. Processes that come\n"
	"later are left alone: `probectl trace --follow` probes them.\n";

static const char disable_help[] =
	"Undoes one `probectl enable` of each probe. A probe whose reference count\n"
	"is then 0 is off, and its code is as it was before. --force without a PROBE\n"
	"switches off all that are on.\n";

static struct probe_error *switch_command(
	const struct direction *direction, int argc, char **argv, int *status_ret)
{
	struct switch_options options = {.direction = direction,
		.kept = {.common = {.patterns = {.named = true, .plain = true}},
			.request = {.disables = !direction->patches, .others = {.files = true}}}};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.kept.common),
		OPTIONS_PROCESSES(&options.kept.common),
		OPTIONS_PROBE(&options.kept.common),
		OPTIONS_ACTIONS(&options.kept.request),
		OPTION(0, "force", FLAG, NULL, &options.force,
			"set the state, ignoring the reference count"),
		OPTION(0, "atomic", FLAG, NULL, &options.atomic,
			"stop all threads even if only counters change"),
		OPTION(0, "keep-going", FLAG, NULL, &options.kept.request.keep_going,
			direction->keep_going),
		OPTIONS_MANY(&options.kept.request),
		OPTION('v', "verbose", COUNTER, NULL, &options.verbose,
			"print how sites were patched, which are refused, and how long the process "
			"was stopped"),
		OPTION('q', "quiet", FLAG, NULL, &options.quiet, "print nothing but errors"),
		OPTION(0, "plan", STRING, "LIST", &options.kept.request.plan_text, direction->plan),
		/* The following rows are only for enable. disable has all the rows above. */
		OPTIONS_KEPT(&options.kept),
	};
	const struct command_line line = {
		.synopsis = direction->synopsis,
		.help = direction->help,
		.rows = rows,
		.row_count = sizeof(rows) / sizeof(rows[0]) -
			     (direction->patches ? 0 : OPTIONS_KEPT_ROWS),
		.no_follow = direction->no_follow,
		.common = &options.kept.common,
		.run = switch_checked,
		.data = &options,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	request_deinit(&options.kept.request);
	tracers_free(options.tracer, options.tracer ? 1 : 0);
	kept_deinit(&options.kept);
	return error;
}

struct probe_error *cmd_enable(int argc, char **argv, int *status_ret)
{
	static const struct direction enable = {
		.past = "enabled",
		.patches = true,
		.keep_going = "leave out the sites that cannot be patched, also of probes named "
			      "exactly",
		.plan = OPTION_PLAN_HELP,
		.switch_probes = probe_target_enable,
		.no_follow = "enable ends as soon as the probes are on, and probes nothing that "
			     "comes later; `probectl trace --follow` does",
		.synopsis = "enable (" SYNOPSIS_RUNNING ") [OPTIONS] PROBE...",
		.help = enable_help,
	};

	return switch_command(&enable, argc, argv, status_ret);
}

struct probe_error *cmd_disable(int argc, char **argv, int *status_ret)
{
	static const struct direction disable = {
		.past = "disabled",
		.keep_going = "leave out the probes that are off",
		.plan = "as that enable had it: leave out what it has left out",
		.switch_probes = probe_target_disable,
		.synopsis = "disable (" SYNOPSIS_RUNNING ") [OPTIONS] (PROBE... | --force)",
		.help = disable_help,
	};

	return switch_command(&disable, argc, argv, status_ret);
}
