/* SPDX-License-Identifier: MIT */
/*
 * Streams: the events of a process, one after the other, with the semantics of POSIX trace (IEEE
 * Std 1003.1-2017, XSH 2.11 and <trace.h>). docs/streams.md compares the functions of the standard
 * with those of this header, and lists the differences.
 *
 * An active stream traces a target. Its events have types: one for each probe that the request
 * names, and the stream's own types (PROBE_STREAM_START ...). A stream may have a log: a record
 * (probe/ctf.h) to which its events are flushed. A pre-recorded stream is such a record, opened for
 * reading.
 *
 * Any number of threads may use one stream; each event goes to one of them. Nothing else may use
 * the target at the same time. The library starts no thread: the calls that wait for events, flush
 * or poll also serve the target and write the log.
 *
 * The `err` of an error is the number that the standard names: EINVAL if a function does not apply
 * to this stream, or if an argument makes no sense. While probe_stream_shutdown() ends the stream,
 * every other call fails with EINVAL (PROBE_ERROR_STATE).
 */
#ifndef PROBE_STREAM_H
#define PROBE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "ctf.h"
#include "error.h"
#include "event.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_stream;

/* ---- Types of events ------------------------------------------------------------- */

enum {
	PROBE_STREAM_NAME_MAX = 255,	   /* bytes of a stream's name */
	PROBE_STREAM_TYPE_NAME_MAX = 255,  /* bytes of a type's name */
	PROBE_STREAM_USER_TYPES_MAX = 4080 /* types of probes */
};

/*
 * Types of events. A type has a number and a name; the name of a probe's type is "provider:name".
 * In a stream, probes of the same name have the same type, even in different files. The following
 * types always exist; the comments list the arguments of their events.
 */
enum probe_stream_type {
	PROBE_STREAM_ERROR,	  /* an errno: a failure that no call has returned */
	PROBE_STREAM_START,	  /* the set of types that are filtered out */
	PROBE_STREAM_STOP,	  /* 0 after probe_stream_stop(), 1 if the stream was full */
	PROBE_STREAM_FILTER,	  /* the old and the new set */
	PROBE_STREAM_OVERFLOW,	  /* no arguments; the event's kind is PROBE_EVENT_LOST */
	PROBE_STREAM_RESUME,	  /* no arguments; nothing is missing after this event */
	PROBE_STREAM_FLUSH_START, /* no arguments */
	PROBE_STREAM_FLUSH_STOP,  /* no arguments */
	PROBE_STREAM_SYSTEM_TYPES,
	/* The type of probes without their own: too many names, or a name that is too long. */
	PROBE_STREAM_UNNAMED = 16,
	PROBE_STREAM_TYPES_END = PROBE_STREAM_UNNAMED + PROBE_STREAM_USER_TYPES_MAX
};

/*
 * Returns the type with a name in an active stream. If the type does not exist, it is created.
 * Errors: ENAMETOOLONG, EINVAL (not an active stream, or no name), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_type_open(
	struct probe_stream *stream, const char *name, uint32_t *type_ret);

/* Returns the name of a type. Owned by the stream. Errors: EINVAL (the type does not exist). */
PROBE_MUST_CHECK struct probe_error *probe_stream_type_name(
	struct probe_stream *stream, uint32_t type, const char **ret);

/*
 * Finds the first type of the stream whose number is `from` or more. If the stream has no such
 * type, *there_ret is false, and *type_ret unchanged. To list all types, begin with 0, and continue
 * with *type_ret + 1.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_type_next(
	struct probe_stream *stream, uint32_t from, uint32_t *type_ret, bool *there_ret);

/* ---- Sets of types ----------------------------------------------------------------- */

/* A set of types. {0} is the empty set. */
struct probe_stream_set {
	uint64_t words[PROBE_STREAM_TYPES_END / 64];
};

enum probe_stream_fill {
	/* system types that belong to no process: none, so an empty set */
	PROBE_STREAM_WOPID_TYPES,
	PROBE_STREAM_OWN_TYPES, /* all types below PROBE_STREAM_SYSTEM_TYPES */
	PROBE_STREAM_ALL_TYPES
};

