/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_STREAM_STREAM_H
#define LIBPROBE_STREAM_STREAM_H

#include <pthread.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "libprobe/base/map.h"
#include "libprobe/record/record.h"
#include "libprobe/registry/registry.h"
#include "probe/reader.h"
#include "probe/stream.h"

/* ---- Stream ---------------------------------------------------------------------------------- */

/*
 * Streams of POSIX tracing: types, queue, logs, and the stream. Errors have the standard's errno.
 */

/* ---- Types and sets (index.c) ----------------------------------------------------------- */

struct stream_type {
	/*
	 * owned: "provider:name", "provider" and "name", each with a NUL; NULL if the type does not
	 * exist
	 */
	char *text;
	const char *provider, *name;
};

struct stream_types {
	struct stream_type types[PROBE_STREAM_TYPES_END];
	uint32_t next;	    /* number for the next new type */
	struct map by_name; /* uint32_t, the number of a type */
};

/* Creates a table with the stream's own types. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *stream_types_create(struct stream_types **ret);
void stream_types_free(struct stream_types *types);

/*
 * Gets the type of a probe's name, which may be new. It is PROBE_STREAM_UNNAMED if the table is
 * full or the name too long. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *stream_types_of_probe(
	struct stream_types *types, const char *provider, const char *name, uint32_t *ret);
/* Like stream_types_of_probe(), for a whole name of at most PROBE_STREAM_TYPE_NAME_MAX bytes. */
PROBE_MUST_CHECK struct probe_error *stream_types_of_name(
	struct stream_types *types, const char *name, uint32_t *ret);
static inline bool stream_types_has(const struct stream_types *types, uint32_t type)
{
	return type < PROBE_STREAM_TYPES_END && types->types[type].text;
}

/* Returns true if a set has a type, which must be less than PROBE_STREAM_TYPES_END. */
static inline bool stream_set_has(const struct probe_stream_set *set, uint32_t type)
{
	return set->words[type / 64] >> (type % 64) & 1;
}
/* Returns the bytes of a set as an argument, without zeros at the end. */
struct probe_value stream_set_value(const struct probe_stream_set *set);

/* ---- Queue of unread events (read.c) -------------------------------------------- */

/* An event to add to a queue, which copies its arguments. */
struct stream_item {
	uint32_t type;
	enum probe_stream_truncation truncation;
	uint64_t pc;
	/* without provider and name; `type` stands for them */
	struct probe_event event;
};

/* Appends an event. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *stream_queue_put(
	struct buffer *queue, const struct stream_item *item);
/* Takes the oldest event, with its values in data[size]. Returns false if the queue is empty. */
bool stream_queue_take(struct buffer *queue, const struct stream_types *types,
	struct probe_stream_event *ret, void *data, size_t size);
static inline size_t stream_queue_bytes(const struct buffer *queue)
{
	return queue->length - queue->start;
}
void stream_queue_clear(struct buffer *queue);

/*
 * Copies as many arguments as fit into `limit` bytes of data to to[], which has room for `count`.
 * Returns their number. *truncated_ret is true if an argument is cut off or left out, or was
 * truncated when it was recorded.
 */
size_t stream_limit(const struct probe_value *args, size_t count, size_t limit,
	struct probe_value *to, bool *truncated_ret);

/* ---- Logs (log.c, index.c) -------------------------------------------------------------- */

struct stream_log;

/*
 * Creates a log. The options are borrowed. If `record` is not NULL, the log is this record of the
 * caller's (probe_stream_flush_to()), in which the stream's own events have this pid. Errors: as
 * probe_ctf_create().
 */
PROBE_MUST_CHECK struct probe_error *stream_log_create(const struct probe_stream_options *options,
	struct probe_ctf *record, pid_t pid, struct stream_log **ret);
/* Returns the record of the caller's, or NULL. */
struct probe_ctf *stream_log_borrowed(const struct stream_log *log);
/* Stops writing to the caller's record. Errors: as probe_ctf_forget(). */
PROBE_MUST_CHECK struct probe_error *stream_log_leave(
	struct stream_log *log, const struct probe_session *session);
void stream_log_free(struct stream_log *log);

