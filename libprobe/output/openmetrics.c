/* SPDX-License-Identifier: MIT */
/*
 * Writes the text that scrapers read: OpenMetrics 1.0, and Prometheus's format 0.0.4, which has
 * other names for families of counters, no units, and no end mark.
 *
 *	# TYPE probectl_latency_seconds histogram
 *	# UNIT probectl_latency_seconds seconds
 *	# HELP probectl_latency_seconds Times from begins to ends
 *	probectl_latency_seconds_bucket{pid="7",program="shop",...,le="1e-06"} 0
 *	...
 *	# EOF
 *
 * https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

/* ==== Labels ================================================================================== */

static bool labels_take_text(
	const char *name, const char *text, metric_take_label *take, void *data)
{
	const struct metric_label label = {name, text, strlen(text), false};

	return take(&label, data);
}

bool metric_process_labels(pid_t pid, const char *program, metric_take_label *take, void *data)
{
	char text[16];
	const struct metric_label label = {
		"pid", text, (size_t)snprintf(text, sizeof(text), "%d", (int)pid), true};

	return take(&label, data) && labels_take_text("program", program, take, data);
}

void metric_key_text(struct buffer *out, const struct probe_value *key, bool is_alone)
{
	if (key->kind == PROBE_VALUE_NULL)
		buffer_string(out, "(unreadable)");
	if (key->kind == PROBE_VALUE_STACK)
		value_add_stack(out, key);
	if (key->kind == PROBE_VALUE_OTHER)
		buffer_bytes(out, key->bytes, key->length);
	if (key->kind == PROBE_VALUE_NULL || key->kind == PROBE_VALUE_STACK ||
		key->kind == PROBE_VALUE_OTHER || value_add_number(out, key))
		return;
	/* Omit the quotes if no other kind of key can have the same text. */
	if (is_alone && key->length && key->bytes[0] != '"' && key->bytes[0] != '(') {
		buffer_c_escaped(out, key->bytes, key->length, 0);
	} else {
		buffer_char(out, '"');
		buffer_c_escaped(out, key->bytes, key->length, '"');
		buffer_char(out, '"');
	}
	if (key->truncated)
		buffer_string(out, "...");
}

static bool take_keys(
	const struct probe_value *keys, size_t key_count, metric_take_label *take, void *data)
{
	static const char *const names[PROBE_KEYS_MAX] = {"key", "key2", "key3", "key4"};
	bool done = true;

	for (size_t i = 0; i < key_count && done; i++) {
		struct metric_label label = {.name = names[i]};
		AUTO(buffer_deinit) struct buffer out = {0};

		if (value_has_bytes(&keys[i]) && keys[i].kind != PROBE_VALUE_STACK) {
			label.text = keys[i].bytes;
			label.length = keys[i].length;
			done = take(&label, data);
			continue;
		}
		metric_key_text(&out, &keys[i], true);
		label.text = out.data;
		label.length = out.length;
		done = !out.no_memory && take(&label, data);
	}
	/* A program's key may also be the text "(other)". */
	if (done && value_keys_are_other(keys, key_count))
		done = labels_take_text("other", "true", take, data);
	return done;
}

bool metric_row_labels(const struct probe_table_row *row, const struct probe_view *view,
	size_t key_count, metric_take_label *take, void *data)
{
	bool done = labels_take_text("provider", row->provider, take, data) &&
		    labels_take_text("probe", row->name, take, data);

	if (done && row->begin_name)
		done = labels_take_text("begin", row->begin_name, take, data);
	if (done && view->columns & PROBE_COLUMN_OUTCOME)
		done = labels_take_text(
			"outcome", table_name_aborts(row->name) ? "aborted" : "done", take, data);
	if (done && view->value)
		done = labels_take_text("value", view->value, take, data);
	return done && take_keys(row->row.keys, key_count, take, data);
}

/* ==== Bounds ================================================================================== */

