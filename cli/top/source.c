/* SPDX-License-Identifier: MIT */
/*
 * The processes of `probectl top`. Each has two sessions: one counts the hits of all probes, the
 * other measures the durations of pairs. They record no single hits, so that nothing is lost if top
 * reads them late.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/processes.h"
#include "cli/top/source.h"
#include "libprobe/base/value.h"

/* ==== Durations of pairs ====================================================================== */

/* The durations of pairs in `probectl top`. */

/* ---- Reading ----------------------------------------------------------------------- */

static struct probe_error *read_kept(struct top_source *source)
{
	struct top_times_kept *kept = &source->times;
	struct probe_table *table, *since;
	struct probe_error *error;

	error = probe_trace_table(source->set, TOP_TIMES, &table);
	if (error)
		return error;
	error = probe_table_since(table, kept->last, &since);
	if (error) {
		probe_table_free(table);
		return error;
	}
	probe_table_free(kept->recent);
	kept->recent = since;
	probe_table_free(kept->last);
	kept->last = table;
	return NULL;
}

static struct top_times times_of(const struct probe_table_row *row)
{
	double count = (double)row->row.count;

	return (struct top_times){.p50 = probe_row_percentile(&row->row, 50),
		.p99 = probe_row_percentile(&row->row, 99),
		.average = count > 0 ? row->row.sum / count : NAN,
		.sum = count > 0 ? row->row.sum : NAN};
}

/* Copies durations from a table to the rows of the probes at the ends of the pairs. */
static struct probe_error *take_times(
	struct top_model *model, const struct probe_table *table, bool is_recent)
{
	const struct probe_table_row *rows;
	size_t count;

	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++) {
		struct top_row *row = model_find(model, rows[i].provider, rows[i].name);

		if (!row || !rows[i].begin_name)
			continue;
		*(is_recent ? &row->recent : &row->all) = times_of(&rows[i]);
		row->in_flight = rows[i].row.in_flight;
		row->ends = true;
		if (!row->begin && asprintf(&row->begin, "%s:%s", rows[i].begin_provider,
					   rows[i].begin_name) < 0) {
			row->begin = NULL;
			return probe_error_no_memory();
		}
	}
	return NULL;
}

/* Reads all durations of pairs so far. Computes from them the durations of the last interval. */
static struct probe_error *source_read_times(struct top_source *source, struct top_model *model)
{
	struct probe_error *error = read_kept(source);

	if (error)
		return error;
	for (size_t i = 0; i < model->count; i++)
		model->rows[i].recent = (struct top_times){NAN, NAN, NAN, NAN};
	error = take_times(model, source->times.last, false);
	return error ? error : take_times(model, source->times.recent, true);
}

static void source_free_times(struct top_times_kept *kept)
{
	probe_table_free(kept->last);
	probe_table_free(kept->recent);
	kept->last = kept->recent = NULL;
}

/* ==== Hits by key ============================================================================= */

/*
 * The hits by key in `probectl top` (-k). The counting sessions gather a row for each value of the
 * keys, in addition to each probe's own row, which counts all its hits.
 */

static void set_keys(struct probe_gather *gather, const struct top_options *options)
{
	for (size_t i = 0; i < options->keys.count; i++)
		gather->keys[i] = options->keys.items[i];
	gather->key_count = options->keys.count;
	gather->keys_max = options->keys_max;
}

void source_set_tracers(struct top_source *source, const struct top_options *options)
{
	const struct string_list *keys = &options->keys;
	struct probe_session_options both = {.filter = options->filter,
		.catalogue = options->request.catalogue,
		.follow_libraries = processes_follow(&options->common),
		.follow_children = processes_follow(&options->common)};

	for (size_t i = 0; i < TOP_TRACERS; i++)
		source->tracers[i] =
			(struct probe_trace_tracer){.request = &options->request, .options = both};
	source->tracers[TOP_COUNTS].options.kind =
		keys->count ? PROBE_SESSION_GATHER : PROBE_SESSION_COUNT;
	set_keys(&source->tracers[TOP_COUNTS].options.gather, options);
	source->tracers[TOP_TIMES].options.kind = PROBE_SESSION_GATHER;
	source->tracers[TOP_TIMES].options.gather = (struct probe_gather){
		.pairing = PROBE_PAIRING_NAMES, .sum = true, .histogram = true};
}

