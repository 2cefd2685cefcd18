/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_STREAM_STREAM_H
#define LIBPROBE_STREAM_STREAM_H

#include <pthread.h>

#include "libprobe/base/error.h"
#include "libprobe/record/record.h"
#include "libprobe/registry/registry.h"
#include "probe/reader.h"
#include "probe/stream.h"

/* ---- Stream ---------------------------------------------------------------------------------- */

/*
 * The parts of streams: types, queue, reading, log, and the stream itself. The numbers of
 * their errors are those that the standard states.
 */

/* ---- Types and sets (types.c) ----------------------------------------------------------- */

struct stream_type {
	char *text; /* owned: the whole name, then its two halves; NULL: there is no such type */
	const char *provider, *name;
};

enum { STREAM_HASH_SLOTS = 8192 };

struct stream_types {
	struct stream_type types[PROBE_STREAM_TYPES_END];
	uint32_t next;			  /* the next number to be given */
	uint16_t hash[STREAM_HASH_SLOTS]; /* numbers + 1; open addressing */
};

/* Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *stream_types_create(struct stream_types **ret);
void stream_types_free(struct stream_types *types);

/*
 * The number of a probe's name: PROBE_STREAM_UNNAMED where there is no room, or it is too
 * long. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *stream_types_of_probe(
	struct stream_types *types, const char *provider, const char *name, uint32_t *ret);
/* The same of a whole name of at most PROBE_STREAM_TYPE_NAME_MAX bytes. */
PROBE_MUST_CHECK struct probe_error *stream_types_of_name(
	struct stream_types *types, const char *name, uint32_t *ret);
static inline bool stream_types_has(const struct stream_types *types, uint32_t type)
{
	return type < PROBE_STREAM_TYPES_END && types->types[type].text;
}

/* Is a type that there can be in the set? */
static inline bool stream_set_has(const struct probe_stream_set *set, uint32_t type)
{
	return set->words[type / 64] >> (type % 64) & 1;
}
/* The set as an argument of an event, up to its last member. */
struct probe_value stream_set_value(const struct probe_stream_set *set);

/* ---- Events that wait to be read (queue.c) -------------------------------------------- */

struct stream_queue {
	uint8_t *bytes;
	size_t room, begin, end;
};

/* An event to add; its arguments are copied. */
struct stream_item {
	uint32_t type;
	enum probe_stream_truncation truncation;
	uint64_t pc;
	struct probe_event event; /* without names */
};

/* Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *stream_queue_put(
	struct stream_queue *queue, const struct stream_item *item);
/* Takes the oldest one out, into the reader's memory. False: there is none. */
bool stream_queue_take(struct stream_queue *queue, const struct stream_types *types,
	struct probe_stream_event *ret, void *data, size_t size);
static inline size_t stream_queue_bytes(const struct stream_queue *queue)
{
	return queue->end - queue->begin;
}
void stream_queue_clear(struct stream_queue *queue);
void stream_queue_deinit(struct stream_queue *queue);

/*
 * Cuts the arguments of an event down to `limit` bytes of data; to[] has room for all
 * of them. *truncated_ret: by this, or when they were recorded. Returns how many are left.
 */
size_t stream_limit(const struct probe_value *args, size_t count, size_t limit,
	struct probe_value *to, bool *truncated_ret);

/* ---- Logs (log.c, index.c) -------------------------------------------------------------- */

struct stream_log;

/* Errors: those of probe_ctf_create(). The options are borrowed. */
PROBE_MUST_CHECK struct probe_error *stream_log_create(
	const struct probe_stream_options *options, struct stream_log **ret);
/*
 * The same for a record of the caller's, in which the stream's own events are of process `pid`.
 * Errors: PROBE_ERROR_MEMORY.
 */
bool stream_log_is_borrowed(const struct stream_log *log);
/* The caller's record gets no more of this stream. Errors: those of probe_ctf_forget(). */
PROBE_MUST_CHECK struct probe_error *stream_log_leave(
	struct stream_log *log, const struct probe_session *session);
void stream_log_free(struct stream_log *log);

/*
 * Adds a hit, one of the stream's own events, or a number of lost hits; discards them
 * once the log is full. Errors: those of probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *stream_log_hit(struct stream_log *log,
	const struct probe_session *session, const struct probe_hit *hit, const char *comm);
PROBE_MUST_CHECK struct probe_error *stream_log_own(
	struct stream_log *log, uint32_t type, const struct probe_event *event);
PROBE_MUST_CHECK struct probe_error *stream_log_lost(
	struct stream_log *log, const struct probe_session *session, uint64_t count);
/* Drops everything, and begins the log again. */
PROBE_MUST_CHECK struct probe_error *stream_log_clear(struct stream_log *log);

bool stream_log_is_full(const struct stream_log *log);
/* Have events of the log been thrown away, since this was asked last? */
bool stream_log_take_overrun(struct stream_log *log);
/* Hits in all that were added. */
uint64_t stream_log_hits(const struct stream_log *log);

