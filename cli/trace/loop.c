/* SPDX-License-Identifier: MIT */
/*
 * The loop of `probectl trace` and `probectl record`.
 *
 * libprobe reads the hits (probe/trace.h) and says when it must be called again. A sleep
 * (cli/loop.h) also ends on any other event: a signal, an output that accepts more data or whose
 * reader has left, a request for metrics. Neither the output (probe/sink.h) nor the metrics server
 * (probe/metrics.h) ever blocks.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/trace/trace.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"

/* ==== Exports ================================================================================= */

/*
 * Metrics for PCP and Prometheus (-t pcp, -t metrics), and metrics and spans for an OpenTelemetry
 * collector (--otlp).
 *
 * Each row of metrics has the label of a process. Processes that start during the trace count for
 * the named process, if there is only one. Otherwise it is unknown which process started them, so
 * they have labels of their own, as have processes that were found because they meet conditions.
 */

enum { INTERVAL_NS = NSEC_PER_SEC, RENEW_NS = 10 * 1000 * 1000, RENEW_SHARE = 10, ROWS = 2000 };
#define SENT_INTERVAL_NS (5 * (uint64_t)INTERVAL_NS)

/* ---- Opening and closing -------------------------------------------------------- */

/*
 * Returns the number of the argument in --match, if it is only one, or -1. Its value distinguishes
 * the traces that the collector sees.
 */
static int trace_arg(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];
		const char *match = tracer->options.gather.match;
		char *end;
		long number;

		if (!probe_tracer_spans(tracer->spec) || !match || strncmp(match, "arg", 3))
			continue;
		number = strtol(match + 3, &end, 10);
		if (match[3] >= '0' && match[3] <= '9' && !*end && number < INT8_MAX)
			return (int)number;
	}
	return -1;
}

struct probe_error *exports_open(struct trace *trace)
{
	const struct trace_settings *settings = &trace->settings;
	struct probe_error *error = NULL;
	bool sends = false;

	if (trace_has_output(trace, PROBE_TRACER_METRICS))
		error = probe_metrics_create(
			settings->rows ? settings->rows : ROWS, &trace->metrics);
	for (size_t i = 0; i < trace->tracer_count && !error; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];
		size_t key_count = tracer->options.gather.key_count;
		struct probe_view view;

		sends |= probe_tracer_spans(tracer->spec);
		if (!tracer_is_exported(tracer))
			continue;
		probe_tracer_view(tracer->spec, &tracer->options, &view);
		view.tags = tracer_is_part(tracer);
		error = tracer->output == PROBE_TRACER_PCP
				? probe_pcp_open(&view, key_count, &tracer->pcp)
				: probe_metrics_view(
					  trace->metrics, &view, key_count, &tracer->metrics_view);
	}
	if (!error && settings->listen)
		error = probe_metrics_listen(trace->metrics, settings->listen, &trace->server);
	if (error || !settings->otlp)
		return error;
	if (!trace->metrics && !sends)
		return usage_error(
			"--otlp sends the metrics of -t metrics and the spans of -t span");
	/* An option would be unsafe: every user can see command lines in the list of processes. */
	return probe_otlp_open(settings->otlp, getenv("OTEL_EXPORTER_OTLP_HEADERS"),
		trace_arg(trace), &trace->otlp);
}

/* ---- In the loop ---------------------------------------------------------------- */

/* Ends the next sleep at a request for metrics, which exports_serve() answers after the sleep. */
static void exports_watch(struct trace *trace)
{
	if (trace->otlp) {
		loop_watch(&trace->loop, probe_otlp_fd(trace->otlp), POLLIN, NULL);
		loop_until(&trace->loop, probe_otlp_due_ns(trace->otlp));
	}
	if (trace->server) {
		loop_watch(&trace->loop, probe_metrics_server_fd(trace->server), POLLIN, NULL);
		loop_until(&trace->loop, probe_metrics_server_due_ns(trace->server));
	}
}

static void exports_serve(const struct trace *trace)
{
	if (trace->server)
		probe_metrics_server_run(trace->server);
	if (trace->otlp)
		probe_otlp_run(trace->otlp);
}

static bool exports_are_read(const struct trace *trace)
{
	return trace->server || trace_has_output(trace, PROBE_TRACER_PCP);
}

