/* SPDX-License-Identifier: MIT */
/* Sends messages to a collector, one after the other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/map.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

/* ==== Otlp json =============================================================================== */

/* Parts of all messages: attributes, resources, scopes. */

static void quoted(struct buffer *out, const char *name, const char *text, size_t length)
{
	AUTO(buffer_deinit) struct buffer printable = {0};

	buffer_c_escaped(&printable, text, length, 0);
	json_bytes(out, name, printable.data, printable.length);
	out->no_memory |= printable.no_memory;
}

/* Writes a number as protobuf does in JSON: 64 bits are a string. */
static void otlp_number(struct buffer *out, const char *name, uint64_t value)
{
	json_begin(out, name);
	buffer_char(out, '"');
	buffer_unsigned(out, value);
	buffer_char(out, '"');
}

static void otlp_text(struct buffer *out, const char *name, const char *text)
{
	quoted(out, name, text, strlen(text));
}

static void open_attribute(struct buffer *out, const char *key)
{
	json_open(out, NULL, '{');
	otlp_text(out, "key", key);
	json_open(out, "value", '{');
}

/* Writes a text attribute into an open list. Bytes that are not text become C escapes. */
static void otlp_text_attribute(
	struct buffer *out, const char *key, const char *text, size_t length)
{
	open_attribute(out, key);
	quoted(out, "stringValue", text, length);
	buffer_string(out, "}}");
}

/* JSON has only finite numbers: others are written as strings, as in protobuf's JSON mapping. */
static void otlp_double(struct buffer *out, const char *name, double value)
{
	json_begin(out, name);
	if (isfinite(value))
		buffer_float(out, value);
	else
		buffer_string(out, isnan(value) ? "\"NaN\""
				   : value > 0	? "\"Infinity\""
						: "\"-Infinity\"");
}

/* Writes a value as an attribute into an open list. Bytes that are not text become C escapes. */
static void otlp_value_attribute(
	struct buffer *out, const char *key, const struct probe_value *value)
{
	open_attribute(out, key);
	switch (value->kind) {
	case PROBE_VALUE_NULL:
		break; /* an attribute without a value */
	case PROBE_VALUE_SIGNED:
	case PROBE_VALUE_UNSIGNED:
		/* intValue is signed: larger numbers are strings. */
		json_begin(out, value->kind == PROBE_VALUE_UNSIGNED && value->u > INT64_MAX
					? "stringValue"
					: "intValue");
		buffer_char(out, '"');
		value_add_number(out, value);
		buffer_char(out, '"');
		break;
	case PROBE_VALUE_FLOAT:
		otlp_double(out, "doubleValue", value->f);
		break;
	case PROBE_VALUE_BYTES:
		json_hex_bytes(out, "stringValue", value->bytes, value->length);
		break;
	case PROBE_VALUE_OTHER:
	case PROBE_VALUE_STACK:
	case PROBE_VALUE_STRING:
	case PROBE_VALUE_TEXT:
		quoted(out, "stringValue", value->bytes, value->length);
	}
	buffer_string(out, "}}");
}

/* Writes "resource":{...}, and opens `scopes`, a scope, and its list `items`. */
static void otlp_open_resource(
	struct buffer *out, pid_t pid, const char *program, const char *scopes, const char *items)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	json_open(out, NULL, '{');
	json_open(out, "resource", '{');
	json_open(out, "attributes", '[');
	otlp_text_attribute(out, "service.name", program, strlen(program));
	otlp_text_attribute(out, "host.name", host, strlen(host));
	if (pid) {
		open_attribute(out, "process.pid");
		otlp_number(out, "intValue", (uint64_t)pid);
		buffer_string(out, "}}");
	}
	buffer_string(out, "]}");
	json_open(out, scopes, '[');
	json_open(out, NULL, '{');
	json_open(out, "scope", '{');
	json_text(out, "name", "probectl");
	json_text(out, "version", PROBE_VERSION);
	json_close(out, '}');
	json_open(out, items, '[');
}

