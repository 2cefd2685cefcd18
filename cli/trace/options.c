/* SPDX-License-Identifier: MIT */
/* The options of `probectl trace` and `probectl record`. */
#include <string.h>

#include "cli/cli.h"
#include "cli/trace/options.h"

/* ==== Waiting for ring space ================================================================== */

/* The option --full=wait: a thread that finds its ring full waits before it writes a hit. */

enum { WAIT_DEFAULT_NS = 100 * 1000 * 1000 };

static const char wait_name[] = "wait", wait_prefix[] = "wait:";

struct probe_error *trace_parse_wait(const char *text, uint64_t *ns_ret)
{
	bool has_time = strncmp(text, wait_prefix, strlen(wait_prefix)) == 0;
	struct probe_error *error = NULL;

	*ns_ret = 0;
	if (!has_time && strcmp(text, wait_name) != 0)
		return NULL;
	*ns_ret = WAIT_DEFAULT_NS;
	if (has_time)
		error = parse_duration(text + strlen(wait_prefix), ns_ret);
	if (!error && *ns_ret && *ns_ret <= PROBE_WAIT_MAX_NS)
		return NULL;
	probe_error_free(error);
	return probe_error_new(PROBE_ERROR_USAGE,
		"--full '%s': '%s' is no time between 1ns and 1s, as in wait:20ms", text,
		text + strlen(wait_prefix));
}

/* ==== Checking options ======================================================================== */

/* Returns an error for options that the tracers do not accept. */

struct probe_error *trace_check_tracers(
	const struct trace *trace, const struct trace_options *options)
{
	const struct trace_settings *settings = &trace->settings;
	bool asks_metrics = trace_has_output(trace, PROBE_TRACER_METRICS), has_records = false;
	bool has_tables = asks_metrics || trace_has_output(trace, PROBE_TRACER_ROWS) ||
			  trace_has_output(trace, PROBE_TRACER_STACKS) ||
			  trace_has_output(trace, PROBE_TRACER_HEAP) ||
			  trace_has_output(trace, PROBE_TRACER_PCP) ||
			  trace_has_output(trace, PROBE_TRACER_LOADED);
	const char *first = probe_tracer_name(trace->tracers->spec);

	for (size_t i = 0; i < trace->tracer_count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];
		const char *name = probe_tracer_name(tracer->spec);

		has_records |= tracer->options.kind == PROBE_SESSION_RECORD;
		if (!tracer->flamegraph && !tracer->pprof)
			continue;
		if (trace->tracer_count > 1 || settings->interval_ns)
			return probe_error_new(PROBE_ERROR_USAGE,
				"-t %s,%s is a file of its own: without -i, and without another "
				"tracer",
				name, tracer->pprof ? "pprof" : "flamegraph");
		if (tracer->pprof && !options->output)
			return probe_error_new(PROBE_ERROR_USAGE,
				"-t %s,pprof is not text: name a file, -o %s.pb", name, name);
		if (tracer->pprof && settings->json)
			return probe_error_new(
				PROBE_ERROR_USAGE, "-t %s,pprof and --json are two formats", name);
	}
	if (settings->interval_ns && !has_tables)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-i is the time between tables; it needs a tracer that makes them, such as "
			"-c or -t latency");
	if (asks_metrics && !settings->listen && !settings->otlp)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-t metrics needs an address where Prometheus asks for them (--listen "
			":9100 is that port of localhost), or a collector (--otlp URL)");
	if (!asks_metrics && (settings->listen || settings->rows))
		return probe_error_new(PROBE_ERROR_USAGE, "%s is for -t metrics",
			settings->listen ? "--listen" : "--rows");
	for (size_t i = 0; i < trace->tracer_count && settings->otlp; i++)
		if (trace->tracers[i].options.stack != PROBE_STACK_NONE &&
			probe_tracer_spans(trace->tracers[i].spec))
			return probe_error_new(PROBE_ERROR_USAGE,
				"--stack: spans that are sent (--otlp) have no stacks; without "
				"--otlp, -t span prints them");
	for (size_t i = 0; i < trace->tracer_count && options->wait_ns; i++) {
		const struct probe_session_options *its = &trace->tracers[i].options;

		if (its->kind != PROBE_SESSION_RECORD || its->overwrite || its->spans)
			return probe_error_new(PROBE_ERROR_USAGE,
				"--full=wait is for tracers that take each hit by itself: not for "
				"'%s'",
				probe_tracer_name(trace->tracers[i].spec));
	}
	if (options->ring_bytes && !has_records)
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' records nothing, so -b does not apply", first);
	if (options->string_bytes && !has_records && !options->tracer.keys.count &&
		!options->tracer.match)
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' records nothing, so -s does not apply without -k", first);
	return NULL;
}

struct probe_error *trace_options_check(struct trace_options *options)
{
	struct common_options *common = &options->common;
	const struct tracer_options *tracer = &options->tracer;
	struct probe_error *error;

	if (options->string_bytes > PROBE_STRING_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_USAGE, "-s: at most %d bytes of a string",
			PROBE_STRING_BYTES_MAX);
	error = processes_check(common);
	if (error)
		return error;
	/* In `trace -c -k PROBE`, the user forgot the key, so the PROBE was taken as the key. */
	if (!common->patterns.count && !common->operand_count && tracer->keys.count)
		return probe_error_new(PROBE_ERROR_USAGE,
			"no PROBE given: -k took '%s' as a key, as in -k EXPR PROBE",
			tracer->keys.items[tracer->keys.count - 1]);
	error = request_init(&options->request, common);
	if (!error)
		error = processes_find(common);
	if (error)
		return error;
	options->parts.stacks = tracer->stack != NULL;
	if (options->full == RECORD_FLUSH)
		return NULL;
	if (tracer->stack)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack: only a record that is written continuously has stacks, without "
			"--full");
	if (options->parts.rotate_bytes || options->parts.rotate_ns)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--full=loop and stop write once, and not in parts: leave --rotate out");
	if (tracer->every || tracer->rate || options->settings.hits_max)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--full=loop and stop do not go with --every, --rate and -n");
	return NULL;
}