/* Returns the interval at which metrics are updated, or 0 if the trace has none. */
static uint64_t exports_interval_ns(const struct trace *trace)
{
	if (!exports_are_read(trace) && !trace->otlp)
		return 0;
	if (trace->settings.interval_ns)
		return trace->settings.interval_ns;
	return exports_are_read(trace) ? INTERVAL_NS : SENT_INTERVAL_NS;
}

/* ---- Metrics -------------------------------------------------------------------- */

/* Returns the process whose label the counts of a session get. */
static pid_t owner_of(const struct trace *trace, const struct probe_traced *traced)
{
	size_t count, named = 0;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	while (named < count && !all[named]->later)
		named++;
	if (traced->later && !trace->seeks && named == trace->tracer_count)
		traced = all[0];
	return probe_target_pid(traced->target);
}

/*
 * Exports the counts of one process label: the counts of ended processes with this label, and
 * those of the sessions from index `first` on.
 */
static struct probe_error *export_process(struct trace *trace, struct trace_tracer *tracer,
	size_t first, pid_t pid, const char *program, bool renew)
{
	struct probe_table *table = NULL;
	struct probe_error *error = probe_table_create(tracer->options.gather.key_count, &table);
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < tracer->ended_count && !error; i++)
		if (tracer->ended[i].owner == pid)
			error = probe_table_add_table(table, tracer->ended[i].rows);
	for (size_t i = first; i < count && !error; i++)
		if (&trace->tracers[all[i]->tracer] == tracer && !all[i]->is_broken &&
			owner_of(trace, all[i]) == pid)
			error = probe_table_add(table, all[i]->session, &tracer->options);
	if (error) {
		probe_table_free(table);
		return error;
	}
	if (renew)
		return probe_pcp_renew(tracer->pcp, pid, program, table);
	return tracer->pcp ? probe_pcp_add(tracer->pcp, pid, program, table)
			   : probe_metrics_add(
				     trace->metrics, tracer->metrics_view, pid, program, table);
}

/* Returns true if one of the first `before` sessions adds its counts to this process's metrics. */
static bool any_belongs_to(
	const struct trace *trace, const struct trace_tracer *tracer, size_t before, pid_t pid)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count && i < before; i++)
		if (&trace->tracers[all[i]->tracer] == tracer && owner_of(trace, all[i]) == pid)
			return true;
	return false;
}

/* Exports the rows of each ended process once more after its last change, to show a change of 0. */
static struct probe_error *export_ended(
	struct trace *trace, struct trace_tracer *tracer, bool renew)
{
	struct probe_error *error = NULL;

	for (size_t i = tracer->ended_count; i-- > 0 && !error;) {
		struct trace_ended *ended = &tracer->ended[i];
		pid_t pid = ended->owner;
		bool was_exported = ended->is_exported;

		if (any_belongs_to(trace, tracer, SIZE_MAX, pid) || (renew && was_exported))
			continue;
		error = export_process(trace, tracer, SIZE_MAX, pid, ended->program, renew);
		if (renew)
			continue;
		ended->is_exported = !error;
		if (error || !was_exported)
			continue;
		if (tracer->pcp)
			probe_pcp_end(tracer->pcp, pid);
		else
			probe_metrics_end(trace->metrics, tracer->metrics_view, pid);
		trace_ended_deinit(ended);
		*ended = tracer->ended[--tracer->ended_count];
	}
	return error;
}

/* Reports rows that were left out: as soon as there is one, and more of them at the end. */
static void report_left_out(
	const char *name, size_t left_out, const char *why, bool at_end, size_t *told)
{
	if (left_out <= *told || (*told && !at_end))
		return;
	report_warning(
		"%s: %s; %zu row%s left out", name, why, left_out, left_out == 1 ? " is" : "s are");
	*told = left_out;
}

