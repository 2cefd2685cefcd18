/* SPDX-License-Identifier: MIT */
/*
 * Streams: the events of a process, one after the other, with the semantics of
 * POSIX trace (IEEE Std 1003.1-2017, XSH 2.11 and <trace.h>). docs/streams.md says
 * which function there is which one here, and where they differ.
 *
 * An active stream traces a target: the types of its events are the probes that a
 * request names, and the stream's own (PROBE_STREAM_START ...). It may have a log, a
 * record (probe/ctf.h) that its events are flushed to. A pre-recorded stream is such a
 * record, opened for reading.
 *
 * Any number of threads may use one stream; each event goes to one of them.
 * Nobody else may use its target meanwhile. No function here makes a thread: the
 * target of an active stream is served, and its log written, by the calls that
 * wait for events, flush, or poll.
 *
 * Errors have in `err` the number that the standard states: EINVAL where a
 * function does not apply to this stream or its argument makes no sense. Every
 * function fails so (PROBE_ERROR_STATE) while probe_stream_shutdown() ends the stream.
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
	PROBE_STREAM_USER_TYPES_MAX = 4080 /* types that are not the stream's own */
};

/*
 * Types have numbers, and names: those of probes are "provider:name". One name has
 * one number in a stream, wherever its probe is. These are there from the start; behind
 * each stands what an event of it has as arguments.
 */
enum probe_stream_type {
	PROBE_STREAM_ERROR,	  /* an errno: something failed that nobody was told of */
	PROBE_STREAM_START,	  /* the set of types that are filtered out */
	PROBE_STREAM_STOP,	  /* 0: by probe_stream_stop(); 1: the stream was full */
	PROBE_STREAM_FILTER,	  /* the old and the new set */
	PROBE_STREAM_OVERFLOW,	  /* none; its kind is PROBE_EVENT_LOST */
	PROBE_STREAM_RESUME,	  /* none: from here on nothing is missing */
	PROBE_STREAM_FLUSH_START, /* none */
	PROBE_STREAM_FLUSH_STOP,  /* none */
	PROBE_STREAM_SYSTEM_TYPES,
	/* What has no number of its own: there are too many names, or one is too long. */
	PROBE_STREAM_UNNAMED = 16,
	PROBE_STREAM_TYPES_END = PROBE_STREAM_UNNAMED + PROBE_STREAM_USER_TYPES_MAX
};

/*
 * Gives the number of a name in an active stream, which gets one if it has none yet.
 * Errors: ENAMETOOLONG, EINVAL (not an active stream, no name), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_type_open(
	struct probe_stream *stream, const char *name, uint32_t *type_ret);

/*
 * Gives the name of a type, which the stream owns until its end. EINVAL: there is none.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_type_name(
	struct probe_stream *stream, uint32_t type, const char **ret);

/*
 * Finds the first type of the stream whose number is `from` or more. *there_ret is false, and
 * *type_ret unchanged, if there is none. To list all types, begin with 0, and continue with
 * *type_ret + 1.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_type_next(
	struct probe_stream *stream, uint32_t from, uint32_t *type_ret, bool *there_ret);

/* ---- Sets of types ----------------------------------------------------------------- */

/* {0} is the empty set. */
struct probe_stream_set {
	uint64_t words[PROBE_STREAM_TYPES_END / 64];
};

enum probe_stream_fill {
	PROBE_STREAM_WOPID_TYPES, /* system types that belong to no process: there are none */
	PROBE_STREAM_OWN_TYPES,	  /* all below PROBE_STREAM_SYSTEM_TYPES */
	PROBE_STREAM_ALL_TYPES
};

/* Makes a set of these types and no others. Errors: EINVAL (another value of `what`). */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_fill(
	struct probe_stream_set *set, enum probe_stream_fill what);
/*
 * Adds a type to a set (`in`) or removes it. It does not matter whether the type was in the set.
 * Errors: EINVAL (no type can have this number).
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_put(
	struct probe_stream_set *set, uint32_t type, bool in);
/* Tells whether a type is in a set. EINVAL as above. */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_has(
	const struct probe_stream_set *set, uint32_t type, bool *ret);

/* Reads the set that an argument of a PROBE_STREAM_START or _FILTER is. EINVAL: it is none. */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_read(
	const struct probe_value *value, struct probe_stream_set *ret);

/* ---- Attributes ---------------------------------------------------------------------- */

