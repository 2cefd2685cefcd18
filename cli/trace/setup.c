/* SPDX-License-Identifier: MIT */
/* Sets up a trace: processes, sessions, output and signals; starts it, takes its news, and ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/trace/options.h"
#include "cli/trace/trace.h"

/* ==== Setup =================================================================================== */

/* ---- Targets ---------------------------------------------------------------- */

/*
 * Handles a process that cannot be traced. Returns the error if it is the only one; otherwise
 * reports the error, unless the process has ended and was not named with -p.
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

static struct probe_error *open_processes(struct trace *trace, const struct trace_options *options)
{
	const struct pid_list *pids = &options->common.pids;
	struct probe_target *process;
	struct probe_error *error;

	if (!options->common.program)
		processes_allow_descriptors();
	for (size_t i = 0; i < pids->count; i++) {
		bool given = i < options->common.pids_given;

		error = processes_open(&options->common, pids->items[i], &process);
		error = error ? leave_out(trace, options, pids->items[i], error, given)
			      : probe_trace_add(trace->set, process, given);
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
	error = probe_trace_add(trace->set, process, true);
	processes_allow_descriptors();
	return error;
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
 * Returns true if a pattern has matched in a session, or in any process that was started later.
 * Later processes count for every session, because it is unknown which process has started them.
 */
static bool has_matched(
	const struct trace *trace, const struct probe_traced *traced, size_t pattern)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	if (trace->matched[pattern])
		return true;
	for (size_t i = 0; i < count; i++)
		if ((all[i] == traced || all[i]->later) &&
			probe_session_matched(all[i]->session, pattern))
			return true;
	return false;
}

/* Reports patterns that have matched no probe of any process. */
static void report_never_matched(const struct trace *trace)
{
	const struct probe_request *request = trace->request;

	for (size_t i = 0; i < request->pattern_count; i++)
		if (!has_matched(trace, NULL, i))
			report_warning("%s matched no probe of the processes that came",
				probe_pattern_text(request->patterns[i]));
}

/* Reports, for each named process, each PROBE that has not matched any of its probes so far. */
static void report_unmatched(const struct trace *trace)
{
	const struct probe_request *request = trace->request;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count && !all[i]->later; i++) {
		size_t pattern = 0;

		/* Report only once for each process, because all tracers have the same PROBEs. */
		if (all[i]->tracer)
			continue;
		while (pattern < request->pattern_count && has_matched(trace, all[i], pattern))
			pattern++;
		if (pattern < request->pattern_count)
			report_warning("%s %s no probe of process %d%s",
				probe_pattern_text(request->patterns[pattern]),
				trace->loop.over ? "matched" : "matches",
				(int)probe_target_pid(all[i]->target),
				trace->loop.over ? REQUEST_NEXT_STEP
						 : "; waiting for a library that has it");
	}
}

/* Numbers of probes and sites in started sessions, the same for all tracers except parts. */
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
	const struct probe_trace_probe *left = a, *right = b;
	int order = strcmp(left->probe->provider, right->probe->provider);

	return order ? order : strcmp(left->probe->name, right->probe->name);
}

/* Returns the number of different probes in all processes, or 0 on lack of memory. */
static size_t different_probes(const struct trace *trace)
{
	size_t count, different = 0;
	struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	if (count)
		qsort(all, count, sizeof(*all), compare_probes);
	for (size_t i = 0; i < count; i++)
		different += i == 0 || compare_probes(&all[i - 1], &all[i]) != 0;
	free(all);
	return different;
}