static struct probe_error *export_tracer(
	struct trace *trace, struct trace_tracer *tracer, bool at_end, bool renew)
{
	struct probe_error *error = NULL;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count && !error; i++) {
		pid_t pid = owner_of(trace, all[i]);

		if (&trace->tracers[all[i]->tracer] == tracer &&
			!any_belongs_to(trace, tracer, i, pid))
			error = export_process(trace, tracer, i, pid,
				comm_cache_get(trace->comms, pid, pid, clock_now_ns()), renew);
	}
	error = error ?: export_ended(trace, tracer, renew);
	if (!error && tracer->pcp)
		error = probe_pcp_update(tracer->pcp);
	if (tracer->pcp)
		report_left_out(probe_pcp_name(tracer->pcp), probe_pcp_left_out(tracer->pcp),
			"PCP takes 10000 labels and values of an exporter", at_end,
			&tracer->left_out_told);
	return error;
}

/* Exports what one tracer's sessions have gathered. Reports an error only once. */
static void export_or_tell(
	struct trace *trace, struct trace_tracer *tracer, bool at_end, bool renew)
{
	struct probe_error *error = export_tracer(trace, tracer, at_end, renew);

	/* A failed export is retried each time. */
	if (error && tracer->told) {
		probe_error_free(error);
		return;
	}
	tracer->told |= error != NULL;
	trace_fail(trace, error);
}

/* pmtrace(3) promises that the most recent value is there at once. */
static bool is_renewed(const struct trace_tracer *tracer)
{
	return tracer->pcp && tracer_is_part(tracer);
}

static uint64_t exports_renew_ns(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++)
		if (is_renewed(&trace->tracers[i]))
			return RENEW_NS;
	return 0;
}

/*
 * Renews the metrics in PCP between two intervals if there were hits. A hit is counted before its
 * values are complete, so the next looks renew them again, the less often the older the hit is.
 */
static void exports_renew(struct trace *trace)
{
	size_t count, probe_count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t t = 0; t < trace->tracer_count; t++) {
		struct trace_tracer *tracer = &trace->tracers[t];
		uint64_t hits = 0;

		if (!is_renewed(tracer))
			continue;
		for (size_t i = 0; i < count; i++) {
			const struct probe_session_probe *probes;

			if (all[i]->tracer != t || !all[i]->session)
				continue;
			probes = probe_session_probes(all[i]->session, &probe_count);
			for (size_t k = 0; k < probe_count; k++)
				hits += probes[k].hits;
		}
		tracer->unchanged = hits == tracer->renewed_hits ? tracer->unchanged + 1 : 0;
		tracer->renewed_hits = hits;
		if (tracer->unchanged < 200 && !(tracer->unchanged & (tracer->unchanged - 1)))
			export_or_tell(trace, tracer, false, true);
	}
}

/* Exports what sessions have gathered. Sends the metrics and finished spans to the collector. */
static void exports_update(struct trace *trace, bool at_end)
{
	const char *trouble;

	for (size_t i = 0; i < trace->tracer_count; i++)
		if (tracer_is_exported(&trace->tracers[i]))
			export_or_tell(trace, &trace->tracers[i], at_end, false);
	if (trace->otlp) {
		if (trace->metrics)
			trace_fail(trace, probe_otlp_metrics(trace->otlp, trace->metrics));
		probe_otlp_flush(trace->otlp);
		/* Report once, early, that the collector takes no data, so that the user can act.
		 */
		trouble = probe_otlp_sent(trace->otlp).why;
		if (*trouble && !trace->otlp_told)
			report_warning("%s: %s; what it does not take now is sent again while "
				       "there is room",
				trace->settings.otlp, trouble);
		trace->otlp_told |= *trouble != '\0';
	}
	if (!trace->metrics)
		return;
	if (trace->server)
		probe_metrics_server_renew(trace->server);
	report_left_out("-t metrics", probe_metrics_left_out(trace->metrics),
		"there is room for as many rows as --rows says", at_end, &trace->left_out_told);
}

/* ---- Ended processes ------------------------------------------------------------ */

/*
 * Returns the table with the rows of an owner (struct trace_ended). Its rows are limited, because
 * keys such as pid are different in each process.
 */
static struct probe_error *ended_of(
	struct trace_tracer *tracer, pid_t owner, const char *program, struct trace_ended **ret)
{
	const struct probe_gather *gather = &tracer->options.gather;
	struct trace_ended ended = {.owner = owner};
	struct probe_error *error;

