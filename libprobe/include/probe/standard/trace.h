/* SPDX-License-Identifier: MIT */
/*
 * <trace.h> of IEEE Std 1003.1-2017 for programs that are traced: its structures, constants and
 * limits, and the two functions for the traced program (probe/posix_trace.h). `pkg-config --cflags
 * probe_events` makes it available as <trace.h>.
 *
 * The functions for the controller (posix_trace_create() and all others that take a trace stream,
 * its attributes or a set of events, and the types of these) are not declared: probe/stream.h has
 * them under its own names. Likewise, <unistd.h> does not define the option _POSIX_TRACE, which
 * would promise the functions for the controller.
 */
#ifndef PROBE_STANDARD_TRACE_H
#define PROBE_STANDARD_TRACE_H

#include <sys/types.h>
#include <time.h>

#include "../posix_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Limits, of <limits.h> --------------------------------------------------------- */

/* The minimum on any system. */
#define _POSIX_TRACE_EVENT_NAME_MAX 30
#define _POSIX_TRACE_NAME_MAX 8
#define _POSIX_TRACE_SYS_MAX 8
#define _POSIX_TRACE_USER_EVENT_MAX 32

/*
 * TRACE_EVENT_NAME_MAX is in probe/posix_trace.h. TRACE_SYS_MAX and TRACE_USER_EVENT_MAX are
 * not defined, because memory is the only limit: sysconf(_SC_TRACE_USER_EVENT_MAX) is -1.
 */
#define TRACE_NAME_MAX 255 /* bytes of a stream's name */

/* ---- Events -------------------------------------------------------------------------- */

/* System events. A program cannot pass them to posix_trace_event(). */
#define POSIX_TRACE_ERROR ((trace_event_id_t)2)
#define POSIX_TRACE_START ((trace_event_id_t)3)
#define POSIX_TRACE_STOP ((trace_event_id_t)4)
#define POSIX_TRACE_FILTER ((trace_event_id_t)5)
#define POSIX_TRACE_OVERFLOW ((trace_event_id_t)6)
#define POSIX_TRACE_RESUME ((trace_event_id_t)7)
#define POSIX_TRACE_FLUSH_START ((trace_event_id_t)8)
#define POSIX_TRACE_FLUSH_STOP ((trace_event_id_t)9)

/* The standard has both spellings. */
#define POSIX_TRACE_UNNAMED_USER_EVENT POSIX_TRACE_UNNAMED_USEREVENT

struct posix_trace_event_info {
	trace_event_id_t posix_event_id;
	pid_t posix_pid;
	void *posix_prog_address;
	pthread_t posix_thread_id;
	struct timespec posix_timestamp;
	int posix_truncation_status; /* one of the three constants below */
};

/* The same values as in enum probe_stream_truncation. */
#define POSIX_TRACE_NOT_TRUNCATED 0
#define POSIX_TRACE_TRUNCATED_RECORD 1
#define POSIX_TRACE_TRUNCATED_READ 2

/* ---- Streams --------------------------------------------------------------------------- */

struct posix_trace_status_info {
	int posix_stream_status;
	int posix_stream_full_status;
	int posix_stream_overrun_status;
	int posix_stream_flush_status;
	int posix_stream_flush_error;
	int posix_log_overrun_status;
	int posix_log_full_status;
};

/* The states of a stream: running, full, with lost events, being flushed. */
#define POSIX_TRACE_SUSPENDED 0
#define POSIX_TRACE_RUNNING 1

#define POSIX_TRACE_NOT_FULL 0
#define POSIX_TRACE_FULL 1

#define POSIX_TRACE_NO_OVERRUN 0
#define POSIX_TRACE_OVERRUN 1

#define POSIX_TRACE_NOT_FLUSHING 0
#define POSIX_TRACE_FLUSHING 1

/* Whether children inherit a stream, and what happens when a stream or a log is full. */
#define POSIX_TRACE_CLOSE_FOR_CHILD 0
#define POSIX_TRACE_INHERITED 1

#define POSIX_TRACE_LOOP 0
#define POSIX_TRACE_UNTIL_FULL 1
#define POSIX_TRACE_FLUSH 2
#define POSIX_TRACE_APPEND 3

/* How a set is filled, and how a filter is changed. */
#define POSIX_TRACE_WOPID_EVENTS 0
#define POSIX_TRACE_SYSTEM_EVENTS 1
#define POSIX_TRACE_ALL_EVENTS 2

#define POSIX_TRACE_SET_EVENTSET 0
#define POSIX_TRACE_ADD_EVENTSET 1
#define POSIX_TRACE_SUB_EVENTSET 2

#ifdef __cplusplus
}
#endif
#endif
