/* SPDX-License-Identifier: MIT */
/* probectl record: the command line. A record is a trace whose hits go to disk. */
#include <string.h>

#include "cli/cli.h"
#include "cli/trace/options.h"

/* A number is bytes, as with k, M and G; s, ms, m and h make it a time. */
static struct probe_error *parse_rotate(const char *text, struct probe_ctf_options *ret)
{
	size_t length = strlen(text);
	struct probe_error *error;
	uint64_t value = 0;
	bool is_time = length && strchr("smh", text[length - 1]);

	error = is_time ? parse_duration(text, &value) : parse_size(text, &value);
	if (error || !value) {
		probe_error_free(error);
		return probe_error_new(PROBE_ERROR_USAGE,
			"--rotate: '%s' is neither a size (64k, 1M, 2G) nor a time (10s, 5m)",
			text);
	}
	*(is_time ? &ret->rotate_ns : &ret->rotate_bytes) = value;
	return NULL;
}

static struct probe_error *parse_full(const char *text, enum record_full *ret)
{
	static const char *const names[] = {
		[RECORD_FLUSH] = "flush", [RECORD_LOOP] = "loop", [RECORD_STOP] = "stop"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		*ret = (enum record_full)i;
		if (strcmp(text, names[i]) == 0)
			return NULL;
	}
	return probe_error_new(
		PROBE_ERROR_USAGE, "--full: '%s' is none of flush, loop and stop", text);
}

static struct probe_error *check(
	struct trace_options *options, const char *rotate, const char *full)
{
	struct probe_error *error = NULL;

	if (!options->directory || !options->directory[0])
		return probe_error_new(PROBE_ERROR_USAGE, "record: where to? Give -o DIR");
	if (rotate)
		error = parse_rotate(rotate, &options->parts);
	return error || !full ? error : parse_full(full, &options->full);
}

struct probe_error *cmd_record(int argc, char **argv, int *status_ret)
{
	struct trace_options options = {.settings = {.top = TRACER_TOP}};
	const char *rotate = NULL, *full = NULL;
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_PROCESSES(&options.common),
		OPTIONS_PROBE(&options.common),
		{.letter = 'o',
			.name = "output",
			.kind = OPTION_STRING,
			.value = "DIR",
			.target = &options.directory,
			.help = "write the record to DIR, which is created or must be empty"},
		{.name = "rotate",
			.kind = OPTION_STRING,
			.value = "SIZE|TIME",
			.target = &rotate,
			.help = "begin a new part, a record of its own in DIR, after 64M, 10s ..."},
		{.name = "full",
			.kind = OPTION_STRING,
			.value = "flush|loop|stop",
			.target = &full,
			.help = "write continuously (default), keep the newest hits, or stop when "
				"a buffer is full"},
		OPTIONS_FILTER(&options.tracer),
		OPTIONS_TRACE(&options),
	};
	const struct command_line line = {
		.synopsis = "record [OPTIONS] -o DIR PROBE... " SYNOPSIS_PROCESSES,
		.help = "Records each hit in the Common Trace Format, for babeltrace2 and Trace "
			"Compass,\n"
			"until Ctrl-C, the end of the processes, or the limit set by -n or -d. The "
			"code\n"
			"of the processes is then as it was before. With a PROGRAM, PROBEs come "
			"before\n"
			"the --, and the exit status is that of the program.\n",
		.rows = rows,
		.row_count = sizeof(rows) / sizeof(rows[0]),
	};
	struct probe_error *error = options_parse(&line, argc, argv, &options.common);

	if (!error && !options.common.helped)
		error = check(&options, rotate, full);
	if (!error && !options.common.helped)
		error = trace_options_run(argv[0], &options, status_ret);
	trace_options_deinit(&options);
	return error;
}
