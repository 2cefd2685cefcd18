/* SPDX-License-Identifier: MIT */
/* probectl trace: the command line, and what a trace is made of. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/trace.h"

struct trace_options {
	struct common_options common;
	struct request_options request;
	struct trace_settings settings;
	const char *output;
	uint64_t ring_bytes, string_bytes;
	bool follow, no_follow;
};

/* ---- The command line ------------------------------------------------------- */

static struct probe_error *check_target(const struct trace_options *options)
{
	const struct common_options *common = &options->common;

	if (common->program && processes_given(common))
		return probe_error_new(PROBE_ERROR_USAGE,
			"trace: give either processes (-p, --name, --children) or -- PROGRAM, not "
			"both");
	if (!processes_given(common) && (!common->program || !common->program[0]))
		return probe_error_new(PROBE_ERROR_USAGE,
			"trace: which process? Give -p PID, --name NAME or --children PID, or -- "
			"PROGRAM "
			"to start one");
	return NULL;
}

static struct probe_error *check_options(const struct trace_options *options)
{
	const struct trace_settings *settings = &options->settings;

	if (settings->interval_ns && !settings->count)
		return probe_error_new(
			PROBE_ERROR_USAGE, "-i is the time between tables of counts; it needs -c");
	if (settings->count && (options->string_bytes || options->ring_bytes))
		return probe_error_new(
			PROBE_ERROR_USAGE, "-c records nothing; -s and -b mean nothing to it");
	if (options->string_bytes > PROBE_STRING_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_USAGE, "-s: at most %d bytes of a string",
			PROBE_STRING_BYTES_MAX);
	if (options->follow && options->no_follow)
		return probe_error_new(
			PROBE_ERROR_USAGE, "--follow and --no-follow are each other's opposite");
	return check_target(options);
}

/* ---- Targets ---------------------------------------------------------------- */

/*
 * One of several processes cannot be traced. The others can: what is wrong with
 * this one is said, unless it was found by its name or its parent and has ended
 * since. NULL if the trace goes on; a process that is alone is all there is.
 */
static struct probe_error *leave_out(struct trace *trace, const struct trace_options *options,
	struct probe_error *error, bool given)
{
	if (options->common.pids.count < 2 || error->code == PROBE_ERROR_MEMORY)
		return error;
	if (given) {
		trace_fail(trace, error);
		return NULL;
	}
	if (error->code != PROBE_ERROR_NOT_FOUND)
		report_warning("%s", error->message);
	probe_error_free(error);
	return NULL;
}

/* Watches for the process's end; kernels before 5.3 cannot, and are polled. */
static struct probe_error *add_target(struct trace *trace, struct probe_target *target, bool given)
{
	struct trace_target *its = &trace->targets[trace->target_count++];

	*its = (struct trace_target){.target = target, .given = given};
	its->pidfd = pidfd_open(probe_target_pid(target), 0);
	if (its->pidfd < 0 && errno != ENOSYS && errno != ESRCH)
		return probe_error_system(
			errno, "cannot watch process %d", (int)probe_target_pid(target));
	return NULL;
}

static struct probe_error *open_targets(struct trace *trace, const struct trace_options *options)
{
	const struct pid_list *pids = &options->common.pids;
	struct probe_target *target;
	struct probe_error *error;

	trace->targets = calloc(pids->count + 1, sizeof(*trace->targets));
	if (!trace->targets)
		return probe_error_no_memory();
	for (size_t i = 0; i < pids->count; i++) {
		bool given = i < options->common.pids_given;

		error = probe_target_open(pids->items[i], NULL, &target);
		error = error ? leave_out(trace, options, error, given)
			      : add_target(trace, target, given);
		if (error)
			return error;
	}
	return NULL;
}

/* Starts the program; where that fails, the shell's exit status for it is in *status_ret. */
static struct probe_error *spawn_target(
	struct trace *trace, const struct trace_options *options, int *status_ret)
{
	struct probe_target *target;
	struct probe_error *error = probe_target_spawn(options->common.program, &target);

	if (error) {
		*status_ret = child_spawn_status(error);
		return error;
	}
	trace->child = probe_target_pid(target);
	return add_target(trace, target, true);
}

/* ---- Sessions --------------------------------------------------------------- */

static struct probe_session_options session_options(const struct trace_options *options)
{
	bool program = options->common.program != NULL;

	return (struct probe_session_options){
		.kind = options->settings.count ? PROBE_SESSION_COUNT : PROBE_SESSION_RECORD,
		.ring_bytes = options->ring_bytes,
		.string_bytes = (uint16_t)options->string_bytes,
		.guess_strings = options->string_bytes != 0,
		.follow_libraries = options->follow || (program && !options->no_follow),
		.follow_children = options->follow,
	};
}

/*
 * Names a PROBE of each target that has matched nothing so far, which only is
 * no error where libraries that come later are followed.
 */
