/* SPDX-License-Identifier: MIT */
/* probectl record: the command line. `record` is `trace` with the hits written to disk. */
#include <string.h>

#include "cli/trace/trace.h"

/* Parses --rotate: a size in bytes (suffix k, M or G), or a duration (suffix s, ms, m or h). */
static struct probe_error *parse_rotate(const char *text, struct probe_ctf_options *ret)
{
	size_t length = strlen(text);
	struct probe_error *error;
	uint64_t value = 0;
	bool is_time = length && strchr("smh", text[length - 1]);

	error = is_time ? parse_duration(text, &value) : parse_size(text, &value);
	if (error || !value) {
		probe_error_free(error);
		return usage_error(
			"--rotate: '%s' is neither a size (64k, 1M, 2G) nor a time (10s, 5m)",
			text);
	}
	*(is_time ? &ret->rotate_ns : &ret->rotate_bytes) = value;
	return NULL;
}

static struct probe_error *parse_full(const char *text, enum record_full *ret, uint64_t *wait_ret)
{
	static const char *const names[] = {
		[RECORD_FLUSH] = "flush", [RECORD_LOOP] = "loop", [RECORD_STOP] = "stop"};
	struct probe_error *error;

	error = trace_parse_wait(text, wait_ret);
	if (error || *wait_ret)
		return error;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		*ret = (enum record_full)i;
		if (strcmp(text, names[i]) == 0)
			return NULL;
	}
	return usage_error("--full '%s': use flush, loop, stop or wait", text);
}

struct record_options {
	struct trace_options trace;
	/* Values of --rotate and --full as the user typed them, or NULL. */
	const char *rotate, *full;
};

static struct probe_error *record_checked(void *data, int *status_ret)
{
	struct record_options *record = data;
	struct trace_options *options = &record->trace;
	struct probe_error *error = NULL;

	if (record->rotate)
		error = parse_rotate(record->rotate, &options->parts);
	if (!error && record->full)
		error = parse_full(record->full, &options->full, &options->wait_ns);
	if (!error && (!options->directory || !options->directory[0]))
		error = usage_error("record: no folder given; use -o DIR");
	return error ?: trace_command(options, status_ret);
}

static const char help_text[] =
	"Records each hit in the Common Trace Format, for babeltrace2 and Trace Compass,\n"
	"until Ctrl-C, the end of the processes, or the limit set by -n or -d. The code\n"
	"of the processes is then as it was before. With a PROGRAM, PROBEs come before\n"
	"the --, and the exit status is that of the program.\n";

struct probe_error *cmd_record(int argc, char **argv, int *status_ret)
{
	struct record_options record = {.trace = {.common = {.patterns = {.named = true}},
						.settings = {.top = TRACER_TOP}}};
	const struct option_row rows[] = {
		OPTIONS_PID(&record.trace.common),
		OPTIONS_PROCESSES(&record.trace.common),
		OPTIONS_PROBE(&record.trace.common),
		OPTION('o', "output", STRING, "DIR", &record.trace.directory,
			"write the record to DIR, which is created or must be empty"),
		OPTION(0, "rotate", STRING, "SIZE|TIME", &record.rotate,
			"begin a new part, a record of its own in DIR, after 64M, 10s ..."),
		OPTION(0, "full", STRING, "flush|loop|stop|wait", &record.full,
			"write continuously (default), keep the newest hits, stop when a buffer is "
			"full, or write and let hits wait for room (wait:TIME; default: 100ms)"),
		OPTIONS_FILTER(&record.trace.tracer),
		OPTIONS_STACK(&record.trace.tracer),
		OPTIONS_TRACE(&record.trace),
	};
	const struct command_line line = {
		.synopsis = "record [OPTIONS] -o DIR PROBE... " SYNOPSIS_PROCESSES,
		.help = help_text,
		OPTION_ROWS(rows),
		.starts_program = true,
		.common = &record.trace.common,
		.run = record_checked,
		.data = &record,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	tracer_options_deinit(&record.trace.tracer);
	return error;
}
