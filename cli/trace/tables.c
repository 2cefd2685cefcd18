/* SPDX-License-Identifier: MIT */
/* Tables of what the tracers of a trace have gathered: at each interval, and at the end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/timer.h"
#include "cli/trace/trace.h"
#include "libprobe/base/value.h"

/*
 * Everything that a tracer's sessions have gathered so far. Of one that has failed, it is what can
 * still be read; its failure was reported.
 */
static struct probe_error *gather(
	const struct trace *trace, const struct trace_tracer *tracer, struct probe_table **ret)
{
	struct probe_table *table = NULL;
	struct probe_error *error = probe_table_create(tracer->options.gather.key_count, &table);

	for (size_t i = 0; i < tracer->ended_count && !error; i++)
		error = probe_table_add_table(table, tracer->ended[i].rows);
	for (size_t i = 0; i < trace->target_count && !error; i++) {
		const struct trace_target *target = &trace->targets[i];

		if (target->tracer != tracer)
			continue;
		error = probe_table_add(table, target->session, &tracer->options);
		if (error && target->broken) {
			probe_error_free(error);
			error = NULL;
		}
	}
	if (error) {
		probe_table_free(table);
		return error;
	}
	*ret = table;
	return NULL;
}

static struct probe_view snapshot_of(
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
	if (is_interval || tracer->last || tracer->had_interval || tracer->pprof)
		view.time_ns = clock_ns(CLOCK_REALTIME);
	return view;
}

/* What is new since the last time; before the first interval, all is. */
static struct probe_error *print_interval(
	struct trace *trace, struct trace_tracer *tracer, struct probe_table *table, bool is_last)
{
	struct probe_view view = snapshot_of(trace, tracer, true);
	struct probe_table *since;
	struct probe_error *error = probe_table_since(table, tracer->last, &since);
	size_t count;

	if (error)
		return error;
	probe_table_rows(since, &count);
	probe_table_sort(since, view.order);
	/* Hits after the last full interval make another one, so that they add up. */
	if (count || !is_last)
		probe_sink_table(trace->sink, since, &view);
	probe_table_free(since);
	return NULL;
}

static void report_others(const struct probe_gather *gather, const struct probe_table *table)
{
	uint64_t others = 0;
	size_t count;
	const struct probe_table_row *rows = probe_table_rows(table, &count);

	for (size_t i = 0; i < count; i++)
		if (value_keys_are_other(rows[i].row.keys, gather->key_count))
			others += rows[i].row.count;
	if (!others)
		return;

	fprintf(stderr,
		"probectl: hits without a row of their key: %" PRIu64
		", for not all keys fit into the table; --keys N makes it larger\n",
		others);
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
		error = print_interval(trace, tracer, table, false);
	} else {
		if (tracer->last)
			error = print_interval(trace, tracer, table, true);
		view = snapshot_of(trace, tracer, false);
		probe_table_sort(table, view.order);
		probe_sink_table(trace->sink, table, &view);
		report_others(&tracer->options.gather, table);
	}
	probe_table_free(tracer->last);
	tracer->last = table;
	tracer->last_ns = clock_ns(CLOCK_MONOTONIC);
	return error;
}

const char *trace_target_comm(struct trace *trace, struct trace_target *target)
{
	pid_t pid = probe_target_pid(target->target);
	const char *comm;

	if (!target->comm[0]) {
		comm = comm_cache_known(trace->comms, pid, pid);
		if (!comm)
			comm = comm_cache_get(trace->comms, pid, pid, clock_ns(CLOCK_REALTIME));
		snprintf(target->comm, sizeof(target->comm), "%s", comm ? comm : "");
	}
	return target->comm[0] ? target->comm : NULL;
}

/* ---- Stacks ----------------------------------------------------------------- */

/*
 * Reads the stacks that sessions have counted in their targets, all of them each time. gone.c keeps
 * the stacks of processes that have ended.
 */
static struct probe_error *gather_stacks(struct trace *trace, const struct trace_tracer *tracer)
{
	struct probe_error *error = NULL;

	if (tracer->options.stack != PROBE_STACK_FRAMES)
		return NULL;
	probe_stacks_clear(tracer->stacks);
	for (size_t i = 0; i < trace->target_count && !error; i++) {
		struct trace_target *target = &trace->targets[i];

		if (target->tracer == tracer && !target->broken)
			error = probe_stacks_add_session(
				tracer->stacks, target->session, trace_target_comm(trace, target));
	}
	return error;
}

/* What the stacks do not show. */
static void warn_of_cut(
	const struct trace_tracer *tracer, const struct probe_stacks_row *rows, size_t count)
{
	uint64_t cut = 0;

	for (size_t i = 0; i < count; i++)
		if (rows[i].stack.end == PROBE_STACK_TRUNCATED)
			cut += rows[i].is_heap ? rows[i].total_count : rows[i].count;
	if (cut && tracer->options.stack == PROBE_STACK_COPY)
		report_warning("the stacks of %" PRIu64
			       " hit%s are longer than what was copied; -t %s,bytes=N copies more",
			cut, cut == 1 ? "" : "s", probe_tracer_name(tracer->spec));
	else if (cut)
		report_warning("the stacks of %" PRIu64
			       " hit%s have more frames than are counted by",
			cut, cut == 1 ? "" : "s");
}

