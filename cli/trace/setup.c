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

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/trace/trace.h"

/* ==== Options ================================================================================= */

/* The option --full=wait: a thread that finds its ring full waits before it writes a hit. */

enum { WAIT_DEFAULT_NS = 100 * 1000 * 1000 };

struct probe_error *trace_parse_wait(const char *text, uint64_t *ns_ret)
{
	bool has_time = strncmp(text, "wait:", 5) == 0;
	struct probe_error *error = NULL;

	*ns_ret = 0;
	if (!has_time && strcmp(text, "wait") != 0)
		return NULL;
	*ns_ret = WAIT_DEFAULT_NS;
	if (has_time)
		error = parse_duration(text + 5, ns_ret);
	if (!error && *ns_ret && *ns_ret <= PROBE_WAIT_MAX_NS)
		return NULL;
	probe_error_free(error);
	return usage_error(
		"--full '%s': '%s' is no time between 1ns and 1s, as in wait:20ms", text, text + 5);
}

/* Returns an error for options that the tracers do not accept. */
static struct probe_error *check_tracers(
	const struct trace *trace, const struct trace_options *options)
{
	const struct trace_settings *settings = &trace->settings;
	bool asks_metrics = trace_has_output(trace, PROBE_TRACER_METRICS), has_records = false;
	bool has_tables = false;
	const char *first = probe_tracer_name(trace->tracers->spec);

	for (size_t i = 0; i < trace->tracer_count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];
		const char *name = probe_tracer_name(tracer->spec);

		has_records |= tracer->options.kind == PROBE_SESSION_RECORD;
		has_tables |= !tracer_prints_hits(tracer);
		if (!tracer->flamegraph && !tracer->pprof)
			continue;
		if (trace->tracer_count > 1 || settings->interval_ns)
			return usage_error(
				"-t %s,%s is a file of its own: without -i, and without another "
				"tracer",
				name, tracer->pprof ? "pprof" : "flamegraph");
		if (tracer->pprof && !options->output)
			return usage_error(
				"-t %s,pprof is not text: name a file, -o %s.pb", name, name);
		if (tracer->pprof && settings->json)
			return usage_error("-t %s,pprof and --json are two formats", name);
	}
	if (settings->interval_ns && !has_tables)
		return usage_error(
			"-i is the time between tables; it needs a tracer that makes them, such as "
			"-c or -t latency");
	if (asks_metrics && !settings->listen && !settings->otlp)
		return usage_error(
			"-t metrics needs an address where Prometheus asks for them (--listen "
			":9100 is that port of localhost), or a collector (--otlp URL)");
	if (!asks_metrics && (settings->listen || settings->rows))
		return usage_error(
			"%s is for -t metrics", settings->listen ? "--listen" : "--rows");
	for (size_t i = 0; i < trace->tracer_count && settings->otlp; i++)
		if (trace->tracers[i].options.stack != PROBE_STACK_NONE &&
			probe_tracer_spans(trace->tracers[i].spec))
			return usage_error(
				"--stack: spans that are sent (--otlp) have no stacks; without "
				"--otlp, -t span prints them");
	for (size_t i = 0; i < trace->tracer_count && options->wait_ns; i++) {
		const struct probe_session_options *its = &trace->tracers[i].options;

		if (its->kind != PROBE_SESSION_RECORD || its->overwrite || its->spans)
			return usage_error(
				"--full=wait is for tracers that take each hit by itself: not for "
				"'%s'",
				probe_tracer_name(trace->tracers[i].spec));
	}
	if (options->ring_bytes && !has_records)
		return usage_error("tracer '%s' records nothing, so -b does not apply", first);
	if (options->string_bytes && !has_records && !options->tracer.keys.count &&
		!options->tracer.match)
		return usage_error(
			"tracer '%s' records nothing, so -s does not apply without -k", first);
	return NULL;
}

/*
 * Makes the request, finds the processes, and returns an error for options that contradict each
 * other.
 */
static struct probe_error *check_options(struct trace_options *options)
{
	struct common_options *common = &options->common;
	const struct tracer_options *tracer = &options->tracer;
	struct probe_error *error;