static void otlp_close_resource(struct buffer *out)
{
	buffer_string(out, "]}]}");
}

/* ==== Points ================================================================================== */

/*
 * Metrics as OTLP names them: probectl_latency_seconds is probectl.latency with the unit seconds,
 * from which a collector restores Prometheus's name.
 */

enum { CUMULATIVE = 2 };

struct points {
	struct buffer *out;
	uint64_t start_ns, now_ns;
	uint64_t count;
	const struct metric_source *source;
};

static bool take_label(const struct metric_label *label, void *data)
{
	otlp_text_attribute(data, label->name, label->text, label->length);
	return true;
}

/* Writes a whole number as an integer if it fits, other numbers as doubles. */
static void write_value(struct points *points, const struct metric_sample *sample)
{
	struct buffer *out = points->out;
	const long double limit = 9223372036854775808.0L; /* 2^63 */
	long double value = sample->value;

	if (!sample->family->unit && value > -limit && value < limit &&
		value == (long double)(int64_t)value) {
		json_begin(out, "asInt");
		buffer_char(out, '"');
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
	json_open(out, "bucketCounts", '[');
	for (size_t i = 0; i <= sample->bound_count; i++)
		otlp_number(out, NULL, sample->hits[i]);
	json_close(out, ']');
	json_open(out, "explicitBounds", '[');
	for (size_t i = 0; i < sample->bound_count; i++)
		otlp_double(out, NULL, metric_in_unit(sample->family, sample->bounds[i]));
	json_close(out, ']');
}

static void write_point(const struct metric_sample *sample, void *data)
{
	struct points *points = data;
	const struct metric_source *source = points->source;
	struct buffer *out = points->out;

	json_open(out, NULL, '{');
	otlp_number(out, "startTimeUnixNano", points->start_ns);
	otlp_number(out, "timeUnixNano", points->now_ns);
	if (sample->family->kind == METRIC_HISTOGRAM)
		write_histogram(points, sample);
	else
		write_value(points, sample);
	json_open(out, "attributes", '[');
	if (sample->row)
		metric_row_labels(sample->row, &source->view, source->key_count, take_label, out);
	else if (source->view.value)
		otlp_text_attribute(out, "value", source->view.value, strlen(source->view.value));
	buffer_string(out, "]}");
	points->count++;
}

/* Opens a metric, named without its unit. The first two underscores become dots. */
static void open_metric(struct buffer *out, const struct metric_family *family)
{
	static const char *const kinds[] = {[METRIC_COUNTER] = "sum",
		[METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram"};
	char name[sizeof(family->name)];
	char *at = name;

	snprintf(name, sizeof(name), "%s", family->name);
	if (family->unit)
		name[strlen(name) - strlen(family->unit) - 1] = '\0';
	for (int i = 0; i < 2 && (at = strchr(at, '_')); i++)
		*at = '.';
	json_open(out, NULL, '{');
	otlp_text(out, "name", name);
	otlp_text(out, "description", family->help);
	otlp_text(out, "unit", family->unit ? "s" : "1");
	json_open(out, kinds[family->kind], '{');
	if (family->kind != METRIC_GAUGE)
		json_unsigned(out, "aggregationTemporality", CUMULATIVE);
	if (family->kind == METRIC_COUNTER)
		json_boolean(out, "isMonotonic", true);
	json_open(out, "dataPoints", '[');
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

	json_open(out, NULL, '{');
	json_open(out, "resourceMetrics", '[');
	for (size_t i = 0; i < metrics->source_count; i++)
		for (size_t k = 0; k < metrics->sources[i].process_count; k++)
			write_process(
				&points, &metrics->sources[i], &metrics->sources[i].processes[k]);
	write_left_out(&points, metrics);
	buffer_string(out, "]}");
	return points.count;
}

/* ==== Spans =================================================================================== */

enum { INTERNAL = 1, STATUS_ERROR = 2 };

/*
 * Writes arguments as begin.arg0, end.arg1 and so on, with the numbers that the probe gives them.
 */
static void write_args(struct buffer *out, const char *side, const struct probe_hit *hit)
{
	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_value *value = &hit->args[i];
		char key[32];

		snprintf(key, sizeof(key), "%s.arg%zu", side,
			value->number ? value->number - (size_t)1 : i);
		otlp_value_attribute(out, key, value);
	}
}

void otlp_write_span(struct otlp_batch *batch, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program, const struct otlp_ids *ids)
{
	const struct probe_value tid = {.kind = PROBE_VALUE_SIGNED, .i = hit->tid};
	struct buffer *out = &batch->out;
	char name[256];

	/* A new process has a resource of its own. */
	if (!batch->count) {
		json_open(out, NULL, '{');
		json_open(out, "resourceSpans", '[');
	} else if (batch->pid != hit->pid) {
		otlp_close_resource(out);
	}
	if (!batch->count || batch->pid != hit->pid)
		otlp_open_resource(out, hit->pid, program, "scopeSpans", "spans");
	batch->pid = hit->pid;
	snprintf(name, sizeof(name), "%s:%s..%s", begin->provider, begin->name, end->name);
	json_open(out, NULL, '{');
	otlp_text(out, "traceId", ids->trace);
	otlp_text(out, "spanId", ids->span);
	if (*ids->parent)
		otlp_text(out, "parentSpanId", ids->parent);
	otlp_text(out, "name", name);
	json_unsigned(out, "kind", INTERNAL);
	otlp_number(out, "startTimeUnixNano", hit->begin->time_ns);
	otlp_number(out, "endTimeUnixNano", hit->begin->time_ns + hit->duration_ns);
	json_open(out, "attributes", '[');
	otlp_text_attribute(out, "provider", end->provider, strlen(end->provider));
	otlp_text_attribute(out, "begin", begin->name, strlen(begin->name));
	otlp_text_attribute(out, "probe", end->name, strlen(end->name));
	otlp_value_attribute(out, "thread.id", &tid);
	write_args(out, "begin", hit->begin);
	write_args(out, "end", hit);
	buffer_char(out, ']');
	if (table_name_aborts(end->name)) {
		json_open(out, "status", '{');
		json_unsigned(out, "code", STATUS_ERROR);
		json_close(out, '}');
	}
	buffer_char(out, '}');
	batch->count++;
}

void otlp_end_spans(struct otlp_batch *batch)
{
	otlp_close_resource(&batch->out);
	buffer_string(&batch->out, "]}");
}

/* ==== Trace ids =============================================================================== */

/*
 * Finds the trace of a span. If a program takes part in traces, the arguments of its probes may
 * contain the trace id, either in the header that it received,
 *
 *	00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01	https://www.w3.org/TR/trace-context/
 *
 * or alone: 32 hexadecimal digits, or a UUID. Other values can group spans into traces, too: the
 * user names an argument, and the trace id is a hash of the argument's value. A text, such as
 * "order-17", gives the same id in every process. A number gives the same id only within a process.
 */

static bool is_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Copies hexadecimal digits, in lower case. Returns false if one is missing, or all are 0. */
static bool take_digits(const char *text, size_t length, size_t count, char *ret)
{
	bool any = false;

	if (length < count)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!is_digit(text[i]))
			return false;
		any |= text[i] != '0';
		ret[i] = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] + ('a' - 'A') : text[i]);
	}
	ret[count] = '\0';
	return any;
}