/*
 * The buckets of exported histograms. A scraper computes what is new in each bucket, so the buckets
 * must be the same at all times. They must be few, because each bucket is a series. So the 1,921
 * buckets of a row are combined:
 *
 *	times		1, 2 and 5 times each power of ten from 100 ns to 100 s. The row's buckets
 *			are in ticks of a clock. Each is counted by its middle, which is off by at
 *			most 1.6 %, and stays in its bucket when the tick is known better.
 *	whole numbers	0, 1, 3, 7, 15 ... 2^40 - 1: the ends of the row's buckets, so exact
 *	doubles		2^-10 ... 2^30, exact except for a value that equals a bound
 *
 * Negative values are in the first bucket.
 */

enum { DECADES = 9, FIRST_DOUBLE = -10 };

_Static_assert(3 * DECADES + 1 <= METRIC_BOUNDS_MAX, "times have fewer");

/* Computes each bucket's highest value, in the unit of the row's values. Returns their number. */
static size_t metric_bounds(
	const struct probe_view *view, const struct probe_row *row, double ret[METRIC_BOUNDS_MAX])
{
	static const double steps[] = {1, 2, 5};
	double decade = 100;
	size_t count = 0;

	if (view->times) {
		for (int i = 0; i < DECADES; i++, decade *= 10)
			for (int k = 0; k < 3; k++)
				ret[count++] = decade * steps[k];
		ret[count++] = decade;
		return count;
	}
	for (int i = 0; i < METRIC_BOUNDS_MAX; i++)
		ret[i] = row->is_float ? ldexp(1, FIRST_DOUBLE + i) : ldexp(1, i) - 1;
	return METRIC_BOUNDS_MAX;
}

/* Counts hits in each bucket. The last bucket takes values above all bounds. */
static void metric_fill(const struct probe_view *view, const struct probe_row *row,
	const double *bounds, size_t count, uint64_t ret[METRIC_BOUNDS_MAX + 1])
{
	size_t at = 0;

	for (size_t i = 0; i <= count; i++)
		ret[i] = 0;
	for (size_t i = 0; row->buckets && i < PROBE_BUCKETS; i++) {
		double low, high;

		if (!row->buckets[i])
			continue;
		probe_row_bucket(row, i, &low, &high);
		/* Negative values belong to the first of the exported buckets. */
		if (i == PROBE_BUCKETS - 1)
			at = 0;
		while (at < count && (view->times ? (low + high) / 2 : high) > bounds[at])
			at++;
		ret[at] += row->buckets[i];
	}
}

/* ==== Samples ================================================================================= */

/* Returns true if two tracers have the same families in the same order. */
static bool metric_is_same_tracer(const struct probe_view *a, const struct probe_view *b)
{
	return a->tags == b->tags && !strcmp(a->tracer, b->tracer);
}

static void of_rows(const struct metric_source *source, struct metric_sample *sample,
	metric_visit *visit, void *data)
{
	const struct metric_family *family = sample->family;
	const struct metric_process *process = sample->process;
	const struct probe_view *view = &source->view;
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
		if (family->kind == METRIC_HISTOGRAM) {
			struct probe_row steady = rows[i].row;

			steady.unit = names[i]->growth.unit;
			sample->bound_count = metric_bounds(view, &steady, sample->bounds);
			metric_fill(
				view, &steady, sample->bounds, sample->bound_count, sample->hits);
			sample->value = names[i]->growth.total;
		} else if (is_recent)
			sample->value = metric_recent(
				&rows[i], family->quantity, process->history.interval_ns);
		else
			sample->value = metric_total(&rows[i], family->quantity);
		if (!isnan(sample->value))
			visit(sample, data);
	}
}

void metric_samples(const struct metric_source *source, const struct metric_family *family,
	const struct metric_process *process, metric_visit *visit, void *data)
{
	struct metric_sample sample = {
		.family = family, .process = process, .labels = source->labels};
	const struct probe_table *table = process->history.all;

	if (!metric_infos[family->quantity].is_per_process) {
		of_rows(source, &sample, visit, data);
		return;
	}
	if (!table)
		return;
	/* Tracers of one name differ by the label of the expression. */
	sample.value =
		(long double)(family->quantity == METRIC_LOST ? probe_table_lost(table)
							      : probe_table_unmatched(table));
	visit(&sample, data);
}

/* ==== Families ================================================================================ */

/*
 * Families of metrics: probectl_TRACER_QUANTITY[_UNIT], or pmtrace_TRACER_... for tags. Times are
 * in seconds, Prometheus's base unit.
 */