/* Makes a set of exactly these types. Errors: EINVAL (another value of `what`). */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_fill(
	struct probe_stream_set *set, enum probe_stream_fill what);
/*
 * Adds a type to a set if `in` is true, or removes the type. The type may be in the set already, or
 * be absent. Errors: EINVAL (no type can have this number).
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_put(
	struct probe_stream_set *set, uint32_t type, bool in);
/* Tells whether a type is in a set. Errors: as probe_stream_set_put(). */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_has(
	const struct probe_stream_set *set, uint32_t type, bool *ret);

/*
 * Reads a set from an argument of a PROBE_STREAM_START or PROBE_STREAM_FILTER event. Errors:
 * EINVAL (the argument is not a set).
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_read(
	const struct probe_value *value, struct probe_stream_set *ret);

/* ---- Attributes ---------------------------------------------------------------------- */

/* The policy for a full stream. */
enum probe_stream_policy {
	PROBE_STREAM_DEFAULT, /* PROBE_STREAM_LOOP without a log, PROBE_STREAM_FLUSH with a log */
	PROBE_STREAM_LOOP,    /* the oldest events are dropped */
	/* The stream stops, and continues when all events have been read. */
	PROBE_STREAM_UNTIL_FULL,
	PROBE_STREAM_FLUSH /* the stream is flushed to its log as often as necessary */
};

/* The policy for a full log. */
enum probe_stream_log_policy {
	PROBE_STREAM_LOG_LOOP,	     /* the oldest part of the log is removed */
	PROBE_STREAM_LOG_UNTIL_FULL, /* the stream stops, and does not restart */
	PROBE_STREAM_LOG_APPEND	     /* the log has no limit */
};

/* Zero is the default of each option. Strings are copied. */
struct probe_stream_options {
	const char *name;
	size_t stream_bytes; /* memory for events, on each CPU; 0 for 4 MiB */
	/*
	 * Most bytes of arguments of an event: 8 for each number, and the length of each string.
	 * Longer data is truncated. 0 for 1024.
	 */
	size_t data_bytes;
	uint16_t string_bytes; /* maximum length of each string; 0 if only data_bytes limits it */
	enum probe_stream_policy policy;
	uint64_t wait_ns;      /* with PROBE_STREAM_FLUSH: as in struct probe_session_options */
	bool inherit;	       /* also trace forked children, in the same stream */
	bool guess_strings;    /* as in struct probe_session_options */
	bool follow_libraries; /* as in struct probe_session_options */
	const char *filter;    /* as in struct probe_session_options */
	unsigned int together; /* as in struct probe_session_options */
	/*
	 * NULL for the library's descriptions. If a pattern has no list of arguments, strings have
	 * their text and bytes their contents, as with `texts` in struct probe_session_options.
	 */
	const struct probe_catalogue *catalogue;
	struct probe_watch *watch; /* as in struct probe_session_options */

	const char *log; /* the folder of a record, empty or not yet existing; NULL for no log */
	enum probe_stream_log_policy log_policy;
	uint64_t log_bytes; /* size of a LOOP or UNTIL_FULL log, at least 1 MiB; 0 for 64 MiB */
	struct probe_ctf_options log_parts; /* limits of the log's parts, with APPEND only */

	/* Returns the name of a thread, valid until the next call, or NULL. May be NULL. */
	const char *(*comm)(void *data, pid_t pid, pid_t tid, uint64_t time_ns);
	void *comm_data;
};

/* The properties of a stream. */
struct probe_stream_attributes {
	struct probe_stream_options options; /* with defaults filled in; comm is NULL */
	const char *version;		     /* version of the program that traces, or has traced */
	uint64_t created_ns;		     /* CLOCK_REALTIME; 0 if unknown */
	uint64_t clock_resolution_ns;	     /* resolution of the times of events */
	/*
	 * The largest part of stream_bytes that an event of a probe takes, and that an event of the
	 * stream itself takes. No event is lost as long as events of these sizes would fit.
	 */
	size_t user_event_bytes, system_event_bytes;
};

