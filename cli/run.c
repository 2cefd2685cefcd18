/* SPDX-License-Identifier: MIT */
/*
 * Enables the probes of a program that `probectl run` starts.
 *
 * The probes are enabled permanently as soon as every PROBE matches. Until then, a session
 * switches on the probes that exist, and waits for libraries that have the missing ones. After
 * that, a session switches on the probes of each new library at once; then these are enabled
 * permanently, too. The session also holds the programs that the program starts, until their
 * probes are enabled.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/run.h"
#include "cli/timer.h"
#include "libprobe/base/array.h"

enum {
	MOMENT_NS = 20 * NSEC_PER_MSEC,
	EVENTS_MAX = 8 /* number of events handled before we look for libraries again */
};

struct run_program {
	struct probe_target *target;
	/* The session that follows libraries and programs, or NULL. */
	struct probe_session *session;
	/*
	 * Some PROBEs have not matched yet, and the session waits for libraries that have these
	 * probes.
	 */
	bool waiting;
	bool enabled;		 /* all probes of the mapped libraries are enabled */
	struct report_told told; /* the part of the session's report that enable() has printed */
};

static bool no_hit(const struct probe_hit *hit, void *data)
{
	(void)hit;
	(void)data;
	return true;
}

static struct probe_request request_of(const struct run *run, const struct run_program *program)
{
	struct probe_request request = *run->request;

	request.later = program->enabled;
	return request;
}

/*
 * Marks the refusals of the session as reported, because enable() has reported the same refusals.
 */
static void note_told(struct run_program *program)
{
	const struct probe_report *report;

	if (!program->session)
		return;
	report = probe_session_report(program->session);
	program->told = (struct report_told){
		.refusals = report->refusal_count,
		.sites = report->sites,
		.notes = report->note_count,
	};
}

/* Enables the probes permanently. If a PROBE does not match yet, notes this in `program`. */
static struct probe_error *enable(struct run *run, struct run_program *program)
{
	struct probe_target *target = program->target;
	struct probe_request request = request_of(run, program);
	struct probe_report report = {0};
	struct probe_error *error = probe_target_enable(target, &request, &report);

	/*
	 * If the program has just ended, print nothing here: report_refused() prints the session's
	 * report.
	 */
	if (!error || probe_target_alive(target)) {
		report_refusals(
			&report, probe_target_pid(target), refusals_shown(error, run->verbose));
		report_notes(&report);
		note_told(program);
	}
	if (!error && run->verbose && (report.probes || !request.later))
		fprintf(stderr, "probectl: %zu probe%s, %zu site%s enabled in %d\n",
			COUNTED(report.probes), COUNTED(report.sites),
			(int)probe_target_pid(target));
	probe_report_deinit(&report);
	program->waiting = error && error->code == PROBE_ERROR_NOT_FOUND && run->follow;
	program->enabled |= !error;
	run->matched |= !error;
	if (!program->waiting)
		return error;
	probe_error_free(error);
	return NULL;
}

static struct probe_error *start_session(struct run *run, struct run_program *program)
{
	const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT,
		.follow_libraries = true,
		.watch = run->watch,
		.follow_children = true};
	struct probe_request request = request_of(run, program);
	struct probe_report report = {0};
	struct probe_error *error;

	if (!run->follow)
		return NULL;
	error = probe_session_start(
		program->target, &request, &options, &report, &program->session);
	if (error)
		report_refusals(&report, probe_target_pid(program->target),
			refusals_shown(true, run->verbose));
	report_notes(&report);
	probe_report_deinit(&report);
	return error;
}

/*
 * If the program ended before enable() could report refusals, reports those that the session
 * found.
 */
static void report_refused(struct run *run, struct run_program *program)
{
	const struct probe_report *report;
	size_t refusals, sites;
	bool named;

	if (!program->session)
		return;
	report = probe_session_report(program->session);
	refusals = report->refusal_count - program->told.refusals;
	sites = report->sites - program->told.sites;
	named = report_refusals_since(report, probe_target_pid(program->target),
		refusals_shown(false, run->verbose), &program->told);
	report_notes_since(report, &program->told);
	run->failed |= !run->request->keep_going && (named || (refusals && !sites));
}

static void close_program(struct run *run, size_t i)
{
	struct run_program *program = &run->programs[i];
	struct probe_error *error = program->session ? probe_session_stop(program->session) : NULL;

	report_refused(run, program);
	if (error)
		report_error(error);
	probe_session_free(program->session);
	probe_target_close(program->target);
	memmove(program, program + 1, (--run->count - i) * sizeof(*program));
}

/*
 * Adds a program. If the program is held, releases it. If it is the program that we started and
 * something kills it meanwhile, sets *status_ret. For other programs, status_ret is NULL.
 */
static struct probe_error *add(
	struct run *run, struct probe_target *target, bool held, int *status_ret)
{
	struct run_program *program;
	struct probe_error *error;

	if (!ARRAY_ROOM(run->programs, run->count)) {
		probe_target_close(target);
		return probe_error_no_memory();
	}
	program = &run->programs[run->count++];
	*program = (struct run_program){.target = target};
	error = enable(run, program);
	if (!error)
		error = start_session(run, program);
	if (!error && run->watch)
		probe_error_free(probe_watch_add(run->watch, target));
	if (!error && held)
		error = probe_target_release(target);
	if (error && status_ret)
		error = child_error(error, target, status_ret);
	if (error)
		close_program(run, run->count - 1);
	return error;
}

