/* SPDX-License-Identifier: MIT */
/*
 * <trace.h> of IEEE Std 1003.1-2017, with its options TRC, TEF, TIN, TRI and TRL.
 *
 * Programs that are traced need only posix_trace_eventid_open() and posix_trace_event()
 * (probe/posix_trace.h): `pkg-config --cflags --libs probe_events`. Programs that trace themselves
 * or others need all functions: `pkg-config --cflags --libs probe_trace`. Both make this file
 * available as <trace.h>.
 *
 * The standard describes the functions. They return 0 or an error number. docs/streams.md says
 * where they differ, and what is different for a process that is traced from outside. <unistd.h> is
 * the C library's, which says that it lacks the option (_POSIX_TRACE is -1).
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
 * TRACE_EVENT_NAME_MAX is in probe/posix_trace.h. TRACE_USER_EVENT_MAX is not defined, because
 * memory is the only limit: sysconf(_SC_TRACE_USER_EVENT_MAX) is -1. A stream has 4080 user types.
 */
#define TRACE_NAME_MAX 255 /* bytes of a stream's name */
#define TRACE_SYS_MAX 64   /* streams of a process */

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

typedef unsigned int trace_id_t;

/* A set of events. Identifiers from 4224 on cannot be in a set. */
typedef struct {
	unsigned long words[66];
} trace_event_set_t;

/* The attributes of a stream. The functions know its members. */
typedef struct {
	unsigned int mark;
	int stream_policy, log_policy, inherited;
	size_t max_data_size, stream_size, log_size, user_event_size, system_event_size;
	struct timespec clock_resolution, created;
	char name[TRACE_NAME_MAX + 1], version[TRACE_NAME_MAX + 1];
} trace_attr_t;

/* ---- Attributes -------------------------------------------------------------------------- */

int posix_trace_attr_init(trace_attr_t *attr);
int posix_trace_attr_destroy(trace_attr_t *attr);

/* The arrays get a NUL-terminated text, and have room for TRACE_NAME_MAX + 1 bytes. */
int posix_trace_attr_getgenversion(const trace_attr_t *attr, char *genversion);
int posix_trace_attr_getname(const trace_attr_t *attr, char *tracename);
int posix_trace_attr_setname(trace_attr_t *attr, const char *tracename);
int posix_trace_attr_getcreatetime(
	const trace_attr_t *__restrict attr, struct timespec *__restrict createtime);
int posix_trace_attr_getclockres(
	const trace_attr_t *__restrict attr, struct timespec *__restrict resolution);

int posix_trace_attr_getinherited(
	const trace_attr_t *__restrict attr, int *__restrict inheritancepolicy);
int posix_trace_attr_setinherited(trace_attr_t *attr, int inheritancepolicy);
int posix_trace_attr_getstreamfullpolicy(
	const trace_attr_t *__restrict attr, int *__restrict streampolicy);
int posix_trace_attr_setstreamfullpolicy(trace_attr_t *attr, int streampolicy);
int posix_trace_attr_getlogfullpolicy(
	const trace_attr_t *__restrict attr, int *__restrict logpolicy);
int posix_trace_attr_setlogfullpolicy(trace_attr_t *attr, int logpolicy);

int posix_trace_attr_getmaxdatasize(
	const trace_attr_t *__restrict attr, size_t *__restrict maxdatasize);
int posix_trace_attr_setmaxdatasize(trace_attr_t *attr, size_t maxdatasize);
int posix_trace_attr_getstreamsize(
	const trace_attr_t *__restrict attr, size_t *__restrict streamsize);
int posix_trace_attr_setstreamsize(trace_attr_t *attr, size_t streamsize);
int posix_trace_attr_getlogsize(const trace_attr_t *__restrict attr, size_t *__restrict logsize);
int posix_trace_attr_setlogsize(trace_attr_t *attr, size_t logsize);
int posix_trace_attr_getmaxusereventsize(
	const trace_attr_t *__restrict attr, size_t data_len, size_t *__restrict eventsize);
int posix_trace_attr_getmaxsystemeventsize(
	const trace_attr_t *__restrict attr, size_t *__restrict eventsize);

/* ---- Active streams ---------------------------------------------------------------------- */

int posix_trace_create(pid_t pid, const trace_attr_t *__restrict attr, trace_id_t *__restrict trid);
int posix_trace_create_withlog(
	pid_t pid, const trace_attr_t *__restrict attr, int file_desc, trace_id_t *__restrict trid);
int posix_trace_start(trace_id_t trid);
int posix_trace_stop(trace_id_t trid);
int posix_trace_clear(trace_id_t trid);
int posix_trace_flush(trace_id_t trid);
int posix_trace_shutdown(trace_id_t trid);

int posix_trace_get_attr(trace_id_t trid, trace_attr_t *attr);
int posix_trace_get_status(trace_id_t trid, struct posix_trace_status_info *statusinfo);
int posix_trace_set_filter(trace_id_t trid, const trace_event_set_t *set, int how);
int posix_trace_get_filter(trace_id_t trid, trace_event_set_t *set);

/* ---- Types of events --------------------------------------------------------------------- */

int posix_trace_trid_eventid_open(
	trace_id_t trid, const char *__restrict event_name, trace_event_id_t *__restrict event);
int posix_trace_eventid_equal(trace_id_t trid, trace_event_id_t event1, trace_event_id_t event2);
/* The array has room for TRACE_EVENT_NAME_MAX + 1 bytes. */
int posix_trace_eventid_get_name(trace_id_t trid, trace_event_id_t event, char *event_name);
int posix_trace_eventtypelist_getnext_id(
	trace_id_t trid, trace_event_id_t *__restrict event, int *__restrict unavailable);
int posix_trace_eventtypelist_rewind(trace_id_t trid);

int posix_trace_eventset_empty(trace_event_set_t *set);
int posix_trace_eventset_fill(trace_event_set_t *set, int what);
int posix_trace_eventset_add(trace_event_id_t event_id, trace_event_set_t *set);
int posix_trace_eventset_del(trace_event_id_t event_id, trace_event_set_t *set);
int posix_trace_eventset_ismember(trace_event_id_t event_id,
	const trace_event_set_t *__restrict set, int *__restrict ismember);

/* ---- Reading ----------------------------------------------------------------------------- */

int posix_trace_getnext_event(trace_id_t trid, struct posix_trace_event_info *__restrict event,
	void *__restrict data, size_t num_bytes, size_t *__restrict data_len,
	int *__restrict unavailable);
int posix_trace_timedgetnext_event(trace_id_t trid, struct posix_trace_event_info *__restrict event,
	void *__restrict data, size_t num_bytes, size_t *__restrict data_len,
	int *__restrict unavailable, const struct timespec *__restrict abstime);
int posix_trace_trygetnext_event(trace_id_t trid, struct posix_trace_event_info *__restrict event,
	void *__restrict data, size_t num_bytes, size_t *__restrict data_len,
	int *__restrict unavailable);

int posix_trace_open(int file_desc, trace_id_t *trid);
int posix_trace_rewind(trace_id_t trid);
int posix_trace_close(trace_id_t trid);

#ifdef __cplusplus
}
#endif
#endif
