/* SPDX-License-Identifier: MIT */
/*
 * The destinations of hits: lines, messages to loaded tracers, which run in processes of their own,
 * or a recording. Only the recording, which is on disk, may make us wait. At each interval and at
 * the end, also tables of what tracers have gathered.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/trace/trace.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/value.h"

/* ==== Output ================================================================================== */

void output_flush(struct trace *trace)
{
	if (trace->record)
		trace_record_all(trace, 0);
	output_check(trace,
		trace->record ? probe_ctf_flush(trace->record) : probe_sink_flush(trace->sink));
	/* No report here: hosts_poll() reports why a tracer has closed its pipe. */
	for (size_t i = 0; i < trace->tracer_count; i++)
		if (trace->tracers[i].host)
			probe_error_free(probe_sink_flush(trace->tracers[i].sink));
}

static struct probe_error *add_call(const struct trace_tracer *tracer,
	const struct probe_trace_hit *its, const struct probe_session_probe *probe)
{
	struct trace_target *target = its->traced ? its->traced->data : NULL;
	const struct probe_event event = probe_event_of_hit(its->hit, probe, its->comm);

	/* The calls of the program that this process ran before have not ended. */
	if (target && !target->has_calls)
		probe_calls_forget(tracer->calls, probe_target_pid(its->traced->target));
	if (target)
		target->has_calls = true;
	return probe_calls_add(tracer->calls, &event);
}

void output_round(struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		if (tracer->calls)
			trace_fail(trace, probe_calls_round(tracer->calls, tracer->has_lost));
		tracer->has_lost = false;
	}
}

static void dispatch(struct trace *trace, const struct probe_trace_hit *its)
{
	static const enum probe_tracer_tag tags[] = {
		[PROBE_ROLE_NONE] = PROBE_TAG_POINT,
		[PROBE_ROLE_BEGIN] = PROBE_TAG_BEGIN,
		[PROBE_ROLE_END] = PROBE_TAG_END,
	};
	const struct trace_tracer *tracer = &trace->tracers[its->tracer];
	const struct probe_hit *hit = its->hit;
	const struct probe_session_probe *probe = &its->probes[hit->probe];

	if (trace->record) {
		output_check(
			trace, probe_ctf_hit(trace->record, its->traced->session, hit, its->comm));
	} else if (tracer->stacks) {
		if (hit->stack)
			trace_fail(trace,
				probe_stacks_add(tracer->stacks, probe, its->comm, hit->stack, 1));
	} else if (tracer->heap)
		trace_fail(trace,
			probe_heap_add(tracer->heap, its->traced->session, probe, hit, its->comm));
	else if (tracer->calls)
		trace_fail(trace, add_call(tracer, its, probe));
	else if (tracer->host)
		probe_tracer_host_hit(tracer->host, tags[probe->role], hit, probe, its->comm);
	else if (hit->begin && trace->otlp)
		probe_otlp_span(trace->otlp, hit, &its->probes[hit->begin->probe], probe,
			comm_cache_get(trace->comms, hit->pid, hit->pid, hit->time_ns));
	else if (hit->begin)
		probe_sink_span(
			tracer->sink, hit, &its->probes[hit->begin->probe], probe, its->comm);
	else
		probe_sink_hit(tracer->sink, hit, probe, its->comm);
}

const char *output_comm(const struct probe_hit *hit, void *data)
{
	const struct trace *trace = data;

	return comm_cache_get(trace->comms, hit->pid, hit->tid, hit->time_ns);
}

bool output_hit(const struct probe_trace_hit *hit, void *data)
{
	const struct trace_target *its = hit->traced ? hit->traced->data : NULL;
	size_t probe = hit->hit->probe;
	struct trace *trace = data;

	if (trace->gone || trace_is_full(trace))
		return false;
	if (trace->tracers[hit->tracer].gone ||
		(its && probe < its->removed_count && its->removed[probe]))
		return true;
	dispatch(trace, hit);
	if (trace->gone)
		return false;
	/* Losses after the last wanted hit do not matter, so report all losses now. */
	if (trace->hits + 1 == trace->settings.hits_max)
		trace_report_losses(trace);
	trace->hits++;
	/* Not loop.over before: hits that are read after the end of the loop are also printed. */
	trace->loop.over |= trace_is_full(trace);
	return !trace_is_full(trace);
}

void output_lost(struct trace *trace, const struct probe_traced *traced,
	const struct probe_session_probe *probe, uint64_t lost)
{
	if (trace->record)
		output_check(trace, probe_ctf_discarded(trace->record, traced->session, lost));
	else
		probe_sink_lost(trace->sink, probe, lost);
}

