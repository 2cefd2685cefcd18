/* SPDX-License-Identifier: MIT */
/* probectl export: converts hits from recordings or standard input to formats of other tools. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/print/print.h"
#include "cli/records.h"
#include "probe/export.h"
#include "probe/sink.h"

struct export_options {
	struct common_options common;
	const char *format_name, *output;
	struct string_list keys; /* the keys of -k, as the user typed them */
	enum probe_export_format format;
	struct probe_export_options options;
	struct probe_catalogue *catalogue;
	bool *matched; /* for each pattern in common.patterns: true if a hit has matched it */
};

/* ---- Exporting ------------------------------------------------------------------------ */

/* Returns true if an event is to be exported: it reports lost hits, or it matches the PROBEs. */
static bool is_wanted(struct export_options *options, const struct probe_event *event)
{
	const struct pattern_list *patterns = &options->common.patterns;
	bool wanted = patterns->count == 0 || event->kind == PROBE_EVENT_LOST;

	for (size_t i = 0; i < patterns->count && event->kind == PROBE_EVENT_HIT; i++) {
		const struct probe_pattern *pattern = patterns->items[i];
		const struct probe_event *begin = event->begin;

		/* A span matches if its start or its end event does. */
		if (!probe_pattern_matches(pattern, "", event->provider, event->name) &&
			!(begin &&
				probe_pattern_matches(pattern, "", begin->provider, begin->name)))
			continue;
		options->matched[i] = true;
		wanted = true;
	}
	return wanted;
}

/* Returns true if progress can be shown on the terminal, because the export does not go there. */
static bool may_show(const struct export_options *options)
{
	return options->output || !isatty(STDOUT_FILENO);
}

/*
 * Sets *ret to the highest number of arguments of a hit. RFC 4180 requires the same number of
 * columns in each line. A recording may state the number at its start.
 */
static struct probe_error *find_columns(
	struct export_options *options, const char *folder, size_t *ret)
{
	struct probe_reader *reader;
	struct probe_event event;
	struct probe_error *error = probe_reader_open(folder, &reader);
	struct reading reading = reading_begin(may_show(options));
	size_t most = error ? 0 : probe_reader_args_max(reader);
	bool there = true;

	if (error)
		return error;
	while (!error && there && *ret < most) {
		error = probe_reader_next(reader, &event, &there);
		if (!error && there)
			reading_event(&reading, reader);
		if (!error && there && is_wanted(options, &event) && event.arg_count > *ret)
			*ret = event.arg_count;
	}
	progress_end(&reading.progress);
	probe_reader_close(reader);
	/* The export reads the same events again and reports the error. */
	probe_error_free(error);
	return NULL;
}

static struct probe_error *export_all(struct export_options *options, struct probe_reader *reader,
	struct probe_export *export, uint64_t *lost_ret)
{
	struct reading reading = reading_begin(may_show(options));
	struct probe_error *error = NULL, *damage = NULL;
	struct probe_event event;
	bool there = true;

	while (!error) {
		damage = probe_reader_next(reader, &event, &there);
		if (damage || !there)
			break;
		reading_event(&reading, reader);
		/* The number of lost hits comes from the recording, so it may be any number. */
		*lost_ret +=
			event.lost < UINT64_MAX - *lost_ret ? event.lost : UINT64_MAX - *lost_ret;
		if (!is_wanted(options, &event))
			continue;
		error = probe_export_event(export, &event);
	}
	progress_end(&reading.progress);
	error = error ?: probe_export_finish(export);
	if (!damage)
		return error;
	/* Report the damage: it was found first and may have caused the error. */
	probe_error_free(error);
	return damage;
}

static struct probe_error *export_to(
	struct export_options *options, struct probe_reader *reader, int fd)
{
	const char *name = options->output ? options->output : "the standard output";
	struct probe_export *export;
	struct probe_error *error =
		probe_export_create(options->format, &options->options, fd, name, &export);
	uint64_t lost = 0;

	if (error)
		return error;
	error = export_all(options, reader, export, &lost);
	probe_export_free(export);
	if (lost)
		report_warning("%ju hit%s lost when this was recorded", (uintmax_t)lost,
			lost == 1 ? " was" : "s were");
	if (error)
		return out_unless_closed(error);
	for (size_t i = 0; i < options->common.patterns.count; i++)
		if (!options->matched[i])
			return probe_error_new(PROBE_ERROR_NOT_FOUND,
				"'%s' matches no hit that was recorded",
				probe_pattern_text(options->common.patterns.items[i]));
	return NULL;
}

