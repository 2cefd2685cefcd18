/* SPDX-License-Identifier: MIT */
/*
 * probectl run: starts a program with its probes enabled, permanently, as soon as every PROBE
 * matches.
 *
 * Until then, a session switches on the probes that exist, and waits for libraries with the others.
 * After that, it switches on the probes of each new library, which are then enabled permanently,
 * too. It also holds the programs that the program starts, until their probes are enabled.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/loop.h"
#include "cli/options.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "libprobe/base/cleanup.h"
#include "probe/target.h"
#include "probe/trace.h"

struct run {
	struct common_options common;
	struct request_options options;
	const struct probe_request *request; /* that of `options` */
	bool verbose, no_follow;
	bool follow; /* also enable probes of libraries and programs that come later */
	/* Is set if something else kills the program before it is released (child_error()). */
	int *status_ret;

	/* The event loop; it ends when the program ends, not when a signal arrives. */
	struct loop loop;
	struct probe_trace *set;   /* the program, and what it starts */
	struct probe_error *error; /* error that prevents the start */
	bool matched;		   /* every PROBE has matched in some program */
	/* The probes of a later library or program were not enabled; reported. */
	bool failed;
};

/* The data of a session (struct probe_traced): a program whose probes are enabled. */
struct run_program {
	/* Some PROBEs match nothing yet; the session waits for libraries. */
	bool waiting;
	bool enabled;		 /* all probes of the mapped libraries are enabled */
	struct report_told told; /* the part of the session's report that enable() has printed */
};

static struct probe_request request_of(const struct run *run, const struct run_program *program)
{
	struct probe_request request = *run->request;

	/* Probes are never lowered that were enabled before, or by others. */
	request.later = program->enabled || run->options.action_count;
	return request;
}

/* Enables the probes permanently. If a PROBE does not match yet, notes this in `program`. */
static struct probe_error *enable(struct run *run, struct probe_target *target,
	const struct probe_session *session, struct run_program *program)
{
	struct probe_request request = request_of(run, program);
	AUTO(probe_report_deinit) struct probe_report report = {0};
	const struct probe_report *its;
	struct probe_error *error =
		run->options.action_count ? request_switch(&run->options, target, &request, &report)
					  : probe_target_enable(target, &request, &report);

	/* If the program has just ended, report_refused() prints the session's report. */
	if (!error || probe_target_alive(target)) {
		report_refusals(
			&report, probe_target_pid(target), refusals_shown(error, run->verbose));
		report_notes(&report);
		/* The session has the same refusals. */
		if (session) {
			its = probe_session_report(session);
			program->told = (struct report_told){
				its->refusal_count, its->sites, its->note_count};
		}
	}
	if (!error && run->verbose && (report.probes || !program->enabled))
		fprintf(stderr, "probectl: %zu probe%s, %zu site%s enabled in %d\n",
			COUNTED(report.probes), COUNTED(report.sites),
			(int)probe_target_pid(target));
	program->waiting = error && error->code == PROBE_ERROR_NOT_FOUND && run->follow;
	program->enabled |= !error;
	run->matched |= !error;
	if (!program->waiting)
		return error;
	probe_error_free(error);
	return NULL;
}

/* Enables the probes of a program, and starts the session that follows it. `data` is the run. */
static struct probe_error *start_session(struct probe_traced *traced,
	const struct probe_request *unused, const struct probe_session_options *options,
	struct probe_report *report, void *data)
{
	struct run *run = data;
	struct probe_request request;
	struct probe_error *error;

	(void)unused;
	if (!traced->data)
		traced->data = calloc(1, sizeof(struct run_program));
	if (!traced->data)
		return probe_error_no_memory();
	error = enable(run, traced->target, NULL, traced->data);
	if (error)
		return error;
	request = request_of(run, traced->data);
	error = probe_session_start(traced->target, &request, options, report, &traced->session);
	if (error)
		report_refusals(report, probe_target_pid(traced->target),
			refusals_shown(true, run->verbose));
	report_notes(report);
	return error;
}

/* If the program ended before enable() reported refusals, reports those of the session. */
static void report_refused(struct run *run, const struct probe_traced *traced)
{
	const struct probe_report *report = probe_session_report(traced->session);
	struct run_program *program = traced->data;
	size_t refusals = report->refusal_count - program->told.refusals;
	size_t sites = report->sites - program->told.sites;
	bool named = report_refusals_since(report, probe_target_pid(traced->target),
		refusals_shown(false, run->verbose), &program->told);

	report_notes_since(report, &program->told);
	run->failed |= !run->request->keep_going && (named || (refusals && !sites));
}

