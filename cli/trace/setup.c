/* SPDX-License-Identifier: MIT */
/* Sets up a trace: targets, sessions, output and signals; starts it and ends it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/trace/options.h"
#include "cli/trace/trace.h"
#include "libprobe/base/array.h"

/* ==== Setup =================================================================================== */

/* ---- Targets ---------------------------------------------------------------- */

/*
 * Handles a process that cannot be traced. If it is the only process, returns the error. Otherwise
 * the other processes are traced, and the error is reported. The error is not reported if the
 * process was not named with -p and has ended since.
 */
static struct probe_error *leave_out(struct trace *trace, const struct trace_options *options,
	pid_t pid, struct probe_error *error, bool given)
{
	if ((options->common.pids.count < 2 && !trace->seeks) || error->code == PROBE_ERROR_MEMORY)
		return error;
	if (given) {
		trace_fail(trace, error);
		return NULL;
	}
	left_out_add(&trace->left, pid, error);
	return NULL;
}

/*
 * Adds a process to the trace. The trace closes the process at the end. Each tracer gets its own
 * target in the process, and later its own session. For `given` and `later` see struct
 * trace_target.
 */
static struct probe_error *trace_add_process(
	struct trace *trace, struct probe_target *process, bool given, bool later)
{
	struct trace_target *targets = reallocarray(
		trace->targets, trace->target_count + trace->tracer_count, sizeof(*targets));

	trace->targets = targets ? targets : trace->targets;
	if (!targets || !ARRAY_ROOM(trace->processes, trace->process_count)) {
		probe_target_close(process);
		return probe_error_no_memory();
	}
	processes_allow_descriptors();
	trace->processes[trace->process_count++] = process;
	for (size_t i = 0; i < trace->tracer_count; i++)
		targets[trace->target_count++] = (struct trace_target){.target = process,
			.tracer = &trace->tracers[i],
			.pidfd = pidfd_open(probe_target_pid(process), 0),
			.given = given,
			.later = later};
	return NULL;
}

static struct probe_error *open_processes(struct trace *trace, const struct trace_options *options)
{
	const struct pid_list *pids = &options->common.pids;
	struct probe_target *process;
	struct probe_error *error;

	for (size_t i = 0; i < pids->count; i++) {
		bool given = i < options->common.pids_given;

		error = processes_open(&options->common, pids->items[i], &process);
		error = error ? leave_out(trace, options, pids->items[i], error, given)
			      : trace_add_process(trace, process, given, false);
		if (error)
			return error;
	}
	return NULL;
}

static struct probe_error *start_program(
	struct trace *trace, const struct trace_options *options, int *status_ret)
{
	struct probe_target *process;
	struct probe_error *error = child_start(options->common.program, &process, status_ret);

	if (error)
		return error;
	trace->loop.child = probe_target_pid(process);
	return trace_add_process(trace, process, true, false);
}

/* ---- Sessions --------------------------------------------------------------- */

/* Returns the options that the sessions of all tracers share. */
static struct probe_session_options session_options(const struct trace_options *options)
{
	return (struct probe_session_options){
		.ring_bytes = options->ring_bytes,
		.wait_ns = options->wait_ns,
		.string_bytes = (uint16_t)options->string_bytes,
		.guess_strings = options->string_bytes != 0,
		.lines = options->request.verbose,
		.follow_libraries = processes_follow(&options->common),
		.follow_children = processes_follow(&options->common),
		.catalogue = options->common.patterns.catalogue,
	};
}

/*
 * Returns true if a pattern has matched in a target, or in any process that was started later.
 * Later processes count for every target, because it is unknown which process has started them.
 */
static bool has_matched(const struct trace *trace, size_t target, size_t pattern)
{
	if (trace->matched[pattern])
		return true;
	for (size_t i = 0; i < trace->target_count; i++)
		if ((i == target || trace->targets[i].later) &&
			probe_session_matched(trace->targets[i].session, pattern))
			return true;
	return false;
}