/* Returns the attributes of a stream. Strings are owned by the stream. */
PROBE_MUST_CHECK struct probe_error *probe_stream_get_attributes(
	struct probe_stream *stream, struct probe_stream_attributes *ret);

/* ---- Active streams -------------------------------------------------------------------- */

/*
 * Creates a stream for the probes that a request names, and patches the target. At first the stream
 * is suspended, and no type is filtered out. The target is borrowed until the stream ends. If it is
 * the calling process, a copy of the process has the stream (docs/streams.md). Errors: EINVAL
 * (options that make no sense), ENAMETOOLONG; the errors of probe_session_start() and, with a log,
 * of probe_ctf_create(); for the calling process, those of probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_create(struct probe_target *target,
	const struct probe_request *request, const struct probe_stream_options *options,
	struct probe_report *report, struct probe_stream **ret);

/*
 * Starts or stops a stream. A start is recorded as PROBE_STREAM_START before all other events, and
 * a stop as PROBE_STREAM_STOP after them. Neither is recorded if the stream is already in that
 * state, or is full. A stream that is stopped while it is full does not continue when all events
 * have been read. Errors: EINVAL (not an active stream).
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_start(struct probe_stream *stream);
PROBE_MUST_CHECK struct probe_error *probe_stream_stop(struct probe_stream *stream);

enum probe_stream_how { PROBE_STREAM_FILTER_SET, PROBE_STREAM_FILTER_ADD, PROBE_STREAM_FILTER_SUB };

/*
 * Changes which types are filtered out: to a set (PROBE_STREAM_FILTER_SET), or by adding (_ADD)
 * or removing (_SUB) the types of a set. Hits of types that are filtered out leave no record. If
 * the stream runs, a PROBE_STREAM_FILTER is recorded. Errors: EINVAL (not an active stream, or
 * another value of `how`).
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_filter(
	struct probe_stream *stream, const struct probe_stream_set *set, enum probe_stream_how how);
/* Returns the set of types that are filtered out. Errors: EINVAL (not an active stream). */
PROBE_MUST_CHECK struct probe_error *probe_stream_get_filter(
	struct probe_stream *stream, struct probe_stream_set *ret);

/*
 * Drops all events of the stream and of its log. The stream is then as newly created, except that
 * its types stay, and that it runs or is suspended as before. A record of probe_stream_flush_to()
 * keeps its events. Errors: EINVAL (not an active stream).
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_clear(struct probe_stream *stream);

/*
 * Writes all current events to the log. Events that arrive meanwhile are left for the next flush.
 * Errors: EINVAL (the stream has no log), those of probe_ctf_hit(). After an error, which the
 * status also shows, the log gets no further events.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_flush(struct probe_stream *stream);

/*
 * Writes all current events of a stream without a log to a record of the caller. Other streams may
 * be written to the same record. The stream's own events are recorded with the process id, and
 * without a thread. From now on the stream's events are only in the record. probe_stream_shutdown()
 * writes no more events, but ends the stream's part of the record, so the record must be freed
 * after the shutdown. To write all events, first call probe_stream_stop(), and probe_session_stop()
 * for the stream's session. Errors: EINVAL (the stream has another log, or is one of the calling
 * process), those of probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_flush_to(
	struct probe_stream *stream, struct probe_ctf *record);

/*
 * Serves the stream. Call it regularly if no thread waits for events. It releases threads of the
 * target that wait for the caller (follow_libraries), notes that the stream is full, and flushes
 * (PROBE_STREAM_FLUSH). Never waits. *more_ret (may be NULL) becomes true if something was flushed:
 * then poll again soon. Errors: EINVAL (not an active stream), those of probe_stream_flush().
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_poll(struct probe_stream *stream, bool *more_ret);
/* Returns a descriptor, or -1, as probe_session_fd() does. When it is readable, poll at once. */
int probe_stream_fd(const struct probe_stream *stream);