/*
 * Add a hit, one of the stream's own events, or losses. Once the log is full, they add nothing.
 * Errors: as probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *stream_log_hit(struct stream_log *log,
	const struct probe_session *session, const struct probe_hit *hit, const char *comm);
PROBE_MUST_CHECK struct probe_error *stream_log_own(
	struct stream_log *log, uint32_t type, const struct probe_event *event);
PROBE_MUST_CHECK struct probe_error *stream_log_lost(
	struct stream_log *log, const struct probe_session *session, uint64_t count);
/* Removes all events and starts the log again. */
PROBE_MUST_CHECK struct probe_error *stream_log_clear(struct stream_log *log);

/* Writes the stop event of a full log, which has kept room for it, and flushes. */
PROBE_MUST_CHECK struct probe_error *stream_log_last(
	struct stream_log *log, const struct probe_event *event);
/* Writes the log's packets into files, and keeps the limit. */
PROBE_MUST_CHECK struct probe_error *stream_log_flush(struct stream_log *log);

bool stream_log_is_full(const struct stream_log *log);
/* Sets the log's members of a status. The next status tells only later overruns. */
void stream_log_status(struct stream_log *log, struct probe_stream_status *ret);

/* The log's hidden file .stream, which CTF readers ignore: attributes, types and status. */
struct stream_index {
	struct probe_stream_attributes attributes;
	struct probe_stream_status status;
	struct stream_types *types;
	/* the strings that `attributes` points to: name, version, path of the log */
	char *strings[3];
};
/* Writes a folder's file .stream. Errors: PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *stream_index_write(
	const char *folder, const struct stream_index *index);
/*
 * Reads a folder's file .stream, and adds its types to *index, which does not change if the file is
 * missing. Errors: PROBE_ERROR_FORMAT with EINVAL, PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *stream_index_read(
	const char *folder, struct stream_index *index);
void stream_index_deinit(struct stream_index *index);
extern const char stream_index_name[];

/* ---- Streams (stream.c, read.c) --------------------------------------------------------- */

/* An operation (start, stop, filter), and its time among the events. */
struct stream_mark {
	uint64_t stamp; /* the processor's counter, the same clock that stamps records */
	uint32_t type;
	bool silent; /* the mark adds no event, but it affects how later hits are read */
	int value;
	/*
	 * PROBE_STREAM_FILTER: the old and the new set. PROBE_STREAM_START: sets[1] is the filter.
	 * NULL for other types.
	 */
	struct probe_stream_set *sets;
};

enum stream_state {
	STREAM_SUSPENDED,
	STREAM_RUNNING,
	STREAM_FULL /* the stream has stopped by itself because a hit found no room */
};

/* The state of moving events from the session to the queue or log. */
struct stream_reading {
	bool closed; /* the stream is stopped: hits at or after closed_ns are ignored */
	uint64_t closed_ns;
	struct probe_stream_set filter;
	uint64_t filter_ns;
	uint64_t last_ns; /* the latest time of an event so far, in nanoseconds */
	/* time of the last hit read; below last_ns if a clock was set back */
	uint64_t read_ns;
	uint64_t overflow; /* number of lost hits to report before the next hit */
	bool resume;	   /* report PROBE_STREAM_RESUME before the first hit from resume_ns on */
	uint64_t resume_ns;
	uint64_t damaged; /* number of the session's damaged records that were reported so far */
	uint64_t lost;	  /* number of the session's lost hits that were reported so far */
	struct ring_since *since; /* read position of each ring; see recording_read() */
	/* number of hits overwritten before they were read */
	uint64_t overwritten;
	struct recording recording;
	size_t recorded; /* number of hits of `recording` that were handed over */
	size_t taken;	 /* number of events added by this call of stream_take() */
	struct probe_error *error;
};

struct probe_stream {
	pthread_mutex_t lock; /* protects all members below */
	pthread_cond_t left;  /* signalled when a thread leaves the stream (`users` decreases) */
	unsigned int users;   /* threads in a call of this stream, including waiting ones */
	bool closing;
	int wake; /* eventfd(2) that becomes readable when the stream closes */
	struct stream_index index;
	struct buffer queue;