/* Reports patterns that have matched no probe of any process. */
static void report_never_matched(const struct trace *trace)
{
	const struct probe_request *request = trace->request;

	for (size_t i = 0; i < request->pattern_count; i++)
		if (!has_matched(trace, trace->target_count, i))
			report_warning("%s matched no probe of the processes that came",
				probe_pattern_text(request->patterns[i]));
}

/* Reports, for each named process, each PROBE that has not matched any of its probes so far. */
static void report_unmatched(const struct trace *trace)
{
	const struct probe_request *request = trace->request;

	for (size_t i = 0; i < trace->target_count && !trace->targets[i].later; i++) {
		const struct trace_target *target = &trace->targets[i];
		size_t pattern = 0;

		/* Report only once for each process, because all tracers have the same PROBEs. */
		if (target->tracer != trace->tracers)
			continue;
		while (pattern < request->pattern_count && has_matched(trace, i, pattern))
			pattern++;
		if (pattern < request->pattern_count)
			report_warning("%s %s no probe of process %d%s",
				probe_pattern_text(request->patterns[pattern]),
				trace->loop.over ? "matched" : "matches",
				(int)probe_target_pid(target->target),
				trace->loop.over ? REQUEST_NEXT_STEP
						 : "; waiting for a library that has it");
	}
}

/*
 * The numbers of probes and sites for which sessions were started. They are the same for all
 * tracers, except for the parts of a tracer.
 */
struct started {
	size_t probes, sites; /* numbers of probes and sites, summed over all processes */
	bool differ;	      /* processes have different numbers of probes or sites */
};

static void add_started(
	struct started *started, struct trace_tracer *tracer, const struct probe_report *report)
{
	if (!tracer->probes) {
		tracer->probes = report->probes;
		tracer->sites = report->sites;
	}
	started->differ |= tracer->probes != report->probes || tracer->sites != report->sites;
	started->probes += report->probes;
	started->sites += report->sites;
}

static int compare_probes(const void *a, const void *b)
{
	const struct probe_session_probe *left = *(const struct probe_session_probe *const *)a;
	const struct probe_session_probe *right = *(const struct probe_session_probe *const *)b;
	int order = strcmp(left->provider, right->provider);

	return order ? order : strcmp(left->name, right->name);
}

/* Returns the number of different probes in all processes, or 0 on lack of memory. */
static size_t different_probes(const struct trace *trace)
{
	const struct probe_session_probe **all;
	size_t total = 0, count, different = 0;

	for (size_t i = 0; i < trace->target_count; i++) {
		probe_session_probes(trace->targets[i].session, &count);
		total += count;
	}
	all = calloc(total + 1, sizeof(*all));
	total = 0;
	for (size_t i = 0; all && i < trace->target_count; i++) {
		const struct probe_session_probe *probes =
			probe_session_probes(trace->targets[i].session, &count);

		for (size_t k = 0; k < count; k++)
			all[total++] = &probes[k];
	}
	if (total)
		qsort(all, total, sizeof(*all), compare_probes);
	for (size_t i = 0; i < total; i++)
		different += i == 0 || compare_probes(&all[i - 1], &all[i]) != 0;
	free(all);
	return different;
}

static void report_started(const struct trace *trace, const struct started *started)
{
	size_t probes = started->probes, sites = started->sites, processes = 1;
	char where[48] = "";

	if (trace->settings.quiet || trace->loop.child)
		return;
	if (!trace->target_count) {
		processes_report_waiting(trace->common);
		return;
	}
	if (trace->tracer_count)
		processes = trace->target_count / trace->tracer_count;
	if (processes > 1 && started->differ) {
		probes = different_probes(trace);
		snprintf(where, sizeof(where), " in %zu processes", processes);
	} else if (processes > 1) {
		probes /= processes;
		sites /= processes;
		snprintf(where, sizeof(where), " in each of %zu processes", processes);
	}
	fprintf(stderr, "probectl: %s %zu probe%s, %zu site%s%s%s; Ctrl-C ends%s\n",
		trace->record ? "recording" : "tracing", COUNTED(probes), COUNTED(sites), where,
		trace->seeks ? ", and those that come" : "",
		trace->full == RECORD_LOOP ? ", SIGUSR1 writes what there is" : "");
}

