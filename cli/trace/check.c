/* SPDX-License-Identifier: MIT */
/* Which options go with which tracers. */
#include "cli/trace/options.h"

static bool has_records(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		if (trace->tracers[i].options.kind == PROBE_SESSION_RECORD)
			return true;
	}
	return false;
}

static struct probe_error *check_metrics(const struct trace *trace)
{
	const struct trace_settings *settings = &trace->settings;
	bool asked = trace_has_output(trace, PROBE_TRACER_METRICS);

	if (asked && !settings->listen && !settings->otlp)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-t metrics needs an address where Prometheus asks for them (--listen "
			":9100 is that port of localhost), or a collector (--otlp URL)");
	if (!asked && (settings->listen || settings->rows))
		return probe_error_new(PROBE_ERROR_USAGE, "%s is for -t metrics",
			settings->listen ? "--listen" : "--rows");
	return NULL;
}

/* What a tracer writes as a whole file. */
static struct probe_error *check_files(
	const struct trace *trace, const struct trace_options *options)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];
		const char *name = probe_tracer_name(tracer->spec);

		if (!tracer->flamegraph && !tracer->pprof)
			continue;
		if (trace->tracer_count > 1 || options->settings.interval_ns)
			return probe_error_new(PROBE_ERROR_USAGE,
				"-t %s,%s is a file of its own: without -i, and without another "
				"tracer",
				name, tracer->pprof ? "pprof" : "flamegraph");
		if (tracer->pprof && !options->output)
			return probe_error_new(PROBE_ERROR_USAGE,
				"-t %s,pprof is not text: name a file, -o %s.pb", name, name);
		if (tracer->pprof && trace->settings.json)
			return probe_error_new(
				PROBE_ERROR_USAGE, "-t %s,pprof and --json are two formats", name);
	}
	return NULL;
}

/* Each copy of a stack would be taken for nothing. */
static struct probe_error *check_sent(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count && trace->settings.otlp; i++)
		if (trace->tracers[i].options.stack != PROBE_STACK_NONE &&
			probe_tracer_spans(trace->tracers[i].spec))
			return probe_error_new(PROBE_ERROR_USAGE,
				"--stack: spans that are sent (--otlp) have no stacks; without "
				"--otlp, -t span prints them");
	return NULL;
}

struct probe_error *trace_check_tracers(
	const struct trace *trace, const struct trace_options *options)
{
	bool rows = trace_has_output(trace, PROBE_TRACER_ROWS) ||
		    trace_has_output(trace, PROBE_TRACER_STACKS) ||
		    trace_has_output(trace, PROBE_TRACER_HEAP) ||
		    trace_has_output(trace, PROBE_TRACER_PCP) ||
		    trace_has_output(trace, PROBE_TRACER_METRICS);
	struct probe_error *error;

	error = check_files(trace, options);
	if (error)
		return error;
	if (options->settings.interval_ns && !rows && !trace_has_output(trace, PROBE_TRACER_LOADED))
		return probe_error_new(PROBE_ERROR_USAGE,
			"-i is the time between tables; it needs a tracer that makes them, such as "
			"-c or -t latency");
	error = check_metrics(trace);
	if (!error)
		error = check_sent(trace);
	if (!error)
		error = trace_check_wait(trace, options);
	if (error)
		return error;
	if (options->ring_bytes && !has_records(trace))
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' records nothing, so -b does not apply",
			probe_tracer_name(trace->tracers->spec));
	if (options->string_bytes && !has_records(trace) && !options->tracer.keys.count &&
		!options->tracer.match)
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' records nothing, so -s does not apply without -k",
			probe_tracer_name(trace->tracers->spec));
	return NULL;
}