static void warn_of_stacks(
	const struct trace_tracer *tracer, const struct probe_stacks_row *rows, size_t count)
{
	uint64_t left_out = probe_stacks_left_out(tracer->stacks);

	warn_of_cut(tracer, rows, count);
	if (left_out)
		report_warning("%" PRIu64 " hit%s had stacks that there was no room for", left_out,
			left_out == 1 ? "" : "s");
}

static struct probe_error *print_stacks(
	struct trace *trace, struct trace_tracer *tracer, bool is_interval)
{
	struct probe_error *error = gather_stacks(trace, tracer);
	struct probe_view view = snapshot_of(trace, tracer, is_interval);
	struct probe_stacks_row *rows;
	size_t count;

	if (!error)
		error = probe_stacks_rows(tracer->stacks, is_interval, &rows, &count);
	if (error)
		return error;
	probe_sink_stacks(trace->sink, rows, count, &view);
	if (!is_interval)
		warn_of_stacks(tracer, rows, count);
	free(rows);
	probe_stacks_mark(tracer->stacks);
	tracer->had_interval |= is_interval;
	tracer->last_ns = clock_ns(CLOCK_MONOTONIC);
	return NULL;
}

/* ---- Heaps ------------------------------------------------------------------ */

/* Hits of begins and ends that left no record. */
static void count_lost(const struct trace *trace, const struct trace_tracer *tracer,
	uint64_t *begins_ret, uint64_t *ends_ret)
{
	*begins_ret = *ends_ret = 0;
	for (size_t i = 0; i < trace->gone_count; i++) {
		const struct trace_gone *gone = &trace->gones[i];

		if (gone->tracer == tracer)
			*(gone->probe.role == PROBE_ROLE_BEGIN ? begins_ret : ends_ret) +=
				gone->probe.lost;
	}
	for (size_t i = 0; i < trace->target_count; i++) {
		const struct probe_session_probe *probes;
		size_t count;

		if (trace->targets[i].tracer != tracer)
			continue;
		probes = probe_session_probes(trace->targets[i].session, &count);
		for (size_t k = 0; k < count; k++)
			*(probes[k].role == PROBE_ROLE_BEGIN ? begins_ret : ends_ret) +=
				probes[k].lost;
	}
}

/* `what` is for one, `many` for several. */
static void warn_of_hits(uint64_t count, const char *what, const char *many, const char *so)
{
	if (count)
		report_warning("%" PRIu64 " %s%s", count, count == 1 ? what : many, so);
}

/* What makes the figures inexact, and in which direction. */
static void warn_of_heap(const struct trace *trace, const struct trace_tracer *tracer)
{
	struct probe_heap_doubts doubts = probe_heap_doubts(tracer->heap);
	uint64_t begins, ends;

	count_lost(trace, tracer, &begins, &ends);
	warn_of_hits(begins, "allocation was lost", "allocations were lost",
		": their bytes are in none of these figures; larger rings (-b) help");
	warn_of_hits(ends, "free was lost", "frees were lost",
		": what is live is an upper bound; larger rings (-b) help");
	warn_of_hits(doubts.unfreed, "free was not seen", "frees were not seen",
		": memory was allocated again; what is live may be less");
	warn_of_hits(doubts.unknown_frees, "free was of memory", "frees were of memory",
		begins ? " that was allocated before the trace, or whose allocation was lost"
		       : " that was allocated before the trace");
	warn_of_hits(doubts.unreadable, "hit has", "hits have",
		" arguments that are not (pointer, bytes[, weight]), or, of a free, (pointer); "
		"a list of arguments in PROBE puts them into this order");
	warn_of_hits(doubts.left_out, "allocation has a stack", "allocations have stacks",
		" that there was no room for");
	warn_of_hits(doubts.untracked, "allocation is", "allocations are",
		" not among what is live, for which there was no room");
}

static struct probe_error *print_heap(
	struct trace *trace, struct trace_tracer *tracer, bool is_interval)
{
	struct probe_view view = snapshot_of(trace, tracer, is_interval);
	struct probe_stacks_row *rows;
	size_t count;
	struct probe_error *error =
		probe_heap_rows(tracer->heap, view.live, is_interval, &rows, &count);

	if (error)
		return error;
	probe_sink_stacks(trace->sink, rows, count, &view);
	if (!is_interval) {
		warn_of_cut(tracer, rows, count);
		warn_of_heap(trace, tracer);
	}
	free(rows);
	probe_heap_mark(tracer->heap);
	tracer->had_interval |= is_interval;
	tracer->last_ns = clock_ns(CLOCK_MONOTONIC);
	return NULL;
}

void trace_tables(struct trace *trace, bool is_interval)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		if (tracer->output == PROBE_TRACER_ROWS)
			trace_fail(trace, print_tracer(trace, tracer, is_interval));
		else if (tracer->output == PROBE_TRACER_STACKS)
			trace_fail(trace, print_stacks(trace, tracer, is_interval));
		else if (tracer->output == PROBE_TRACER_HEAP)
			trace_fail(trace, print_heap(trace, tracer, is_interval));
		else if (tracer->host && is_interval && !tracer->gone)
			host_look(trace, tracer);
	}
}

void trace_tables_start(struct trace *trace)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < trace->tracer_count; i++)
		trace->tracers[i].started_ns = trace->tracers[i].last_ns = now;
}
