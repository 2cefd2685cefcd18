/* SPDX-License-Identifier: MIT */
/* probectl trace: the command line. */
#include "cli/cli.h"
#include "cli/trace/options.h"

static struct probe_error *trace_checked(void *data, int *status_ret)
{
	struct trace_options *options = data;

	return tracers_help(&options->tracer) ? NULL : trace_options_run(options, status_ret);
}

static const char help_text[] =
	"Prints a line for each hit, or the result of a tracer (-t), until Ctrl-C, the\n"
	"end of the processes, or the limit set by -n or -d. The code of the processes\n"
	"is then as it was before. With a PROGRAM, PROBEs come before the --, and the\n"
	"exit status is that of the program.\n";

struct probe_error *cmd_trace(int argc, char **argv, int *status_ret)
{
	struct trace_options options = {
		.common = {.patterns = {.named = true}}, .settings = {.top = TRACER_TOP}};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_PROCESSES(&options.common),
		OPTIONS_PROBE(&options.common),
		OPTIONS_TRACER(&options.tracer),
		OPTION(0, "min", DURATION, "TIME", &options.tracer.min_ns,
			"of tracer span: only what takes at least 5ms, 10us, 0.5s ..."),
		OPTIONS_STACK(&options.tracer),
		OPTIONS_TOP(&options.settings.top),
		OPTIONS_MANGLED(&options.mangled),
		OPTION('i', "interval", DURATION, "SECONDS", &options.settings.interval_ns,
			"print what is new every SECONDS, and the totals at the end"),
		OPTION(0, "listen", STRING, "ADDR:PORT", &options.settings.listen,
			"serve the metrics of tracer metrics to Prometheus at "
			"http://ADDR:PORT/metrics; :PORT is of localhost"),
		OPTION(0, "otlp", STRING, "URL", &options.settings.otlp,
			"send the metrics of tracer metrics and the spans of tracer span to a "
			"collector of OpenTelemetry, http://HOST:4318"),
		OPTION(0, "rows", NUMBER, "N", &options.settings.rows,
			"of tracer metrics: at most N rows and processes (default: 2000)"),
		OPTIONS_JSON(&options.settings.json),
		OPTIONS_OUTPUT(&options.output),
		OPTIONS_ALL(&options.settings.all),
		OPTIONS_TRACE(&options),
	};
	const struct command_line line = {
		.synopsis = "trace [OPTIONS] PROBE... " SYNOPSIS_PROCESSES,
		.help = help_text,
		OPTION_ROWS(rows),
		.starts_program = true,
		.common = &options.common,
		.run = trace_checked,
		.data = &options,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	tracer_options_deinit(&options.tracer);
	return error;
}