const struct metric_family metric_left_out = {.name = "probectl_rows_left_out",
	.help = "Rows without room, which are in no metric",
	.kind = METRIC_GAUGE};

static void add_family(const struct probe_view *view, const char *what, const char *help,
	bool is_value, struct metric_family *ret)
{
	/* `promtool check metrics` rejects names that contain the name of a type. */
	const char *tracer = strcmp(view->tracer, "counter") ? view->tracer : "tally";

	ret->help = help;
	ret->unit = is_value && view->times ? "seconds" : NULL;
	snprintf(ret->name, sizeof(ret->name), "%s_%s%s%s%s%s", view->tags ? "pmtrace" : "probectl",
		tracer, *what ? "_" : "", what, ret->unit ? "_" : "", ret->unit ? ret->unit : "");
}

/* Lists a view's families. Returns their number. */
static size_t metric_families(const struct probe_view *view, size_t key_count,
	struct metric_family ret[METRIC_QUANTITY_COUNT])
{
	bool has_histogram = (view->columns & PROBE_COLUMN_BUCKETS) != 0;
	size_t count = 0;

	if (has_histogram) {
		ret[count] =
			(struct metric_family){.kind = METRIC_HISTOGRAM, .quantity = METRIC_TOTAL};
		add_family(view, view->times ? "" : "value",
			view->times ? "Times from begins to ends" : "Values", true, &ret[count++]);
	}
	for (enum metric_quantity i = 0; i < METRIC_QUANTITY_COUNT; i++) {
		const struct metric_info *info = &metric_infos[i];
		bool is_in_histogram = i == METRIC_HITS || i == METRIC_TOTAL || info->percent > 0;
		/* Prometheus would take a decrease of a counter for a reset. */
		bool may_decrease = i == METRIC_TOTAL && !view->times;

		if (!metric_has(view, key_count, i) || (has_histogram && is_in_histogram))
			continue;
		ret[count] = (struct metric_family){.quantity = i,
			.kind = metric_is_counter(view, i) && !may_decrease ? METRIC_COUNTER
									    : METRIC_GAUGE};
		/* All counters' names end with "_total". */
		add_family(view, i == METRIC_TOTAL ? "values" : info->name, info->help,
			info->is_value, &ret[count++]);
	}
	return count;
}

double metric_in_unit(const struct metric_family *family, long double value)
{
	return (double)(family->unit ? value / 1e9L : value);
}

/* ==== Store =================================================================================== */

/*
 * The rows of tracers and processes. A row once shown is always shown: if it disappeared and came
 * back, a scraper would take its counters for reset. So the first `rows_max` rows are shown, and
 * later ones counted.
 */

/* ---- Names of rows ------------------------------------------------------------- */

static bool metric_write_label(const struct metric_label *label, void *data);

/* Takes a buffer's contents as a string; NULL if memory is short. */
static char *take_text(struct buffer *out, bool done)
{
	out->no_memory |= !done;
	return buffer_take(out, NULL);
}

/* Finds or creates a row's name. *ret is NULL if the row is not shown. */
static struct probe_error *name_of(struct probe_metrics *metrics,
	const struct metric_source *source, struct metric_process *process,
	const struct probe_table_row *row, bool is_recent, const struct metric_name **ret)
{
	struct buffer out = {0};
	bool done =
		metric_row_labels(row, &source->view, source->key_count, metric_write_label, &out);
	AUTO_FREE char *labels = take_text(&out, done);
	struct metric_name *name;

	*ret = NULL;
	if (!labels)
		return probe_error_no_memory();
	name = map_find(&process->names, MAP_KEY(map_text(labels)));
	if (!name && !is_recent && metrics->row_count < metrics->rows_max) {
		name = map_add(&process->names, sizeof(*name), MAP_KEY(map_text(labels)));
		if (!name)
			return probe_error_no_memory();
		name->labels = map_key(name);
		metrics->row_count++;
	}
	/* Rows may have the same labels, because long strings are cut: show the first. */
	if (!name || name->round == process->round)
		return NULL;
	name->round = process->round;
	if (!is_recent)
		metric_grow(&name->growth, &source->view, &row->row);
	*ret = name;
	return NULL;
}

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
	map_clear(&process->names);
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