static bool take_traceparent(const char *text, size_t length, struct otlp_ids *ids)
{
	enum {
		TRACE = 3,
		PARENT = TRACE + TRACE_ID_DIGITS + 1,
		FLAGS = PARENT + SPAN_ID_DIGITS + 1
	};
	struct otlp_ids found = *ids;
	char version[3], flags[3] = "";

	if (length < FLAGS + 2 || text[2] != '-' || text[PARENT - 1] != '-' ||
		text[FLAGS - 1] != '-')
		return false;
	/* Version 00 must end after the flags. Version and flags may be 0, unlike the ids. */
	take_digits(text, 2, 2, version);
	if (!is_digit(text[0]) || !is_digit(text[1]) || !strcmp(version, "ff") ||
		(length > FLAGS + 2 && (!strcmp(version, "00") || text[FLAGS + 2] != '-')))
		return false;
	take_digits(text + FLAGS, 2, 2, flags);
	if (!*flags || !take_digits(text + TRACE, TRACE_ID_DIGITS, TRACE_ID_DIGITS, found.trace) ||
		!take_digits(text + PARENT, SPAN_ID_DIGITS, SPAN_ID_DIGITS, found.parent))
		return false;
	*ids = found;
	return true;
}

/* Reads an id of 32 digits, or a UUID with hyphens. */
static bool take_id(const char *text, size_t length, struct otlp_ids *ids)
{
	char digits[TRACE_ID_DIGITS + 1], trace[TRACE_ID_DIGITS + 1];
	size_t count = 0;
	bool is_uuid = length == 36;

	if (length != TRACE_ID_DIGITS && !is_uuid)
		return false;
	for (size_t i = 0; i < length; i++) {
		bool is_hyphen = is_uuid && (i == 8 || i == 13 || i == 18 || i == 23);

		if (is_hyphen != (text[i] == '-'))
			return false;
		if (!is_hyphen)
			digits[count++] = text[i];
	}
	if (!take_digits(digits, count, TRACE_ID_DIGITS, trace))
		return false;
	memcpy(ids->trace, trace, sizeof(trace));
	return true;
}