/* What happens when the stream is full. */
enum probe_stream_policy {
	PROBE_STREAM_DEFAULT,	 /* LOOP; with a log FLUSH */
	PROBE_STREAM_LOOP,	 /* the oldest events go */
	PROBE_STREAM_UNTIL_FULL, /* it stops, and goes on when it has been emptied */
	PROBE_STREAM_FLUSH	 /* it is flushed as often as need be; only with a log */
};

/* What happens when the log is full. */
enum probe_stream_log_policy {
	PROBE_STREAM_LOG_LOOP,	     /* the oldest part of it goes */
	PROBE_STREAM_LOG_UNTIL_FULL, /* the stream ends with it */
	PROBE_STREAM_LOG_APPEND	     /* it has no limit */
};

/* All zero is the default. Strings are copied. */
struct probe_stream_options {
	const char *name;
	size_t stream_bytes; /* for events, on each CPU; 0: 4 MiB */
	/*
	 * Bytes of data of an event: 8 for a number, and those of strings. What is
	 * longer is truncated. 0: 1024.
	 */
	size_t data_bytes;
	uint16_t string_bytes; /* of each string at most; 0: what data_bytes allows */
	enum probe_stream_policy policy;
	bool inherit;	       /* forked children are traced, too, into the same stream */
	bool guess_strings;    /* see struct probe_session_options */
	bool follow_libraries; /* likewise */
	const char *filter;    /* likewise */

	const char *log; /* the folder of a record, empty or not there yet; NULL: no log */
	enum probe_stream_log_policy log_policy;
	uint64_t log_bytes;		    /* of LOOP and UNTIL_FULL, 1 MiB at least; 0: 64 MiB */
	struct probe_ctf_options log_parts; /* with APPEND only */

	/* The name of a thread, valid until the next call; may be NULL, and return NULL. */
	const char *(*comm)(void *data, pid_t pid, pid_t tid, uint64_t time_ns);
	void *comm_data;
};

/* What a stream is like: what was asked for, and what came of it. */
struct probe_stream_attributes {
	struct probe_stream_options options; /* defaults filled in; without functions */
	const char *version;		     /* what traces, or has traced */
	uint64_t created_ns;		     /* CLOCK_REALTIME; 0: not known */
	uint64_t clock_resolution_ns;	     /* of events' times */
	/*
	 * As much as an event of a probe, or one of the stream's own, may take of
	 * stream_bytes: events that together take no more are recorded without a loss.
	 */
	size_t user_event_bytes, system_event_bytes;
};

/* Gives the attributes of a stream. Strings are the stream's until its end. */
PROBE_MUST_CHECK struct probe_error *probe_stream_get_attributes(
	struct probe_stream *stream, struct probe_stream_attributes *ret);

/* ---- Active streams -------------------------------------------------------------------- */

/*
 * Makes a stream for the probes that a request names. It is suspended, nothing is
 * filtered out, and its target is patched. The target is borrowed until the stream ends.
 * Errors: EINVAL (options that make no sense), ENAMETOOLONG; those of
 * probe_session_start() and, with a log, of probe_ctf_create().
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_create(struct probe_target *target,
	const struct probe_request *request, const struct probe_stream_options *options,
	struct probe_report *report, struct probe_stream **ret);

/*
 * Lets events in, or no more. The first event that is then recorded is a
 * PROBE_STREAM_START, or the last a PROBE_STREAM_STOP; neither is where it is as it
 * shall be already, or where the stream is full. One that became full and was
 * stopped does not go on by itself when it is emptied. EINVAL: not an active stream.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_start(struct probe_stream *stream);
PROBE_MUST_CHECK struct probe_error *probe_stream_stop(struct probe_stream *stream);

enum probe_stream_how { PROBE_STREAM_FILTER_SET, PROBE_STREAM_FILTER_ADD, PROBE_STREAM_FILTER_SUB };

/*
 * Sets the types that are filtered out: to a set, or to what was filtered out and is
 * in the set as well or is not in the set. Hits of such types leave no record. A
 * stream that is running records a PROBE_STREAM_FILTER. EINVAL: not an active stream, or `how`.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_set_filter(
	struct probe_stream *stream, const struct probe_stream_set *set, enum probe_stream_how how);
PROBE_MUST_CHECK struct probe_error *probe_stream_get_filter(
	struct probe_stream *stream, struct probe_stream_set *ret);

/*
 * Throws all events away, and those of the log. The stream is as it was made, but
 * for its types, and runs or is suspended as before. EINVAL: not an active stream.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_clear(struct probe_stream *stream);

/*
 * Writes all events that there are now into the log; those that come meanwhile are
 * for the next time. EINVAL: no log. Other errors as probe_ctf_hit(); they are also in
 * the status, and the log has no later events.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_flush(struct probe_stream *stream);

/*
 * Does what is to be done now and then where no thread waits for events: lets go
 * what the target holds for us (follow_libraries), notes that it has become full, and
 * flushes (PROBE_STREAM_FLUSH). *more_ret (may be NULL): something was flushed, so that
 * there is soon more. Never waits. EINVAL: not an active stream. Other errors as above.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_poll(struct probe_stream *stream, bool *more_ret);
/* Gives a descriptor, as probe_session_fd(): poll at once when it is readable. -1: there is none.
 */
