/* SPDX-License-Identifier: MIT */
/*
 * The rows of several tracers and processes. A row that was shown once stays: if it came and went,
 * a scraper would take its counters for reset ones. So the first `rows_max` rows have room, and
 * those that come later are left out and counted.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/output/output.h"

/* ---- Names of rows ------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
	const struct metric_name *left = a, *right = b;

	return strcmp(left->labels, right->labels);
}

static void name_free(void *data)
{
	struct metric_name *name = data;

	free(name->labels);
	free(name);
}

/* Takes what a buffer holds as a string, and frees the buffer; NULL without memory. */
static char *take_text(struct buffer *out, bool done)
{
	char *text = NULL;

	buffer_char(out, '\0');
	if (done && !out->no_memory)
		text = strdup(out->data);
	buffer_deinit(out);
	return text;
}

static char *row_labels(const struct metric_source *source, const struct probe_table_row *row)
{
	struct buffer out = {0};
	bool done =
		metric_row_labels(row, &source->view, source->key_count, metric_write_label, &out);

	return take_text(&out, done);
}

/* Takes ownership of `labels`; NULL without memory. */
static struct metric_name *name_create(
	struct probe_metrics *metrics, struct metric_process *process, char *labels)
{
	struct metric_name *name = malloc(sizeof(*name));

	if (!name) {
		free(labels);
		return NULL;
	}
	*name = (struct metric_name){.labels = labels};
	if (!tsearch(name, &process->names, compare_names)) {
		name_free(name);
		return NULL;
	}
	metrics->row_count++;
	return name;
}

/* The name of a row; NULL in *ret: it has none yet, and there is no room or it may get none. */
static struct probe_error *name_of(struct probe_metrics *metrics,
	const struct metric_source *source, struct metric_process *process,
	const struct probe_table_row *row, bool is_recent, const struct metric_name **ret)
{
	char *labels = row_labels(source, row);
	const struct metric_name wanted = {.labels = labels};
	struct metric_name *const *found, *name;

	*ret = NULL;
	if (!labels)
		return probe_error_no_memory();
	found = tfind(&wanted, &process->names, compare_names);
	name = found ? *found : NULL;
	if (name || is_recent || metrics->row_count >= metrics->rows_max)
		free(labels);
	else if (!(name = name_create(metrics, process, labels)))
		return probe_error_no_memory();
	/* Strings that were cut off may look the same. */
	if (!name || name->round == process->round)
		return NULL;
	name->round = process->round;
	if (!is_recent)
		metric_grow(&name->growth, &source->view, &row->row);
	*ret = name;
	return NULL;
}

/* Names all rows of a table. */
static struct probe_error *name_rows(struct probe_metrics *metrics,
	const struct metric_source *source, struct metric_process *process, bool is_recent,
	const struct metric_name ***ret)
{
	size_t count;
	const struct probe_table_row *rows = probe_table_rows(
		is_recent ? process->history.recent : process->history.all, &count);
	const struct metric_name **names = calloc(count + 1, sizeof(*names));
	struct probe_error *error = names ? NULL : probe_error_no_memory();

	process->round++;
	for (size_t i = 0; i < count && !error; i++) {
		if (!metric_shows(&source->view, &rows[i]))
			continue;
		error = name_of(metrics, source, process, &rows[i], is_recent, &names[i]);
		process->left_out += !is_recent && !names[i];
	}
	free(*ret);
	*ret = names;
	return error;
}

/* ---- Processes ----------------------------------------------------------------- */

static void process_deinit(struct metric_process *process)
{
	tdestroy(process->names, name_free);
	metric_history_deinit(&process->history);
	free(process->all);
	free(process->recent);
	free(process->program);
	free(process->labels);
}

static bool rename_process(struct metric_process *process, const char *program)
{
	struct buffer out = {0};
	bool done = metric_process_labels(process->pid, program, metric_write_label, &out);
	char *labels = take_text(&out, done), *copy = strdup(program);

	if (!labels || !copy) {
		free(labels);
		free(copy);
		return false;
	}
	free(process->labels);
	free(process->program);
	process->labels = labels;
	process->program = copy;
	return true;
}

static struct metric_process *look_up(const struct metric_source *source, pid_t pid)
{
	for (size_t i = 0; i < source->process_count; i++)
		if (source->processes[i].pid == pid)
			return &source->processes[i];
	return NULL;
}