bool otlp_find_id(const struct probe_hit *hit, struct otlp_ids *ids)
{
	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_value *value = &hit->args[i];

		if (value_has_bytes(value) && value->kind != PROBE_VALUE_BYTES &&
			!value->truncated &&
			(take_traceparent(value->bytes, value->length, ids) ||
				take_id(value->bytes, value->length, ids)))
			return true;
	}
	return false;
}

/* splitmix64: different states give different numbers. */
static uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static bool hash_value(const struct probe_otlp *otlp, const struct probe_hit *hit, uint64_t *ret)
{
	const struct probe_hit *begin = hit->begin;

	for (size_t i = 0; i < begin->arg_count; i++) {
		const struct probe_value *value = &begin->args[i];

		if ((value->number ? value->number - (size_t)1 : i) != (size_t)otlp->trace_arg)
			continue;
		if (value_has_bytes(value)) {
			*ret = hash_fnv(FNV_START, value->bytes, value->length);
			return true;
		}
		*ret = hash_fnv(hash_fnv(FNV_START, &hit->pid, sizeof(hit->pid)), &value->u,
			sizeof(value->u));
		return value->kind != PROBE_VALUE_NULL;
	}
	return false;
}

void otlp_ids_of(struct probe_otlp *otlp, const struct probe_hit *hit, struct otlp_ids *ret)
{
	uint64_t id, seed, high, low;

	*ret = (struct otlp_ids){0};
	do
		id = mix(&otlp->random);
	while (!id);
	snprintf(ret->span, sizeof(ret->span), "%016llx", (unsigned long long)id);
	if (otlp_find_id(hit->begin, ret) || otlp_find_id(hit, ret))
		return;
	if (otlp->trace_arg < 0 || !hash_value(otlp, hit, &seed))
		seed = mix(&otlp->random);
	high = mix(&seed);
	low = mix(&seed);
	snprintf(ret->trace, sizeof(ret->trace), "%016llx%016llx", (unsigned long long)high,
		(unsigned long long)low);
}

/* ==== Otlp ==================================================================================== */

enum { SPANS_MAX = 512, SPANS_BYTES = 1 << 20 };

