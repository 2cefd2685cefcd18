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

static struct probe_error *json_event(void *state, const struct probe_event *event)
{
	const struct json_export *json = state;
	const struct probe_session_probe probe = {.provider = event->provider, .name = event->name};
	const struct probe_hit hit = {.time_ns = event->time_ns,
		.pid = event->pid,
		.tid = event->tid,
		.cpu = event->cpu,
		.pc = event->pc,
		.args = event->args,
		.arg_count = event->arg_count,
		.stack = event->stack};

	if (event->kind == PROBE_EVENT_HIT)
		json_hit(json->out, &hit, &probe, event->comm);
	else
		json_lost(json->out, &probe, event->lost);
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