static void report_started(const struct trace *trace, const struct started *started)
{
	size_t probes = started->probes, sites = started->sites, processes = 1;
	char where[48] = "";
	size_t count;

	if (trace->settings.quiet || trace->loop.child)
		return;
	probe_trace_sessions(trace->set, &count);
	if (!count) {
		processes_report_waiting(trace->common);
		return;
	}
	if (trace->tracer_count)
		processes = count / trace->tracer_count;
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

static bool is_mistake(const struct probe_traced *traced, const struct probe_error *error)
{
	return traced->named || error->code == PROBE_ERROR_USAGE;
}

/* The state of starting the first sessions of a trace. */
struct starting {
	const struct trace_options *options;
	struct started started;
	size_t tried; /* number of sessions */
	struct mistake mistake;
	struct probe_error *error; /* error that ends the trace; owned */
	bool unwanted;
	int *status_ret; /* exit status if the program that we started cannot be traced */
};

struct trace_tracer *trace_tracer_of(const struct trace *trace, const struct probe_traced *traced)
{
	return &trace->tracers[traced->tracer];
}

/* Prepares for another program: the process has executed it, or has come later. */
static void begin_program(struct trace *trace, pid_t pid)
{
	trace_take_left(trace, pid);
	comm_cache_forget(trace->comms, pid);
	comm_cache_get(trace->comms, pid, pid, clock_now_ns());
}

/* Prepares for a session, unless its tracer does not want the process. `data` is the trace. */
static struct probe_error *prepare_session(
	struct probe_traced *traced, bool *wanted_ret, void *data)
{
	struct trace *trace = data;
	pid_t pid = probe_target_pid(traced->target);

	if (traced->later && !traced->tracer)
		begin_program(trace, pid);
	*wanted_ret = !(trace->starting && trace->starting->error) &&
		      host_wants(trace, trace_tracer_of(trace, traced), pid, !traced->later);
	if (*wanted_ret && !traced->data)
		traced->data = calloc(1, sizeof(struct trace_target));
	return *wanted_ret && !traced->data ? probe_error_no_memory() : NULL;
}

/*
 * Handles the result of starting a session. A process that was found by a condition may have none
 * of the probes. It is an error if no process has any of them.
 */
static void end_start(
	struct trace *trace, const struct probe_traced *traced, struct probe_error *its)
{
	struct starting *starting = trace->starting;
	const struct trace_options *options = starting->options;
	pid_t pid = probe_target_pid(traced->target);

	starting->tried++;
	if (its && trace->loop.child)
		its = child_error(its, traced->target, starting->status_ret);
	starting->unwanted |= !starting->error && !its && !traced->is_on;
	if (its && starting->error)
		probe_error_free(its);
	else if (its && !(is_mistake(traced, its) && mistake_take(&starting->mistake, pid, its)))
		starting->error = leave_out(trace, options, pid,
			processes_error(&options->common, pid, its), traced->named);
}

/* Reports how the first session of a tracer in a process was started. */
static void report_start(struct trace *trace, const struct probe_trace_news *news)
{
	const struct probe_traced *traced = news->traced;
	struct trace_tracer *tracer = trace_tracer_of(trace, traced);
	pid_t pid = probe_target_pid(traced->target);

	report_notes(news->report);
	if (!traced->tracer || tracer_is_part(tracer)) {
		report_refusals(news->report, pid, refusals_shown(news->error, trace->verbose));
		if (!news->error)
			add_started(&trace->starting->started, tracer, news->report);
	}
	/* The process may have ended by the time its hits are read. */
	if (!news->error && !traced->tracer)
		comm_cache_get(trace->comms, pid, pid, clock_now_ns());
}

static void report_later_start(struct trace *trace, const struct probe_trace_news *news)
{
	struct report_told told = {0};

	if (!news->traced->tracer)
		trace_take_refusals(
			trace, news->report, probe_target_pid(news->traced->target), &told);
	/* Print the notes for one program only, because a build may start a thousand programs. */
	if (news->report->sites && !trace->noted)
		report_notes(news->report);
	trace->noted |= news->report->sites && news->report->note_count;
}

static void take_start(struct trace *trace, const struct probe_trace_news *news)
{
	if (news->traced->later) {
		report_later_start(trace, news);
		return;
	}
	if (news->error || news->traced->is_on)
		report_start(trace, news);
	end_start(trace, news->traced, news->error);
}

/* Returns an error if no process is traced. */
static struct probe_error *check_started(struct trace *trace, struct starting *starting)
{
	const struct common_options *common = &starting->options->common;
	bool unfit = starting->tried && starting->mistake.count == starting->tried;
	struct probe_error *wrong = mistake_end(&starting->mistake, common, starting->tried);
	struct probe_error *error = starting->error;
	size_t count;

	if (unfit && !error)
		error = wrong;
	else
		trace_fail(trace, wrong);
	left_out_report(&trace->left, common);
	probe_trace_sessions(trace->set, &count);
	if (error || count)
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

static struct probe_error *start_sessions(
	struct trace *trace, const struct trace_options *options, int *status_ret)
{
	struct starting starting = {.options = options, .status_ret = status_ret};
	struct probe_error *error;

	trace->starting = &starting;
	error = probe_trace_start(trace->set);
	if (!error)
		error = check_started(trace, &starting);
	trace->starting = NULL;
	/* Not earlier: if nothing can be recorded, no folder must be left. */
	if (!error)
		error = output_record(trace, &options->parts);
	if (error)
		return error;
	probe_trace_switch(trace->set, true);
	/* A program that we have just started has not opened its libraries. */
	if (!trace->loop.child)
		report_unmatched(trace);
	report_started(trace, &starting.started);
	exports_report(trace);
	return NULL;
}

/* ---- News ------------------------------------------------------------------- */

/* Counts a process that came later. There may be thousands, so most are not reported. */
static void note_found(struct trace *trace, const struct probe_trace_news *news)
{
	struct trace_found *found = &trace->found;

	if (!news->watched->unseen_ns) {
		found->held++;
		return;
	}
	found->late++;
	if (news->late_ns > found->late_ns)
		found->late_ns = news->late_ns;
	if (trace->verbose)
		report_warning("process %d is traced from %.1f ms after its start on, at most",
			(int)probe_target_pid(news->watched->target),
			(double)news->late_ns / NSEC_PER_MSEC);
}

static void take_program(struct trace *trace, const struct probe_trace_news *news)
{
	if (news->watched->is_newcomer)
		note_found(trace, news);
	else if (news->sites && news->watched->unseen_ns)
		report_warning("process %d has become another program; hits of its first %ju ms "
			       "are not reported",
			(int)probe_target_pid(news->watched->target),
			(uintmax_t)(news->watched->unseen_ns / NSEC_PER_MSEC + 1));
}

/* Reports how many processes came later, and how long they had run before they were traced. */
static void report_found(const struct trace *trace)
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

static void report_heirs(const struct probe_traced *traced, size_t heirs)
{
	fprintf(stderr,
		"probectl: process %d has ended; %zu process%s that it has forked %s on, and so "
		"does the trace (Ctrl-C ends it)\n",
		(int)probe_target_pid(traced->target), heirs, heirs == 1 ? "" : "es",
		heirs == 1 ? "goes" : "go");
}

static void take_end(struct trace *trace, struct probe_traced *traced)
{
	const struct trace_target *its = traced->data;

	if (its->rings)
		output_check(trace, trace_rings_note_end(trace, traced));
	trace_report_fate(trace, traced);
}

static void free_session(struct trace *trace, struct probe_traced *traced)
{
	struct trace_target *its = traced->data;

	if (!its)
		return;
	if (its->rings)
		probe_error_free(trace_rings_end(trace, traced));
	free(its->removed);
	free(its);
}

static void take_news(const struct probe_trace_news *news, void *data)
{
	struct probe_traced *traced = news->traced;
	struct trace *trace = data;

	switch (news->event) {
	case PROBE_TRACE_STARTED:
		take_start(trace, news);
		break;
	case PROBE_TRACE_CAME:
		take_program(trace, news);
		break;
	case PROBE_TRACE_UNTRACED:
		report_warning("%s%s", processes_untraced(news->error), news->error->message);
		probe_error_free(news->error);
		break;
	case PROBE_TRACE_GREW:
		trace_report_grown(trace, traced);
		break;
	case PROBE_TRACE_SITE:
		trace_report_site(trace, traced, news->site);
		break;
	case PROBE_TRACE_LOST:
		if (!trace_tracer_of(trace, traced)->folded)
			output_lost(trace, traced, news->probe, news->count);
		break;
	case PROBE_TRACE_FAILED:
		trace_fail(trace, news->error);
		break;
	case PROBE_TRACE_HEIRS:
		if (!trace->settings.quiet)
			report_heirs(traced, news->count);
		break;
	case PROBE_TRACE_ENDED:
		take_end(trace, traced);
		break;
	case PROBE_TRACE_STOPPING:
		if (!traced->tracer && news->is_waiting)
			processes_tell_frozen(traced->target);
		if (traced->is_read_by_user)
			trace_fail(trace, trace_rings_suspend(traced));
		break;
	case PROBE_TRACE_DROPPED:
		trace_fail(trace, gone_keep(trace, traced));
		break;
	case PROBE_TRACE_CLOSED:
		free_session(trace, traced);
		break;
	}
}

/* ---- The set of processes --------------------------------------------------- */

static struct probe_error *create_set(struct trace *trace)
{
	struct probe_trace_options options = {.tracer_count = trace->tracer_count,
		.follow = processes_follow(trace->common),
		.processes = trace->common->meant,
		.prepare = prepare_session,
		.start = trace->full == RECORD_FLUSH ? NULL : trace_rings_start,
		.hit = output_hit,
		.comm = output_comm,
		.read = trace_read,
		.is_full = output_is_full,
		.news = take_news,
		.data = trace};

	trace->sought = calloc(trace->tracer_count + 1, sizeof(*trace->sought));
	if (!trace->sought)
		return probe_error_no_memory();
	for (size_t i = 0; i < trace->tracer_count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];

		/*
		 * Only printed hits are sorted by time. Counts of call stacks have no order, and a
		 * heap tracer compares pointers only within one process. A recording has a separate
		 * stream for each session, which its readers merge.
		 */
		trace->sought[i] = (struct probe_trace_tracer){
			.request = tracer_request(tracer, trace->request),
			.options = tracer->options,
			/* A loaded tracer switches its probes off by itself. */
			.shares = tracer->output != PROBE_TRACER_LOADED,
			.is_unordered = tracer->stacks || tracer->heap || trace->directory,
			.is_apart = tracer->sink != trace->sink,
		};
	}
	options.tracers = trace->sought;
	return probe_trace_create(&options, &trace->set);
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

/* Writes the header of the output, with the columns of spans if the only tracer prints spans. */
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
 * Returns true if a tracer's hits are switched on and off for all processes together
 * (trace_switch()), because enabling probes takes time in each process. Otherwise the trace would
 * not start and end everywhere at once, and unread rings might overflow.
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
	trace->settings.json |= trace_has_output(trace, PROBE_TRACER_HITS_JSON);
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		/* In JSON, the text for a number is a field of its own. */
		tracer->options.described = tracer->output == PROBE_TRACER_HITS &&
					    !trace->settings.json && !trace->directory;
		tracer->options.texts = tracer->output == PROBE_TRACER_HITS ||
					tracer->output == PROBE_TRACER_HITS_JSON ||
					tracer->output == PROBE_TRACER_FLIGHT;
		tracer->options.switched = is_switched(&tracer->options, &options->common);
	}
	return error ? error : trace_check_tracers(trace, options);
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
		error = create_set(trace);
	if (!error)
		error = open_processes(trace, options);
	if (error)
		return error;
	trace->comms = comm_cache_create();
	return trace->comms ? NULL : probe_error_no_memory();
}

