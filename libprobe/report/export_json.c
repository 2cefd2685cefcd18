/* SPDX-License-Identifier: MIT */
/* One JSON object a line, as `probectl trace --json` prints hits: by the same code. */
#include <stdlib.h>

#include "libprobe/base/value.h"
#include "libprobe/report/report.h"
#include "libprobe/output/output.h"

enum { KNOWN = 64 };

/* A probe that events name, with its meaning in the catalogue; valid as long as the texts stay. */
struct known_probe {
	uint64_t texts; /* which texts of the record it is from; 0: the entry is free */
	const char *provider, *name;
	size_t arg_count;
	const struct probe_meaning *meaning;
};

struct json_export {
	struct buffer *out;
	const struct probe_catalogue *catalogue;
	struct known_probe known[KNOWN];
};

static struct probe_error *json_create(
	const struct export_settings *settings, struct buffer *out, void **ret)
{
	struct json_export *json = calloc(1, sizeof(*json));

	if (!json)
		return probe_error_no_memory();
	json->out = out;
	json->catalogue = settings->options->catalogue;
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

static const struct probe_meaning *meaning_of(
	struct json_export *json, const struct probe_event *event)
{
	struct known_probe *known = &json->known[(uintptr_t)event->name / 8 % KNOWN];

	if (known->texts && known->texts == event->texts && known->name == event->name &&
		known->provider == event->provider && known->arg_count == event->arg_count)
		return known->meaning;
	*known = (struct known_probe){event->texts, event->provider, event->name, event->arg_count,
		probe_catalogue_find(
			json->catalogue, event->provider, event->name, event->arg_count)};
	return known->meaning;
}

/* With the names of its arguments, if they are needed. */
static struct probe_session_probe probe_of(
	struct json_export *json, const struct probe_event *event)
{
	struct probe_session_probe probe = {.provider = event->provider, .name = event->name};
	bool any = false;

	for (size_t i = 0; i < event->arg_count; i++) {
		const struct probe_value *value = &event->args[i];

		any |= value_has_known_text(value);
		if (i < PROBE_ARGS_MAX)
			probe.args[i] = (unsigned char)(value->number ? value->number - 1U : i);
	}
	probe.meaning = any && json->catalogue ? meaning_of(json, event) : NULL;
	return probe;
}

static struct probe_error *json_event(void *state, const struct probe_event *event)
{
	struct json_export *json = state;
	const struct probe_session_probe probe = probe_of(json, event);
	struct probe_session_probe begin_probe;
	struct probe_hit hit = hit_of(event), begin;

	if (event->kind == PROBE_EVENT_LOST) {
		json_lost(json->out, &probe, event->lost);
	} else if (!event->begin) {
		json_hit(json->out, &hit, &probe, event->comm);
	} else {
		begin = hit_of(event->begin);
		begin_probe = probe_of(json, event->begin);
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