/* Adds a value as `probectl trace` shows it: hexadecimal if it may be an address. */
static void add_value(struct buffer *out, const struct probe_value *value)
{
	if (value->kind == PROBE_VALUE_NULL) {
		buffer_string(out, "null");
		return;
	}
	if (value->kind == PROBE_VALUE_UNSIGNED && value->u > UINT32_MAX) {
		buffer_hex(out, value->u);
		return;
	}
	if (value_add_number(out, value))
		return;
	if (value->kind == PROBE_VALUE_STACK) {
		value_add_stack(out, value);
		return;
	}
	if (value->kind == PROBE_VALUE_OTHER) {
		buffer_bytes(out, value->bytes, value->length);
		return;
	}
	buffer_char(out, '"');
	buffer_c_escaped(out, value->bytes, value->length, '"');
	buffer_string(out, value->truncated ? "\"..." : "\"");
}

/* Writes the keys of a table's row, and a NUL, in the format of top_row.key. */
static void key_text(struct buffer *out, const struct probe_table_row *row, size_t key_count)
{
	for (size_t i = 0; i < key_count; i++) {
		buffer_string(out, i ? " " : "");
		add_value(out, &row->row.keys[i]);
	}
	buffer_char(out, '\0');
}

static struct probe_error *take_row(
	struct top_model *model, const struct probe_table_row *row, size_t key_count)
{
	struct buffer key = {0};
	struct top_row *found = NULL;

	key_text(&key, row, key_count);
	if (!key.no_memory)
		found = model_key_row(model, row->provider, row->name, key.data);
	buffer_deinit(&key);
	if (!found)
		return probe_error_no_memory();
	found->total += row->row.count;
	return NULL;
}

/* Sets the totals of the rows with keys. Adds missing rows. */
static struct probe_error *source_read_keys(struct top_source *source, struct top_model *model)
{
	const struct probe_table_row *rows;
	struct probe_error *error;
	struct probe_table *table;
	size_t count;

	if (!source->tracers[TOP_COUNTS].options.gather.key_count)
		return NULL;
	model->has_keys = true;
	error = probe_trace_table(source->set, TOP_COUNTS, &table);
	if (error)
		return error;
	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count && !error; i++)
		if (rows[i].row.count)
			error = take_row(model, &rows[i],
				source->tracers[TOP_COUNTS].options.gather.key_count);
	probe_table_free(table);
	return error;
}

/* ==== Source ================================================================================== */

void source_note_change(struct top_source *source, const struct probe_report *report)
{
	if (report->stop_ns > source->stop_ns)
		source->stop_ns = report->stop_ns;
}

struct probe_error *source_add_refusals(
	struct top_model *model, const struct probe_report *report, size_t first)
{
	for (size_t i = first; i < report->refusal_count; i++) {
		const struct probe_refusal *refusal = &report->refusals[i];
		struct top_row *row = model_row(model, refusal->provider, refusal->name);

		if (row && !row->reason)
			row->reason = strdup(refusal->reason);
		if (!row || !row->reason)
			return probe_error_no_memory();
		row->refused++;
	}
	return NULL;
}

/* ---- Reading ----------------------------------------------------------------------- */

/* Adds the counts of a probe to its row. */
static void add_figures(struct top_row *row, const struct probe_trace_probe *its)
{
	const struct probe_session_probe *probe = its->probe;

	if (its->tracer == TOP_TIMES) {
		row->unmatched += probe->unmatched;
		row->lost += probe->lost;
		return;
	}
	/*
	 * If the table has no space for a hit's key, the hit counts as lost and is in no row with a
	 * key.
	 */
	row->total += probe->hits + probe->lost;
	row->unkeyed += probe->lost;
	probe_coverage_add(&row->coverage, &probe->coverage);
}

static struct probe_error *read_figures(struct top_source *source, struct top_model *model)
{
	struct probe_trace_probe *all;
	struct probe_error *error;
	size_t count;

	for (size_t i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		row->new_hits = row->total;
		row->total = row->unmatched = row->lost = row->unkeyed = 0;
		row->coverage = (struct probe_coverage){0};
	}
	/* Read the keys first, because this also refreshes the hit counts of the sessions. */
	error = source_read_keys(source, model);
	all = probe_trace_probes(source->set, &count);
	for (size_t i = 0; i < count; i++) {
		struct top_row *row = model_find(model, all[i].probe->provider, all[i].probe->name);

		if (row)
			add_figures(row, &all[i]);
	}
	free(all);
	for (size_t i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		/* The target can write to its counters, so `total` may have decreased. */
		row->new_hits = row->total > row->new_hits ? row->total - row->new_hits : 0;
	}
	return error;
}