/*
 * Returns true if the probes can be enabled permanently: all missing PROBEs match now or, if none
 * was missing, a new library has more probes.
 */
static bool has_come(const struct run *run, const struct probe_traced *traced)
{
	const struct probe_session *session = traced->session;
	const struct run_program *program = traced->data;
	size_t count;

	if (program->waiting)
		return probe_session_unmatched(session) >= run->request->pattern_count;
	probe_session_probes(session, &count);
	for (size_t i = 0; i < count; i++)
		if (probe_session_is_selected(session, i))
			return true;
	return probe_session_report(session)->refusal_count > program->told.refusals;
}

/* Switches off the probes of a session that are now permanent. It continues to follow libraries. */
static struct probe_error *take_over(struct probe_session *session)
{
	AUTO(probe_report_deinit) struct probe_report report = {0};
	AUTO_FREE bool *none = NULL;
	size_t count;

	probe_session_probes(session, &count);
	none = calloc(count + 1, sizeof(*none));
	if (!none)
		return probe_error_no_memory();
	return probe_session_select(session, none, &report);
}

/*
 * Enables a program's probes permanently if nothing is missing any more, or if a new library has
 * more probes.
 */
static struct probe_error *look_for_libraries(struct run *run, const struct probe_traced *traced)
{
	struct run_program *program = traced->data;
	bool waited = program->waiting;
	struct probe_error *error;

	/* Print the session's notes here, because enable() does not print them. */
	report_notes_since(probe_session_report(traced->session), &program->told);
	if (!has_come(run, traced))
		return NULL;
	error = enable(run, traced->target, traced->session, program);
	program->waiting |= waited && error && !probe_target_alive(traced->target);
	if (program->waiting || !program->enabled)
		return error;
	return probe_error_first(error, take_over(traced->session));
}

static void look(struct run *run)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(run->set, &count);

	for (size_t i = 0; i < count; i++) {
		const struct run_program *program = all[i]->data;
		struct probe_error *error = all[i]->is_on ? look_for_libraries(run, all[i]) : NULL;
		bool refused = error && error->code == PROBE_ERROR_REFUSED;

		run->failed |= refused;
		if (error && (refused || probe_target_alive(all[i]->target))) {
			report_error(error);
			if (!refused || !program->enabled)
				probe_trace_stop_session(run->set, all[i]);
		} else
			probe_error_free(error);
	}
}

static void take_news(const struct probe_trace_news *news, void *data)
{
	struct run *run = data;

	switch (news->event) {
	case PROBE_TRACE_STARTED:
		if (news->error)
			run->error =
				child_error(news->error, news->traced->target, run->status_ret);
		break;
	case PROBE_TRACE_CAME:
		if (!news->watched->held)
			report_warning("process %d has become another program; its probes were off "
				       "for %ju ms",
				(int)probe_target_pid(news->traced->target),
				(uintmax_t)(news->watched->unseen_ns / NSEC_PER_MSEC + 1));
		break;
	case PROBE_TRACE_UNTRACED:
		/* Errors of a program that was started later do not make the run fail. */
		if (news->traced && news->error->code != PROBE_ERROR_NOT_FOUND)
			report_warning("the probes of a program that was started are off: %s",
				news->error->message);
		run->failed |= news->traced && news->error->code == PROBE_ERROR_REFUSED;
		probe_error_free(news->error);
		break;
	case PROBE_TRACE_FAILED:
		report_error(news->error);
		break;
	case PROBE_TRACE_DROPPED:
		report_refused(run, news->traced);
		break;
	case PROBE_TRACE_CLOSED:
		free(news->traced->data);
		break;
	default:
		break;
	}
}

/* Follows a held program, and what it starts, until it has ended. Releases it first. */
static struct probe_error *follow(struct run *run)
{
	struct probe_traced *const *all;
	struct probe_traced *first;
	struct probe_error *error = probe_trace_start(run->set);
	size_t count, unmatched;