	for (size_t i = 0; i < tracer->ended_count; i++)
		if (tracer->ended[i].owner == owner) {
			*ret = &tracer->ended[i];
			return NULL;
		}
	error = probe_table_create(gather->key_count, &ended.rows);
	if (error)
		return error;
	ended.program = program ? strdup(program) : NULL;
	if ((program && !ended.program) || !ARRAY_ROOM(tracer->ended, tracer->ended_count)) {
		trace_ended_deinit(&ended);
		return probe_error_no_memory();
	}
	probe_table_limit(ended.rows, gather->keys_max ? gather->keys_max : PROBE_KEYS_DEFAULT);
	*ret = &tracer->ended[tracer->ended_count++];
	**ret = ended;
	return NULL;
}

struct probe_error *exports_keep(const struct trace *trace, const struct probe_traced *traced)
{
	struct trace_tracer *tracer = &trace->tracers[traced->tracer];
	pid_t owner = owner_of(trace, traced);
	struct probe_table *rows = NULL;
	struct trace_ended *ended;
	struct probe_error *error =
		ended_of(tracer, owner, comm_cache_known(trace->comms, owner, owner), &ended);

	error = error ?: probe_table_create(tracer->options.gather.key_count, &rows)
		?: probe_table_add(rows, traced->session, &tracer->options)
		?: probe_table_add_table(ended->rows, rows);
	if (!error)
		ended->is_exported = false;
	probe_table_free(rows);
	return error;
}

/* ---- The end -------------------------------------------------------------------- */

/* Drops the data that was not sent to the collector. Reports what was sent and dropped. */
static void otlp_end(struct trace *trace)
{
	struct probe_otlp_sent sent;

	if (!trace->otlp)
		return;
	probe_otlp_give_up(trace->otlp);
	sent = probe_otlp_sent(trace->otlp);
	if (!trace->settings.quiet)
		fprintf(stderr, "probectl: sent %llu spans and %llu points to %s\n",
			(unsigned long long)sent.spans, (unsigned long long)sent.points,
			trace->settings.otlp);
	if (sent.lost_spans || sent.lost_points)
		report_warning("%s: %llu spans and %llu points are lost: %s", trace->settings.otlp,
			(unsigned long long)sent.lost_spans, (unsigned long long)sent.lost_points,
			*sent.why ? sent.why : "there was no time to send them");
}

/* ==== Loop ==================================================================================== */

enum {
	FLUSH_NS = NSEC_PER_SEC, /* maximum time that output to a file stays in memory */
	/* Interval at which lost hits are reported and sites are checked. */
	LOSSES_NS = NSEC_PER_SEC
};

struct timers {
	struct timer end, table, export, renew, flush, losses;
	/* The progress line of a recording, and the figures that it last showed. */
	struct progress progress;
	uint64_t shown_ns, shown_hits;
};

/* How long we wait for an OpenTelemetry collector at the end of the trace. */
#define SEND_NS (5 * (uint64_t)NSEC_PER_SEC)

/* ---- Waiting ---------------------------------------------------------------- */

/* Sleeps until an event, or at most until this time (CLOCK_MONOTONIC). */
static void wait_until(struct trace *trace, uint64_t ns)
{
	int fd = trace->to_file || trace->gone ? -1 : trace->output_fd;
	struct loop *loop = &trace->loop;
	struct probe_error *error;
	bool left = false;

	/* Also without pending data, to notice that the reader has left, as in `| head`. */
	loop_watch(loop, fd, 0, &left);
	if (probe_sink_pending(trace->sink))
		loop_watch(loop, fd, POLLOUT, NULL);
	for (size_t i = 0; i < trace->tracer_count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];

		/* A loaded tracer sends an answer, or its pipe accepts more data. */
		if (!tracer->host || tracer->gone)
			continue;
		loop_watch(loop, probe_tracer_host_fd(tracer->host), POLLIN, NULL);
		if (probe_sink_pending(tracer->sink))
			loop_watch(loop, probe_tracer_host_input(tracer->host), POLLOUT, NULL);
	}
	exports_watch(trace);
	loop_until(loop, ns);
	error = loop_sleep(loop);
	exports_serve(trace);
	if (error || left)
		trace->gone = loop->over = true;
	trace_fail(trace, error);
}

/* Sleeps until an event, or at most `ns` nanoseconds. */
static void wait_for(struct trace *trace, uint64_t ns)
{
	wait_until(trace, clock_monotonic_ns() + ns);
}

