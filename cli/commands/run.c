/* SPDX-License-Identifier: MIT */
/* probectl run: starts a program with its probes enabled. */
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
		.status_ret = status_ret,
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

static struct probe_error *run_checked(void *data, int *status_ret)
{
	struct run_options *options = data;
	struct probe_error *error;

	if (options->common.pids.count)
		return probe_error_new(PROBE_ERROR_USAGE,
			"run starts a program; `probectl enable -p PID` is for running ones");
	if (!options->common.program || !options->common.program[0])
		return probe_error_new(PROBE_ERROR_USAGE,
			"run: no program given; put it after --, as in `run PROBE -- ls -l`");
	error = request_init(&options->request, &options->common);
	return error ? error : run_program(options, status_ret);
}

static const char help_text[] =
	"Starts a program with probes enabled before any of its code runs. The exit\n"
	"status is that of the program. For programs that others start, use\n"
	"`probectl trace --follow`.\n";

struct probe_error *cmd_run(int argc, char **argv, int *status_ret)
{
	struct run_options options = {0};
	const struct option_row rows[] = {
		OPTIONS_PROBE(&options.common),
		OPTIONS_KEEP_GOING(&options.request),
		OPTIONS_PLAN(&options.request),
		OPTION('v', "verbose", FLAG, NULL, &options.verbose,
			"print on standard error what was enabled, and each site that is refused"),
		OPTION(0, "no-follow", FLAG, NULL, &options.no_follow,
			"probe only the program and the libraries that it starts with"),
	};
	const struct command_line line = {
		.synopsis = "run [OPTIONS] PROBE... -- PROGRAM [ARGS...]",
		.help = help_text,
		OPTION_ROWS(rows),
		.starts_program = true,
		.no_follow = "run follows its program, unless --no-follow is given; to probe what "
			     "others start, use `probectl trace --follow`",
		.common = &options.common,
		.run = run_checked,
		.data = &options,
	};

	return options_run(&line, argc, argv, status_ret);
}
