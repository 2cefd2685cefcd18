/* SPDX-License-Identifier: MIT */
/* The samples of a family, one after the other, for whoever writes them. */
#include <math.h>
#include <string.h>

#include "libprobe/output/output.h"

bool metric_is_same_tracer(const struct probe_view *a, const struct probe_view *b)
{
	return a->tags == b->tags && !strcmp(a->tracer, b->tracer);
}

static void fill_histogram(const struct metric_source *source, const struct probe_table_row *row,
	const struct metric_name *name, struct metric_sample *sample)
{
	struct probe_row steady = row->row;

	steady.unit = name->growth.unit;
	sample->bound_count = metric_bounds(&source->view, &steady, sample->bounds);
	metric_fill(&source->view, &steady, sample->bounds, sample->bound_count, sample->hits);
	sample->value = name->growth.total;
}

static void of_rows(const struct metric_source *source, struct metric_sample *sample,
	metric_visit *visit, void *data)
{
	const struct metric_family *family = sample->family;
	const struct metric_process *process = sample->process;
	bool is_recent = family->quantity == METRIC_LEAST || family->quantity == METRIC_MOST;
	const struct metric_name *const *names = is_recent ? process->recent : process->all;
	const struct probe_table_row *rows;
	size_t count;

	if (!names)
		return;
	rows = probe_table_rows(is_recent ? process->history.recent : process->history.all, &count);
	for (size_t i = 0; i < count; i++) {
		if (!names[i])
			continue;
		sample->row = &rows[i];
		sample->labels = names[i]->labels;
		if (family->kind == METRIC_HISTOGRAM)
			fill_histogram(source, &rows[i], names[i], sample);
		else if (is_recent)
			sample->value = metric_recent(
				&rows[i], family->quantity, process->history.interval_ns);
		else
			sample->value = metric_total(&rows[i], family->quantity);
		if (!isnan(sample->value))
			visit(sample, data);
	}
}

/* What a process has lost. The expression tells several tracers of one name apart. */
static void of_process(const struct metric_source *source, struct metric_sample *sample,
	metric_visit *visit, void *data)
{
	const struct probe_table *table = sample->process->history.all;

	if (!table)
		return;
	sample->labels = source->labels;
	sample->value = (long double)(sample->family->quantity == METRIC_LOST
					      ? probe_table_lost(table)
					      : probe_table_unmatched(table));
	visit(sample, data);
}

void metric_samples(const struct metric_source *source, const struct metric_family *family,
	const struct metric_process *process, metric_visit *visit, void *data)
{
	struct metric_sample sample = {.family = family, .process = process};

	if (metric_infos[family->quantity].is_per_process)
		of_process(source, &sample, visit, data);
	else
		of_rows(source, &sample, visit, data);
}