/* Frees all resources of a target except its process. */
static void trace_target_close(struct trace *trace, struct trace_target *target)
{
	if (target->rings)
		probe_error_free(trace_rings_end(trace, target));
	probe_session_free(target->session);
	free(target->tallies);
	free(target->removed);
	if (target->pidfd >= 0)
		close(target->pidfd);
}

static struct probe_error *start_session(struct trace *trace, struct trace_target *target,
	const struct trace_options *options, struct started *started)
{
	struct probe_session_options its = target->tracer->options;
	struct probe_report report = {0};
	bool first = target->tracer == options->first;
	struct probe_error *error;

	if (!host_wants(trace, target->tracer, probe_target_pid(target->target), true))
		return NULL;
	/* A process has a session for each tracer. Only one of these sessions needs the watch. */
	its.watch = first && trace->follow ? trace->watch : NULL;
	its.together = (unsigned int)trace->target_count;
	error = trace_target_start(
		trace, target, tracer_request(target->tracer, trace->request), &its, &report);
	report_notes(&report);
	if (first || tracer_is_part(target->tracer)) {
		report_refusals(&report, probe_target_pid(target->target),
			refusals_shown(error, trace->verbose));
		if (!error)
			add_started(started, target->tracer, &report);
	}
	probe_report_deinit(&report);
	target->on = !error;
	/*
	 * Read the process's name now, because the process may have ended by the time its hits are
	 * read.
	 */
	if (!error && first)
		comm_cache_get(trace->comms, probe_target_pid(target->target),
			probe_target_pid(target->target), clock_ns(CLOCK_REALTIME));
	/*
	 * Ignore errors. If the process has ended, its hits stay readable, and it executes no other
	 * program.
	 */
	if (!error && first)
		probe_error_free(probe_watch_add(trace->watch, target->target));
	return error;
}

static bool is_mistake(const struct trace_target *target, const struct probe_error *error)
{
	return target->given || error->code == PROBE_ERROR_USAGE;
}

/* The state of starting the first sessions of a trace. */
struct starting {
	struct trace *trace;
	const struct trace_options *options;
	struct started started;
	uint64_t turns;
	struct mistake mistake;
	struct probe_error *error; /* error that ends the trace; owned */
	bool unwanted;
};

static pid_t turn_pid(void *data, size_t index)
{
	const struct starting *starting = data;

	return probe_target_pid(starting->trace->targets[index].target);
}

static struct probe_error *start_turn(void *data, size_t index, struct probe_patience *patience)
{
	struct starting *starting = data;
	struct trace_target *target = &starting->trace->targets[index];
	struct probe_error *error;

	if (starting->error)
		return NULL;
	target->turn = starting->turns++;
	probe_target_set_patience(target->target, patience);
	error = start_session(starting->trace, target, starting->options, &starting->started);
	probe_target_set_patience(target->target, NULL);
	return error;
}

/*
 * Handles the result of starting one target. A process that was found by a condition may have none
 * of the probes. It is an error if no process has any of them.
 */
static void end_turn(void *data, size_t index, struct probe_error *its)
{
	struct starting *starting = data;
	const struct trace_options *options = starting->options;
	const struct trace_target *target = &starting->trace->targets[index];
	pid_t pid = probe_target_pid(target->target);

	starting->unwanted |= !starting->error && !its && !target->on;
	if (its && starting->error)
		probe_error_free(its);
	else if (its && !(is_mistake(target, its) && mistake_take(&starting->mistake, pid, its)))
		starting->error = leave_out(starting->trace, options, pid,
			processes_error(&options->common, pid, its), target->given);
}

/*
 * Keeps only the targets whose probes are on. This is also done after an error, because these
 * probes must be switched off later. The targets are put into the order in which they were started
 * (cli/run.c).
 */
static void keep_started(struct trace *trace)
{
	size_t kept = 0;

	for (size_t i = 0; i < trace->target_count; i++) {
		struct trace_target *target = &trace->targets[i];

		if (target->on)
			trace->targets[kept++] = *target;
		else
			trace_target_close(trace, target);
	}
	trace->target_count = kept;
	ARRAY_SORT(trace->targets, kept, turn);
}