	if (options->string_bytes > PROBE_STRING_BYTES_MAX)
		return usage_error("-s: at most %d bytes of a string", PROBE_STRING_BYTES_MAX);
	error = processes_check(common);
	if (error)
		return error;
	/* In `trace -c -k PROBE`, the user forgot the key, so the PROBE was taken as the key. */
	if (!common->patterns.count && !common->operand_count && tracer->keys.count)
		return usage_error("no PROBE given: -k took '%s' as a key, as in -k EXPR PROBE",
			tracer->keys.items[tracer->keys.count - 1]);
	error = request_init(&options->request, common) ?: processes_find(common);
	if (error)
		return error;
	options->parts.stacks = tracer->stack != NULL;
	if (options->full == RECORD_FLUSH)
		return NULL;
	if (tracer->stack)
		return usage_error(
			"--stack: only a record that is written continuously has stacks, without "
			"--full");
	if (options->parts.rotate_bytes || options->parts.rotate_ns)
		return usage_error(
			"--full=loop and stop write once, and not in parts: leave --rotate out");
	if (tracer->every || tracer->rate || options->settings.hits_max)
		return usage_error("--full=loop and stop do not go with --every, --rate and -n");
	return NULL;
}

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

/* ---- Sessions --------------------------------------------------------------- */

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

static int compare_probes(const void *a, const void *b)
{
	const struct probe_trace_probe *left = a, *right = b;

	return strcmp(left->probe->provider, right->probe->provider)
		       ?: strcmp(left->probe->name, right->probe->name);
}

static void report_started(const struct trace *trace, const struct started *started)
{
	size_t probes = started->probes, sites = started->sites, processes = 1;
	struct probe_trace_probe *all;
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
		/* Count the different probes in all processes. */
		all = probe_trace_probes(trace->set, &count);
		if (count)
			qsort(all, count, sizeof(*all), compare_probes);
		probes = 0;
		for (size_t i = 0; i < count; i++)
			probes += i == 0 || compare_probes(&all[i - 1], &all[i]) != 0;
		free(all);
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

/* Prepares for a session, unless its tracer does not want the process. `data` is the trace. */
static struct probe_error *prepare_session(
	struct probe_traced *traced, bool *wanted_ret, void *data)
{
	struct trace *trace = data;
	pid_t pid = probe_target_pid(traced->target);

	/* The process has executed another program, or has come later. */
	if (traced->later && !traced->tracer) {
		trace_record_all(trace, pid);
		comm_cache_forget(trace->comms, pid);
		comm_cache_get(trace->comms, pid, pid, clock_now_ns());
	}
	*wanted_ret = !(trace->starting && trace->starting->error) &&
		      host_wants(trace, &trace->tracers[traced->tracer], pid, !traced->later);
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
	else if (its && !((traced->named || its->code == PROBE_ERROR_USAGE) &&
				mistake_take(&starting->mistake, pid, its)))
		starting->error = leave_out(trace, options, pid,
			processes_error(&options->common, pid, its), traced->named);
}

/*
 * Reports one report's sites that could not be patched, without those in `told`. Without
 * --keep-going, the trace counts as failed if such a site belongs to a probe that the user named
 * exactly. The trace then continues with the other sites.
 */
static void take_refusals(
	struct trace *trace, const struct probe_report *report, pid_t pid, struct report_told *told)
{
	bool named =
		report_refusals_since(report, pid, refusals_shown(false, trace->verbose), told);

	trace->failed |= named && !trace->request->keep_going;
}

/* Returns how often a note occurs among the notes of a session that were told. */
static size_t count_notes(const struct probe_traced *traced, const char *note)
{
	const struct probe_report *report = probe_session_report(traced->session);
	const struct trace_target *its = traced->data;
	size_t count = 0;

	for (size_t i = 0; i < its->told.notes; i++)
		count += strcmp(report->notes[i], note) == 0;
	return count;
}

/* Returns true if the note was reported for another session of the process: most have the same. */
static bool is_noted(const struct trace *trace, const struct probe_traced *traced, const char *note)
{
	size_t count, times = count_notes(traced, note);
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		if (all[i] != traced && all[i]->target == traced->target && all[i]->session &&
			count_notes(all[i], note) > times)
			return true;
	return false;
}

/* Reports only the refused sites of the first tracer, because all tracers have the same sites. */
static void report_grown(struct trace *trace, const struct probe_traced *traced)
{
	const struct probe_report *report = probe_session_report(traced->session);
	struct trace_target *its = traced->data;

	if (!traced->tracer)
		take_refusals(trace, report, probe_target_pid(traced->target), &its->told);
	for (; its->told.notes < report->note_count; its->told.notes++)
		if (!is_noted(trace, traced, report->notes[its->told.notes]))
			report_warning("%s", report->notes[its->told.notes]);
}

static void judge_refusals(struct trace *trace)
{
	struct probe_coverage sum = {0};
	size_t count;
	struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		probe_coverage_add(&sum, &all[i].probe->coverage);
	free(all);
	if (!trace->request->keep_going && !trace->failed && probe_coverage_is_none(&sum))
		trace_fail(trace,
			probe_error_new(PROBE_ERROR_REFUSED,
				"all sites are refused (%zu): nothing was traced", sum.sites));
}

/* Takes the news that a session was started, or could not be. */
static void take_start(struct trace *trace, const struct probe_trace_news *news)
{
	const struct probe_report *report = news->report;
	const struct probe_traced *traced = news->traced;
	struct trace_tracer *tracer = &trace->tracers[traced->tracer];
	pid_t pid = probe_target_pid(traced->target);
	struct report_told told = {0};
	struct started *started;

	if (traced->later) {
		if (!traced->tracer)
			take_refusals(trace, report, pid, &told);
		/* Print notes for one program only: a build may start a thousand programs. */
		if (report->sites && !trace->noted)
			report_notes(report);
		trace->noted |= report->sites && report->note_count;
		if (report->sites && trace->record)
			trace_fail(trace, probe_catalogue_save(trace->tracers->options.catalogue,
						  trace->directory));
		return;
	}
	/* The tracer wants no hits of the process. */
	if (!news->error && !traced->is_on) {
		end_start(trace, traced, NULL);
		return;
	}
	report_notes(report);
	/* The sites of the other tracers are the same. */
	if (!traced->tracer || tracer_is_part(tracer))
		report_refusals(report, pid, refusals_shown(news->error, trace->verbose));
	if (!news->error && (!traced->tracer || tracer_is_part(tracer))) {
		started = &trace->starting->started;
		if (!tracer->probes) {
			tracer->probes = report->probes;
			tracer->sites = report->sites;
		}
		started->differ |=
			tracer->probes != report->probes || tracer->sites != report->sites;
		started->probes += report->probes;
		started->sites += report->sites;
	}
	/* The process may have ended by the time its hits are read. */
	if (!news->error && !traced->tracer)
		comm_cache_get(trace->comms, pid, pid, clock_now_ns());
	end_start(trace, traced, news->error);
}

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
	return trace->seeks ? NULL : left_out_error(&trace->left, common);
}