/* ---- Loaded tracers --------------------------------------------------------- */

struct removal {
	struct trace *trace;
	const struct trace_tracer *tracer;
};

/* Restores the sites of the removed probes. A site stays patched if another session uses it. */
static void restore_removed(struct trace *trace, const struct probe_traced *traced)
{
	const struct trace_target *its = traced->data;
	AUTO(probe_report_deinit) struct probe_report report = {0};
	AUTO_FREE bool *on = calloc(its->removed_count + 1, sizeof(*on));
	struct probe_error *error = on ? NULL : probe_error_no_memory();

	for (size_t i = 0; on && i < its->removed_count; i++)
		on[i] = !its->removed[i];
	if (!error && probe_target_alive(traced->target))
		error = probe_session_select(traced->session, on, &report);
	trace_fail(trace, probe_error_prefix(error,
				  "process %d: a probe that the tracer does not want stays "
				  "on until the trace ends",
				  (int)probe_target_pid(traced->target)));
}

/* Removes one probe from a session, or all its probes if `provider` is NULL. */
static void remove_from(struct trace *trace, const struct probe_traced *traced,
	const char *provider, const char *name)
{
	const struct probe_session_probe *probes;
	struct trace_target *its = traced->data;
	size_t count;
	bool *removed;

	probes = probe_session_probes(traced->session, &count);
	removed = realloc(its->removed, count + 1);
	if (!removed) {
		trace_fail(trace, probe_error_no_memory());
		return;
	}
	its->removed = removed;
	/* If no probe is left, the whole session is switched off. */
	its->unwanted = true;
	for (size_t i = 0; i < count; i++) {
		removed[i] =
			(i < its->removed_count && removed[i]) || !provider ||
			(!strcmp(probes[i].provider, provider) && !strcmp(probes[i].name, name));
		its->unwanted &= removed[i];
	}
	its->removed_count = count;
	if (!its->unwanted && traced->is_on)
		restore_removed(trace, traced);
}

/*
 * Removes probes from a process, as a tracer wants. The sites of a forked child are its parent's:
 * they stay patched, but its hits are no longer passed on.
 */
static void removed(pid_t pid, const char *provider, const char *name, void *data)
{
	struct removal *removal = data;
	struct trace *trace = removal->trace;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++) {
		const struct trace_target *its = all[i]->data;

		if (&trace->tracers[all[i]->tracer] == removal->tracer && !its->unwanted &&
			probe_target_pid(all[i]->target) == pid)
			remove_from(trace, all[i], provider, name);
	}
}

bool host_wants(struct trace *trace, struct trace_tracer *tracer, pid_t pid, bool aloud)
{
	bool wanted = true;
	struct probe_error *error = tracer->host && !tracer->gone
					    ? probe_tracer_host_ask(tracer->host, pid, &wanted)
					    : NULL;

	if (error)
		trace_fail(trace, error);
	else if (!wanted && aloud)
		report_warning("tracer %s wants no hits of process %d: none of its probes are "
			       "switched on for it",
			probe_tracer_name(tracer->spec), (int)pid);
	tracer->gone |= error != NULL;
	return wanted && !error && !tracer->gone;
}

static void tracer_fail(struct trace *trace, struct trace_tracer *tracer, struct probe_error *error)
{
	tracer->gone = true;
	if (error->code == PROBE_ERROR_SYSTEM && error->err == EPIPE)
		output_check(trace, error);
	else
		trace_fail(trace, error);
}

void hosts_poll(struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];
		struct removal removal = {trace, tracer};
		struct probe_error *error;

		if (!tracer->host || tracer->gone)
			continue;
		probe_error_free(probe_sink_flush(tracer->sink));
		error = probe_tracer_host_poll(tracer->host, removed, &removal);
		if (error)
			tracer_fail(trace, tracer, error);
		else if (probe_tracer_host_off(tracer->host))
			tracer->gone = true;
	}
}

void hosts_finish(struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];
		struct probe_error *error =
			tracer->host ? probe_tracer_host_finish(tracer->host) : NULL;
		const char *idle = tracer->host && !error && trace->hits
					   ? probe_tracer_host_idle_tag(tracer->host)
					   : NULL;

		if (idle)
			report_warning("tracer %s: no hit got the tag of @%s",
				probe_tracer_name(tracer->spec), idle);

		if (error)
			tracer_fail(trace, tracer, error);
	}
}

/*
 * Starts tracers that are shared objects, each in a process, before we open files that these must
 * not inherit. They write to the output of the hits.
 */
