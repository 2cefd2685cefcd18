/* SPDX-License-Identifier: MIT */
/* Pairs as spans. */
#include <stdio.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

enum { INTERNAL = 1, STATUS_ERROR = 2 };

/* Names of attributes: begin.arg0, end.arg1, with the numbers that the probe's arguments have. */
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

static void write_attributes(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end)
{
	const struct probe_value tid = {.kind = PROBE_VALUE_SIGNED, .i = hit->tid};

	buffer_string(out, ",\"attributes\":[");
	otlp_text_attribute(out, "provider", end->provider, strlen(end->provider));
	otlp_text_attribute(out, "begin", begin->name, strlen(begin->name));
	otlp_text_attribute(out, "probe", end->name, strlen(end->name));
	otlp_value_attribute(out, "thread.id", &tid);
	write_args(out, "begin", hit->begin);
	write_args(out, "end", hit);
	buffer_char(out, ']');
}

/* The spans of one process are one block, as long as no other's comes between. */
static void open_batch(struct otlp_batch *batch, const struct probe_hit *hit, const char *program)
{
	if (batch->count && batch->pid == hit->pid) {
		buffer_char(&batch->out, ',');
		return;
	}
	if (batch->count)
		otlp_close_resource(&batch->out);
	else
		buffer_string(&batch->out, "{\"resourceSpans\":[");
	otlp_open_resource(&batch->out, hit->pid, program, "scopeSpans", "spans");
	batch->pid = hit->pid;
}

void otlp_write_span(struct otlp_batch *batch, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program, const struct otlp_ids *ids)
{
	struct buffer *out = &batch->out;
	char name[256];

	open_batch(batch, hit, program);
	snprintf(name, sizeof(name), "%s:%s..%s", begin->provider, begin->name, end->name);
	buffer_char(out, '{');
	otlp_text(out, "traceId", ids->trace);
	otlp_text(out, "spanId", ids->span);
	if (*ids->parent)
		otlp_text(out, "parentSpanId", ids->parent);
	otlp_text(out, "name", name);
	buffer_string(out, ",\"kind\":");
	buffer_unsigned(out, INTERNAL);
	otlp_number(out, "startTimeUnixNano", hit->begin->time_ns);
	otlp_number(out, "endTimeUnixNano", hit->begin->time_ns + hit->duration_ns);
	write_attributes(out, hit, begin, end);
	if (table_name_aborts(end->name)) {
		buffer_string(out, ",\"status\":{\"code\":");
		buffer_unsigned(out, STATUS_ERROR);
		buffer_char(out, '}');
	}
	buffer_char(out, '}');
	batch->count++;
}

void otlp_end_spans(struct otlp_batch *batch)
{
	otlp_close_resource(&batch->out);
	buffer_string(&batch->out, "]}");
}