/* Returns an error if no process is traced. */
static struct probe_error *check_started(struct trace *trace, struct starting *starting)
{
	const struct common_options *common = &starting->options->common;
	size_t count = trace->target_count;
	bool unfit = count && starting->mistake.count == count;
	struct probe_error *wrong = mistake_end(&starting->mistake, common, count);
	struct probe_error *error = starting->error;

	keep_started(trace);
	if (unfit && !error)
		error = wrong;
	else
		trace_fail(trace, wrong);
	left_out_report(&trace->left, common);
	if (error || trace->target_count)
		return error;
	if (starting->unwanted)
		return probe_error_new(PROBE_ERROR_STATE, "nothing is traced");
	if (trace->seeks)
		return NULL;
	error = left_out_lacking(&trace->left, common);
	return error ? error
		     : probe_error_new(PROBE_ERROR_NOT_FOUND,
			       "none of the %zu processes can be traced", common->pids.count);
}

static struct probe_error *start_sessions(struct trace *trace, const struct trace_options *options)
{
	struct starting starting = {.trace = trace, .options = options};
	const struct probe_turn turn = {turn_pid, start_turn, end_turn, &starting};
	struct probe_error *error = probe_watch_create(trace->follow, &trace->watch);

	if (!error && trace->seeks)
		error = processes_seek_later(trace->common, trace->watch);
	if (error)
		return error;
	probe_take_turns(trace->target_count, &turn);
	error = check_started(trace, &starting);
	/*
	 * Create the recording only now. If nothing can be recorded, no folder must be left behind.
	 */
	if (!error)
		error = output_record(trace, &options->parts);
	if (error)
		return error;
	trace_switch(trace, true);
	/*
	 * Print no warning if we have just started the program, because it has not opened its
	 * libraries yet.
	 */
	if (!trace->loop.child)
		report_unmatched(trace);
	report_started(trace, &starting.started);
	exports_report(trace);
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
	error = options->output ? probe_output_open(options->output, &trace->output_fd) : NULL;
	if (!error)
		error = probe_sink_create(format, trace->output_fd, name, &trace->sink);
	if (error)
		return error;
	trace->to_file = trace->directory || (!fstat(trace->output_fd, &st) && S_ISREG(st.st_mode));
	return NULL;
}

static bool has_lines(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count && !trace->record; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];

		/* Spans that go to a collector are not printed. */
		if (trace->otlp && probe_tracer_spans(tracer->spec))
			continue;
		if (tracer->output == PROBE_TRACER_HITS || tracer->output == PROBE_TRACER_FLIGHT)
			return true;
	}
	return false;
}

/*
 * Writes the header of the output. If the only tracer prints spans, the header has the columns of
 * spans.
 */
static void begin_output(struct trace *trace)
{
	bool header = isatty(trace->output_fd) && has_lines(trace);

	if (trace->tracer_count == 1 && probe_tracer_spans(trace->tracers->spec))
		probe_sink_begin_spans(trace->sink, header);
	else
		probe_sink_begin(trace->sink, header);
}

/* ---- The life of a trace ---------------------------------------------------- */

/*
 * Returns true if the hits of a tracer are switched on and off for all processes together
 * (trace_switch()). Probes are enabled in one process after the other, and this takes time.
 * Switching makes the trace start and end at the same moments in all processes. It also keeps
 * rings from overflowing while they are not read.
 */
static bool is_switched(
	const struct probe_session_options *its, const struct common_options *common)
{
	return its->kind == PROBE_SESSION_RECORD && !its->spans &&
	       (its->wait_ns || common->pids.count > 1);
}

static struct probe_error *make_tracers(struct trace *trace, struct trace_options *options)
{
	struct probe_error *error = options_catalogue(&options->common.patterns);
	const struct probe_session_options base = session_options(options);