/* Finds or adds a process. If the limit of rows is reached, it gets no program name. */
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
	/* The names are those of the old table's rows. */
	free(process->all);
	free(process->recent);
	process->all = process->recent = NULL;
	process->left_out = 0;
	return metric_history_take(&process->history, table)
		?: name_rows(metrics, source, process, false, &process->all)
		?: name_rows(metrics, source, process, true, &process->recent);
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

struct probe_error *probe_metrics_view(
	struct probe_metrics *metrics, const struct probe_view *view, size_t key_count, size_t *ret)
{
	struct metric_source *source;
	struct buffer out = {0};
	bool done;

	for (size_t i = 0; i < metrics->source_count; i++)
		if (metric_is_same_tracer(&metrics->sources[i].view, view) &&
			!strcmp(metrics->sources[i].view.value ? metrics->sources[i].view.value
							       : "",
				view->value ? view->value : ""))
			return probe_error_new(PROBE_ERROR_USAGE,
				"the metrics of tracer '%s' are asked for twice", view->tracer);
	if (!ARRAY_ROOM(metrics->sources, metrics->source_count))
		return probe_error_no_memory();
	*ret = metrics->source_count++;
	source = &metrics->sources[*ret];
	*source = (struct metric_source){.view = *view, .key_count = key_count};
	done = !view->value || labels_take_text("value", view->value, metric_write_label, &out);
	source->labels = take_text(&out, done);
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

/* ==== Openmetrics ============================================================================= */

enum { BOUND_BYTES = 32 };

struct text {
	struct buffer out;
	bool is_openmetrics;
	/* The bounds that were written last: nearly all histograms have the same. */
	struct {
		double bounds[METRIC_BOUNDS_MAX];
		size_t count;
		char texts[METRIC_BOUNDS_MAX][BOUND_BYTES];
	} last;
};

/* ---- Words --------------------------------------------------------------------- */

/*
 * Appends NAME="VALUE", after a comma unless it is the first, to `data`, a struct buffer. Bytes
 * that are not text become C escapes: scrapers reject all metrics for one byte that is not UTF-8.
 */
static bool metric_write_label(const struct metric_label *label, void *data)
{
	struct buffer *out = data, printable = {0};

	buffer_c_escaped(&printable, label->text, label->length, 0);
	if (out->length)
		buffer_char(out, ',');
	buffer_string(out, label->name);
	buffer_string(out, "=\"");
	for (size_t i = 0; i < printable.length; i++) {
		if (printable.data[i] == '"' || printable.data[i] == '\\')
			buffer_char(out, '\\');
		buffer_char(out, printable.data[i]);
	}
	buffer_char(out, '"');
	out->no_memory |= printable.no_memory;
	buffer_deinit(&printable);
	return !out->no_memory;
}

/*
 * Writes a histogram's bounds once for all rows, because formatting bounds takes longer than the
 * rest of a row.
 */
static void prepare_bounds(struct text *text, const struct metric_sample *sample)
{
	size_t bytes = sample->bound_count * sizeof(sample->bounds[0]);
	AUTO(buffer_deinit) struct buffer scratch = {0};

	if (text->last.count == sample->bound_count &&
		!memcmp(text->last.bounds, sample->bounds, bytes))
		return;
	/* Both formats have the same text, so that a series continues in the other. */
	for (size_t i = 0; i < sample->bound_count; i++) {
		scratch.length = 0;
		buffer_float(&scratch, metric_in_unit(sample->family, sample->bounds[i]));
		buffer_char(&scratch, '\0');
		if (!scratch.no_memory)
			snprintf(text->last.texts[i], BOUND_BYTES, "%s%s", scratch.data,
				strpbrk(scratch.data, ".e") ? "" : ".0");
	}
	memcpy(text->last.bounds, sample->bounds, bytes);
	text->last.count = sample->bound_count;
	text->out.no_memory |= scratch.no_memory;
}

static void write_value(struct buffer *out, const struct metric_family *family, long double value)
{
	if (family->unit || !buffer_whole(out, value))
		buffer_float(out, metric_in_unit(family, value));
	buffer_char(out, '\n');
}

static void write_header(struct text *text, const struct metric_family *family)
{
	static const char *const kinds[] = {"counter", "gauge", "histogram"};
	const char *suffix =
		family->kind == METRIC_COUNTER && !text->is_openmetrics ? "_total" : "";
	const char *const lines[][2] = {
		{"TYPE", kinds[family->kind]}, {"UNIT", family->unit}, {"HELP", family->help}};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (i == 1 && (!family->unit || !text->is_openmetrics))
			continue;
		buffer_print(&text->out, "# %s %s%s %s\n", lines[i][0], family->name, suffix,
			lines[i][1]);
	}
}