/* Prints where the metrics can be read. Call it after all sessions have been started. */
static void exports_report(const struct trace *trace)
{
	if (trace->settings.quiet)
		return;
	/* The user must be told the port, because the kernel may have chosen it. */
	if (trace->server)
		fprintf(stderr, "probectl: exporting %s\n",
			probe_metrics_server_url(trace->server));
	for (size_t i = 0; i < trace->tracer_count && !trace->loop.child; i++)
		if (trace->tracers[i].pcp)
			fprintf(stderr, "probectl: exporting %s (pminfo -f %s)\n",
				probe_pcp_name(trace->tracers[i].pcp),
				probe_pcp_name(trace->tracers[i].pcp));
}

static struct probe_error *start_sessions(
	struct trace *trace, const struct trace_options *options, int *status_ret)
{
	struct starting starting = {.options = options, .status_ret = status_ret};
	struct probe_error *error;

	trace->starting = &starting;
	error = probe_trace_start(trace->set) ?: check_started(trace, &starting);
	trace->starting = NULL;
	/* Not earlier: if nothing can be recorded, no folder must be left. */
	if (!error && trace->directory)
		error = probe_ctf_create(trace->directory, &options->parts, &trace->record);
	if (!error && trace->directory)
		error = probe_catalogue_save(options->common.patterns.catalogue, trace->directory);
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

static void take_program(struct trace *trace, const struct probe_trace_news *news)
{
	int pid = (int)probe_target_pid(news->watched->target);
	struct trace_found *found = &trace->found;
	uint64_t unseen_ns = news->watched->unseen_ns;

	if (!news->watched->is_newcomer) {
		if (news->sites && unseen_ns)
			report_warning("process %d has become another program; hits of its first "
				       "%ju ms are not reported",
				pid, (uintmax_t)(unseen_ns / NSEC_PER_MSEC + 1));
		return;
	}
	/* There may be thousands that came later, so most are not reported. */
	if (!unseen_ns) {
		found->held++;
		return;
	}
	found->late++;
	if (news->late_ns > found->late_ns)
		found->late_ns = news->late_ns;
	if (trace->verbose)
		report_warning("process %d is traced from %.1f ms after its start on, at most", pid,
			(double)news->late_ns / NSEC_PER_MSEC);
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

/* All tracers have the same processes, so only the first tracer's session reports a process. */
static void report_fate(struct trace *trace, const struct probe_traced *traced)
{
	pid_t pid = probe_target_pid(traced->target);
	struct probe_fate fate;

	if (traced->tracer)
		return;
	probe_target_fate(traced->target, traced->pidfd, &fate);
	/*
	 * Not the program that we started: our exit status says it. Not followed processes: it
	 * concerns only their parents. In `yes | head`, `yes` always ends with SIGPIPE.
	 */
	if (!fate.signal || ((traced->later || pid == trace->loop.child) && !fate.out_of_memory))
		return;
	report_warning("process %d was killed by SIG%s%s", (int)pid, sigabbrev_np(fate.signal),
		fate.out_of_memory ? ": its control group ran out of memory" : "");
	/* Only SIGKILL comes from another program. The user may be tracing to wait for a crash. */
	trace->failed |= fate.signal == SIGKILL && traced->named && pid != trace->loop.child;
}

/* ---- Ended processes -------------------------------------------------------- */

/*
 * Processes of a trace that have ended. Their sessions are freed at once, because thousands of
 * processes may come and go. libprobe sums the counts of their probes and their rows, and copies
 * the hits of flight recorders. The other data that is needed at the end of the trace is kept here:
 *
 *   metrics       rows in a table for each label of a process
 *   call stacks   in the tracer's table, which has copies of the frames
 *   heaps         memory that a process did not free stays counted as live
 *
 * The other tracers need no data at the end. They have already passed on each hit: as a line, into
 * a recording, or as a message to a loaded tracer.
 */

/* Keeps the data of a session that is needed after it is freed, except its counts. */
static struct probe_error *gone_keep(struct trace *trace, struct probe_traced *traced)
{
	const struct trace_target *its = traced->data;
	const struct trace_tracer *tracer = &trace->tracers[traced->tracer];

	for (size_t i = 0; i < trace->request->pattern_count; i++)
		trace->matched[i] |= probe_session_matched(traced->session, i);
	trace_add_waits(&trace->waits, traced->session);
	trace_report_damage(traced);
	if (its->rings)
		return trace_rings_end(trace, traced);
	if (trace->record)
		return probe_ctf_forget(trace->record, traced->session);
	if (tracer_is_exported(tracer))
		return exports_keep(trace, traced);
	if (tracer->heap)
		probe_heap_forget(tracer->heap, traced->session);
	if (tracer->stacks && tracer->options.stack == PROBE_STACK_FRAMES)
		return probe_stacks_keep_session(
			tracer->stacks, traced->session, output_comm_of(trace, traced));
	return NULL;
}

static void take_news(const struct probe_trace_news *news, void *data)
{
	struct probe_traced *traced = news->traced;
	struct trace_target *its = traced ? traced->data : NULL;
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
		report_grown(trace, traced);
		break;
	case PROBE_TRACE_SITE:
		/* All tracers have the same sites, so only the first reports one. */
		if (traced->tracer)
			break;
		trace->failed = true;
		print_site_news(news->site, probe_target_pid(traced->target));
		probe_sink_site(trace->sink, probe_target_pid(traced->target), news->site);
		break;
	case PROBE_TRACE_LOST:
		trace->tracers[traced->tracer].has_lost = true;
		/* Calls learn of losses in each round, and report them at the end. */
		if (!trace->tracers[traced->tracer].folded && !trace->tracers[traced->tracer].calls)
			output_lost(trace, traced, news->probe, news->count);
		break;
	case PROBE_TRACE_FAILED:
		trace_fail(trace, news->error);
		break;
	case PROBE_TRACE_HEIRS:
		if (!trace->settings.quiet)
			fprintf(stderr,
				"probectl: process %d has ended; %zu process%s that it has forked "
				"%s on, and so does the trace (Ctrl-C ends it)\n",
				(int)probe_target_pid(traced->target), (size_t)news->count,
				news->count == 1 ? "" : "es", news->count == 1 ? "goes" : "go");
		break;
	case PROBE_TRACE_ENDED:
		if (its->rings)
			output_check(trace, trace_rings_note_end(trace, traced));
		report_fate(trace, traced);
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
		if (its && its->rings)
			probe_error_free(trace_rings_end(trace, traced));
		if (its)
			free(its->removed);
		free(its);
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
		.read = trace_record_read,
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
			.request = tracer_is_part(tracer) ? &tracer->request : trace->request,
			.options = tracer->options,
			/* A loaded tracer switches its probes off by itself. */
			.shares = tracer->output != PROBE_TRACER_LOADED,
			.is_unordered =
				tracer->stacks || tracer->heap || tracer->calls || trace->directory,
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
	error = error ?: probe_sink_create(format, trace->output_fd, name, &trace->sink);
	if (error)
		return error;
	trace->to_file = trace->directory || (!fstat(trace->output_fd, &st) && S_ISREG(st.st_mode));
	return NULL;
}

/* Writes the header of the output, with the columns of spans if the only tracer prints spans. */
static void begin_output(struct trace *trace)
{
	bool has_lines = false;

	for (size_t i = 0; i < trace->tracer_count && !trace->record; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];

		/* Spans that go to a collector are not printed. */
		if (!trace->otlp || !probe_tracer_spans(tracer->spec))
			has_lines |= tracer->output == PROBE_TRACER_HITS ||
				     tracer->output == PROBE_TRACER_FLIGHT;
	}
	has_lines &= isatty(trace->output_fd);
	if (trace->tracer_count == 1 && probe_tracer_spans(trace->tracers->spec))
		probe_sink_begin_spans(trace->sink, has_lines);
	else
		probe_sink_begin(trace->sink, has_lines);
}

/* ---- The life of a trace ---------------------------------------------------- */

static struct probe_error *make_tracers(struct trace *trace, struct trace_options *options)
{
	struct probe_error *error = options_catalogue(&options->common.patterns);
	/* The options that the sessions of all tracers share. */
	const struct probe_session_options base = {
		.ring_bytes = options->ring_bytes,
		.wait_ns = options->wait_ns,
		.string_bytes = (uint16_t)options->string_bytes,
		.guess_strings = options->string_bytes != 0,
		.lines = options->request.verbose,
		.follow_libraries = processes_follow(&options->common),
		.follow_children = processes_follow(&options->common),
		.catalogue = options->common.patterns.catalogue,
	};