/*
 * What a log records of its stream: its attributes, types and status, in
 * the file .stream, which readers of CTF leave alone (it is hidden).
 */
struct stream_index {
	struct probe_stream_attributes attributes;
	struct probe_stream_status status;
	struct stream_types *types;
	char *strings[3]; /* owned: name, version, log; what the attributes point to */
};
/* Errors: PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *stream_index_write(
	const char *folder, const struct stream_index *index);
/*
 * Reads it; types are added to those in *index. A folder without the file is no error.
 * Errors: PROBE_ERROR_FORMAT with EINVAL, PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *stream_index_read(
	const char *folder, struct stream_index *index);
void stream_index_deinit(struct stream_index *index);
extern const char stream_index_name[];

/* ---- Streams (stream.c, read.c, open.c) ----------------------------------------------- */

/* Something that was done to the stream, at a place among its events. */
struct stream_mark {
	uint64_t stamp; /* of the processor's counter, as records have it */
	uint32_t type;
	bool silent; /* it is no event, and only has an effect */
	int value;
	struct probe_stream_set
		*sets; /* old and new of PROBE_STREAM_FILTER; of _START the second */
};

enum stream_state {
	STREAM_SUSPENDED,
	STREAM_RUNNING,
	STREAM_FULL /* it has stopped by itself */
};

/* How far the events have been taken out: into the queue, or the log. */
struct stream_reading {
	bool closed; /* after a stop: hits from that time on are ignored */
	uint64_t closed_ns;
	struct probe_stream_set filter;
	uint64_t filter_ns;
	uint64_t last_ns;  /* the latest time of an event */
	uint64_t read_ns;  /* time of the hit that was read last: a clock may be set back */
	uint64_t overflow; /* hits to report as lost before the next hit */
	bool resume;	   /* to report before the next hit from resume_ns on */
	uint64_t resume_ns;
	uint64_t damaged;	  /* of the session, as reported */
	uint64_t lost;		  /* likewise */
	struct ring_since *since; /* see recording_read() */
	uint64_t overwritten;	  /* hits, of those read so far */
	struct recording recording;
	size_t recorded; /* of these, handed over */
	size_t taken;	 /* events in this round */
	struct probe_error *error;
};

struct probe_stream {
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t left;  /* `users` has become less */
	unsigned int users;   /* calls under way, also those that wait */
	bool closing;
	int wake; /* an eventfd(2), readable once it closes */
	struct stream_index index;
	struct stream_queue queue;

	/* Of an active stream: */
	struct probe_session *session; /* NULL: pre-recorded */
	struct probe_target *target;
	char *filter_text;
	uint32_t *probe_types; /* of the session's probes, as far as they are known */
	size_t probe_count;
	enum stream_state state;
	bool restarts; /* once it is no longer full */
	struct probe_stream_set filter;
	struct stream_mark *marks;
	size_t mark_count;
	struct stream_reading reading;
	bool overrun;
	uint64_t gone_status; /* with `since`: unread bytes that were gone then */
	uint64_t lost_before; /* of the session, when the stream was cleared */
	uint64_t lost_status; /* when the status was asked for */
	unsigned int flushing;
	int flush_error;
	uint64_t flush_again_ns; /* CLOCK_MONOTONIC */
	struct stream_log *log;

	/* Of a pre-recorded one: */
	struct probe_reader *reader;
	char *path;
};

/*
 * Begins a call: takes the lock. Errors: EINVAL if the stream is closing, or is
 * not of this kind; `what` is what the others cannot do, as a verb.
 */
enum stream_kind { STREAM_ANY, STREAM_ACTIVE, STREAM_RECORDED };
PROBE_MUST_CHECK struct probe_error *stream_enter(
	struct probe_stream *stream, enum stream_kind kind, const char *what);
void stream_leave(struct probe_stream *stream);

/* Notes that the target has switched the session off: it is full. */
void stream_note_full(struct probe_stream *stream);
/*
 * Adds a mark of the present time; `sets` may be NULL, and are copied. Without memory it is left
 * out.
 */
void stream_mark(struct probe_stream *stream, uint32_t type, bool silent, int value,
	const struct probe_stream_set sets[2]);
/* Records that it continues, and lets events in. */
void stream_go_on(struct probe_stream *stream);
/* With reading.since: how many unread bytes were written over. */
uint64_t stream_gone(const struct probe_stream *stream);

/* Hits that were lost since the stream was made or cleared. */
uint64_t stream_lost(struct probe_stream *stream);

/*
 * Moves events from the session, the oldest first, into the log if there is one, otherwise into the
 * queue. *drained_ret: whether these were all events.
 */
PROBE_MUST_CHECK struct probe_error *stream_take(struct probe_stream *stream, bool *drained_ret);
/* Flushes everything to the log, once the session has ended. Errors: those of the log. */
PROBE_MUST_CHECK struct probe_error *stream_finish_log(struct probe_stream *stream);
/* Forgets where it was, and what has not been taken out. */
void stream_reading_reset(struct probe_stream *stream);

#endif