/* Adds a program that was started later. Errors of such a program do not make the run fail. */
static void add_later(struct run *run, struct probe_target *target, bool held)
{
	struct probe_error *error = add(run, target, held, NULL);

	if (error && error->code != PROBE_ERROR_NOT_FOUND)
		report_warning(
			"the probes of a program that was started are off: %s", error->message);
	run->failed |= error && error->code == PROBE_ERROR_REFUSED;
	probe_error_free(error);
}

static void look_for_programs(struct run *run)
{
	struct probe_watch_event event;

	for (int i = 0; i < EVENTS_MAX; i++) {
		struct probe_error *error = probe_watch_next(run->watch, &event);

		if (!error && !event.target)
			return;
		if (error) {
			probe_error_free(error);
			continue;
		}
		if (!event.held)
			report_warning("process %d has become another program; its probes were off "
				       "for %ju ms",
				(int)probe_target_pid(event.target),
				(uintmax_t)(event.unseen_ns / NSEC_PER_MSEC + 1));
		add_later(run, event.target, event.held);
	}
}

/*
 * Returns true if the probes can be enabled permanently. If PROBEs were missing, all of them match
 * now. If no PROBE was missing, a new library has more probes.
 */
static bool has_come(const struct run *run, const struct run_program *program)
{
	const struct probe_session *session = program->session;
	size_t count;

	if (program->waiting)
		return probe_session_unmatched(session) >= run->request->pattern_count;
	probe_session_probes(session, &count);
	for (size_t i = 0; i < count; i++)
		if (probe_session_is_selected(session, i))
			return true;
	return probe_session_report(session)->refusal_count > program->told.refusals;
}

/*
 * Switches off those probes of a session that are now enabled permanently. The session continues
 * to follow libraries.
 */
static struct probe_error *take_over(struct run_program *program)
{
	struct probe_report report = {0};
	struct probe_error *error;
	bool *none;
	size_t count;

	probe_session_probes(program->session, &count);
	none = calloc(count + 1, sizeof(*none));
	if (!none)
		return probe_error_no_memory();
	error = probe_session_select(program->session, none, &report);
	probe_report_deinit(&report);
	free(none);
	return error;
}

/*
 * Looks for new libraries. Enables a program's probes permanently if nothing is missing any more.
 */
static struct probe_error *look_for_libraries(struct run *run, struct run_program *program)
{
	struct probe_error *error = probe_session_poll(program->session, no_hit, NULL, NULL);
	bool waited = program->waiting;

	/* Print the session's notes here, because enable() does not print them. */
	report_notes_since(probe_session_report(program->session), &program->told);
	if (error || !has_come(run, program))
		return error;
	error = enable(run, program);
	program->waiting |= waited && error && !probe_target_alive(program->target);
	if (program->waiting || !program->enabled)
		return error;
	return probe_error_first(error, take_over(program));
}

static void look(struct run *run)
{
	for (size_t i = run->count; i-- > 0;) {
		struct run_program *program = &run->programs[i];
		struct probe_error *error =
			program->session ? look_for_libraries(run, program) : NULL;

		bool refused = error && error->code == PROBE_ERROR_REFUSED;

		run->failed |= refused;
		if (refused && program->enabled) {
			report_error(error);
			error = NULL;
		} else if (error && (refused || probe_target_alive(program->target))) {
			report_error(error);
			error = NULL;
			close_program(run, i);
		} else if (!probe_target_alive(program->target) && i > 0) {
			close_program(run, i);
		}
		probe_error_free(error);
	}
	look_for_programs(run);
}

/* Sleeps until an event, or at most MOMENT_NS. */
static void wait_for_events(struct run *run)
{
	struct loop *loop = &run->loop;

	for (size_t i = 0; i < run->count; i++)
		if (run->programs[i].session)
			loop_watch(loop, probe_session_fd(run->programs[i].session), POLLIN, NULL);
	loop_watch(loop, probe_watch_fd(run->watch), POLLIN, NULL);
	loop_until(loop, clock_ns(CLOCK_MONOTONIC) + MOMENT_NS);
	/*
	 * If memory is short, some descriptors are not watched; the next round still reads their
	 * events.
	 */
	probe_error_free(loop_sleep(loop));
}

struct probe_error *run_start(struct run *run, struct probe_target *target, int *status_ret)
{
	pid_t pid = probe_target_pid(target);
	struct probe_target *alive = NULL;
	/*
	 * The program may end as soon as it is released, so open the loop before. The program was
	 * started earlier, so that it does not inherit blocked signals.
	 */
	struct probe_error *error = loop_open(&run->loop, NULL);

	run->loop.child = pid;
	if (!error && run->follow)
		error = probe_watch_create(true, &run->watch);
	if (error)
		probe_target_close(target);
	else
		error = add(run, target, true, status_ret);
	if (error) {
		probe_watch_free(run->watch);
		free(run->programs);
		return error;
	}
	probe_error_free(probe_target_open(pid, NULL, &alive));
	while (run->follow && alive && probe_target_alive(alive)) {
		wait_for_events(run);
		look(run);
	}
	if (!run->matched && run->count && run->programs[0].waiting &&
		probe_session_unmatched(run->programs[0].session) < run->request->pattern_count)
		report_warning("%s matched no probe of process %d" REQUEST_NEXT_STEP,
			probe_pattern_text(run->request->patterns[probe_session_unmatched(
				run->programs[0].session)]),
			(int)pid);
	while (run->count)
		close_program(run, run->count - 1);
	probe_target_close(alive);
	probe_watch_free(run->watch);
	free(run->programs);
	return NULL;
}
