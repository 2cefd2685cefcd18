/* SPDX-License-Identifier: MIT */
/* The system trace events of POSIX (XSH 2.11.2), as logs of streams have them. */
#ifndef LIBPROBE_RECORD_SYSTEM_EVENTS_H
#define LIBPROBE_RECORD_SYSTEM_EVENTS_H

#include "probe/stream.h"

extern const char system_event_provider[];
/* By type; also that of the user event without a name. */
extern const char *const system_event_names[PROBE_STREAM_UNNAMED + 1];

/* The type of a system event by its names; PROBE_STREAM_SYSTEM_TYPES if it is no system event. */
uint32_t system_event_type(const char *provider, const char *name);
/* Is an event of a log a system event? No thread has hit it. */
bool system_event_is(const struct probe_event *event);

#endif