static void report_unmatched(const struct trace *trace, const struct trace_options *options)
{
	const struct probe_request *request = &options->request.request;

	for (size_t i = 0; i < trace->target_count; i++) {
		const struct trace_target *target = &trace->targets[i];
		size_t unmatched = probe_session_unmatched(target->session);

		if (unmatched < request->pattern_count)
			report_warning("%s %s no probe of process %d%s",
				probe_pattern_text(request->patterns[unmatched]),
				trace->over ? "matched" : "matches",
				(int)probe_target_pid(target->target),
				trace->over ? "" : "; waiting for a library that has it");
	}
}

static void report_started(const struct trace *trace, const struct probe_report *sum)
{
	char processes[48] = "";

	if (trace->settings.quiet || trace->child)
		return;
	if (trace->target_count > 1)
		snprintf(processes, sizeof(processes), " in %zu processes", trace->target_count);
	fprintf(stderr, "probectl: tracing %zu probe%s, %zu site%s%s; Ctrl-C ends\n", sum->probes,
		sum->probes == 1 ? "" : "s", sum->sites, sum->sites == 1 ? "" : "s", processes);
}

static void target_close(struct trace_target *target)
{
	probe_session_free(target->session);
	probe_target_close(target->target);
	free(target->said);
	if (target->pidfd >= 0)
		close(target->pidfd);
}

static struct probe_error *start_session(
	struct trace_target *target, const struct trace_options *options, struct probe_report *sum)
{
	struct probe_session_options its = session_options(options);
	struct probe_report report = {0};
	struct probe_error *error = probe_session_start(
		target->target, &options->request.request, &its, &report, &target->session);

	report_refusals(&report);
	sum->probes += report.probes;
	sum->sites += report.sites;
	probe_report_deinit(&report);
	target->on = !error;
	return error;
}

static struct probe_error *start_sessions(struct trace *trace, const struct trace_options *options)
{
	size_t asked = options->common.pids.count, kept = 0;
	struct probe_report sum = {0};
	struct probe_error *error = NULL;

	for (size_t i = 0; i < trace->target_count; i++) {
		struct trace_target *target = &trace->targets[i];
		struct probe_error *its = error ? NULL : start_session(target, options, &sum);

		if (its && asked > 1)
			its = probe_error_prefix(
				its, "process %d", (int)probe_target_pid(target->target));
		if (its)
			error = leave_out(trace, options, its, target->given);
		/* Those that are on have to be switched off, whatever happens to the rest. */
		if (target->on)
			trace->targets[kept++] = *target;
		else
			target_close(target);
	}
	trace->target_count = kept;
	if (!error && !kept)
		error = probe_error_new(
			PROBE_ERROR_NOT_FOUND, "none of the %zu processes can be traced", asked);
	if (error)
		return error;
	/* A program that has just been started opens its libraries yet. */
	if (!trace->child)
		report_unmatched(trace, options);
	report_started(trace, &sum);
	return NULL;
}

/* ---- Output ----------------------------------------------------------------- */

static struct probe_error *open_output(struct trace *trace, const struct trace_options *options)
{
	const char *name = options->output ? options->output : "the standard output";
	enum probe_sink_format format = trace->settings.json ? PROBE_SINK_JSON : PROBE_SINK_TEXT;
	struct probe_error *error;
	struct stat st;

	trace->output_fd = STDOUT_FILENO;
	if (options->output)
		trace->output_fd =
			open(options->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (trace->output_fd < 0)
		return probe_error_system(errno, "cannot create %s", options->output);
	error = probe_sink_create(format, trace->output_fd, name, &trace->sink);
	if (error)
		return error;
	trace->to_file = !fstat(trace->output_fd, &st) && S_ISREG(st.st_mode);
	return NULL;
}

/* ---- The life of a trace ---------------------------------------------------- */

static struct probe_error *trace_prepare(struct trace *trace, const struct trace_options *options)
{
	struct probe_error *error = open_output(trace, options);

	if (!error)
		error = open_targets(trace, options);
	if (error)
		return error;
	trace->comms = comm_cache_create();
	if (trace->target_count > 1)
		trace->merge = merge_create();
	if (!trace->comms || (trace->target_count > 1 && !trace->merge))
		return probe_error_no_memory();
	return NULL;
}

/* From here on no signal ends us at once. The program has been started before. */
static struct probe_error *take_signals(struct trace *trace)
{
	signals_block(&trace->signals);
	signal(SIGPIPE, SIG_IGN);
	trace->signal_fd = signalfd(-1, &trace->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (trace->signal_fd < 0)
		return probe_error_system(errno, "cannot wait for signals");
	return NULL;
}

static void trace_deinit(struct trace *trace, const struct trace_options *options)
{
	for (size_t i = 0; i < trace->target_count; i++)
		target_close(&trace->targets[i]);
	free(trace->targets);
	probe_sink_free(trace->sink);
	comm_cache_free(trace->comms);
	merge_free(trace->merge);
	if (trace->signal_fd >= 0)
		close(trace->signal_fd);
	if (options->output && trace->output_fd >= 0)
		close(trace->output_fd);
}

static struct probe_error *trace_start(struct trace *trace, const struct trace_options *options)
{
	struct probe_error *error = take_signals(trace);

