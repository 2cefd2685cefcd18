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
#include <stdio.h>
#include <string.h>

#include "libprobe/output/output.h"

enum { BOUND_BYTES = 32 };

struct text {
	struct buffer out;
	bool is_openmetrics;
	/* The bounds that were written last, as text: nearly all histograms have the same. */
	struct {
		double bounds[METRIC_BOUNDS_MAX];
		size_t count;
		char texts[METRIC_BOUNDS_MAX][BOUND_BYTES];
	} last;
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
static void bound_text(struct buffer *scratch, double bound, char ret[BOUND_BYTES])
{
	scratch->length = 0;
	buffer_float(scratch, bound);
	buffer_char(scratch, '\0');
	if (!scratch->no_memory)
		snprintf(ret, BOUND_BYTES, "%s%s", scratch->data,
			strpbrk(scratch->data, ".e") ? "" : ".0");
}

/* Makes the texts of a histogram's bounds, which take longer than all of its other text. */
static void prepare_bounds(struct text *text, const struct metric_sample *sample)
{
	size_t bytes = sample->bound_count * sizeof(sample->bounds[0]);
	struct buffer scratch;

	if (text->last.count == sample->bound_count &&
		!memcmp(text->last.bounds, sample->bounds, bytes))
		return;
	if (!buffer_init(&scratch)) {
		text->out.no_memory = true;
		return;
	}
	for (size_t i = 0; i < sample->bound_count; i++)
		bound_text(&scratch, metric_in_unit(sample->family, sample->bounds[i]),
			text->last.texts[i]);
	memcpy(text->last.bounds, sample->bounds, bytes);
	text->last.count = sample->bound_count;
	text->out.no_memory |= scratch.no_memory;
	buffer_deinit(&scratch);
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

static bool is_first(const struct probe_metrics *metrics, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (metric_is_same_tracer(&metrics->sources[i].view, &metrics->sources[index].view))
			return false;
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

			if (!metric_is_same_tracer(&source->view, &first->view))
				continue;
			for (size_t p = 0; p < source->process_count; p++)
				metric_samples(source, &source->families[i], &source->processes[p],
					write_sample, text);
		}
	}
}

struct probe_error *probe_metrics_text(const struct probe_metrics *metrics,
	enum probe_metrics_format format, char **ret, size_t *length_ret)
{
	struct text text = {.is_openmetrics = format == PROBE_METRICS_OPENMETRICS};

	if (!buffer_init(&text.out))
		return probe_error_no_memory();
	for (size_t i = 0; i < metrics->source_count; i++)
		if (is_first(metrics, i))
			write_families(&text, metrics, i);
	write_header(&text, &metric_left_out);
	buffer_string(&text.out, metric_left_out.name);
	buffer_char(&text.out, ' ');
	write_value(&text.out, &metric_left_out, (long double)probe_metrics_left_out(metrics));
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
