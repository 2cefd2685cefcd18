/* SPDX-License-Identifier: MIT */
/* probectl trace: the command line. */
#include "cli/cli.h"
#include "cli/trace/options.h"

struct probe_error *cmd_trace(int argc, char **argv, int *status_ret)
{
	struct trace_options options = {.settings = {.top = TRACER_TOP}};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_PROCESSES(&options.common),
		OPTIONS_PROBE(&options.common),
		OPTIONS_TRACER(&options.tracer),
		{.name = "top",
			.kind = OPTION_NUMBER,
			.value = "N",
			.target = &options.settings.top,
			.help = "limit tables to N rows (default: 20; 0: no limit)"},
		{.letter = 'i',
			.name = "interval",
			.kind = OPTION_DURATION,
			.value = "SECONDS",
			.target = &options.settings.interval_ns,
			.help = "print what is new every SECONDS, and the totals at the end"},
		OPTIONS_JSON(&options.settings.json),
		{.letter = 'o',
			.name = "output",
			.kind = OPTION_STRING,
			.value = "FILE",
			.target = &options.output,
			.help = "write to FILE instead of standard output"},
		{.letter = 'a',
			.name = "all",
			.kind = OPTION_FLAG,
			.target = &options.settings.all,
			.help = "name every probe without hits, however many there are"},
		OPTIONS_TRACE(&options),
	};
	const struct command_line line = {
		.synopsis = "trace [OPTIONS] PROBE... " SYNOPSIS_PROCESSES,
		.help = "Prints a line for each hit, or the result of a tracer (-t), until Ctrl-C, "
			"the\n"
			"end of the processes, or the limit set by -n or -d. The code of the "
			"processes\n"
			"is then as it was before. With a PROGRAM, PROBEs come before the --, and "
			"the\n"
			"exit status is that of the program.\n",
		.rows = rows,
		.row_count = sizeof(rows) / sizeof(rows[0]),
	};
	struct probe_error *error = options_parse(&line, argc, argv, &options.common);

	if (!error && !options.common.helped && !tracers_help(&options.tracer))
		error = trace_options_run(argv[0], &options, status_ret);
	trace_options_deinit(&options);
	return error;
}