	if (!error)
		error = tracers_init(&options->tracer, &base, &options->common.patterns,
			options->settings.interval_ns != 0, &trace->tracers, &trace->tracer_count);
	if (!error)
		error = tracers_set_requests(
			trace->tracers, trace->tracer_count, &options->request.request);
	trace->settings.json |= trace_has_output(trace, PROBE_TRACER_HITS_JSON);
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		/* In JSON, the text for a number is a field of its own. */
		tracer->options.described |= tracer->output == PROBE_TRACER_HITS &&
					     !trace->settings.json && !trace->directory;
		tracer->options.texts = tracer_prints_hits(tracer);
		tracer->options.frames = tracer->calls || trace->directory;
		/*
		 * Enabling probes takes time in each process. Hits that are printed are switched on
		 * and off for all processes together (probe_trace_switch()): otherwise the trace
		 * would not start and end everywhere at once, and unread rings might overflow.
		 */
		tracer->options.switched =
			tracer->options.kind == PROBE_SESSION_RECORD && !tracer->options.spans &&
			(tracer->options.wait_ns || options->common.pids.count > 1);
	}
	return error ?: check_tracers(trace, options);
}

static struct probe_error *trace_prepare(struct trace *trace, struct trace_options *options)
{
	struct probe_error *error = make_tracers(trace, options);

