/* SPDX-License-Identifier: MIT */
/*
 * The text that scrapers read: OpenMetrics 1.0, and Prometheus's format 0.0.4, which differs in
 * the name of a counter's family, and has neither units nor an end.
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
#include <stdlib.h>
#include <string.h>

#include "libprobe/metrics/metrics.h"

struct text {
	struct buffer out;
	bool is_openmetrics;
};

/* ---- Words --------------------------------------------------------------------- */

/*
 * As it is printed elsewhere: bytes that are no text are C escapes. A scraper would reject all of
 * the metrics for one byte that is not UTF-8.
 */
bool metric_write_label(const struct metric_label *label, void *data)
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

/* Both formats have the same numbers, so that a series stays one if the scraper changes. */
static void write_bound(struct buffer *out, double bound)
{
	size_t before = out->length;

	buffer_float(out, bound);
	if (!out->no_memory && !memchr(out->data + before, '.', out->length - before) &&
		!memchr(out->data + before, 'e', out->length - before))
		buffer_string(out, ".0");
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
		buffer_string(&text->out, "# ");
		buffer_string(&text->out, lines[i][0]);
		buffer_char(&text->out, ' ');
		buffer_string(&text->out, family->name);
		buffer_string(&text->out, suffix);
		buffer_char(&text->out, ' ');
		buffer_string(&text->out, lines[i][1]);
		buffer_char(&text->out, '\n');
	}
}

/* ---- Samples ------------------------------------------------------------------- */

static void write_name(struct buffer *out, const struct metric_family *family, const char *suffix,
	const struct metric_process *process, const struct metric_name *row)
{
	buffer_string(out, family->name);
	buffer_string(out, suffix);
	buffer_char(out, '{');
	buffer_string(out, process->labels);
	if (row) {
		buffer_char(out, ',');
		buffer_string(out, row->labels);
	}
}

static void write_histogram(struct buffer *out, const struct metric_source *source,
	const struct metric_family *family, const struct metric_process *process,
	const struct probe_table_row *row, const struct metric_name *name)
{
	double bounds[METRIC_BOUNDS_MAX];
	uint64_t hits[METRIC_BOUNDS_MAX + 1], below = 0;
	size_t count = metric_bounds(&source->view, &row->row, bounds);
	struct probe_row steady = row->row;

	steady.unit = name->growth.unit;
	metric_fill(&source->view, &steady, bounds, count, hits);
	for (size_t i = 0; i <= count; i++) {
		below += hits[i];
		write_name(out, family, "_bucket", process, name);
		buffer_string(out, ",le=\"");
		if (i < count)
			write_bound(out, metric_in_unit(family, bounds[i]));
		else
			buffer_string(out, "+Inf");
		buffer_string(out, "\"} ");
		buffer_unsigned(out, below);
		buffer_char(out, '\n');
	}
	write_name(out, family, "_sum", process, name);
	buffer_string(out, "} ");
	write_value(out, family, name->growth.total);
	write_name(out, family, "_count", process, name);
	buffer_string(out, "} ");
	buffer_unsigned(out, below);
	buffer_char(out, '\n');
}

static void write_sample(struct buffer *out, const struct metric_family *family,
	const struct metric_process *process, const struct metric_name *name, const char *more,
	long double value)
{
	if (isnan(value))
		return;
	write_name(out, family, family->kind == METRIC_COUNTER ? "_total" : "", process, name);
	buffer_string(out, more);
	buffer_string(out, "} ");
	write_value(out, family, value);
}

static void write_rows(struct buffer *out, const struct metric_source *source,
	const struct metric_family *family, const struct metric_process *process, bool is_recent)
{
	const struct metric_name *const *names = is_recent ? process->recent : process->all;
	size_t count;
	const struct probe_table_row *rows;

	if (!names)
		return;
	rows = probe_table_rows(is_recent ? process->history.recent : process->history.all, &count);
	for (size_t i = 0; i < count; i++) {
		if (!names[i])
			continue;
		if (family->kind == METRIC_HISTOGRAM)
			write_histogram(out, source, family, process, &rows[i], names[i]);
		else
			write_sample(out, family, process, names[i], "",
				is_recent ? metric_recent(&rows[i], family->quantity,
						    process->history.interval_ns)
					  : metric_total(&rows[i], family->quantity));
	}
}

