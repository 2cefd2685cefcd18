/* SPDX-License-Identifier: MIT */
/*
 * convert DIR FORMAT [FILE]: a record in another format (csv, json, folded, trace-event), in
 * FILE or on standard output; on standard error a summary by thread, and how many pairs it holds.
 */
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include <probe/export.h>
#include <probe/reader.h>
#include <probe/sink.h>
#include <probe/spans.h>
#include <probe/summary.h>

#include "example.h"

static void print_summary(const struct probe_summary *summary, const char *title)
{
	const struct probe_summary_view view = {.title = title, .top = 5, .ascii = true};
	size_t length;
	char *text;

	check(probe_summary_render(summary, PROBE_SUMMARY_TEXT, &view, &text, &length));
	fwrite(text, 1, length, stderr);
	free(text);
}

int main(int argc, char **argv)
{
	static const char *const keys[] = {"tid"};
	const struct probe_summary_options by_thread = {.keys = keys, .key_count = 1};
	const struct probe_export_options options = {0};
	enum probe_export_format format;
	struct probe_summary *summary;
	struct probe_export *exporter;
	struct probe_reader *reader;
	unsigned long long pairs = 0;
	struct probe_spans *spans;
	struct probe_event event;
	int output = STDOUT_FILENO;
	bool there;

	if (argc < 3 || !probe_export_format(argv[2], &format))
		return 2;
	signal(SIGPIPE, SIG_IGN);
	check(probe_reader_open(argv[1], &reader));
	if (argc > 3) /* also in a folder where anybody may put links */
		check(probe_output_open(argv[3], &output));
	check(probe_export_create(
		format, &options, output, argc > 3 ? argv[3] : "standard output", &exporter));
	check(probe_summary_create(&by_thread, &summary));
	check(probe_spans_create(NULL, &spans));
	for (;;) {
		enum probe_span_kind kind;
		struct probe_span *span;

		check(probe_reader_next(reader, &event, &there));
		if (!there)
			break;
		check(probe_export_event(exporter, &event));
		check(probe_summary_add(summary, &event));
		check(probe_spans_add(spans, &event, &kind, &span));
		pairs += kind == PROBE_SPAN_END;
	}
	probe_spans_finish(spans);
	check(probe_export_finish(exporter));
	print_summary(summary, argv[1]);
	check(probe_summary_check_keys(summary, NULL));
	fprintf(stderr, "%llu pairs\n", pairs);
	probe_spans_free(spans);
	probe_summary_free(summary);
	probe_export_free(exporter);
	probe_reader_close(reader);
	return 0;
}