struct probe_error *source_read(struct top_source *source)
{
	struct top_model *model = source->model;
	struct probe_error *error;
	uint64_t now;

	probe_trace_refresh(source->set);
	probe_trace_look(source->set, false);
	error = source->error;
	source->error = NULL;
	now = clock_monotonic_ns();
	model->interval_ns = now - source->last_ns;
	model->elapsed_ns = now - source->started_ns;
	source->last_ns = now;
	if (error)
		return error;
	error = read_figures(source, model);
	return error ? error : source_read_times(source, model);
}

/* ---- Switching --------------------------------------------------------------------- */

static struct probe_error *switch_session(
	struct probe_session *session, const struct top_model *model, struct probe_report *report)
{
	const struct probe_session_probe *probes;
	struct probe_error *error;
	size_t count;
	bool *on;

	probes = probe_session_probes(session, &count);
	on = calloc(count + 1, sizeof(*on));
	if (!on)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const struct top_row *row = model_find(model, probes[i].provider, probes[i].name);

		on[i] = row && row->on;
	}
	error = probe_session_select(session, on, report);
	free(on);
	return error;
}

struct probe_error *source_switch_session(
	struct top_source *source, const struct probe_traced *traced)
{
	struct probe_report report = {0};
	struct probe_error *error = switch_session(traced->session, source->model, &report);

	if (!error && traced->tracer == TOP_COUNTS)
		error = source_add_refusals(source->model, &report, 0);
	source_note_change(source, &report);
	probe_report_deinit(&report);
	/* Ignore the error if the process has ended; source_follow() reports this. */
	if (error && !probe_target_alive(traced->target)) {
		probe_error_free(error);
		error = NULL;
	}
	return error;
}

/* Returns true if the session belongs to the program that a process runs now. */
static bool is_current(const struct probe_traced *traced)
{
	return traced->is_on && !traced->is_replaced;
}

/* Calls visit() for each probe of each process, with its row and whether it is on there. */
static void visit_rows(const struct top_source *source, struct top_model *model,
	void (*visit)(struct top_row *row, bool is_on))
{
	size_t count;
	struct probe_trace_probe *all = probe_trace_probes(source->set, &count);

	for (size_t i = 0, k = 0; i < count; i++) {
		const struct probe_traced *traced = all[i].traced;
		struct top_row *row;

		/* `k` is the index of the probe in its session. */
		k = i && all[i - 1].traced == traced ? k + 1 : 0;
		if (!traced || traced->tracer != TOP_COUNTS || !is_current(traced))
			continue;
		row = model_find(model, all[i].probe->provider, all[i].probe->name);
		if (row)
			visit(row, probe_session_is_selected(traced->session, k));
	}
	free(all);
}

/* Clears the refused sites of a probe that is about to be switched on and report them again. */
static void forget_refusals(struct top_row *row, bool is_on)
{
	if (!row->on || is_on)
		return;
	row->refused = 0;
	free(row->reason);
	row->reason = NULL;
	row->refusal_told = false;
}

static void forget_state(struct top_row *row, bool is_on)
{
	(void)is_on;
	row->on = false;
}

static void add_state(struct top_row *row, bool is_on)
{
	row->on |= is_on;
}

struct probe_error *source_switch(struct top_source *source)
{
	struct top_model *model = source->model;
	struct probe_error *error = NULL;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(source->set, &count);

	source->stop_ns = 0;
	visit_rows(source, model, forget_refusals);
	for (size_t i = 0; i < count && !error; i++)
		if (is_current(all[i]))
			error = source_switch_session(source, all[i]);
	/* Rows show the actual state now; those of ended processes, their last one. */
	visit_rows(source, model, forget_state);
	visit_rows(source, model, add_state);
	return error;
}

/* ---- The end ----------------------------------------------------------------------- */

uint64_t source_stop_ns(const struct top_source *source)
{
	return source->stop_ns;
}

const char *source_title(const struct top_source *source)
{
	return source->title;
}

void source_free(struct top_source *source)
{
	if (!source)
		return;
	probe_trace_free(source->set);
	source_free_times(&source->times);
	free(source->matched);
	free(source->news);
	free(source);
}