static struct probe_error *export_command(struct export_options *options)
{
	const char *operand = options->common.operands[0];
	struct probe_reader *reader;
	struct probe_error *error = records_open(operand, &reader);
	int fd = options->output ? -1 : STDOUT_FILENO;

	if (error)
		return error;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (options->format == PROBE_EXPORT_CSV && strcmp(operand, "-") != 0)
		error = find_columns(options, operand, &options->options.columns);
	if (!error && options->output)
		error = probe_output_open(options->output, &fd);
	error = error ?: export_to(options, reader, fd);
	if (options->output && fd >= 0 && close(fd) != 0 && !error)
		error = probe_error_system(errno, "cannot write %s", options->output);
	probe_reader_close(reader);
	return error;
}

/* ---- The command line ----------------------------------------------------------------- */

static struct probe_error *check_options(struct export_options *options)
{
	const struct common_options *common = &options->common;
	struct probe_error *error;
	bool folded;

	if (!options->format_name)
		return usage_error(
			"export: no format given; use --format=json, csv, folded, flamegraph "
			"or trace-event");
	if (!probe_export_format(options->format_name, &options->format))
		return usage_error(
			"--format '%s': use json, csv, folded, flamegraph or trace-event",
			options->format_name);
	if (common->operand_count < 1 || !common->operands[0][0])
		return usage_error(
			"export: give one record, a folder of `probectl record -o`, or - for what "
			"`probectl trace --json` prints");
	options->options.keys = (const char *const *)options->keys.items;
	options->options.key_count = options->keys.count;
	folded = options->format == PROBE_EXPORT_FOLDED ||
		 options->format == PROBE_EXPORT_FLAMEGRAPH;
	if (options->options.hits && !folded)
		return usage_error("--count is for --format=folded and --format=flamegraph");
	if ((options->keys.count || options->options.match) && !folded &&
		options->format != PROBE_EXPORT_TRACE_EVENT)
		return usage_error(
			"--key and --match are for --format=trace-event, --format=folded and "
			"--format=flamegraph");
	/* The catalogue gives the names in keys and in JSON output, and it knows pairs. */
	error = catalogue_open(common->operands[0], &options->catalogue);
	options->options.catalogue = options->catalogue;
	error = error ?: options_add_operands(&options->common, 1);
	options->matched = calloc(options->common.patterns.count + 1, sizeof(*options->matched));
	if (!error && !options->matched)
		return probe_error_no_memory();
	return error;
}

static struct probe_error *export_checked(void *data, int *status_ret)
{
	struct export_options *options = data;
	struct probe_error *error = check_options(options);

	(void)status_ret;
	return error ?: export_command(options);
}

static const char help_text[] =
	"Writes a record of `probectl record`, or (-) the output of `probectl trace\n"
	"--json`, in the format of another tool. With PROBEs, writes only their hits.\n";

struct probe_error *cmd_export(int argc, char **argv, int *status_ret)
{
	struct export_options options = {0};
	const struct option_row rows[] = {
		OPTIONS_PROBE(&options.common),
		OPTION('F', "format", STRING, "FORMAT", &options.format_name,
			"json (ndjson), csv, folded, flamegraph (svg) or trace-event (perfetto, "
			"chrome)"),
		OPTIONS_OUTPUT(&options.output),
		OPTION('k', "key", STRINGS, "KEY", &options.keys,
			"name slices and frames by argN, NAME, tid, pid, cpu, comm or probe; up to "
			"eight"),
		OPTION(0, "match", STRING, "ARG[:ARG]", &options.options.match,
			"match an end to the begin with the same value of ARG, on any thread"),
		OPTION(0, "count", FLAG, NULL, &options.options.hits,
			"folded, flamegraph: count hits (default: nanoseconds that pairs took "
			"themselves)"),
	};
	const struct command_line line = {
		.synopsis = "export --format=FORMAT [OPTIONS] DIR|- [PROBE...]",
		.help = help_text,
		OPTION_ROWS(rows),
		.common = &options.common,
		.run = export_checked,
		.data = &options,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	free(options.matched);
	free(options.keys.items);
	probe_catalogue_free(options.catalogue);
	return error;
}