	trace->matched = calloc(trace->request->pattern_count + 1, sizeof(*trace->matched));
	if (!error && !trace->matched)
		error = probe_error_no_memory();
	error = error ?: open_output(trace, options)
		?: hosts_start(trace)
		?: exports_open(trace)
		?: create_set(trace)
		?: open_processes(trace, options);
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

static void trace_deinit(struct trace *trace, bool closes_output)
{
	probe_trace_free(trace->set);
	free(trace->sought);
	left_out_deinit(&trace->left, trace->common);
	free(trace->matched);
	/* Before the tracers, whose metrics they have. */
	probe_otlp_close(trace->otlp);
	probe_metrics_server_close(trace->server);
	probe_metrics_free(trace->metrics);
	tracers_free(trace->tracers, trace->tracer_count);
	probe_sink_free(trace->sink);
	probe_ctf_free(trace->record);
	comm_cache_free(trace->comms);
	loop_close(&trace->loop);
	if (closes_output && trace->output_fd >= 0)
		close(trace->output_fd);
}

static struct probe_error *trace_start(
	struct trace *trace, const struct trace_options *options, int *status_ret)
{
	static const int flight[] = {SIGUSR1, 0};
	bool asked = trace->full != RECORD_FLUSH || trace_has_output(trace, PROBE_TRACER_FLIGHT);
	struct probe_traced *const *all;
	struct probe_error *error;
	size_t count;

