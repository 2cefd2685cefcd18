/* SPDX-License-Identifier: MIT */
/*
 * How long pairs took, in `probectl top`: of each pair, for the rows and for its chart; and, while
 * a chart shows a row with a key, of each pair and key.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/source.h"

/* ---- Reading ----------------------------------------------------------------------- */

static struct probe_session *session_of(
	const struct top_source *source, const struct top_times_kept *kept, size_t index)
{
	const struct top_process *process = &source->processes[index];

	return kept == &source->keyed ? process->keyed : process->times;
}

/* All times: of processes that are gone, and of those that run. */
static struct probe_error *gather(const struct top_source *source,
	const struct top_times_kept *kept, struct probe_table **ret)
{
	struct probe_error *error = probe_table_since(kept->gone, NULL, ret);

	for (size_t i = 0; i < source->count && !error; i++) {
		struct probe_session *session = session_of(source, kept, i);

		if (!session)
			continue;
		error = probe_table_add(*ret, session, &kept->options);
		if (error)
			probe_table_free(*ret);
	}
	return error;
}

static struct probe_error *read_kept(const struct top_source *source, struct top_times_kept *kept)
{
	struct probe_table *table, *since;
	struct probe_error *error;

	if (!kept->gone)
		return NULL;
	error = gather(source, kept, &table);
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

/* The rows of the ends. */
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

struct probe_error *source_read_times(struct top_source *source, struct top_model *model)
{
	struct probe_error *error = read_kept(source, &source->times);

	if (!error)
		error = read_kept(source, &source->keyed);
	if (error)
		return error;
	for (size_t i = 0; i < model->count; i++)
		model->rows[i].recent = (struct top_times){NAN, NAN, NAN, NAN};
	error = take_times(model, source->times.last, false);
	return error ? error : take_times(model, source->times.recent, true);
}

/* ---- The pair of a row ------------------------------------------------------------- */

static bool is_probe(const struct top_row *row, const char *provider, const char *name)
{
	return strcmp(row->provider, provider) == 0 && strcmp(row->name, name) == 0;
}

static bool has_key(const struct top_row *row, const struct probe_table_row *pair, size_t key_count)
{
	struct buffer key = {0};
	bool same;

	if (!row->key[0])
		return true;
	source_key_text(&key, pair, key_count);
	same = !key.no_memory && strcmp(row->key, key.data) == 0;
	buffer_deinit(&key);
	return same;
}

const struct probe_table_row *source_pair(
	const struct top_source *source, const struct top_row *row, bool since_start)
{
	const struct top_times_kept *kept = row->key[0] ? &source->keyed : &source->times;
	const struct probe_table *table = since_start ? kept->last : kept->recent;
	const struct probe_table_row *rows, *found = NULL;
	size_t count = 0;

	rows = table ? probe_table_rows(table, &count) : NULL;
	for (size_t i = 0; i < count; i++) {
		if (!rows[i].begin_name || !rows[i].row.count ||
			!has_key(row, &rows[i], kept->options.gather.key_count))
			continue;
		if (is_probe(row, rows[i].provider, rows[i].name))
			return &rows[i];
		if (is_probe(row, rows[i].begin_provider, rows[i].begin_name) &&
			(!found || rows[i].row.count > found->row.count))
			found = &rows[i];
	}
	return found;
}

/* ---- Keeping ----------------------------------------------------------------------- */

struct probe_error *source_keep_times(struct top_source *source, const struct top_process *process)
{
	struct probe_error *error = NULL;

	if (process->times)
		error = probe_table_add(source->times.gone, process->times, &source->times.options);
	if (!error && process->keyed)
		error = probe_table_add(source->keyed.gone, process->keyed, &source->keyed.options);
	return error;
}

void source_free_times(struct top_times_kept *kept)
{
	probe_table_free(kept->gone);
	probe_table_free(kept->last);
	probe_table_free(kept->recent);
	kept->gone = kept->last = kept->recent = NULL;
}

/* ---- By key ------------------------------------------------------------------------ */

/* A process that has ended meanwhile is no failure: source_follow() will report that. */
static struct probe_error *start_keyed(
	struct top_source *source, struct top_process *process, struct top_model *model)
{
	struct probe_error *error = source_start_keyed(source, process, false);

	/* Probes that are off stay off. */
	if (!error && process->keyed)
		return source_switch_process(source, process, model);
	if (error && !probe_target_alive(process->target)) {
		probe_error_free(error);
		return NULL;
	}
	return error;
}

static void end_keyed(struct top_source *source)
{
	for (size_t i = 0; i < source->count; i++) {
		struct top_process *process = &source->processes[i];

		source_note_failure(source, source_stop_session(process, process->keyed));
		probe_session_free(process->keyed);
		process->keyed = NULL;
	}
	source_free_times(&source->keyed);
}

struct probe_error *source_time_keys(struct top_source *source, struct top_model *model, bool on)
{
	struct probe_error *error;

	if (on == (source->keyed.gone != NULL))
		return NULL;
	if (!on) {
		end_keyed(source);
		return NULL;
	}
	source->stop_ns = 0;
	source->keyed_ns = clock_ns(CLOCK_MONOTONIC);
	error = probe_table_create(source->keyed.options.gather.key_count, &source->keyed.gone);
	for (size_t i = 0; i < source->count && !error; i++)
		if (!source->processes[i].replaced)
			error = start_keyed(source, &source->processes[i], model);
	if (error)
		end_keyed(source);
	return error;
}