struct probe_error *hosts_start(struct trace *trace)
{
	struct probe_error *error;
	bool any;

	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		tracer->sink = trace->sink;
		if (tracer->output != PROBE_TRACER_LOADED)
			continue;
		error = probe_tracer_host_start(tracer->spec, trace->output_fd, &tracer->host);
		if (error)
			return error;
		tracer->sink = probe_tracer_host_sink(tracer->host);
		tracer->options.filters =
			probe_tracer_host_filters(tracer->host, &tracer->options.filter_count);
		if (!probe_tracer_host_off(tracer->host))
			continue;
		/* It refuses all hits. The other tracers continue. */
		error = probe_error_new(PROBE_ERROR_STATE,
			"tracer %s wants no hits (it answered PROBE_TRACER_REMOVE): nothing is "
			"switched on for it",
			probe_tracer_name(tracer->spec));
		tracer->gone = true;
		any = false;
		for (size_t k = 0; k < trace->tracer_count; k++)
			any |= !trace->tracers[k].gone;
		if (!any)
			return error;
		trace_fail(trace, error);
	}
	return NULL;
}

/* ==== Tables ================================================================================== */

static struct probe_view snapshot_of(
	const struct trace *trace, const struct trace_tracer *tracer, bool is_interval)
{
	uint64_t from = is_interval ? tracer->last_ns : tracer->started_ns;
	struct probe_view view;

	probe_tracer_view(tracer->spec, &tracer->options, &view);
	view.top = trace->settings.top;
	view.all = trace->settings.all;
	view.title = tracer->title;
	view.elapsed_ns = clock_monotonic_ns() - from;
	view.is_interval = is_interval;
	/* A single table needs no heading. */
	if (is_interval || tracer->last || tracer->had_interval || tracer->pprof)
		view.time_ns = clock_now_ns();
	return view;
}

/* Prints the change since the last table. At the first interval, this is all data. */
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
	/* Hits after the last full interval form a shorter one. */
	if (count || !is_last)
		probe_sink_table(trace->sink, since, &view);
	probe_table_free(since);
	return NULL;
}

static struct probe_error *print_tracer(
	struct trace *trace, struct trace_tracer *tracer, bool is_interval)
{
	struct probe_table *table;
	struct probe_error *error =
		probe_trace_table(trace->set, (size_t)(tracer - trace->tracers), &table);
	const struct probe_table_row *rows;
	struct probe_view view;
	uint64_t others = 0;
	size_t count;

	if (error)
		return error;
	if (is_interval || tracer->last)
		error = print_interval(trace, tracer, table, !is_interval);
	if (!is_interval) {
		view = snapshot_of(trace, tracer, false);
		probe_table_sort(table, view.order);
		probe_sink_table(trace->sink, table, &view);
		rows = probe_table_rows(table, &count);
		for (size_t i = 0; i < count; i++)
			if (value_keys_are_other(
				    rows[i].row.keys, tracer->options.gather.key_count))
				others += rows[i].row.count;
	}
	if (others)
		fprintf(stderr,
			"probectl: hits without a row of their key: %" PRIu64
			", for not all keys fit into the table; --keys N makes it larger\n",
			others);
	probe_table_free(tracer->last);
	tracer->last = table;
	tracer->last_ns = clock_monotonic_ns();
	return error;
}

const char *output_comm_of(const struct trace *trace, const struct probe_traced *traced)
{
	pid_t pid = probe_target_pid(traced->target);
	struct trace_target *its = traced->data;
	const char *comm;

	if (!its->comm[0]) {
		comm = comm_cache_known(trace->comms, pid, pid);
		if (!comm)
			comm = comm_cache_get(trace->comms, pid, pid, clock_now_ns());
		snprintf(its->comm, sizeof(its->comm), "%s", comm ? comm : "");
	}
	return its->comm[0] ? its->comm : NULL;
}

/* ---- Stacks ----------------------------------------------------------------- */

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

/* ---- Heaps ------------------------------------------------------------------ */

/* Prints the count, `what` (if the count is 1) or `many`, and `so`. */
static void warn_of_hits(uint64_t count, const char *what, const char *many, const char *so)
{
	if (count)
		report_warning("%" PRIu64 " %s%s", count, count == 1 ? what : many, so);
}