/*
 * Ends an active stream: stops it, flushes it, closes its log, and restores the target. Calls that
 * wait for events return EINVAL. The stream is freed, even after an error, except after EINVAL (not
 * an active stream), which leaves it open.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_shutdown(struct probe_stream *stream);

/*
 * Returns the session of an active stream, for probe_session_probes() and similar functions; NULL
 * for a pre-recorded stream, and for one of the calling process. Owned by the stream. The session
 * may be stopped before the stream is shut down. Its hits belong to the stream, so poll the session
 * with visit == NULL only.
 */
struct probe_session *probe_stream_session(const struct probe_stream *stream);

/*
 * Checks whether the sites of the stream's probes still hold their patches, as
 * probe_session_look() does. Does nothing for a pre-recorded stream.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_look(struct probe_stream *stream, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data);

/* ---- Status ------------------------------------------------------------------------------ */

struct probe_stream_status {
	bool running;  /* false if the stream is suspended */
	bool full;     /* with PROBE_STREAM_LOOP: new events replace old ones */
	bool overrun;  /* events were lost since the status was last read */
	bool flushing; /* another thread flushes the stream */
	/* The first errno of a flush since the status was last read; 0 if none failed. */
	int flush_error;
	bool log_overrun; /* events of the log were lost since the status was last read */
	bool log_full;
	/* All hits known to be lost. Overwritten hits count as soon as a reader reaches them. */
	uint64_t lost;
	uint64_t flushed;     /* all hits written to the log */
	uint64_t overwritten; /* lost hits that newer hits have replaced */
};

/*
 * Returns the status of a stream, and resets overrun, flush_error and log_overrun. For a
 * pre-recorded stream it is the status at the end of the recording, and nothing is reset.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_get_status(
	struct probe_stream *stream, struct probe_stream_status *ret);

/* ---- Reading ------------------------------------------------------------------------------ */

enum probe_stream_truncation {
	PROBE_STREAM_WHOLE,
	PROBE_STREAM_TRUNCATED_RECORD, /* when it was recorded: options.data_bytes was too small */
	PROBE_STREAM_TRUNCATED_READ    /* by this call: the caller's memory was too small */
};

struct probe_stream_event {
	uint32_t type;
	enum probe_stream_truncation truncation;
	uint64_t pc;	  /* address of the site; 0 if unknown, and for the stream's own events */
	size_t data_used; /* used bytes of the caller's memory */
	/*
	 * Arguments are in the caller's memory; names are owned by the stream. The stream's own
	 * events have no thread: tid is 0 (and pid, except in a record of several streams), and the
	 * provider is "posix_trace".
	 */
	struct probe_event event;
};

/*
 * Removes the oldest event from the stream and returns it. Its arguments go to `data`, which has
 * `size` bytes; arguments that do not fit are left out (PROBE_STREAM_TRUNCATED_READ).
 *
 * If the stream has no event, the call waits for one. `until` limits the wait: it is a time of
 * CLOCK_REALTIME, {0} for no wait, or NULL for no limit. *there_ret is false if no event will ever
 * come, because the record or the target has ended; with {0}, also if no event has come yet.
 *
 * Errors: ETIMEDOUT (no event until then), EINVAL (an active stream with a log; the stream was shut
 * down meanwhile; not a valid time; a pre-recorded stream, and `until` is not NULL), EINTR (a
 * signal arrived), those of reading a record, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_next(struct probe_stream *stream, void *data,
	size_t size, const struct timespec *until, struct probe_stream_event *ret, bool *there_ret);

/* ---- Pre-recorded streams ------------------------------------------------------------------ */

/*
 * Opens a log, or any other record, as a pre-recorded stream. The types of a log are known at once;
 * the types of another record become known while its events are read. Unlike probe_reader_open(),
 * it does not search the folders below for records. Errors: EINVAL (not a record), ENOENT (there is
 * no such folder), those of probe_reader_open().
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_open(const char *path, struct probe_stream **ret);

/*
 * Goes back to the oldest event. Errors: EINVAL (not a pre-recorded stream), those of
 * probe_stream_open().
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_rewind(struct probe_stream *stream);

/* Closes a pre-recorded stream. Errors: EINVAL (an active stream; it stays open). */
PROBE_MUST_CHECK struct probe_error *probe_stream_close(struct probe_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
