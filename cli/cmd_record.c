/* SPDX-License-Identifier: MIT */
/* probectl record: the command line. */
#include <string.h>

#include "cli/cli.h"
#include "cli/record.h"

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

static struct probe_error *check_options(struct record_options *options)
{
	const struct common_options *common = &options->common;

	if (!options->directory || !options->directory[0])
		return probe_error_new(PROBE_ERROR_USAGE, "record: where to? Give -o DIR");
	if (options->string_bytes > PROBE_STRING_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_USAGE, "-s: at most %d bytes of a string",
			PROBE_STRING_BYTES_MAX);
	if (options->follow && options->no_follow)
		return probe_error_new(
			PROBE_ERROR_USAGE, "--follow and --no-follow are each other's opposite");
	if (common->program && common->pids.count)
		return probe_error_new(PROBE_ERROR_USAGE,
			"record: give either a process (-p) or -- PROGRAM, not both");
	if (!common->pids.count && (!common->program || !common->program[0]))
		return probe_error_new(PROBE_ERROR_USAGE,
			"record: which process? Give -p PID, or -- PROGRAM to start one");
	if (common->pids.count > 1)
		return probe_error_new(
			PROBE_ERROR_USAGE, "record: one process (and its children) at a time");
	return options->rotate_text ? parse_rotate(options->rotate_text, &options->rotate) : NULL;
}

static struct probe_error *record_checked(struct record_options *options, int *status_ret)
{
	struct probe_error *error = check_options(options);

	if (!error)
		error = request_init(&options->request, &options->common);
	if (error)
		return error;
	error = record_command(options, status_ret);
	if (!error || *status_ret == STATUS_DONE)
		return error;
	/* The program could not be started: its status is not that of a failed tool. */
	report_error(error);
	return NULL;
}

struct probe_error *cmd_record(int argc, char **argv, int *status_ret)
{
	struct record_options options = {0};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_PROBE(&options.common),
		{.letter = 'o',
			.name = "output",
			.kind = OPTION_STRING,
			.value = "DIR",
			.target = &options.directory,
			.help = "the folder of the record; new, or empty"},
		{.name = "rotate",
			.kind = OPTION_STRING,
			.value = "SIZE|TIME",
			.target = &options.rotate_text,
			.help = "begin a new part after 64M, 10s ..., in a folder of its own in "
				"DIR"},
		{.letter = 'd',
			.name = "duration",
			.kind = OPTION_DURATION,
			.value = "SECONDS",
			.target = &options.duration_ns,
			.help = "end after so long"},
		{.letter = 's',
			.name = "strings",
			.kind = OPTION_NUMBER,
			.value = "N",
			.target = &options.string_bytes,
			.help = "also up to N bytes of text behind every pointer"},
		{.letter = 'b',
			.name = "buffer",
			.kind = OPTION_SIZE,
			.target = &options.ring_bytes,
			.help = "size of the ring of each CPU, where hits wait for us"},
		{.name = "follow",
			.kind = OPTION_FLAG,
			.target = &options.follow,
			.help = "also libraries that are opened later, and forked children"},
		{.name = "no-follow",
			.kind = OPTION_FLAG,
			.target = &options.no_follow,
			.help = "with a PROGRAM: only what it has when it starts"},
		OPTIONS_KEEP_GOING(&options.request),
		OPTIONS_PLAN(&options.request),
		{.letter = 'q',
			.name = "quiet",
			.kind = OPTION_FLAG,
			.target = &options.quiet,
			.help = "no summary on standard error"},
	};
	const struct command_line line = {
		.synopsis = "record [OPTIONS] -o DIR PROBE... (-p PID | -- PROGRAM [ARGS...])",
		.help = "Records each hit in the Common Trace Format, for babeltrace2 and Trace "
			"Compass,\n"
			"until Ctrl-C, the end of the process, or -d. The process is then as it "
			"was.\n"
			"With a PROGRAM, PROBEs come before the --, and the exit status is the "
			"program's.\n",
		.rows = rows,
		.row_count = sizeof(rows) / sizeof(rows[0]),
	};
	bool helped = false;
	struct probe_error *error = options_parse(&line, argc, argv, &options.common, &helped);

	if (!error && !helped)
		error = record_checked(&options, status_ret);
	options_deinit(&options.common);
	return error;
}