/* ---- The loop --------------------------------------------------------------- */

static struct timers timers_start(const struct trace *trace)
{
	/* A program that we started may write to the same terminal. */
	bool shows = trace->record && trace->full == RECORD_FLUSH && !trace->settings.quiet &&
		     !trace->loop.child;
	struct timers timers = {
		.end = timer_every(trace->settings.duration_ns),
		.table = timer_every(trace->settings.interval_ns),
		.export = timer_every(exports_interval_ns(trace)),
		.renew = timer_every(exports_renew_ns(trace)),
		.flush = timer_every(FLUSH_NS),
		.losses = timer_every(LOSSES_NS),
		.progress = progress_every(shows ? NSEC_PER_SEC : 0),
		.shown_ns = clock_monotonic_ns(),
	};

	/* The first update of the metrics is due at once. */
	if (timers.export.every_ns)
		timers.export.next_ns -= timers.export.every_ns;
	return timers;
}

static void timers_run(struct trace *trace, struct timers *timers)
{
	uint64_t now = clock_monotonic_ns();
	bool ended = timer_due(&timers->end, now);
	double seconds;
	clock_t used;

	if (timer_due(&timers->losses, now)) {
		trace_report_losses(trace);
		probe_trace_look(trace->set, false);
	}
	if (progress_due(&timers->progress)) {
		seconds = (double)(now - timers->shown_ns) / NSEC_PER_SEC;
		progress_show(&timers->progress,
			"%" PRIu64 " hit%s, %.0f/s, %.1f MB, %" PRIu64 " lost",
			COUNTED(trace->hits),
			seconds > 0 ? (double)(trace->hits - timers->shown_hits) / seconds : 0,
			(double)probe_ctf_bytes(trace->record) / 1e6, trace_lost(trace));
		timers->shown_ns = now;
		timers->shown_hits = trace->hits;
	}
	/* At the end of the trace, the final table shows the totals instead. */
	if (timer_due(&timers->table, now) && !ended) {
		probe_trace_look(trace->set, false);
		trace_tables(trace, true);
	}
	if (timer_due(&timers->export, now))
		exports_update(trace, false);
	if (timer_due(&timers->renew, now)) {
		used = clock();
		exports_renew(trace);
		/* The more processor time this takes, the less often it is done. */
		timers->renew.next_ns +=
			RENEW_SHARE * (uint64_t)(clock() - used) * (NSEC_PER_SEC / CLOCKS_PER_SEC);
	}
	trace->loop.over |= ended;
	if (timer_due(&timers->flush, now) || !trace->to_file || probe_sink_full(trace->sink))
		output_flush(trace);
}

/* Writes the output left in memory. Waits for the reader, until a signal. */
static void output_finish(struct trace *trace)
{
	trace->loop.over = false;
	output_flush(trace);
	while (!trace->loop.over && probe_sink_pending(trace->sink)) {
		wait_for(trace, NSEC_PER_SEC);
		output_flush(trace);
	}
	if (probe_sink_pending(trace->sink))
		trace->gone = trace->cut_off = true;
	trace->loop.over = true;
}

/* Waits for those who take metrics and spans, until a signal. */
static void exports_finish(struct trace *trace)
{
	struct timer end = timer_every(2 * exports_interval_ns(trace));

	exports_update(trace, true);
	/* Keep the last metrics readable for two intervals, because readers poll. */
	trace->loop.over = trace->loop.interrupted || !exports_are_read(trace);
	while (!trace->loop.over && !timer_due(&end, clock_monotonic_ns())) {
		loop_until(&trace->loop, end.next_ns);
		wait_for(trace, NSEC_PER_SEC);
	}
	trace->loop.over = false;
	end = timer_every(SEND_NS);
	while (trace->otlp && probe_otlp_is_busy(trace->otlp) && !trace->loop.over &&
		!timer_due(&end, clock_monotonic_ns())) {
		exports_serve(trace);
		loop_until(&trace->loop, end.next_ns);
		wait_for(trace, NSEC_PER_SEC);
	}
	trace->loop.over = true;
	otlp_end(trace);
}

