/* SPDX-License-Identifier: MIT */
/* Pre-recorded streams; and the next event, of those and of active ones. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/stream/stream.h"

enum { NSEC_PER_SEC = 1000000000, FIRST_SLEEP_NS = 500 * 1000, LAST_SLEEP_NS = 20 * 1000 * 1000 };

/* ---- Pre-recorded streams ----------------------------------------------------------------------
 */

static struct probe_error *open_reader(struct probe_stream *stream)
{
	struct probe_error *error = probe_reader_open(stream->path, &stream->reader);

	if (error && !error->err && error->code == PROBE_ERROR_FORMAT)
		error->err = EINVAL;
	if (error && !error->err && error->code == PROBE_ERROR_NOT_FOUND)
		error->err = ENOENT;
	return error;
}

static struct probe_error *init_strings(struct stream_index *index)
{
	index->strings[0] = strdup("");
	index->strings[1] = strdup("");
	index->attributes.options.name = index->strings[0];
	index->attributes.version = index->strings[1];
	return index->strings[0] && index->strings[1] ? NULL : probe_error_no_memory();
}

struct probe_error *probe_stream_open(const char *path, struct probe_stream **ret)
{
	struct probe_stream *stream;
	struct probe_error *error = stream_alloc(&stream);

	if (error)
		return error;
	stream->path = strdup(path);
	if (!stream->path)
		error = probe_error_no_memory();
	if (!error)
		error = init_strings(&stream->index);
	if (!error)
		error = open_reader(stream);
	if (!error)
		error = stream_index_read(stream->path, &stream->index);
	if (error) {
		stream_free(stream);
		return error;
	}
	*ret = stream;
	return NULL;
}

struct probe_error *probe_stream_rewind(struct probe_stream *stream)
{
	struct probe_error *error = stream_enter(stream, STREAM_RECORDED, "be rewound");

	if (error)
		return error;
	stream_queue_clear(&stream->queue);
	probe_reader_close(stream->reader);
	stream->reader = NULL;
	error = open_reader(stream);
	stream_leave(stream);
	return error;
}

struct probe_error *probe_stream_close(struct probe_stream *stream)
{
	struct probe_error *error = stream_enter(stream, STREAM_RECORDED, "be closed");

	if (error)
		return error;
	stream_expel(stream);
	pthread_mutex_unlock(&stream->lock);
	stream_free(stream);
	return NULL;
}

static bool any_truncated(const struct probe_event *event)
{
	for (size_t i = 0; i < event->arg_count; i++)
		if (event->args[i].truncated)
			return true;
	return false;
}

/* Puts the next event of a record into the queue; false after the last. */
static struct probe_error *take_from_record(struct probe_stream *stream, bool *there_ret)
{
	struct stream_item item = {.type = PROBE_STREAM_OVERFLOW};
	struct probe_event *event = &item.event;
	struct probe_error *error = NULL;

	*there_ret = false;
	/* A reader that failed has nothing more. */
	if (stream->reader)
		error = probe_reader_next(stream->reader, event, there_ret);
	if (error || !*there_ret)
		return error;
	if (event->kind == PROBE_EVENT_HIT) {
		item.truncation =
			any_truncated(event) ? PROBE_STREAM_TRUNCATED_RECORD : PROBE_STREAM_WHOLE;
		if (system_event_is(event))
			item.type = system_event_type(event->provider, event->name);
		else
			error = stream_types_of_probe(
				stream->index.types, event->provider, event->name, &item.type);
	}
	if (item.type == PROBE_STREAM_OVERFLOW)
		event->kind = PROBE_EVENT_LOST;
	if (!error)
		error = stream_queue_put(&stream->queue, &item);
	return error;
}

/* ---- The next event ---------------------------------------------------------------------------
 */

struct next {
	struct probe_stream_event *event;
	void *data;
	size_t size;
	const struct timespec *until; /* NULL: without a limit */
	uint64_t sleep_ns;
};

/* With the lock: is there an event? *over_ret: there will be none. */
static struct probe_error *find_event(struct probe_stream *stream, bool *over_ret)
{
	bool alive, drained = false;
	struct probe_error *error = NULL;