	if (!error)
		error = tracers_init(&options->tracer, &base,
			probe_pattern_paired(options->request.request.patterns,
				options->request.request.pattern_count, base.catalogue),
			options->settings.interval_ns != 0, &trace->tracers, &trace->tracer_count);
	if (!error)
		error = tracers_set_requests(
			trace->tracers, trace->tracer_count, &options->request.request);
	options->first = trace->tracers;
	trace->settings.json |= trace_has_output(trace, PROBE_TRACER_HITS_JSON);
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		/*
		 * In JSON, each argument keeps its number, and the text for the number is a field
		 * of its own.
		 */
		tracer->options.described = tracer->output == PROBE_TRACER_HITS &&
					    !trace->settings.json && !trace->directory;
		tracer->options.texts = tracer->output == PROBE_TRACER_HITS ||
					tracer->output == PROBE_TRACER_HITS_JSON ||
					tracer->output == PROBE_TRACER_FLIGHT;
		tracer->options.switched = is_switched(&tracer->options, &options->common);
	}
	return error ? error : trace_check_tracers(trace, options);
}

/* Sorts the hits of all targets by time, if necessary. */
static struct probe_error *trace_merge_targets(struct trace *trace)
{
	/*
	 * A recording has a separate stream for each session. The readers of the recording merge
	 * them.
	 */
	if (trace->merge || trace->directory)
		return NULL;
	trace->merge = merge_create();
	return trace->merge ? NULL : probe_error_no_memory();
}

static struct probe_error *trace_prepare(struct trace *trace, struct trace_options *options)
{
	struct probe_error *error = make_tracers(trace, options);

	trace->matched = calloc(trace->request->pattern_count + 1, sizeof(*trace->matched));
	if (!error && !trace->matched)
		error = probe_error_no_memory();
	if (!error)
		error = open_output(trace, options);
	if (!error)
		error = hosts_start(trace);
	if (!error)
		error = exports_open(trace);
	if (!error)
		error = open_processes(trace, options);
	if (error)
		return error;
	trace->comms = comm_cache_create();
	if (!trace->comms)
		return probe_error_no_memory();
	return trace->target_count > 1 ? trace_merge_targets(trace) : NULL;
}

static void take_signal(int signal, void *data)
{
	struct trace *trace = data;

	(void)signal;
	trace->flight = true;
}

/*
 * Opens the loop, which blocks signals. The program was started earlier, so that it does not
 * inherit blocked signals.
 */
static struct probe_error *open_loop(struct trace *trace)
{
	static const int flight[] = {SIGUSR1, 0};
	bool asked = trace->full != RECORD_FLUSH || trace_has_output(trace, PROBE_TRACER_FLIGHT);

	trace->loop.take_signal = take_signal;
	trace->loop.data = trace;
	/* SIGUSR1 has no meaning for a recording that is written continuously. */
	if (trace->directory && !asked)
		signal(SIGUSR1, SIG_IGN);
	return loop_open(&trace->loop, asked ? flight : NULL);
}

static void trace_deinit(struct trace *trace, const struct trace_options *options)
{
	for (size_t i = 0; i < trace->target_count; i++)
		trace_target_close(trace, &trace->targets[i]);
	for (size_t i = 0; i < trace->process_count; i++)
		probe_target_close(trace->processes[i]);
	left_out_deinit(&trace->left, &options->common);
	gone_free(trace);
	free(trace->targets);
	probe_watch_free(trace->watch);
	free(trace->processes);
	exports_close(trace);
	tracers_free(trace->tracers, trace->tracer_count);
	probe_sink_free(trace->sink);
	probe_ctf_free(trace->record);
	comm_cache_free(trace->comms);
	merge_free(trace->merge);
	loop_close(&trace->loop);
	if (options->output && trace->output_fd >= 0)
		close(trace->output_fd);
}

static struct probe_error *trace_start(
	struct trace *trace, const struct trace_options *options, int *status_ret)
{
	struct probe_error *error = open_loop(trace);

	if (!error)
		error = start_sessions(trace, options);
	if (!error && trace->loop.child)
		error = probe_target_release(trace->targets[0].target);
	if (error && trace->loop.child)
		error = child_error(error, trace->targets[0].target, status_ret);
	if (error)
		trace_stop(trace);
	return error;
}

