/* SPDX-License-Identifier: MIT */
/*
 * Metrics as OTLP has them. probectl_latency_seconds is probectl.latency in seconds here, which a
 * collector that hands it on to Prometheus calls by the former name again.
 */
#include <stdio.h>
#include <string.h>

#include "libprobe/output/output.h"

enum { CUMULATIVE = 2 };

struct points {
	struct buffer *out;
	uint64_t start_ns, now_ns;
	uint64_t count;
	const struct metric_source *source;
};

/* The first two underlines separate the parts of a name; the unit is told elsewhere. */
static void write_name(struct buffer *out, const struct metric_family *family)
{
	char name[sizeof(family->name)];
	char *at = name;

	snprintf(name, sizeof(name), "%s", family->name);
	if (family->unit)
		name[strlen(name) - strlen(family->unit) - 1] = '\0';
	for (int i = 0; i < 2 && (at = strchr(at, '_')); i++)
		*at = '.';
	otlp_text(out, "name", name);
	otlp_text(out, "description", family->help);
	otlp_text(out, "unit", family->unit ? "s" : "1");
}

static bool take_label(const struct metric_label *label, void *data)
{
	otlp_text_attribute(data, label->name, label->text, label->length);
	return true;
}

static void write_attributes(struct points *points, const struct metric_sample *sample)
{
	const struct metric_source *source = points->source;

	buffer_string(points->out, ",\"attributes\":[");
	if (sample->row)
		metric_row_labels(
			sample->row, &source->view, source->key_count, take_label, points->out);
	else if (source->view.value)
		otlp_text_attribute(
			points->out, "value", source->view.value, strlen(source->view.value));
	buffer_char(points->out, ']');
}

/* A whole number that fits, or a double. */
static void write_value(struct points *points, const struct metric_sample *sample)
{
	struct buffer *out = points->out;
	const long double limit = 9223372036854775808.0L; /* 2^63 */
	long double value = sample->value;

	if (!sample->family->unit && value > -limit && value < limit &&
		value == (long double)(int64_t)value) {
		buffer_string(out, ",\"asInt\":\"");
		buffer_signed(out, (int64_t)value);
		buffer_char(out, '"');
	} else {
		otlp_double(out, "asDouble", metric_in_unit(sample->family, value));
	}
}

static void write_histogram(struct points *points, const struct metric_sample *sample)
{
	struct buffer *out = points->out;
	uint64_t count = 0;

	for (size_t i = 0; i <= sample->bound_count; i++)
		count += sample->hits[i];
	otlp_number(out, "count", count);
	otlp_double(out, "sum", metric_in_unit(sample->family, sample->value));
	buffer_string(out, ",\"bucketCounts\":[");
	for (size_t i = 0; i <= sample->bound_count; i++) {
		buffer_string(out, i ? ",\"" : "\"");
		buffer_unsigned(out, sample->hits[i]);
		buffer_char(out, '"');
	}
	buffer_string(out, "],\"explicitBounds\":[");
	for (size_t i = 0; i < sample->bound_count; i++) {
		if (i)
			buffer_char(out, ',');
		buffer_float(out, metric_in_unit(sample->family, sample->bounds[i]));
	}
	buffer_char(out, ']');
}

static void write_point(const struct metric_sample *sample, void *data)
{
	struct points *points = data;
	struct buffer *out = points->out;

	if (out->length && out->data[out->length - 1] == '}')
		buffer_char(out, ',');
	buffer_char(out, '{');
	otlp_number(out, "startTimeUnixNano", points->start_ns);
	otlp_number(out, "timeUnixNano", points->now_ns);
	if (sample->family->kind == METRIC_HISTOGRAM)
		write_histogram(points, sample);
	else
		write_value(points, sample);
	write_attributes(points, sample);
	buffer_char(out, '}');
	points->count++;
}

static void open_metric(struct buffer *out, const struct metric_family *family)
{
	static const char *const kinds[] = {[METRIC_COUNTER] = "sum",
		[METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram"};

	buffer_string(out, out->data && out->data[out->length - 1] == '[' ? "{" : ",{");
	write_name(out, family);
	buffer_string(out, ",\"");
	buffer_string(out, kinds[family->kind]);
	buffer_string(out, "\":{");
	if (family->kind != METRIC_GAUGE) {
		buffer_string(out, "\"aggregationTemporality\":");
		buffer_unsigned(out, CUMULATIVE);
		buffer_char(out, ',');
	}
	if (family->kind == METRIC_COUNTER)
		buffer_string(out, "\"isMonotonic\":true,");
	buffer_string(out, "\"dataPoints\":[");
}

static void write_process(struct points *points, const struct metric_source *source,
	const struct metric_process *process)
{
	if (!process->program)
		return;
	points->source = source;
	otlp_open_resource(points->out, process->pid, process->program, "scopeMetrics", "metrics");
	for (size_t i = 0; i < source->family_count; i++) {
		open_metric(points->out, &source->families[i]);
		metric_samples(source, &source->families[i], process, write_point, points);
		buffer_string(points->out, "]}}");
	}
	otlp_close_resource(points->out);
}

static void write_left_out(struct points *points, const struct probe_metrics *metrics)
{
	static const struct metric_source none = {.labels = ""};
	const struct metric_sample sample = {
		.family = &metric_left_out, .value = (long double)probe_metrics_left_out(metrics)};

	points->source = &none;
	otlp_open_resource(points->out, 0, "probectl", "scopeMetrics", "metrics");
	open_metric(points->out, &metric_left_out);
	write_point(&sample, points);
	buffer_string(points->out, "]}}");
	otlp_close_resource(points->out);
}

uint64_t otlp_write_points(struct buffer *out, const struct probe_metrics *metrics, uint64_t now_ns)
{
	struct points points = {.out = out, .start_ns = metrics->start_ns, .now_ns = now_ns};

	buffer_string(out, "{\"resourceMetrics\":[");
	for (size_t i = 0; i < metrics->source_count; i++)
		for (size_t k = 0; k < metrics->sources[i].process_count; k++)
			write_process(
				&points, &metrics->sources[i], &metrics->sources[i].processes[k]);
	write_left_out(&points, metrics);
	buffer_string(out, "]}");
	return points.count;
}