	*over_ret = false;
	if (stream_queue_bytes(&stream->queue))
		return NULL;
	if (!stream->session) {
		error = take_from_record(stream, &alive);
		*over_ret = !alive;
		return error;
	}
	alive = probe_target_alive(stream->target);
	/* What is handed over may all be filtered out. */
	while (!error && !drained && !stream_queue_bytes(&stream->queue))
		error = stream_take(stream, &drained);
	*over_ret = !alive && !stream_queue_bytes(&stream->queue);
	return error;
}

/* How long to sleep at most. Errors: EINVAL, ETIMEDOUT. */
static struct probe_error *time_left(const struct next *next, uint64_t *ret)
{
	struct timespec now;
	int64_t left;

	*ret = next->sleep_ns;
	if (!next->until)
		return NULL;
	if (next->until->tv_nsec < 0 || next->until->tv_nsec >= NSEC_PER_SEC)
		return error_numbered(
			PROBE_ERROR_USAGE, EINVAL, "the time to wait until is not valid");
	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec > next->until->tv_sec ||
		(now.tv_sec == next->until->tv_sec && now.tv_nsec >= next->until->tv_nsec))
		return error_numbered(
			PROBE_ERROR_STATE, ETIMEDOUT, "no event arrived before this time");
	if (next->until->tv_sec - now.tv_sec > 1)
		return NULL;
	left = (int64_t)(next->until->tv_sec - now.tv_sec) * NSEC_PER_SEC + next->until->tv_nsec -
	       now.tv_nsec;
	if ((uint64_t)left < *ret)
		*ret = (uint64_t)left;
	return NULL;
}

/*
 * Sleeps, without the lock. As elsewhere, hits do not wake us: the longer nothing arrives, the less
 * often the rings are read. Errors: EINTR.
 */
static struct probe_error *sleep_a_while(struct probe_stream *stream, uint64_t sleep_ns)
{
	struct pollfd fds[] = {{.fd = stream->wake, .events = POLLIN},
		{.fd = probe_session_fd(stream->session), .events = POLLIN}};
	struct timespec time = {.tv_nsec = (long)sleep_ns};
	int ready, err;

	pthread_mutex_unlock(&stream->lock);
	ready = ppoll(fds, sizeof(fds) / sizeof(*fds), &time, NULL);
	err = errno;
	pthread_mutex_lock(&stream->lock);
	if (stream->closing)
		return error_numbered(PROBE_ERROR_STATE, EINVAL, "the stream has been shut down");
	return ready < 0 ? probe_error_system(err, "waiting for an event") : NULL;
}

/* Then there is no wait. */
static bool is_zero(const struct timespec *until)
{
	return until && !until->tv_sec && !until->tv_nsec;
}

/* With the lock. */
static struct probe_error *next_event(
	struct probe_stream *stream, struct next *next, bool *there_ret)
{
	for (;;) {
		struct probe_error *error;
		uint64_t sleep_ns;
		bool over;

		error = find_event(stream, &over);
		*there_ret = stream_queue_take(
			&stream->queue, stream->index.types, next->event, next->data, next->size);
		/* An error comes again where it lasts. */
		if (*there_ret) {
			probe_error_free(error);
			return NULL;
		}
		if (error || over || is_zero(next->until))
			return error;
		error = time_left(next, &sleep_ns);
		if (!error)
			error = sleep_a_while(stream, sleep_ns);
		if (error)
			return error;
		if (next->sleep_ns < LAST_SLEEP_NS)
			next->sleep_ns *= 2;
	}
}

struct probe_error *probe_stream_next(struct probe_stream *stream, void *data, size_t size,
	const struct timespec *until, struct probe_stream_event *ret, bool *there_ret)
{
	struct next next = {.event = ret,
		.data = data,
		.size = size,
		.until = until,
		.sleep_ns = FIRST_SLEEP_NS};
	struct probe_error *error =
		stream_enter(stream, until ? STREAM_ACTIVE : STREAM_ANY, "limit a wait for events");

	if (error)
		return error;
	if (stream->log)
		error = error_numbered(PROBE_ERROR_STATE, EINVAL,
			"the events of a stream with a log are in its log");
	else
		error = next_event(stream, &next, there_ret);
	stream_leave(stream);
	return error;
}
