/* SPDX-License-Identifier: MIT */
/* probectl trace: the command line. */
#include "cli/trace/trace.h"

struct trace_command_line {
	struct trace_options trace;
	const char *full; /* value of --full as the user typed it, or NULL */
};

static struct probe_error *trace_checked(void *data, int *status_ret)
{
	struct trace_command_line *line = data;
	struct trace_options *options = &line->trace;
	struct probe_error *error = NULL;

	if (tracers_help(&options->tracer))
		return NULL;
	if (line->full)
		error = trace_parse_wait(line->full, &options->wait_ns);
	if (!error && line->full && !options->wait_ns)
		error = usage_error("--full '%s': use wait, or wait:TIME", line->full);
	return error ?: trace_command(options, status_ret);
}

static const char help_text[] =
	"Prints a line for each hit, or the result of a tracer (-t), until Ctrl-C, the\n"
	"end of the processes, or the limit set by -n or -d. The code of the processes\n"
	"is then as it was before. With a PROGRAM, PROBEs come before the --, and the\n"
	"exit status is that of the program. A PROBE may be a function: fn:FILE:NAME.\n";

struct probe_error *cmd_trace(int argc, char **argv, int *status_ret)
{
	struct trace_command_line typed = {.trace = {.common = {.patterns = {.named = true}},
						   .settings = {.top = TRACER_TOP}}};
	struct trace_options *options = &typed.trace;
	const struct option_row rows[] = {
		OPTIONS_PID(&options->common),
		OPTIONS_PROCESSES(&options->common),
		OPTIONS_PROBE(&options->common),
		OPTIONS_TRACER(&options->tracer),
		OPTION(0, "min", DURATION, "TIME", &options->tracer.min_ns,
			"of tracer span: only what takes at least 5ms, 10us, 0.5s ..."),
		OPTIONS_STACK(&options->tracer),
		OPTIONS_TOP(&options->settings.top),
		OPTION('i', "interval", DURATION, "SECONDS", &options->settings.interval_ns,
			"print what is new every SECONDS, and the totals at the end"),
		OPTION(0, "listen", STRING, "ADDR:PORT", &options->settings.listen,
			"serve the metrics of tracer metrics to Prometheus at "
			"http://ADDR:PORT/metrics; :PORT is of localhost"),
		OPTION(0, "otlp", STRING, "URL", &options->settings.otlp,
			"send the metrics of tracer metrics and the spans of tracer span to a "
			"collector of OpenTelemetry, http://HOST:4318"),
		OPTION(0, "rows", NUMBER, "N", &options->settings.rows,
			"of tracer metrics: at most N rows and processes (default: 2000)"),
		OPTIONS_JSON(&options->settings.json),
		OPTIONS_OUTPUT(&options->output),
		OPTIONS_ALL(&options->settings.all),
		OPTION(0, "full", STRING, "wait[:TIME]", &typed.full,
			"when a buffer is full, let hits wait for room (default TIME: 100ms)"),
		OPTIONS_TRACE(options),
	};
	const struct command_line line = {
		.synopsis = "trace [OPTIONS] PROBE... " SYNOPSIS_PROCESSES,
		.help = help_text,
		OPTION_ROWS(rows),
		.starts_program = true,
		.common = &options->common,
		.run = trace_checked,
		.data = &typed,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	tracer_options_deinit(&options->tracer);
	return error;
}