/* What a process has lost. The expression tells several tracers of one name apart. */
static bool write_process(struct buffer *out, const struct metric_source *source,
	const struct metric_family *family, const struct metric_process *process)
{
	const struct probe_table *table = process->history.all;
	const char *value = source->view.value ? source->view.value : "";
	const struct metric_label label = {"value", value, strlen(value), false};
	struct buffer more = {0};
	bool done = true;

	if (!table)
		return true;
	/* It is not the first label. */
	buffer_char(&more, ' ');
	if (*value)
		done = metric_write_label(&label, &more);
	buffer_char(&more, '\0');
	if (done && !more.no_memory)
		write_sample(out, family, process, NULL, more.data + 1,
			(long double)(family->quantity == METRIC_LOST
					      ? probe_table_lost(table)
					      : probe_table_unmatched(table)));
	done &= !more.no_memory;
	buffer_deinit(&more);
	return done;
}

static void write_family(
	struct buffer *out, const struct metric_source *source, const struct metric_family *family)
{
	bool is_recent = family->quantity == METRIC_LEAST || family->quantity == METRIC_MOST;

	for (size_t i = 0; i < source->process_count; i++) {
		const struct metric_process *process = &source->processes[i];

		if (!metric_infos[family->quantity].is_per_process)
			write_rows(out, source, family, process, is_recent);
		else
			out->no_memory |= !write_process(out, source, family, process);
	}
}

/* ---- All ----------------------------------------------------------------------- */

static bool is_first(const struct probe_metrics *metrics, size_t index)
{
	const struct probe_view *view = &metrics->sources[index].view;

	for (size_t i = 0; i < index; i++) {
		const struct probe_view *other = &metrics->sources[i].view;

		if (other->tags == view->tags && !strcmp(other->tracer, view->tracer))
			return false;
	}
	return true;
}

/* A family is one block, whoever its rows are of. Tracers of one name have the same families. */
static void write_families(struct text *text, const struct probe_metrics *metrics, size_t index)
{
	const struct metric_source *first = &metrics->sources[index];

	for (size_t i = 0; i < first->family_count; i++) {
		write_header(text, &first->families[i]);
		for (size_t k = index; k < metrics->source_count; k++) {
			const struct metric_source *source = &metrics->sources[k];

			if (source->view.tags == first->view.tags &&
				!strcmp(source->view.tracer, first->view.tracer))
				write_family(&text->out, source, &first->families[i]);
		}
	}
}

struct probe_error *probe_metrics_text(const struct probe_metrics *metrics,
	enum probe_metrics_format format, char **ret, size_t *length_ret)
{
	static const struct metric_family left_out = {.name = "probectl_rows_left_out",
		.help = "Rows without room, which are in no metric",
		.kind = METRIC_GAUGE};
	struct text text = {.is_openmetrics = format == PROBE_METRICS_OPENMETRICS};

	if (!buffer_init(&text.out))
		return probe_error_no_memory();
	for (size_t i = 0; i < metrics->source_count; i++)
		if (is_first(metrics, i))
			write_families(&text, metrics, i);
	write_header(&text, &left_out);
	buffer_string(&text.out, left_out.name);
	buffer_char(&text.out, ' ');
	write_value(&text.out, &left_out, (long double)probe_metrics_left_out(metrics));
	if (text.is_openmetrics)
		buffer_string(&text.out, "# EOF\n");
	buffer_char(&text.out, '\0');
	*ret = NULL;
	if (!text.out.no_memory) {
		*length_ret = text.out.length - 1;
		*ret = text.out.data;
		text.out.data = NULL;
	}
	buffer_deinit(&text.out);
	return *ret ? NULL : probe_error_no_memory();
}
