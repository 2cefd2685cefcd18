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

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/trace/trace.h"

/* ==== Loop ==================================================================================== */

enum {
	FLUSH_NS = NSEC_PER_SEC, /* maximum time that output to a file stays in memory */
	/* Interval at which lost hits are reported and sites are checked. */
	LOSSES_NS = NSEC_PER_SEC
};

struct timers {
	struct timer end, table, export, flush, losses;
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

/* Runs the timers that are due. */
static void timers_run(struct trace *trace, struct timers *timers)
{
	uint64_t now = clock_monotonic_ns();
	bool ended = timer_due(&timers->end, now);
	double seconds;

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
	struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		if (trace->tracers[all[i].tracer].options.kind != PROBE_SESSION_RECORD)
			total += all[i].probe->hits;
	free(all);
	return total;
}

/* Handles the results of a poll. */
static void after_poll(struct trace *trace)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	/* In each round, so that readers know where hits were lost. */
	if (trace->record)
		trace_report_losses(trace);
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
		loop_watch(&trace->loop, probe_trace_fd(trace->set), POLLIN, NULL);
		wait_until(trace, probe_trace_due_ns(trace->set));
	}
	progress_end(&timers.progress);
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
	all = probe_trace_sessions(trace->set, &count);
	for (size_t i = 0; i < count; i++)
		trace_report_damage(all[i]);
	trace_tables(trace, false);
	trace_report_waits(trace);
	probe_sink_end(trace->sink);
	if (!trace->gone)
		output_finish(trace);
	hosts_finish(trace);
	if (exports_interval_ns(trace))
		exports_finish(trace);
}