/* Closes the output. Some file systems report only then that the disk is full. */
static void close_output(struct trace *trace, const struct trace_options *options)
{
	if (!options->output)
		return;
	if (close(trace->output_fd) != 0 && !trace->gone)
		trace_fail(trace, probe_error_system(errno, "cannot write %s", options->output));
	trace->output_fd = -1;
}

/* Waits for the program to end. It may run on without its probes. Returns its exit status. */
static int trace_status(struct trace *trace)
{
	int status = STATUS_DONE;

	if (trace->loop.child)
		status = loop_wait_child(&trace->loop);
	return trace->failed ? STATUS_FAILED : status;
}

static void trace_report_found(const struct trace *trace);

struct probe_error *trace_command(struct trace_options *options, int *status_ret)
{
	struct trace trace = {.settings = options->settings,
		.request = &options->request.request,
		.verbose = options->request.verbose,
		.follow = processes_follow(&options->common),
		.seeks = processes_seek(&options->common),
		.common = &options->common,
		.directory = options->directory,
		.full = options->full,
		.output_fd = -1,
		.loop = {.signal_fd = -1}};
	struct probe_error *error = trace_prepare(&trace, options);

	if (!error && options->common.program)
		error = start_program(&trace, options, status_ret);
	if (!error)
		error = trace_start(&trace, options, status_ret);
	if (!error) {
		begin_output(&trace);
		trace_run(&trace);
		if (trace.record)
			trace_report_record(&trace);
		else if (!trace.settings.quiet)
			trace_report_summary(&trace);
		if (!trace.settings.quiet)
			trace_report_found(&trace);
		if (!trace.settings.quiet)
			trace_report_hints(&trace);
		report_unmatched(&trace);
		if (trace.found.held + trace.found.late)
			report_never_matched(&trace);
		trace_judge_refusals(&trace);
		close_output(&trace, options);
		*status_ret = trace_status(&trace);
	}
	trace_deinit(&trace, options);
	return error;
}

/* ==== Following execve(2) ===================================================================== */

/*
 * Programs that the processes of a trace execute.
 *
 * After execve(2), a process runs another program and gets new sessions. The sessions of the old
 * program stay, because their records must still be read, and because children that were forked
 * before execve(2) may still use them.
 */

enum { EVENTS_MAX = 8 /* maximum number of events handled between two polls for hits */ };

/*
 * Drops the targets of one process, which was not named on the command line. They begin at index
 * `from`.
 */
static void drop_process(struct trace *trace, size_t from)
{
	struct probe_target *process = trace->targets[from].target;
	size_t count = 0;

	while (from + count < trace->target_count &&
		trace->targets[from + count].target == process) {
		trace_target_close(trace, &trace->targets[from + count++]);
		if (trace->merge)
			merge_remove(trace->merge, from);
	}
	trace->target_count -= count;
	memmove(&trace->targets[from], &trace->targets[from + count],
		(trace->target_count - from) * sizeof(*trace->targets));
	for (size_t i = 0; i < trace->process_count; i++) {
		if (trace->processes[i] != process)
			continue;
		trace->processes[i] = trace->processes[--trace->process_count];
		break;
	}
	probe_target_close(process);
}

static bool has_probes(const struct trace_target *target)
{
	size_t count;

	probe_session_probes(target->session, &count);
	return count > 0;
}

/*
 * Returns true if the process of target number `i` can be dropped: it was not named, it has ended,
 * and all its data that is still needed can be kept. `i` must be the first target of the process.
 */
static bool is_done(const struct trace *trace, size_t i)
{
	const struct probe_target *process = trace->targets[i].target;

	if (!trace->targets[i].later || (i > 0 && trace->targets[i - 1].target == process))
		return false;
	for (; i < trace->target_count && trace->targets[i].target == process; i++) {
		const struct trace_target *target = &trace->targets[i];

		if (target->on || (has_probes(target) && !gone_may_drop(trace, target)) ||
			(trace->merge && merge_holds(trace->merge, i)))
			return false;
	}
	return true;
}