static void take_signal(int signal, void *data)
{
	struct trace *trace = data;

	(void)signal;
	trace->flight = true;
}

/* Opens the loop, which blocks signals. The program was started before, with signals unblocked. */
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
	probe_trace_free(trace->set);
	free(trace->sought);
	left_out_deinit(&trace->left, &options->common);
	free(trace->matched);
	exports_close(trace);
	tracers_free(trace->tracers, trace->tracer_count);
	probe_sink_free(trace->sink);
	probe_ctf_free(trace->record);
	comm_cache_free(trace->comms);
	loop_close(&trace->loop);
	if (options->output && trace->output_fd >= 0)
		close(trace->output_fd);
}

static struct probe_error *trace_start(
	struct trace *trace, const struct trace_options *options, int *status_ret)
{
	struct probe_error *error = open_loop(trace);
	struct probe_traced *const *all;
	size_t count;

	if (!error)
		error = start_sessions(trace, options, status_ret);
	all = probe_trace_sessions(trace->set, &count);
	if (!error && trace->loop.child)
		error = probe_target_release(all[0]->target);
	if (error && trace->loop.child && count)
		error = child_error(error, all[0]->target, status_ret);
	if (error)
		probe_trace_stop(trace->set, false);
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

struct probe_error *trace_command(struct trace_options *options, int *status_ret)
{
	struct trace trace = {.settings = options->settings,
		.request = &options->request.request,
		.verbose = options->request.verbose,
		.seeks = probe_processes_seek(options->common.meant),
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
			report_found(&trace);
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
