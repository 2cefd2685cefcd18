/* SPDX-License-Identifier: MIT */
/*
 * gather PID TRACER PROBE...: what a built-in tracer gathers in two seconds, a table for
 * each of them, and one of all. Without arguments: which tracers there are.
 */
#include <string.h>
#include <unistd.h>

#include <probe/catalogue.h>
#include <probe/pattern.h>
#include <probe/sink.h>
#include <probe/table.h>
#include <probe/target.h>
#include <probe/tracer.h>

#include "example.h"

enum { PROBES_MAX = 16, SECONDS = 2 };

static void print_tracers(void)
{
	struct probe_tracer_info info;
	struct probe_tracer_part part;

	for (size_t i = 0; probe_tracer_info(i, &info); i++) {
		printf("%s: %s\n", info.usage, info.help);
		/* Some stand for several. */
		for (size_t k = 0; probe_tracer_part(info.usage, k, &part); k++)
			printf("\t%s of %s ..., by %s\n", part.tracer, part.probes[0], part.key);
	}
}

/* The same without the table's own format: each row, its percentiles and largest bucket. */
static void print_rows(const struct probe_table *table)
{
	size_t count;
	const struct probe_table_row *rows = probe_table_rows(table, &count);

	for (size_t i = 0; i < count; i++) {
		const struct probe_row *row = &rows[i].row;
		size_t largest = 0;
		double from, to;
		uint64_t high;
		int64_t low;

		printf("%s:%s %llu", rows[i].provider, rows[i].name,
			(unsigned long long)row->count);
		for (size_t b = 0; row->buckets && b < PROBE_BUCKETS; b++)
			if (row->buckets[b] > row->buckets[largest])
				largest = b;
		if (row->buckets) {
			probe_row_bucket(row, largest, &from, &to);
			printf(", half of them up to %.0f ns, most between %.0f and %.0f",
				probe_row_percentile(row, 50), from, to);
			/* In ticks; of whole numbers, the values themselves. */
			probe_bucket_range(largest, &low, &high);
			printf(" (%lld to %llu)", (long long)low, (unsigned long long)high);
		}
		printf("\n");
	}
	printf("%llu lost, %llu ends without a begin\n",
		(unsigned long long)probe_table_lost(table),
		(unsigned long long)probe_table_unmatched(table));
}

static void print_table(struct probe_sink *sink, struct probe_table *table,
	const struct probe_tracer_spec *spec, const struct probe_session_options *options,
	int seconds)
{
	struct probe_view view;

	probe_tracer_view(spec, options, &view);
	view.elapsed_ns = (uint64_t)seconds * 1000000000;
	probe_table_sort(table, view.order);
	probe_sink_table(sink, table, &view);
	check(probe_sink_flush(sink));
}

/* All that the session has gathered so far. */
static struct probe_table *read_table(
	struct probe_session *session, const struct probe_session_options *options)
{
	struct probe_table *table;

	check(probe_table_create(options->gather.key_count, &table));
	check(probe_table_add(table, session, options));
	return table;
}

int main(int argc, char **argv)
{
	struct probe_session_options options = {0};
	struct probe_pattern *patterns[PROBES_MAX];
	struct probe_request request = {.patterns = (const struct probe_pattern **)patterns};
	struct probe_table *table, *last = NULL, *since, *all;
	struct probe_report report = {0};
	struct probe_tracer_spec *spec;
	struct probe_catalogue *catalogue;
	struct probe_session *session;
	struct probe_target *target;
	struct probe_sink *sink;

	if (argc < 4 || argc > 3 + PROBES_MAX) {
		print_tracers();
		return argc > 1 ? 2 : 0;
	}
	for (; request.pattern_count < (size_t)argc - 3; request.pattern_count++)
		check(probe_pattern_parse(
			argv[3 + request.pattern_count], &patterns[request.pattern_count]));
	check(probe_tracer_parse(argv[2], &spec));
	if (probe_tracer_output(spec) != PROBE_TRACER_ROWS) {
		fprintf(stderr, "%s gathers no rows\n", probe_tracer_name(spec));
		return 2;
	}
	if (probe_tracer_pairs(spec))
		printf("%s times pairs\n", probe_tracer_name(spec));
	/* Of some programs it is known which probe gives arguments to a begin: no pair has it. */
	check(probe_catalogue_create(&catalogue));
	options.catalogue = catalogue;
	check(probe_tracer_configure(spec,
		probe_pattern_paired(request.patterns, request.pattern_count, catalogue),
		&options));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	check(probe_sink_create(PROBE_SINK_TEXT, STDOUT_FILENO, "standard output", &sink));
	fflush(stdout);
	check(probe_session_start(target, &request, &options, &report, &session));
	probe_report_deinit(&report);
	for (int i = 0; i < SECONDS; i++) {
		sleep(1);
		table = read_table(session, &options);
		check(probe_table_since(table, last, &since));
		print_table(sink, since, spec, &options, 1);
		probe_table_free(since);
		probe_table_free(last);
		last = table;
	}
	check(probe_session_stop(session));
	table = read_table(session, &options);
	probe_session_free(session);
	/* What it has gathered stays, and could be added to that of other processes. */
	check(probe_table_create(options.gather.key_count, &all));
	/* Programs come and go: later keys are in a row of others. */
	probe_table_limit(all, 10000);
	check(probe_table_add_table(all, table));
	print_table(sink, all, spec, &options, SECONDS);
	print_rows(all);
	probe_table_free(all);
	probe_table_free(table);
	probe_table_free(last);
	probe_sink_free(sink);
	probe_target_close(target);
	probe_tracer_free(spec);
	probe_catalogue_free(catalogue);
	while (request.pattern_count)
		probe_pattern_free(patterns[--request.pattern_count]);
	return 0;
}