bool output_is_full(const struct probe_traced *traced, bool wait, void *data)
{
	struct trace *trace = data;
	const struct probe_sink *sink = trace->tracers[traced->tracer].sink;

	if (trace->record || !probe_sink_full(sink))
		return false;
	if (!wait) {
		output_flush(trace);
		return trace->gone || probe_sink_full(sink);
	}
	if (probe_sink_full(trace->sink))
		output_finish(trace);
	/* A tracer that reads nothing is given up by hosts_poll(). */
	for (size_t i = 0; i < trace->tracer_count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];

		while (tracer->host && !tracer->gone && probe_sink_full(tracer->sink)) {
			hosts_poll(trace);
			wait_for(trace, NSEC_PER_SEC / 10);
		}
	}
	return trace->gone || probe_sink_full(sink);
}

/* Returns the number of hits of all tracers that gather hits and do not print them. */
static uint64_t trace_total(const struct trace *trace)
{
	uint64_t total = 0;
	size_t count;
	AUTO_FREE struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		if (trace->tracers[all[i].tracer].options.kind != PROBE_SESSION_RECORD)
			total += all[i].probe->hits;
	return total;
}

static void after_poll(struct trace *trace)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	/* In each round, so that readers know where hits were lost. */
	if (trace->record || trace_has_output(trace, PROBE_TRACER_CALLS))
		trace_report_losses(trace);
	output_round(trace);
	if (trace->flight)
		flight_print(trace);
	trace->flight = false;
	for (size_t i = 0; i < count; i++) {
		const struct trace_target *its = all[i]->data;

		if (its->unwanted || trace->tracers[all[i]->tracer].gone)
			probe_trace_stop_session(trace->set, all[i]);
	}
	trace->loop.over |= probe_trace_is_over(trace->set);
	if (trace->settings.hits_max && trace_total(trace) >= trace->settings.hits_max)
		trace->loop.over = true;
}

static void trace_loop(struct trace *trace)
{
	struct timers timers = timers_start(trace);

	while (!trace->loop.over) {
		struct probe_error *error = probe_trace_poll(trace->set);

		after_poll(trace);
		hosts_poll(trace);
		timers_run(trace, &timers);
		trace->loop.over |= error != NULL;
		trace_fail(trace, error);
		if (trace->loop.over)
			break;
		/* Each round checks the other timers, which are not exact. */
		loop_until(&trace->loop, timers.end.next_ns);
		loop_until(&trace->loop, timers.table.next_ns);
		loop_until(&trace->loop, timers.export.next_ns);
		loop_until(&trace->loop, timers.renew.next_ns);
		loop_watch(&trace->loop, probe_trace_fd(trace->set), POLLIN, NULL);
		wait_until(trace, probe_trace_due_ns(trace->set));
	}
	progress_end(&timers.progress);
}

/* If hits have waited for ring space, prints how many hits have waited, and how long. */
static void report_waits(const struct trace *trace)
{
	struct trace_waits sum = trace->waits;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		trace_add_waits(&sum, all[i]->session);
	if (!sum.hits)
		return;
	if (trace->settings.json)
		probe_sink_waited(trace->sink, sum.hits, sum.ns);
	if (!trace->settings.quiet)
		fprintf(stderr, "probectl: %" PRIu64 " hit%s waited for room, %.3f s in all\n",
			COUNTED(sum.hits), (double)sum.ns / NSEC_PER_SEC);
}

void trace_run(struct trace *trace)
{
	struct probe_traced *const *all;
	size_t count;

	for (size_t i = 0; i < trace->tracer_count; i++)
		trace->tracers[i].started_ns = trace->tracers[i].last_ns = clock_monotonic_ns();
	trace_loop(trace);
	probe_trace_stop(trace->set, !trace->gone);
	if (trace->gone && (trace->record || trace->cut_off))
		trace_record_unwritten(trace);
	flight_print(trace);
	trace_report_losses(trace);
	output_round(trace);
	all = probe_trace_sessions(trace->set, &count);
	for (size_t i = 0; i < count; i++)
		trace_report_damage(all[i]);
	trace_tables(trace, false);
	report_waits(trace);
	probe_sink_end(trace->sink);
	if (!trace->gone)
		output_finish(trace);
	hosts_finish(trace);
	if (exports_interval_ns(trace))
		exports_finish(trace);
}
