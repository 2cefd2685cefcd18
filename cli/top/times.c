/* SPDX-License-Identifier: MIT */
/* How long pairs took, in `probectl top`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/source.h"

/* ---- Reading ----------------------------------------------------------------------- */

/* All times: of processes that are gone, and of those that run. */
static struct probe_error *gather(const struct top_source *source, struct probe_table **ret)
{
	const struct top_times_kept *kept = &source->times;
	struct probe_error *error = probe_table_since(kept->gone, NULL, ret);

	for (size_t i = 0; i < source->count && !error; i++) {
		struct probe_session *session = source->processes[i].times;

		if (!session)
			continue;
		error = probe_table_add(*ret, session, &kept->options);
		if (error)
			probe_table_free(*ret);
	}
	return error;
}

static struct probe_error *read_kept(struct top_source *source)
{
	struct top_times_kept *kept = &source->times;
	struct probe_table *table, *since;
	struct probe_error *error;

	if (!kept->gone)
		return NULL;
	error = gather(source, &table);
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
	struct probe_error *error = read_kept(source);

	if (error)
		return error;
	for (size_t i = 0; i < model->count; i++)
		model->rows[i].recent = (struct top_times){NAN, NAN, NAN, NAN};
	error = take_times(model, source->times.last, false);
	return error ? error : take_times(model, source->times.recent, true);
}

/* ---- Keeping ----------------------------------------------------------------------- */

struct probe_error *source_keep_times(struct top_source *source, const struct top_process *process)
{
	return process->times
		       ? probe_table_add(source->times.gone, process->times, &source->times.options)
		       : NULL;
}

void source_free_times(struct top_times_kept *kept)
{
	probe_table_free(kept->gone);
	probe_table_free(kept->last);
	probe_table_free(kept->recent);
	kept->gone = kept->last = kept->recent = NULL;
}
