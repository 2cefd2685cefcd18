/* SPDX-License-Identifier: MIT */
/* One JSON object a line, as `probectl trace --json` prints hits: by the same code. */
#include <stdlib.h>

#include "libprobe/export/export.h"
#include "libprobe/output/json.h"

struct json_export {
	struct buffer *out;
};

static struct probe_error *json_create(
	const struct export_settings *settings, struct buffer *out, void **ret)
{
	struct json_export *json = malloc(sizeof(*json));

	(void)settings;
	if (!json)
		return probe_error_no_memory();
	json->out = out;
	*ret = json;
	return NULL;
}

static struct probe_hit hit_of(const struct probe_event *event)
{
	return (struct probe_hit){.time_ns = event->time_ns,
		.pid = event->pid,
		.tid = event->tid,
		.cpu = event->cpu,
		.pc = event->pc,
		.args = event->args,
		.arg_count = event->arg_count,
		.stack = event->stack};
}

static struct probe_session_probe probe_of(const struct probe_event *event)
{
	return (struct probe_session_probe){.provider = event->provider, .name = event->name};
}

static struct probe_error *json_event(void *state, const struct probe_event *event)
{
	const struct json_export *json = state;
	const struct probe_session_probe probe = probe_of(event);
	struct probe_session_probe begin_probe;
	struct probe_hit hit = hit_of(event), begin;

	if (event->kind == PROBE_EVENT_LOST) {
		json_lost(json->out, &probe, event->lost);
	} else if (!event->begin) {
		json_hit(json->out, &hit, &probe, event->comm);
	} else {
		begin = hit_of(event->begin);
		begin_probe = probe_of(event->begin);
		hit.begin = &begin;
		hit.duration_ns = event->duration_ns;
		json_span(json->out, &hit, &begin_probe, &probe, event->comm);
	}
	return NULL;
}

static struct probe_error *json_finish(void *state, bool *done_ret)
{
	(void)state;
	*done_ret = true;
	return NULL;
}

const struct export_format export_json = {
	.names = {"json", "ndjson"},
	.create = json_create,
	.free = free,
	.event = json_event,
	.finish = json_finish,
};