	if (!error)
		error = start_sessions(trace, options);
	if (!error && trace->child)
		error = probe_target_release(trace->targets[0].target);
	if (error)
		trace_stop(trace);
	return error;
}

/* The program may live on without its probes; its exit status is ours. */
static int trace_status(const struct trace *trace)
{
	int status = STATUS_DONE;

	if (trace->child)
		status = child_wait(trace->child, &trace->signals);
	return trace->failed ? STATUS_FAILED : status;
}

static struct probe_error *trace_command(const struct trace_options *options, int *status_ret)
{
	struct trace trace = {.settings = options->settings, .signal_fd = -1};
	struct probe_error *error = trace_prepare(&trace, options);

	if (!error && options->common.program)
		error = spawn_target(&trace, options, status_ret);
	if (!error)
		error = trace_start(&trace, options);
	if (!error) {
		probe_sink_begin(trace.sink, isatty(trace.output_fd) && !trace.settings.count);
		trace_run(&trace);
		if (!trace.settings.quiet && !trace.settings.count)
			trace_report_summary(&trace);
		report_unmatched(&trace, options);
		*status_ret = trace_status(&trace);
	}
	trace_deinit(&trace, options);
	return error;
}

static struct probe_error *trace_checked(struct trace_options *options, int *status_ret)
{
	struct probe_error *error = check_options(options);

	if (!error)
		error = request_init(&options->request, &options->common);
	if (!error)
		error = processes_find(&options->common);
	if (error)
		return error;
	error = trace_command(options, status_ret);
	if (!error || *status_ret == STATUS_DONE)
		return error;
	/* The program could not be started: its status is not that of a failed tool. */
	report_error(error);
	return NULL;
}

struct probe_error *cmd_trace(int argc, char **argv, int *status_ret)
{
	struct trace_options options = {0};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_PROCESSES(&options.common),
		OPTIONS_PROBE(&options.common),
		{.letter = 'c',
			.name = "count",
			.kind = OPTION_FLAG,
			.target = &options.settings.count,
			.help = "count hits inside the process, and print a table at the end"},
		{.letter = 'i',
			.name = "interval",
			.kind = OPTION_DURATION,
			.value = "SECONDS",
			.target = &options.settings.interval_ns,
			.help = "with -c: print the table that often"},
		{.letter = 'n',
			.name = "hits",
			.kind = OPTION_NUMBER,
			.value = "COUNT",
			.target = &options.settings.hits_max,
			.help = "end after so many hits"},
		{.letter = 'd',
			.name = "duration",
			.kind = OPTION_DURATION,
			.value = "SECONDS",
			.target = &options.settings.duration_ns,
			.help = "end after so long"},
		{.letter = 's',
			.name = "strings",
			.kind = OPTION_NUMBER,
			.value = "N",
			.target = &options.string_bytes,
			.help = "show up to N bytes of text behind every pointer"},
		{.letter = 'b',
			.name = "buffer",
			.kind = OPTION_SIZE,
			.target = &options.ring_bytes,
			.help = "size of the ring of each CPU, where hits wait for us"},
		{.name = "json",
			.kind = OPTION_FLAG,
			.target = &options.settings.json,
			.help = "print one JSON object a line"},
		{.letter = 'o',
			.name = "output",
			.kind = OPTION_STRING,
			.value = "FILE",
			.target = &options.output,
			.help = "write to a file"},
		{.name = "follow",
			.kind = OPTION_FLAG,
			.target = &options.follow,
			.help = "also probe libraries that are opened later, and forked children"},
		{.name = "no-follow",
			.kind = OPTION_FLAG,
			.target = &options.no_follow,
			.help = "with a PROGRAM: only what it has when it starts"},
		{.letter = 'a',
			.name = "all",
			.kind = OPTION_FLAG,
			.target = &options.settings.all,
			.help = "name every probe without hits, however many there are"},
		OPTIONS_KEEP_GOING(&options.request),
		OPTIONS_PLAN(&options.request),
		{.letter = 'q',
			.name = "quiet",
			.kind = OPTION_FLAG,
			.target = &options.settings.quiet,
			.help = "no summary on standard error"},
	};
	const struct command_line line = {
		.synopsis = "trace [OPTIONS] PROBE... (-p PID[,PID...] | --name NAME | --children "
			    "PID | "
			    "-- PROGRAM [ARGS...])",
		.help = "Prints a line for each hit, until Ctrl-C, the end of the process, -n or "
			"-d.\n"
			"The process is then as it was. With a PROGRAM, PROBEs come before the "
			"--,\n"
			"and the exit status is the program's.\n",
		.rows = rows,
		.row_count = sizeof(rows) / sizeof(rows[0]),
	};
	bool helped = false;
	struct probe_error *error = options_parse(&line, argc, argv, &options.common, &helped);

	if (!error && !helped)
		error = trace_checked(&options, status_ret);
	options_deinit(&options.common);
	return error;
}