	if (error || run->error)
		return error ?: run->error;
	first = probe_trace_sessions(run->set, &count)[0];
	error = probe_target_release(first->target);
	if (error)
		return child_error(error, first->target, run->status_ret);
	while (!error && !first->has_ended) {
		loop_watch(&run->loop, probe_trace_fd(run->set), POLLIN, NULL);
		loop_until(&run->loop, probe_trace_due_ns(run->set));
		/*
		 * If memory is short, some descriptors are not watched; the next round still reads
		 * their events.
		 */
		probe_error_free(loop_sleep(&run->loop));
		error = probe_trace_poll(run->set);
		look(run);
	}
	if (error)
		report_error(error);
	unmatched = probe_session_unmatched(first->session);
	if (!run->matched && ((struct run_program *)first->data)->waiting &&
		unmatched < run->request->pattern_count)
		report_warning("%s matched no probe of process %d" REQUEST_NEXT_STEP,
			probe_pattern_text(run->request->patterns[unmatched]),
			(int)run->loop.child);
	probe_trace_stop(run->set, false);
	all = probe_trace_sessions(run->set, &count);
	for (size_t i = 0; i < count; i++)
		report_refused(run, all[i]);
	return NULL;
}

/*
 * Enables the probes of a held program and releases the program. Then, until the program has
 * ended, enables the probes of the libraries that it opens, and of the programs that it starts or
 * executes. The run owns `target`. The caller must then wait for the program (loop_wait_child())
 * and close the loop.
 *
 * On error, the program is not released but killed.
 */
static struct probe_error *run_start(struct run *run, struct probe_target *target)
{
	const struct probe_trace_tracer tracer = {.request = run->request,
		.options = {.kind = PROBE_SESSION_COUNT,
			.follow_libraries = true,
			.follow_children = true}};
	const struct probe_trace_options options = {.tracers = &tracer,
		.tracer_count = 1,
		.follow = true,
		.ends_heirs = true,
		.start = start_session,
		.news = take_news,
		.data = run};
	struct run_program program = {0};
	/*
	 * The program may end once it is released. It was started earlier, with signals unblocked.
	 */
	struct probe_error *error = loop_open(&run->loop, NULL);

	run->loop.child = probe_target_pid(target);
	if (!error && run->follow)
		error = probe_trace_create(&options, &run->set);
	if (!error && !run->follow) {
		error = enable(run, target, NULL, &program) ?: probe_target_release(target);
		error = child_error(error, target, run->status_ret);
	}
	if (error || !run->follow) {
		probe_target_close(target);
		return error;
	}
	error = probe_trace_add(run->set, target, true) ?: follow(run);
	probe_trace_free(run->set);
	return error;
}

/* ---- The command line ------------------------------------------------------- */

static struct probe_error *run_checked(void *data, int *status_ret)
{
	struct run *run = data;
	struct probe_target *target;
	struct probe_error *error;

	if (run->common.pids.count)
		return usage_error(
			"run starts a program; `probectl enable -p PID` is for running ones");
	if (!run->common.program || !run->common.program[0])
		return usage_error(
			"run: no program given; put it after --, as in `run PROBE -- ls -l`");
	run->request = &run->options.request;
	run->follow = !run->no_follow;
	run->status_ret = status_ret;
	run->loop.signal_fd = -1;
	error = request_init(&run->options, &run->common)
			?: child_start(run->common.program, &target, status_ret);
	if (error)
		return error;
	error = run_start(run, target);
	if (!error)
		*status_ret = loop_wait_child(&run->loop);
	if (!error && run->failed)
		*status_ret = STATUS_FAILED;
	loop_close(&run->loop);
	return error;
}

static const char help_text[] =
	"Starts a program with probes enabled before any of its code runs. The exit\n"
	"status is that of the program. For programs that others start, use\n"
	"`probectl trace --follow`.\n";

struct probe_error *cmd_run(int argc, char **argv, int *status_ret)
{
	struct run run = {.options = {.others = {.files = true}}};
	const struct option_row rows[] = {
		OPTIONS_PROBE(&run.common),
		OPTIONS_ACTIONS(&run.options),
		OPTIONS_KEEP_GOING(&run.options),
		OPTIONS_MANY(&run.options),
		OPTIONS_PLAN(&run.options),
		OPTION('v', "verbose", FLAG, NULL, &run.verbose,
			"print on standard error what was enabled, and each site that is refused"),
		OPTION(0, "no-follow", FLAG, NULL, &run.no_follow,
			"probe only the program and the libraries that it starts with"),
	};
	const struct command_line line = {
		.synopsis = "run [OPTIONS] PROBE... -- PROGRAM [ARGS...]",
		.help = help_text,
		OPTION_ROWS(rows),
		.starts_program = true,
		.no_follow = "run follows its program, unless --no-follow is given; to probe what "
			     "others start, use `probectl trace --follow`",
		.common = &run.common,
		.run = run_checked,
		.data = &run,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	request_deinit(&run.options);
	return error;
}