/* Drops processes that have ended, because a build, for example, runs thousands of programs. */
static void drop_done(struct trace *trace)
{
	for (size_t i = trace->target_count; i-- > 0;) {
		const struct probe_target *process = trace->targets[i].target;

		if (!is_done(trace, i))
			continue;
		trace_report_losses(trace);
		trace_report_refusals(trace);
		for (size_t k = i; k < trace->target_count && trace->targets[k].target == process;
			k++)
			trace_fail(trace, gone_keep(trace, &trace->targets[k]));
		drop_process(trace, i);
	}
	if (trace->first >= trace->target_count)
		trace->first = 0;
}

/*
 * Starts the session of one tracer in a new process. If a site cannot be patched, it is left out,
 * as with --keep-going.
 */
static struct probe_error *exec_start_session(
	struct trace *trace, struct trace_target *target, bool first, bool meant, size_t *sites_ret)
{
	struct probe_session_options options = target->tracer->options;
	struct probe_request request = *tracer_request(target->tracer, trace->request);
	struct probe_report report = {0};
	struct report_told told = {0};
	struct probe_error *error;

	request.keep_going = true;
	/*
	 * If the program itself is not to be traced, the session only finds the programs that it
	 * starts.
	 */
	if (!meant)
		request.pattern_count = 0;
	/* Follow libraries, because a new program may not have opened all of them yet. */
	options.follow_libraries = true;
	options.watch = first && trace->follow ? trace->watch : NULL;
	error = trace_target_start(trace, target, &request, &options, &report);
	target->on = !error;
	if (target->on && !target->rings)
		probe_session_switch(target->session, SIZE_MAX, true);
	if (first)
		trace_take_refusals(trace, &report, probe_target_pid(target->target), &told);
	/* Print the notes for one program only, because a build may start a thousand programs. */
	if (report.sites && !trace->noted)
		report_notes(&report);
	trace->noted |= report.sites && report.note_count;
	*sites_ret += report.sites;
	probe_report_deinit(&report);
	return error;
}

/* Drops the targets, from index `from` on, whose tracers want no hits of the process. */
static void leave_unwanted(struct trace *trace, size_t from, pid_t pid)
{
	size_t kept = from;

	for (size_t i = from; i < trace->target_count; i++) {
		if (host_wants(trace, trace->targets[i].tracer, pid, false))
			trace->targets[kept++] = trace->targets[i];
		else
			trace_target_close(trace, &trace->targets[i]);
	}
	trace->target_count = kept;
}

/*
 * Counts a process that came later. Most such processes are not reported one by one, because there
 * may be thousands.
 */
static void note_found(
	struct trace *trace, const struct probe_watch_event *event, uint64_t begun_ns)
{
	struct trace_found *found = &trace->found;
	uint64_t late_ns = event->unseen_ns + clock_ns(CLOCK_MONOTONIC) - begun_ns;

	if (!event->unseen_ns) {
		found->held++;
		return;
	}
	found->late++;
	if (late_ns > found->late_ns)
		found->late_ns = late_ns;
	if (trace->verbose)
		report_warning("process %d is traced from %.1f ms after its start on, at most",
			(int)probe_target_pid(event->target), (double)late_ns / NSEC_PER_MSEC);
}

/* Reports how many processes came later, and how long they had run before they were traced. */
static void trace_report_found(const struct trace *trace)
{
	const struct trace_found *found = &trace->found;

	if (found->held)
		fprintf(stderr, "probectl: %zu process%s came, and %s traced from the start\n",
			found->held, found->held == 1 ? "" : "es",
			found->held == 1 ? "was" : "were");
	if (found->late)
		fprintf(stderr,
			"probectl: %zu process%s came, and %s traced from %.1f ms after the start "
			"on, at most: earlier hits are missing\n",
			found->late, found->late == 1 ? "" : "es",
			found->late == 1 ? "was" : "were", (double)found->late_ns / NSEC_PER_MSEC);
}

