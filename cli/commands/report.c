/* SPDX-License-Identifier: MIT */
/* probectl report: prints a summary of a recording. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/print/print.h"
#include "cli/records.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "probe/calls.h"
#include "probe/sink.h"
#include "probe/summary.h"

enum { TOP_UNLESS_TOLD = 20, RECORDS_MAX = 2 };

struct report_options {
	struct common_options common;
	struct string_list keys;
	const char *match, *html;
	uint64_t top;
	bool json, pairs, self;
	struct probe_catalogue *catalogues[RECORDS_MAX]; /* for each record */
};

/* ---- Writing -------------------------------------------------------------------- */

/*
 * Writes a page to a file. On error, truncates the file but does not remove it, because its path
 * may lead to another file by now.
 */
static struct probe_error *write_page(const char *path, const char *text, size_t length)
{
	struct probe_error *error;
	int fd, cut = 0;

	error = probe_output_open(path, &fd);
	if (error)
		return error;
	if (!file_write(fd, text, length)) {
		error = probe_error_system(errno, "cannot write %s", path);
		cut = ftruncate(fd, 0);
	}
	(void)cut;
	if (close(fd) != 0 && !error)
		error = probe_error_system(errno, "cannot write %s", path);
	return error;
}

/* ---- Reading -------------------------------------------------------------------- */

static struct probe_error *read_events(const char *path,
	struct probe_error *(*add)(void *data, const struct probe_event *event), void *data,
	int *status_ret)
{
	struct probe_reader *reader = NULL;
	struct reading reading = reading_begin(true);
	bool some = false, there = true;
	struct probe_event event;
	struct probe_error *error = records_open(path, &reader);

	while (!error && there) {
		error = probe_reader_next(reader, &event, &there);
		if (error || !there)
			break;
		error = add(data, &event);
		some |= !error;
		reading_event(&reading, reader);
	}
	progress_end(&reading.progress);
	if (error && error->code == PROBE_ERROR_FORMAT && some) {
		/* After damage, still report the events before it. */
		*status_ret = report_error(error);
		error = NULL;
	}
	probe_reader_close(reader);
	return error;
}

static struct probe_error *add_to_summary(void *data, const struct probe_event *event)
{
	return probe_summary_add(data, event);
}

static struct probe_error *summarize(const struct report_options *options, size_t index,
	struct probe_summary **ret, int *status_ret)
{
	const struct probe_summary_options wanted = {
		.keys = options->keys.items,
		.key_count = options->keys.count,
		.match = options->match,
		.pairs = options->pairs,
		.catalogue = options->catalogues[index],
	};
	struct probe_error *error = probe_summary_create(&wanted, ret);

	return error
		       ?: read_events(options->common.operands[index], add_to_summary, *ret,
				  status_ret);
}

/* ---- The command ---------------------------------------------------------------- */

static struct probe_error *check(const struct report_options *options)
{
	const struct common_options *common = &options->common;
	size_t standard_inputs = 0;

	for (size_t i = 0; i < common->operand_count; i++)
		standard_inputs += strcmp(common->operands[i], "-") == 0;
	if (!common->operand_count || common->operand_count > RECORDS_MAX ||
		!common->operands[0][0])
		return usage_error(
			"report: %s (what `probectl record -o DIR` made; - for the output of "
			"`probectl trace --json`)",
			common->operand_count > RECORDS_MAX ? "two DIRs are compared, not more"
							    : "no DIR given");
	if (standard_inputs > 1)
		return usage_error("report: only one of two records can be standard input");
	if (options->json && options->html)
		return usage_error("report: --json and --html are two formats; give one");
	if (options->html && common->operand_count > 1)
		return usage_error("report: two records are compared as "
				   "text or with --json; --html is for one");
	if (options->self &&
		(options->html || options->pairs || options->match || common->operand_count > 1))
		return usage_error(
			"report: --self is a table of its own, of one record: without --html, "
			"--pairs and --match");
	if (options->pairs && options->html)
		return usage_error(
			"report: --pairs is for text and --json; a page shows all pairs together");
	return NULL;
}

static struct probe_summary_view view_of(const struct report_options *options, const char *path)
{
	locale_t users = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	bool utf8 = users && strcmp(nl_langinfo_l(CODESET, users), "UTF-8") == 0;

	if (users)
		freelocale(users);
	return (struct probe_summary_view){
		.title = strcmp(path, "-") == 0 ? "standard input" : path,
		.top = (size_t)options->top,
		.ascii = !utf8,
	};
}

