/* SPDX-License-Identifier: MIT */
/* probectl run: starts a program with probes on, and lets it go. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/request.h"
#include "probe/target.h"

struct run_options {
	struct common_options common;
	struct request_options request;
	bool verbose;
};

static bool no_hit(const struct probe_hit *hit, void *data)
{
	(void)hit;
	(void)data;
	return true;
}

/* Enables the probes for good. */
static struct probe_error *run_enable(
	struct probe_target *target, const struct run_options *options)
{
	struct probe_report report = {0};
	struct probe_error *error = probe_target_enable(target, &options->request.request, &report);

	report_refusals(&report);
	if (!error && options->verbose)
		fprintf(stderr, "probectl: %zu probes, %zu sites enabled in %d\n", report.probes,
			report.sites, (int)probe_target_pid(target));
	probe_report_deinit(&report);
	return error;
}

/* Waits for libraries that the program opens until every PROBE has matched, or it ends. */
static struct probe_error *run_follow(struct probe_target *target, struct probe_session *session,
	size_t patterns, const sigset_t *signals)
{
	static const struct timespec moment = {.tv_nsec = 50000000}, now = {0};
	struct probe_error *error = NULL;

	while (!error && probe_session_unmatched(session) < patterns &&
		probe_target_alive(target)) {
		struct pollfd waiting = {.fd = probe_session_fd(session), .events = POLLIN};
		int signal;

		ppoll(&waiting, 1, &moment, NULL);
		error = probe_session_poll(session, no_hit, NULL, NULL);
		signal = sigtimedwait(signals, NULL, &now);
		if (signal > 0 && signal != SIGCHLD)
			child_signal(probe_target_pid(target), signal);
	}
	return error;
}

/*
 * Some PROBE matches nothing yet: an attached session follows the program.
 * What it finds is on from there, and is enabled for good when all have
 * matched. The program is released here.
 */
static struct probe_error *run_later(
	struct probe_target *target, const struct run_options *options, sigset_t *signals)
{
	static const struct probe_session_options following = {
		.kind = PROBE_SESSION_COUNT, .follow_libraries = true};
	const struct probe_request *request = &options->request.request;
	struct probe_session *session;
	struct probe_report report = {0};
	struct probe_error *error;
	size_t unmatched;

	error = probe_session_start(target, request, &following, &report, &session);
	if (error)
		report_refusals(&report);
	probe_report_deinit(&report);
	if (error)
		return error;
	error = probe_target_release(target);
	signals_block(signals);
	if (!error)
		error = run_follow(target, session, request->pattern_count, signals);
	unmatched = probe_session_unmatched(session);
	if (!error && unmatched < request->pattern_count)
		fprintf(stderr, "probectl: warning: %s matched no probe of process %d\n",
			probe_pattern_text(request->patterns[unmatched]),
			(int)probe_target_pid(target));
	else if (!error)
		error = run_enable(target, options);
	if (!error)
		error = probe_session_stop(session);
	probe_session_free(session);
	return error;
}

/* Enables the probes of a program that is held, and lets it go. */
static struct probe_error *run_release(
	struct probe_target *target, const struct run_options *options, sigset_t *signals)
{
	struct probe_error *error = run_enable(target, options);

	if (!error)
		return probe_target_release(target);
	if (error->code != PROBE_ERROR_NOT_FOUND)
		return error;
	probe_error_free(error);
	return run_later(target, options, signals);
}

static struct probe_error *run_program(const struct run_options *options, int *status_ret)
{
	struct probe_target *target;
	struct probe_error *error = probe_target_spawn(options->common.program, &target);
	sigset_t signals;
	bool started;
	pid_t pid;

	if (error) {
		int status = child_spawn_status(error);

		report_error(error);
		*status_ret = status;
		return NULL;
	}
	pid = probe_target_pid(target);
	sigemptyset(&signals);
	error = run_release(target, options, &signals);
	started = sigismember(&signals, SIGCHLD);
	if (error && started) { /* the program goes on without */
		report_error(error);
		error = NULL;
	}
	/* Kills it where it was not released. */
	probe_target_close(target);
	if (!started)
		signals_block(&signals);
	*status_ret = child_wait(pid, &signals);
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
			"run: which program? Give it behind --, as in `run -e PROBE -- ls -l`");
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
			.help = "say on standard error what was enabled"},
	};
	const struct command_line line = {
		.synopsis = "run -e PROBE... [OPTIONS] -- PROGRAM [ARGS...]",
		.help = "Starts a program with probes on before any of its code runs, and lets\n"
			"it go. The exit status is the program's.\n",
		.rows = rows,
		.row_count = sizeof(rows) / sizeof(rows[0]),
	};
	bool helped = false;
	struct probe_error *error = options_parse(&line, argc, argv, &options.common, &helped);

	if (!error && !helped)
		error = run_checked(&options, status_ret);
	options_deinit(&options.common);
	return error;
}