/* ---- Samples ------------------------------------------------------------------- */

static void write_name(struct buffer *out, const struct metric_sample *sample, const char *suffix)
{
	buffer_string(out, sample->family->name);
	buffer_string(out, suffix);
	buffer_char(out, '{');
	buffer_string(out, sample->process->labels);
	if (*sample->labels) {
		buffer_char(out, ',');
		buffer_string(out, sample->labels);
	}
}

static void write_histogram(struct text *text, const struct metric_sample *sample)
{
	struct buffer *out = &text->out;
	uint64_t below = 0;

	prepare_bounds(text, sample);
	for (size_t i = 0; i <= sample->bound_count; i++) {
		below += sample->hits[i];
		write_name(out, sample, "_bucket");
		buffer_string(out, ",le=\"");
		buffer_string(out, i < sample->bound_count ? text->last.texts[i] : "+Inf");
		buffer_string(out, "\"} ");
		buffer_unsigned(out, below);
		buffer_char(out, '\n');
	}
	write_name(out, sample, "_sum");
	buffer_string(out, "} ");
	write_value(out, sample->family, sample->value);
	write_name(out, sample, "_count");
	buffer_string(out, "} ");
	buffer_unsigned(out, below);
	buffer_char(out, '\n');
}

static void write_sample(const struct metric_sample *sample, void *data)
{
	struct text *text = data;
	struct buffer *out = &text->out;

	if (sample->family->kind == METRIC_HISTOGRAM) {
		write_histogram(text, sample);
		return;
	}
	write_name(out, sample, sample->family->kind == METRIC_COUNTER ? "_total" : "");
	buffer_string(out, "} ");
	write_value(out, sample->family, sample->value);
}

/* ---- All ----------------------------------------------------------------------- */

/* Writes a family of all tracers of one name, whose rows must not be separated. */
static void write_family(struct text *text, const struct probe_metrics *metrics,
	const struct probe_view *view, size_t index)
{
	bool has_header = false;

	for (size_t i = 0; i < metrics->source_count; i++) {
		const struct metric_source *source = &metrics->sources[i];

		if (!metric_is_same_tracer(&source->view, view))
			continue;
		if (!has_header)
			write_header(text, &source->families[index]);
		has_header = true;
		for (size_t k = 0; k < source->process_count; k++)
			metric_samples(source, &source->families[index], &source->processes[k],
				write_sample, text);
	}
}

struct probe_error *probe_metrics_text(const struct probe_metrics *metrics,
	enum probe_metrics_format format, char **ret, size_t *length_ret)
{
	struct text text = {.is_openmetrics = format == PROBE_METRICS_OPENMETRICS};

	for (size_t i = 0; i < metrics->source_count; i++) {
		const struct metric_source *source = &metrics->sources[i];
		bool is_first = true;

		for (size_t k = 0; k < i; k++)
			is_first &=
				!metric_is_same_tracer(&metrics->sources[k].view, &source->view);
		for (size_t k = 0; is_first && k < source->family_count; k++)
			write_family(&text, metrics, &source->view, k);
	}
	write_header(&text, &metric_left_out);
	buffer_string(&text.out, metric_left_out.name);
	buffer_char(&text.out, ' ');
	write_value(&text.out, &metric_left_out, (long double)probe_metrics_left_out(metrics));
	if (text.is_openmetrics)
		buffer_string(&text.out, "# EOF\n");
	*ret = buffer_take(&text.out, length_ret);
	return *ret ? NULL : probe_error_no_memory();
}
