/* SPDX-License-Identifier: MIT */
/* Tables of what the tracers of a trace have gathered: at each interval, and at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/trace.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Everything that a tracer's sessions have gathered so far. */
static struct probe_error *gather(
	const struct trace *trace, const struct trace_tracer *tracer, struct probe_table **ret)
{
	struct probe_table *table = probe_table_create(tracer->options.gather.key_count);
	struct probe_error *error = table ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < trace->target_count && !error; i++) {
		const struct trace_target *target = &trace->targets[i];

		if (target->tracer == tracer && !target->broken)
			error = probe_table_add(table, target->session, &tracer->options);
	}
	if (error) {
		probe_table_free(table);
		return error;
	}
	*ret = table;
	return NULL;
}

static struct probe_view view_of(
	const struct trace *trace, const struct trace_tracer *tracer, bool is_interval)
{
	uint64_t from = is_interval ? tracer->last_ns : tracer->started_ns;
	struct probe_view view;

	probe_tracer_view(tracer->spec, &tracer->options, &view);
	view.top = trace->settings.top;
	view.all = trace->settings.all;
	view.title = tracer->title;
	view.elapsed_ns = clock_ns(CLOCK_MONOTONIC) - from;
	view.is_interval = is_interval;
	/* One table alone needs no heading. */
	if (is_interval || tracer->last)
		view.time_ns = clock_ns(CLOCK_REALTIME);
	return view;
}

/* What is new since the last time; before the first interval, all is. */
static struct probe_error *print_interval(
	struct trace *trace, struct trace_tracer *tracer, struct probe_table *table)
{
	struct probe_view view = view_of(trace, tracer, true);
	struct probe_table *none = NULL, *since;
	struct probe_error *error;

	if (!tracer->last) {
		none = probe_table_create(tracer->options.gather.key_count);
		if (!none)
			return probe_error_no_memory();
	}
	error = probe_table_since(table, none ? none : tracer->last, &since);
	probe_table_free(none);
	if (error)
		return error;
	probe_table_sort(since, view.order);
	probe_sink_table(trace->sink, since, &view);
	probe_table_free(since);
	return NULL;
}

static struct probe_error *print_tracer(
	struct trace *trace, struct trace_tracer *tracer, bool is_interval)
{
	struct probe_table *table;
	struct probe_error *error = gather(trace, tracer, &table);
	struct probe_view view;

	if (error)
		return error;
	if (is_interval) {
		error = print_interval(trace, tracer, table);
	} else {
		view = view_of(trace, tracer, false);
		probe_table_sort(table, view.order);
		probe_sink_table(trace->sink, table, &view);
		if (probe_table_lost(table) && tracer->options.gather.key_count)
			fprintf(stderr, "probectl: there was no room for the keys of all hits; "
					"--keys N makes more\n");
	}
	probe_table_free(tracer->last);
	tracer->last = table;
	tracer->last_ns = clock_ns(CLOCK_MONOTONIC);
	return error;
}

void trace_tables(struct trace *trace, bool is_interval)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		if (tracer->output == PROBE_TRACER_ROWS)
			trace_fail(trace, print_tracer(trace, tracer, is_interval));
		else if (tracer->host && is_interval && !tracer->gone)
			probe_tracer_host_look(tracer->host);
	}
}

void trace_tables_start(struct trace *trace)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < trace->tracer_count; i++)
		trace->tracers[i].started_ns = trace->tracers[i].last_ns = now;
}