int probe_stream_fd(const struct probe_stream *stream);

/*
 * Ends an active stream: stops it, flushes it to its log, closes that, and takes the
 * patches out of the target. Threads that wait for its events get EINVAL. The stream
 * is then gone, whatever is returned. EINVAL: not an active stream, which stays.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_shutdown(struct probe_stream *stream);

/*
 * Gives what the stream traces with, for probe_session_probes() and the like. NULL:
 * it is pre-recorded.
 */
const struct probe_session *probe_stream_session(const struct probe_stream *stream);

/*
 * Looks whether the sites of the stream's probes are patched still: see
 * probe_session_look(). Does nothing of one that is pre-recorded.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_look(struct probe_stream *stream, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data);

/* ---- Status ------------------------------------------------------------------------------ */

struct probe_stream_status {
	bool running;	  /* else it is suspended */
	bool full;	  /* of LOOP: some event has been written over since */
	bool overrun;	  /* events were lost since the status was last asked for */
	bool flushing;	  /* another thread is about it */
	int flush_error;  /* the errno of the first one since then; 0: none */
	bool log_overrun; /* events of the log were lost since then */
	bool log_full;
	uint64_t lost;	  /* hits that are known to have been lost, in all */
	uint64_t flushed; /* hits that were written to the log, in all */
};

/*
 * Gives the status of a stream. Of a pre-recorded one, it is what the stream was like
 * at its end; then nothing is reset.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_get_status(
	struct probe_stream *stream, struct probe_stream_status *ret);

/* ---- Reading ------------------------------------------------------------------------------ */

enum probe_stream_truncation {
	PROBE_STREAM_WHOLE,
	PROBE_STREAM_TRUNCATED_RECORD, /* when it was recorded: see options.data_bytes */
	PROBE_STREAM_TRUNCATED_READ    /* now: the reader's memory is too small */
};

struct probe_stream_event {
	uint32_t type;
	enum probe_stream_truncation truncation;
	uint64_t pc;	  /* where the hit was; 0: not known, or an event of the stream itself */
	size_t data_used; /* bytes of the reader's memory */
	/*
	 * What it points to is in the reader's memory, and names are the stream's. The
	 * stream's own events have no thread: pid and tid are 0, and provider is
	 * "posix_trace".
	 */
	struct probe_event event;
};

/*
 * Removes the oldest event from the stream and returns it. Its arguments go to `data`, which
 * has `size` bytes; arguments that do not fit are left out (PROBE_STREAM_TRUNCATED_READ).
 *
 * If there is no event, the call waits for one. `until` limits the wait: a time of
 * CLOCK_REALTIME; {0}: the call does not wait; NULL: no limit. *there_ret is false if there is no
 * event and never will be one, because the record or the target has ended; with {0}, also if
 * there is none yet.
 *
 * Errors: ETIMEDOUT (no event until then), EINVAL (an active stream with a log; the stream was
 * shut down meanwhile; not a valid time; a pre-recorded stream, and `until` is not NULL), EINTR
 * (a signal arrived), those of reading a record, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_next(struct probe_stream *stream, void *data,
	size_t size, const struct timespec *until, struct probe_stream_event *ret, bool *there_ret);

/* ---- Pre-recorded streams ------------------------------------------------------------------ */

/*
 * Opens a log, or any other record (its types are then known once they have been
 * read). Errors: EINVAL (it is none), those of probe_reader_open().
 */
PROBE_MUST_CHECK struct probe_error *probe_stream_open(const char *path, struct probe_stream **ret);

/* Begins with the oldest event again. EINVAL: not pre-recorded; errors of opening it. */
PROBE_MUST_CHECK struct probe_error *probe_stream_rewind(struct probe_stream *stream);

/* Closes a pre-recorded stream. EINVAL: an active stream, which stays. */
PROBE_MUST_CHECK struct probe_error *probe_stream_close(struct probe_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