/* Warns about figures that are too high or too low. */
static void warn_of_heap(const struct trace *trace, const struct trace_tracer *tracer)
{
	struct probe_heap_doubts doubts = probe_heap_doubts(tracer->heap);
	uint64_t begins = 0, ends = 0;
	size_t count;
	AUTO_FREE struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		if (&trace->tracers[all[i].tracer] == tracer)
			*(all[i].probe->role == PROBE_ROLE_BEGIN ? &begins : &ends) +=
				all[i].probe->lost;
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

/* `is_last`: the interval is what remains at the end, and is not printed if it is empty. */
static struct probe_error *print_stack_rows(
	struct trace *trace, const struct trace_tracer *tracer, bool is_interval, bool is_last)
{
	struct probe_view view = snapshot_of(trace, tracer, is_interval);
	AUTO_FREE struct probe_stacks_row *rows = NULL;
	uint64_t left_out;
	size_t count;
	struct probe_error *error =
		tracer->heap ? probe_heap_rows(tracer->heap, view.live, is_interval, &rows, &count)
			     : probe_stacks_rows(tracer->stacks, is_interval, &rows, &count);

	if (error)
		return error;
	if (count || !is_last)
		probe_sink_stacks(trace->sink, rows, count, &view);
	if (!is_interval)
		warn_of_cut(tracer, rows, count);
	if (!is_interval && tracer->heap)
		warn_of_heap(trace, tracer);
	left_out = is_interval || tracer->heap ? 0 : probe_stacks_left_out(tracer->stacks);
	if (left_out)
		report_warning("%" PRIu64 " hit%s had stacks that there was no room for", left_out,
			left_out == 1 ? "" : "s");
	return NULL;
}

/* Prints stacks with their hits, or with the memory that they have allocated. */
static struct probe_error *print_stacks(
	struct trace *trace, struct trace_tracer *tracer, bool is_interval)
{
	bool live = snapshot_of(trace, tracer, is_interval).live;
	struct probe_error *error = NULL;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	/* Read the stacks that sessions have counted; those of ended ones are in the table. */
	if (!tracer->heap && tracer->options.stack == PROBE_STACK_FRAMES) {
		probe_stacks_clear(tracer->stacks);
		for (size_t i = 0; i < count && !error; i++)
			if (&trace->tracers[all[i]->tracer] == tracer && !all[i]->is_broken)
				error = probe_stacks_add_session(tracer->stacks, all[i]->session,
					output_comm_of(trace, all[i]));
	}
	/* Live memory does not add up over intervals. */
	if (!error && !is_interval && tracer->had_interval && !live)
		error = print_stack_rows(trace, tracer, true, true);
	error = error ?: print_stack_rows(trace, tracer, is_interval, false);
	if (error)
		return error;
	if (tracer->heap)
		probe_heap_mark(tracer->heap);
	else
		probe_stacks_mark(tracer->stacks);
	tracer->had_interval |= is_interval;
	tracer->last_ns = clock_monotonic_ns();
	return NULL;
}

/* ---- Calls ------------------------------------------------------------------ */

static struct probe_error *print_calls(
	struct trace *trace, struct trace_tracer *tracer, bool is_interval)
{
	struct probe_view view = snapshot_of(trace, tracer, is_interval);
	AUTO_FREE struct probe_calls_row *rows = NULL;
	size_t count;
	struct probe_error *error = probe_calls_rows(tracer->calls, is_interval, &rows, &count);

	if (error)
		return error;
	view.edges = trace->verbose;
	probe_sink_calls(trace->sink, rows, count, &view);
	probe_calls_mark(tracer->calls);
	tracer->had_interval |= is_interval;
	tracer->last_ns = clock_monotonic_ns();
	if (!is_interval)
		report_calls(probe_calls_finish(tracer->calls), trace->settings.quiet);
	return NULL;
}

void trace_tables(struct trace *trace, bool is_interval)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		if (tracer->output == PROBE_TRACER_ROWS)
			trace_fail(trace, print_tracer(trace, tracer, is_interval));
		else if (tracer->output == PROBE_TRACER_STACKS ||
			 tracer->output == PROBE_TRACER_HEAP)
			trace_fail(trace, print_stacks(trace, tracer, is_interval));
		else if (tracer->calls)
			trace_fail(trace, print_calls(trace, tracer, is_interval));
		if (!tracer->host || !is_interval || tracer->gone)
			continue;
		/* A loaded tracer's status: of all processes together, and of each one. */
		probe_tracer_host_look(tracer->host, 0);
		for (size_t k = 0; k < count; k++) {
			const struct trace_target *its = all[k]->data;

			if (all[k]->tracer == i && all[k]->is_on && !its->unwanted)
				probe_tracer_host_look(
					tracer->host, probe_target_pid(all[k]->target));
		}
	}
}
