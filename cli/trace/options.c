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

/* Returns PROBE_ERROR_USAGE if --full=wait is given and a tracer does not support it. */
static struct probe_error *trace_check_wait(
	const struct trace *trace, const struct trace_options *options)
{
	for (size_t i = 0; i < trace->tracer_count && options->wait_ns; i++) {
		const struct probe_session_options *its = &trace->tracers[i].options;

		if (its->kind != PROBE_SESSION_RECORD || its->overwrite || its->spans)
			return probe_error_new(PROBE_ERROR_USAGE,
				"--full=wait is for tracers that take each hit by itself: not for "
				"'%s'",
				probe_tracer_name(trace->tracers[i].spec));
	}
	return NULL;
}

/* ==== Checking options ======================================================================== */

/* Returns an error for options that the tracers do not accept. */

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

/* Checks the options of tracers whose output is a whole file. */
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

/* Returns an error for --stack with spans that are sent to a collector, which takes no stacks. */
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

/* ==== Options ================================================================================= */

/* Makes a trace from a parsed command line. */

/* In `trace -c -k PROBE`, the user forgot the key, so the PROBE was taken as the key. */
static struct probe_error *check_keys(const struct trace_options *options)
{
	const struct common_options *common = &options->common;
	const struct string_list *keys = &options->tracer.keys;

	if (common->patterns.count || common->operand_count || !keys->count)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"no PROBE given: -k took '%s' as a key, as in -k EXPR PROBE",
		keys->items[keys->count - 1]);
}

/* Returns PROBE_ERROR_USAGE for options that --full=loop and --full=stop do not support. */
static struct probe_error *trace_rings_check(const struct trace_options *options)
{
	const struct tracer_options *tracer = &options->tracer;

	if (options->parts.rotate_bytes || options->parts.rotate_ns)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--full=loop and stop write once, and not in parts: leave --rotate out");
	if (tracer->every || tracer->rate || options->settings.hits_max)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--full=loop and stop do not go with --every, --rate and -n");
	return NULL;
}

struct probe_error *trace_options_run(struct trace_options *options, int *status_ret)
{
	struct probe_error *error = NULL;

	if (options->string_bytes > PROBE_STRING_BYTES_MAX)
		error = probe_error_new(PROBE_ERROR_USAGE, "-s: at most %d bytes of a string",
			PROBE_STRING_BYTES_MAX);
	if (!error)
		error = processes_check(&options->common);
	if (!error)
		error = check_keys(options);
	if (!error)
		error = request_init(&options->request, &options->common);
	if (!error)
		error = processes_find(&options->common);
	if (error)
		return error;
	if (options->tracer.stack && options->full != RECORD_FLUSH)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack: only a record that is written continuously has stacks, without "
			"--full");
	options->parts.stacks = options->tracer.stack != NULL;
	if (options->full != RECORD_FLUSH)
		error = trace_rings_check(options);
	return error ? error : trace_command(options, status_ret);
}
