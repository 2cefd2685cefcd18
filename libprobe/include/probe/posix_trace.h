/* SPDX-License-Identifier: MIT */
/*
 * User events: trace points that a program names at run time, as in <trace.h> of IEEE Std
 * 1003.1-2017, B.2.11 and posix_trace_event(3).
 *
 * Each name becomes a probe of the process, posix_trace:NAME, with two arguments: a pointer to the
 * data and its length. `probectl` and every other tool that knows stapsdt notes can switch the
 * probe on; until then posix_trace_event() does nothing.
 *
 * Link with -lprobe_events, which needs nothing but the C library.
 */
#ifndef PROBE_POSIX_TRACE_H
#define PROBE_POSIX_TRACE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An event type. Two types are the same if and only if their numbers are equal. */
typedef unsigned int trace_event_id_t;

/*
 * The standard asks for at least 30. TRACE_USER_EVENT_MAX is not defined: only memory limits the
 * number of names, with about 300 bytes for each.
 */
#ifndef TRACE_EVENT_NAME_MAX
#define TRACE_EVENT_NAME_MAX 64 /* bytes, without the NUL */
#endif

/* The type of all other events: the probe posix_trace:posix_trace_unnamed_userevent. */
#define POSIX_TRACE_UNNAMED_USEREVENT ((trace_event_id_t)1)

/*
 * Sets *event_id to the event type of a name. The same name has the same type in all threads and in
 * forked children.
 *
 * If the probe cannot be made now, because memory or descriptors are short, the type is
 * POSIX_TRACE_UNNAMED_USEREVENT. A later call with the name tries again.
 *
 * May be called by any thread at any time, but not in a signal handler. Returns 0, or an error
 * number, and then leaves *event_id alone.
 *
 * Errors: ENAMETOOLONG (the name has more than TRACE_EVENT_NAME_MAX bytes), EINVAL (the name is
 * empty), ENOTSUP (not on this instruction set).
 */
int posix_trace_eventid_open(
	const char *__restrict event_name, trace_event_id_t *__restrict event_id);

/*
 * Hits the probe of an event type, with data_len bytes of data. `data_ptr` may be NULL if data_len
 * is 0. The tracing program decides how much of the data is kept; a record says whether the data is
 * complete. The call has no effect while no tool traces the probe, and for identifiers that
 * posix_trace_eventid_open() never returned.
 *
 * The first use of a name waits for controllers that trace new names, until they have switched on
 * all open names. This takes some milliseconds, and at most two seconds if such a controller is
 * stopped.
 *
 * May be called in a signal handler.
 */
void posix_trace_event(trace_event_id_t event_id, const void *__restrict data_ptr, size_t data_len);

#ifdef __cplusplus
}
#endif
#endif