/* One that finds no room has no program. */
static struct probe_error *find_process(struct probe_metrics *metrics, struct metric_source *source,
	pid_t pid, const char *program, struct metric_process **ret)
{
	struct metric_process *process = look_up(source, pid);

	if (!process) {
		if (!ARRAY_ROOM(source->processes, source->process_count))
			return probe_error_no_memory();
		process = &source->processes[source->process_count++];
		*process = (struct metric_process){.pid = pid};
	}
	*ret = process;
	if (process->program && (!program || !strcmp(process->program, program)))
		return NULL;
	if (!process->program && metrics->row_count >= metrics->rows_max)
		return NULL;
	metrics->row_count += !process->program;
	return rename_process(process, program ? program : "") ? NULL : probe_error_no_memory();
}

struct probe_error *probe_metrics_add(struct probe_metrics *metrics, size_t view, pid_t pid,
	const char *program, struct probe_table *table)
{
	struct metric_source *source = &metrics->sources[view];
	struct metric_process *process;
	struct probe_error *error = find_process(metrics, source, pid, program, &process);

	if (error || !process->program) {
		if (!error)
			probe_table_rows(table, &process->left_out);
		probe_table_free(table);
		return error;
	}
	/* Until there are new ones, the names would be those of other rows. */
	free(process->all);
	free(process->recent);
	process->all = process->recent = NULL;
	process->left_out = 0;
	error = metric_history_take(&process->history, table);
	if (!error)
		error = name_rows(metrics, source, process, false, &process->all);
	if (!error)
		error = name_rows(metrics, source, process, true, &process->recent);
	return error;
}

void probe_metrics_end(struct probe_metrics *metrics, size_t view, pid_t pid)
{
	struct metric_source *source = &metrics->sources[view];
	struct metric_process *process = look_up(source, pid);

	if (!process || process->program)
		return;
	source->left_out += process->left_out;
	process_deinit(process);
	*process = source->processes[--source->process_count];
}

/* ---- Life ---------------------------------------------------------------------- */

struct probe_error *probe_metrics_create(size_t rows_max, struct probe_metrics **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return probe_error_no_memory();
	(*ret)->rows_max = rows_max;
	(*ret)->start_ns = clock_now_ns();
	return NULL;
}

static bool is_same(const struct probe_view *a, const struct probe_view *b)
{
	return metric_is_same_tracer(a, b) &&
	       !strcmp(a->value ? a->value : "", b->value ? b->value : "");
}

static char *source_labels(const struct probe_view *view)
{
	struct buffer out = {0};
	const struct metric_label label = {
		"value", view->value, view->value ? strlen(view->value) : 0, false};

	return take_text(&out, !view->value || metric_write_label(&label, &out));
}

struct probe_error *probe_metrics_view(
	struct probe_metrics *metrics, const struct probe_view *view, size_t key_count, size_t *ret)
{
	struct metric_source *source;

	for (size_t i = 0; i < metrics->source_count; i++)
		if (is_same(&metrics->sources[i].view, view))
			return probe_error_new(PROBE_ERROR_USAGE,
				"the metrics of tracer '%s' are asked for twice", view->tracer);
	if (!ARRAY_ROOM(metrics->sources, metrics->source_count))
		return probe_error_no_memory();
	*ret = metrics->source_count++;
	source = &metrics->sources[*ret];
	*source = (struct metric_source){.view = *view, .key_count = key_count};
	source->labels = source_labels(view);
	if (!source->labels)
		return probe_error_no_memory();
	source->family_count = metric_families(view, key_count, source->families);
	return NULL;
}

size_t probe_metrics_left_out(const struct probe_metrics *metrics)
{
	size_t left_out = 0;

	for (size_t i = 0; i < metrics->source_count; i++) {
		const struct metric_source *source = &metrics->sources[i];

		left_out += source->left_out;
		for (size_t k = 0; k < source->process_count; k++)
			left_out += source->processes[k].left_out;
	}
	return left_out;
}

void probe_metrics_free(struct probe_metrics *metrics)
{
	if (!metrics)
		return;
	for (size_t i = 0; i < metrics->source_count; i++) {
		for (size_t k = 0; k < metrics->sources[i].process_count; k++)
			process_deinit(&metrics->sources[i].processes[k]);
		free(metrics->sources[i].processes);
		free(metrics->sources[i].labels);
	}
	free(metrics->sources);
	free(metrics);
}