struct probe_error *probe_otlp_open(
	const char *url, const char *headers, int trace_arg, struct probe_otlp **ret)
{
	struct probe_otlp *otlp = calloc(1, sizeof(*otlp));
	struct probe_error *error;

	if (!otlp)
		return probe_error_no_memory();
	otlp->trace_arg = trace_arg;
	/* Use random bytes, too, because another exporter may start at the same time. */
	otlp->random = clock_now_ns();
	if (getrandom(&otlp->random, sizeof(otlp->random), GRND_NONBLOCK) < 0)
		otlp->random ^= (uint64_t)getpid() << 32;
	error = http_client_open(url, headers, &otlp->http);
	if (error)
		free(otlp);
	else
		*ret = otlp;
	return error;
}

void probe_otlp_close(struct probe_otlp *otlp)
{
	if (!otlp)
		return;
	http_client_close(otlp->http);
	buffer_deinit(&otlp->spans.out);
	free(otlp);
}

/* Queues a buffer's contents, and empties the buffer. Returns false if memory is short. */
static bool post(struct probe_otlp *otlp, struct buffer *out, const struct http_message *message)
{
	struct http_message its = *message;
	bool done = !out->no_memory;

	if (done) {
		its.body = out->data;
		its.length = out->length;
		out->data = NULL;
		http_client_post(otlp->http, &its);
	}
	buffer_deinit(out);
	return done;
}

struct probe_error *probe_otlp_metrics(struct probe_otlp *otlp, const struct probe_metrics *metrics)
{
	struct http_message message = {
		.kind = OTLP_POINTS, .path = "/v1/metrics", .rejected = "\"rejectedDataPoints\""};
	struct buffer out = {0};

	message.items = otlp_write_points(&out, metrics, clock_now_ns());
	return post(otlp, &out, &message) ? NULL : probe_error_no_memory();
}

void probe_otlp_span(struct probe_otlp *otlp, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program)
{
	struct otlp_batch *batch = &otlp->spans;
	struct otlp_ids ids;

	otlp_ids_of(otlp, hit, &ids);
	otlp_write_span(batch, hit, begin, end, program ? program : "unknown", &ids);
	if (batch->count >= SPANS_MAX || batch->out.length >= SPANS_BYTES)
		probe_otlp_flush(otlp);
}

void probe_otlp_flush(struct probe_otlp *otlp)
{
	struct otlp_batch *batch = &otlp->spans;
	const struct http_message message = {.kind = OTLP_SPANS,
		.path = "/v1/traces",
		.rejected = "\"rejectedSpans\"",
		.items = batch->count};

	if (!batch->count)
		return;
	otlp_end_spans(batch);
	if (!post(otlp, &batch->out, &message))
		otlp->lost_spans += batch->count;
	batch->count = 0;
}

int probe_otlp_fd(const struct probe_otlp *otlp)
{
	return http_client_fd(otlp->http);
}

uint64_t probe_otlp_due_ns(const struct probe_otlp *otlp)
{
	return http_client_due_ns(otlp->http);
}

void probe_otlp_run(struct probe_otlp *otlp)
{
	http_client_run(otlp->http);
}

void probe_otlp_give_up(struct probe_otlp *otlp)
{
	probe_otlp_flush(otlp);
	http_client_give_up(otlp->http);
}

bool probe_otlp_is_busy(const struct probe_otlp *otlp)
{
	return otlp->spans.count || http_client_is_busy(otlp->http);
}

struct probe_otlp_sent probe_otlp_sent(const struct probe_otlp *otlp)
{
	struct http_sent points = http_client_sent(otlp->http, OTLP_POINTS);
	struct http_sent spans = http_client_sent(otlp->http, OTLP_SPANS);

	return (struct probe_otlp_sent){.spans = spans.done,
		.points = points.done,
		.lost_spans = spans.lost + otlp->lost_spans,
		.lost_points = points.lost,
		.why = http_client_why(otlp->http)};
}
