/* SPDX-License-Identifier: MIT */
/* probectl run: starts a program with probes on, and lets it go. */
#include <stddef.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/request.h"
#include "cli/run.h"

struct run_options {
	struct common_options common;
	struct request_options request;
	bool verbose, no_follow;
};

static struct probe_error *run_program(const struct run_options *options, int *status_ret)
{
	struct run run = {.request = &options->request.request,
		.verbose = options->verbose,
		.follow = !options->no_follow,
		.loop = {.signal_fd = -1}};
	struct probe_target *target;
	struct probe_error *error = child_start(options->common.program, &target, status_ret);

	if (error)
		return error;
	error = run_start(&run, target);
	if (!error)
		*status_ret = loop_wait_child(&run.loop);
	if (!error && run.failed)
		*status_ret = STATUS_FAILED;
	loop_close(&run.loop);
	return error;
}

static struct probe_error *run_checked(struct run_options *options, int *status_ret)
{
	struct probe_error *error;

	if (options->common.pids.count)
		return probe_error_new(PROBE_ERROR_USAGE,
			"run starts a program; `probectl enable -p PID` is for running ones");
	if (!options->common.program || !options->common.program[0])
		return probe_error_new(PROBE_ERROR_USAGE,
			"run: which program? Give it behind --, as in `run PROBE -- ls -l`");
	error = request_init(&options->request, &options->common);
	return error ? error : run_program(options, status_ret);
}

struct probe_error *cmd_run(int argc, char **argv, int *status_ret)
{
	struct run_options options = {0};
	const struct option_row rows[] = {
		OPTIONS_PROBE(&options.common),
		OPTIONS_KEEP_GOING(&options.request),
		OPTIONS_PLAN(&options.request),
		{.letter = 'v',
			.name = "verbose",
			.kind = OPTION_FLAG,
			.target = &options.verbose,
			.help = "print on standard error what was enabled"},
		{.name = "no-follow",
			.kind = OPTION_FLAG,
			.target = &options.no_follow,
			.help = "probe only the program and the libraries that it starts with"},
	};
	const struct command_line line = {
		.synopsis = "run [OPTIONS] PROBE... -- PROGRAM [ARGS...]",
		.help = "Starts a program with probes enabled before any of its code runs. The "
			"exit\n"
			"status is that of the program.\n",
		.rows = rows,
		.row_count = sizeof(rows) / sizeof(rows[0]),
	};
	struct probe_error *error = options_parse(&line, argc, argv, &options.common);

	if (!error && !options.common.helped)
		error = run_checked(&options, status_ret);
	options_deinit(&options.common);
	return error;
}