static struct probe_error *exec_start_sessions(
	struct trace *trace, size_t from, const struct probe_watch_event *event)
{
	struct probe_error *error = trace_merge_targets(trace);
	pid_t pid = probe_target_pid(event->target);
	uint64_t begun_ns = clock_ns(CLOCK_MONOTONIC);
	bool meant = processes_mean(trace->common, pid);
	size_t sites = 0;

	trace_take_left(trace, pid);
	comm_cache_forget(trace->comms, pid);
	comm_cache_get(trace->comms, pid, pid, clock_ns(CLOCK_REALTIME));
	leave_unwanted(trace, from, pid);
	for (size_t i = from; i < trace->target_count && !error; i++)
		error = exec_start_session(trace, &trace->targets[i], i == from, meant, &sites);
	if (!error && event->is_newcomer)
		note_found(trace, event, begun_ns);
	else if (!error && sites && event->unseen_ns)
		report_warning("process %d has become another program; hits of its first %ju ms "
			       "are not reported",
			(int)pid, (uintmax_t)(event->unseen_ns / NSEC_PER_MSEC + 1));
	return error;
}

/*
 * Stops following a process that has none of the wanted probes. Most programs of a build have
 * none.
 */
static void pass_over(struct trace *trace, size_t from, const struct probe_watch_event *event)
{
	size_t count;

	for (size_t i = from; i < trace->target_count; i++) {
		probe_session_probes(trace->targets[i].session, &count);
		if (count)
			return;
	}
	probe_watch_pass_over(trace->watch, event->target);
}

/* Reports a process that can no longer be traced. This does not make the trace fail. */
static void report_untraced(struct probe_error *error, const struct probe_target *target)
{
	if (!target || probe_target_alive(target))
		report_warning("%s%s", processes_untraced(error), error->message);
	probe_error_free(error);
}

/* Traces the program that a process has executed. Returns false if this fails. */
static bool follow_event(struct trace *trace, const struct probe_watch_event *event)
{
	size_t from = trace->target_count;
	struct probe_error *error;

	if (event->is_newcomer && !event->held)
		trace_stop_ended(trace);
	error = trace_add_process(trace, event->target, false, true);

	if (!error)
		error = exec_start_sessions(trace, from, event);
	if (!error) {
		pass_over(trace, from, event);
		return true;
	}
	if (trace->target_count == from) {
		trace_fail(trace, error);
		trace->loop.over = true;
		return false;
	}
	probe_watch_untraced(trace->watch, event);
	report_untraced(error, event->target);
	for (size_t i = from; i < trace->target_count; i++)
		if (trace->targets[i].on)
			trace_fail(trace, probe_session_stop(trace->targets[i].session));
	drop_process(trace, from);
	return false;
}

/*
 * Lets a held process run, because its probes are on now. It is no error if the process was killed
 * meanwhile.
 */
static void release(struct trace *trace, struct probe_target *target)
{
	struct probe_error *error = probe_target_release(target);

	if (error && probe_target_alive(target)) {
		trace_fail(trace, error);
		error = NULL;
	}
	probe_error_free(error);
}

/*
 * Returns true if a program does not meet the conditions. The programs that it starts may meet
 * them.
 */
static bool is_left_out(const struct trace *trace, const struct probe_target *target)
{
	return trace->seeks && !processes_mean(trace->common, probe_target_pid(target));
}

void trace_follow_exec(struct trace *trace)
{
	struct probe_watch_event event;

	drop_done(trace);
	/*
	 * Handle only a few events, because other processes may be waiting for us: at a gate, or
	 * for ring space.
	 */
	for (int i = 0; i < EVENTS_MAX; i++) {
		struct probe_error *error = probe_watch_next(trace->watch, &event);

		if (!error && !event.target)
			return;
		if (error)
			report_untraced(error, event.target);
		else if (is_left_out(trace, event.target)) {
			probe_watch_untraced(trace->watch, &event);
			probe_target_close(event.target);
		} else if (follow_event(trace, &event) && event.held)
			release(trace, event.target);
	}
}

void trace_report_missed(struct trace *trace)
{
	struct probe_error *error = NULL;

	while (trace->watch && (error = probe_watch_finish(trace->watch)))
		report_untraced(error, NULL);
}
