/* SPDX-License-Identifier: MIT */
/* What goes to a collector of OpenTelemetry (--otlp): metrics of -t metrics, spans of -t span. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/trace/trace.h"

/* Whether a tracer's hits are spans for a collector. */
static bool sends_spans(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++)
		if (probe_tracer_spans(trace->tracers[i].spec))
			return true;
	return false;
}

/* The argument that --match names, if it is one: its value tells traces apart. Or -1. */
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

struct probe_error *otlp_open(struct trace *trace)
{
	const char *url = trace->settings.otlp;

	if (!url)
		return NULL;
	if (!trace->metrics && !sends_spans(trace))
		return probe_error_new(PROBE_ERROR_USAGE,
			"--otlp sends the metrics of -t metrics and the spans of -t span");
	/* An option would show secrets to everybody who lists processes. */
	return probe_otlp_open(
		url, getenv("OTEL_EXPORTER_OTLP_HEADERS"), trace_arg(trace), &trace->otlp);
}

void otlp_watch(struct trace *trace)
{
	if (!trace->otlp)
		return;
	loop_watch(&trace->loop, probe_otlp_fd(trace->otlp), POLLIN, NULL);
	loop_until(&trace->loop, probe_otlp_due_ns(trace->otlp));
}

void otlp_span(const struct trace *trace, const struct probe_hit *hit,
	const struct probe_session_probe *probes)
{
	probe_otlp_span(trace->otlp, hit, &probes[hit->begin->probe], &probes[hit->probe],
		comm_cache_get(trace->comms, hit->pid, hit->pid, hit->time_ns));
}

/* Once, while there is still time to do something about it. */
static void report_trouble(struct trace *trace)
{
	const char *why = probe_otlp_sent(trace->otlp).why;

	if (!*why || trace->otlp_told)
		return;
	report_warning("%s: %s; what it does not take now is sent again while there is room",
		trace->settings.otlp, why);
	trace->otlp_told = true;
}

void otlp_update(struct trace *trace)
{
	if (!trace->otlp)
		return;
	if (trace->metrics)
		trace_fail(trace, probe_otlp_metrics(trace->otlp, trace->metrics));
	probe_otlp_flush(trace->otlp);
	report_trouble(trace);
}

bool otlp_is_busy(const struct trace *trace)
{
	return trace->otlp && probe_otlp_is_busy(trace->otlp);
}

void otlp_end(struct trace *trace)
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