	/* Members of an active stream: */
	struct probe_session *session; /* the tracing session; NULL if the stream is pre-recorded */
	struct probe_target *target;
	char *filter_text;
	struct probe_catalogue *catalogue; /* of its own, if the options have none */
	/* For a stream of the calling process, instead of `session` and what belongs to it. */
	struct stream_copy *copy;
	uint32_t *probe_types; /* types of the first probe_count probes of the session */
	size_t probe_count;
	enum stream_state state;
	bool restarts; /* the stream starts again once it is no longer full */
	struct probe_stream_set filter;
	struct stream_mark *marks;
	size_t mark_count;
	struct stream_reading reading;
	bool overrun;
	/* number of unread bytes overwritten at the last status; only if reading.since is set */
	uint64_t gone_status;
	/* number of the session's lost hits when the stream was last cleared */
	uint64_t lost_before;
	uint64_t lost_status; /* number of lost hits when the status was last read */
	unsigned int flushing;
	int flush_error;
	uint64_t flush_again_ns; /* time of the next flush to disk, in CLOCK_MONOTONIC */
	struct stream_log *log;

	/* Members of a pre-recorded stream: */
	struct probe_reader *reader;
	char *path;
};

/*
 * Gets the next event into the queue. *over_ret is true if no more will come. The caller holds the
 * lock, or is the only user. Errors: those of probe_stream_next().
 */
PROBE_MUST_CHECK struct probe_error *stream_find_event(struct probe_stream *stream, bool *over_ret);

/* Sets STREAM_FULL if a full ring has switched the session off. */
void stream_note_full(struct probe_stream *stream);
/* Adds a mark with the present time, unless out of memory. `sets` is copied; it may be NULL. */
void stream_mark(struct probe_stream *stream, uint32_t type, bool silent, int value,
	const struct probe_stream_set sets[2]);
/* Adds a start event and switches the session on. */
void stream_go_on(struct probe_stream *stream);
/*
 * Returns true if the next record of an overwriting ring will overwrite an unread one. *gone_ret is
 * the number of bytes already overwritten. reading.since must not be NULL.
 */
bool stream_is_lapped(const struct probe_stream *stream, uint64_t *gone_ret);

/* ---- Streams of the calling process (caller.c) ------------------------------------------ */

enum copy_op {
	COPY_START,
	COPY_STOP,
	COPY_CLEAR,
	COPY_FLUSH,
	COPY_SHUTDOWN,
	COPY_SET_FILTER, /* in: struct stream_filtering */
	COPY_GET_FILTER, /* out: struct probe_stream_set */
	COPY_STATUS,	 /* out: struct probe_stream_status */
	COPY_TYPE,	 /* in: the name, with its NUL */
	COPY_TAKE	 /* out: bool, as stream_find_event(); adds events to the queue */
};

struct stream_filtering {
	struct probe_stream_set set;
	enum probe_stream_how how;
};

/*
 * Makes the copy, and sets stream->copy, also after an error. Errors: those of
 * probe_stream_create() and helper_copy().
 */
PROBE_MUST_CHECK struct probe_error *stream_copy_create(struct probe_stream *stream,
	const struct probe_request *request, const struct probe_stream_options *options,
	struct probe_report *report);
/*
 * Has an operation done by the copy. The caller holds the lock. Errors: those of the operation;
 * EINVAL (a forked child), PROBE_ERROR_STATE (the copy has ended), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *stream_copy_call(struct probe_stream *stream, enum copy_op op,
	const void *in, size_t in_bytes, void *out, size_t out_bytes);
/* Frees it. The copy ends when the last descriptor of the socket is closed. NULL is allowed. */
void stream_copy_free(struct stream_copy *copy);

/* Returns the number of hits lost since the stream was created or cleared. */
uint64_t stream_lost(struct probe_stream *stream);

/*
 * Moves events, oldest first, from the session into the log or, if it has none, into the queue.
 * *drained_ret is true if no event is left.
 */
PROBE_MUST_CHECK struct probe_error *stream_take(struct probe_stream *stream, bool *drained_ret);
/* Resets stream->reading, and drops unmoved marks and hits. */
void stream_reading_reset(struct probe_stream *stream);

#endif