/* Prints the summary of one recording, or the differences between the summaries of two. */
static struct probe_error *print(
	const struct report_options *options, struct probe_summary *const summaries[RECORDS_MAX])
{
	char *const *paths = options->common.operands;
	const struct probe_summary_view view = view_of(options, paths[0]);
	enum probe_summary_format format = options->html   ? PROBE_SUMMARY_HTML
					   : options->json ? PROBE_SUMMARY_JSON
							   : PROBE_SUMMARY_TEXT;
	struct probe_error *error;
	size_t length;
	AUTO_FREE char *text = NULL;

	if (summaries[1]) {
		const struct probe_summary_view after = view_of(options, paths[1]);

		error = probe_summary_compare(
			summaries[0], &view, summaries[1], &after, format, &text, &length);
	} else {
		error = probe_summary_render(summaries[0], format, &view, &text, &length);
	}
	if (error)
		return error;
	if (options->html && strcmp(options->html, "-") != 0)
		error = write_page(options->html, text, length);
	else
		error = fwrite(text, 1, length, stdout) == length && fflush(stdout) == 0
				? NULL
				: out_failed(stdout);
	return error;
}

/* ---- Self time ------------------------------------------------------------------ */

static struct probe_error *print_self(
	const struct report_options *options, struct probe_calls *calls)
{
	const struct probe_view view = {
		.tracer = "self", .top = (size_t)options->top, .edges = true};
	AUTO_FREE struct probe_calls_row *rows = NULL;
	struct probe_sink *sink = NULL;
	size_t count;
	struct probe_error *error =
		probe_sink_create(options->json ? PROBE_SINK_JSON : PROBE_SINK_TEXT, STDOUT_FILENO,
			"the standard output", &sink);

	error = error ?: probe_calls_rows(calls, false, &rows, &count);
	if (!error) {
		probe_sink_calls(sink, rows, count, &view);
		probe_sink_end(sink);
		error = out_sink(sink);
		report_calls(probe_calls_finish(calls), false);
	}
	probe_sink_free(sink);
	return error;
}

static struct probe_error *add_call(void *data, const struct probe_event *event)
{
	return probe_calls_add(data, event);
}

static struct probe_error *report_self(const struct report_options *options, int *status_ret)
{
	const struct probe_calls_options wanted = {.keys = options->keys.items,
		.key_count = options->keys.count,
		.catalogue = options->catalogues[0]};
	struct probe_calls *calls = NULL;
	struct probe_error *error = probe_calls_create(&wanted, &calls)
		?: read_events(options->common.operands[0], add_call, calls, status_ret)
		?: print_self(options, calls);

	probe_calls_free(calls);
	return error;
}

static struct probe_error *report(void *data, int *status_ret)
{
	struct report_options *options = data;
	struct probe_summary *summaries[RECORDS_MAX] = {NULL};
	struct probe_error *error = check(options);

	for (size_t i = 0; !error && i < options->common.operand_count; i++)
		error = catalogue_open(options->common.operands[i], &options->catalogues[i]);
	for (size_t i = 0; !error && !options->self && i < options->common.operand_count; i++)
		error = summarize(options, i, &summaries[i], status_ret);
	if (!error)
		error = options->self ? report_self(options, status_ret)
				      : print(options, summaries);
	if (!error && !options->self)
		error = probe_summary_check_keys(summaries[0], summaries[1]);
	for (size_t i = 0; i < RECORDS_MAX; i++) {
		probe_summary_free(summaries[i]);
		probe_catalogue_free(options->catalogues[i]);
	}
	return error;
}

static const char help_text[] =
	"Summarizes a record of `probectl record`, or (-) the output of `probectl trace\n"
	"--json`: rates, probes, times of pairs, most frequent values, losses. Of two\n"
	"records, prints what changed from the first to the second.\n";

struct probe_error *cmd_report(int argc, char **argv, int *status_ret)
{
	struct report_options options = {.top = TOP_UNLESS_TOLD};
	const struct option_row rows[] = {
		OPTION(0, "html", STRING, "FILE", &options.html,
			"write one self-contained page with charts"),
		OPTIONS_JSON(&options.json),
		OPTION('k', "key", STRINGS, "KEY", &options.keys,
			"count hits by argN, str(argN), norm(str(argN)), sym(argN), NAME, "
			"norm(NAME), tid, pid, cpu, comm or probe; may be repeated"),
		OPTION(0, "pairs", FLAG, NULL, &options.pairs,
			"show pairs by key, and those that took longest"),
		OPTION(0, "self", FLAG, NULL, &options.self,
			"show the time of functions with and without what they call, their callers "
			"and callees"),
		OPTION(0, "match", STRING, "KEY[:KEY]", &options.match,
			"match an end to the begin with the same value, on any thread of the "
			"process"),
		OPTIONS_TOP(&options.top),
	};
	const struct command_line line = {
		.synopsis = "report [OPTIONS] DIR|- [DIR|-]",
		.help = help_text,
		OPTION_ROWS(rows),
		.common = &options.common,
		.run = report,
		.data = &options,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	free(options.keys.items);
	return error;
}