	trace->loop.take_signal = take_signal;
	trace->loop.data = trace;
	/* SIGUSR1 has no meaning for a recording that is written continuously. */
	if (trace->directory && !asked)
		signal(SIGUSR1, SIG_IGN);
	/* The program was started before, with signals unblocked. */
	error = loop_open(&trace->loop, asked ? flight : NULL);
	error = error ?: start_sessions(trace, options, status_ret);
	all = probe_trace_sessions(trace->set, &count);
	if (!error && trace->loop.child)
		error = probe_target_release(all[0]->target);
	if (error && trace->loop.child && count)
		error = child_error(error, all[0]->target, status_ret);
	if (error)
		probe_trace_stop(trace->set, false);
	return error;
}

/* Starts and runs a trace, and reports what it has found. Sets the exit status. */
static struct probe_error *trace_run_all(
	struct trace *trace, struct trace_options *options, int *status_ret)
{
	struct probe_error *error = trace_prepare(trace, options);
	struct probe_target *process;

	if (!error && options->common.program) {
		error = child_start(options->common.program, &process, status_ret);
		if (!error) {
			trace->loop.child = probe_target_pid(process);
			error = probe_trace_add(trace->set, process, true);
			processes_allow_descriptors();
		}
	}
	error = error ?: trace_start(trace, options, status_ret);
	if (error)
		return error;
	begin_output(trace);
	trace_run(trace);
	if (trace->record)
		trace_record_report(trace);
	else if (!trace->settings.quiet)
		trace_report_summary(trace);
	if (!trace->settings.quiet) {
		report_found(trace);
		trace_report_hints(trace);
	}
	report_unmatched(trace);
	for (size_t i = 0;
		trace->found.held + trace->found.late && i < trace->request->pattern_count; i++)
		if (!has_matched(trace, NULL, i))
			report_warning("%s matched no probe of the processes that came",
				probe_pattern_text(trace->request->patterns[i]));
	judge_refusals(trace);
	/* Some file systems report only at the end that the disk is full. */
	if (options->output) {
		if (close(trace->output_fd) != 0 && !trace->gone)
			trace_fail(trace,
				probe_error_system(errno, "cannot write %s", options->output));
		trace->output_fd = -1;
	}
	/* The program may run on without its probes. */
	*status_ret = trace->loop.child ? loop_wait_child(&trace->loop) : STATUS_DONE;
	if (trace->failed)
		*status_ret = STATUS_FAILED;
	return NULL;
}

struct probe_error *trace_command(struct trace_options *options, int *status_ret)
{
	struct probe_error *error = check_options(options);
	struct trace trace = {.settings = options->settings,
		.request = &options->request.request,
		.verbose = options->request.verbose,
		.common = &options->common,
		.directory = options->directory,
		.full = options->full,
		.output_fd = -1,
		.loop = {.signal_fd = -1}};

	if (error)
		return error;
	trace.seeks = probe_processes_seek(options->common.meant);
	error = trace_run_all(&trace, options, status_ret);
	trace_deinit(&trace, options->output != NULL);
	return error;
}
