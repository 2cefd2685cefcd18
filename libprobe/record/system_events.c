/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/record/record.h"

const char system_event_provider[] = "posix_trace";
/* XSH 2.11.2, tables of system trace events and of the user trace event. */
const char *const system_event_names[PROBE_STREAM_UNNAMED + 1] = {
	[PROBE_STREAM_ERROR] = "error",
	[PROBE_STREAM_START] = "start",
	[PROBE_STREAM_STOP] = "stop",
	[PROBE_STREAM_FILTER] = "filter",
	[PROBE_STREAM_OVERFLOW] = "overflow",
	[PROBE_STREAM_RESUME] = "resume",
	[PROBE_STREAM_FLUSH_START] = "flush_start",
	[PROBE_STREAM_FLUSH_STOP] = "flush_stop",
	[PROBE_STREAM_UNNAMED] = "unnamed_userevent",
};

uint32_t system_event_type(const char *provider, const char *name)
{
	uint32_t type = 0;

	if (strcmp(provider, system_event_provider) != 0)
		return PROBE_STREAM_SYSTEM_TYPES;
	while (type < PROBE_STREAM_SYSTEM_TYPES && strcmp(name, system_event_names[type]) != 0)
		type++;
	return type;
}

bool system_event_is(const struct probe_event *event)
{
	return event->kind == PROBE_EVENT_HIT && event->tid == 0 &&
	       system_event_type(event->provider, event->name) != PROBE_STREAM_SYSTEM_TYPES;
}
