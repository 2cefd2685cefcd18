/* SPDX-License-Identifier: MIT */
/* probectl trace: the command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/processes.h"
#include "cli/trace_options.h"

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
	if (options->string_bytes > PROBE_STRING_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_USAGE, "-s: at most %d bytes of a string",
			PROBE_STRING_BYTES_MAX);
	if (options->follow && options->no_follow)
		return probe_error_new(
			PROBE_ERROR_USAGE, "--follow and --no-follow are each other's opposite");
	return check_target(options);
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
	struct trace_options options = {.tracer = {.top = TRACER_TOP}};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_PROCESSES(&options.common),
		OPTIONS_PROBE(&options.common),
		OPTIONS_TRACER(&options.tracer),
		{.letter = 'i',
			.name = "interval",
			.kind = OPTION_DURATION,
			.value = "SECONDS",
			.target = &options.settings.interval_ns,
			.help = "print what is new that often, and all at the end"},
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
		.help = "Prints a line for each hit, or what a tracer (-t) makes of them, until\n"
			"Ctrl-C, the end of the process, -n or -d.\n"
			"The process is then as it was. With a PROGRAM, PROBEs come before the "
			"--,\n"
			"and the exit status is the program's.\n",
		.rows = rows,
		.row_count = sizeof(rows) / sizeof(rows[0]),
	};
	bool helped = false;
	struct probe_error *error = options_parse(&line, argc, argv, &options.common, &helped);

	if (!error && !helped && tracers_help(&options.tracer))
		helped = true;
	options.settings.top = options.tracer.top;
	if (!error && !helped)
		error = trace_checked(&options, status_ret);
	tracer_options_deinit(&options.tracer);
	options_deinit(&options.common);
	return error;
}
