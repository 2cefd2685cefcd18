/* SPDX-License-Identifier: MIT */
/*
 * Flushing: events go from the rings into the packets of the log, without a copy
 * between, and from there into files. The first is done at each poll,
 * so that rings do not get full; the second when packets are full, and once a second.
 *
 * The lock is given away between slices of a flush: others can see that it is under
 * way, and stop, filter or clear the stream.
 */
#include <errno.h>
#include <sched.h>

#include "libprobe/base/clock.h"
#include "libprobe/session/session.h"
#include "libprobe/stream/stream.h"
#include "libprobe/registry/registry.h"

enum { FLUSH_NS = 1000000000 };

static struct probe_error *enter_with_log(struct probe_stream *stream)
{
	struct probe_error *error = stream_enter(stream, STREAM_ACTIVE, "be flushed");

	if (error || stream->log)
		return error;
	stream_leave(stream);
	return error_numbered(
		PROBE_ERROR_STATE, EINVAL, "the stream has no log that it could be flushed to");
}

/* The first error stays in the status; nothing can be added to the log any more. */
static struct probe_error *note_error(struct probe_stream *stream, struct probe_error *error)
{
	if (!error)
		return NULL;
	if (!stream->flush_error)
		stream->flush_error = error->err ? error->err : EIO;
	stream->overrun = true;
	return error;
}

/* A log that is full has its end at once, and the stream with it. */
static struct probe_error *end_full_log(struct probe_stream *stream)
{
	const struct probe_stream_options *o = &stream->index.attributes.options;
	const struct probe_value automatic = {.kind = PROBE_VALUE_SIGNED, .i = 1};
	struct probe_event event = {.args = &automatic, .arg_count = 1};
	bool was_running = stream->state == STREAM_RUNNING || stream->state == STREAM_FULL;

	if (o->log_policy != PROBE_STREAM_LOG_UNTIL_FULL || !stream_log_is_full(stream->log) ||
		!was_running)
		return NULL;
	probe_session_switch(stream->session, SIZE_MAX, false);
	stream->state = STREAM_SUSPENDED;
	stream->restarts = false;
	stream->reading.closed = true;
	stream->reading.closed_ns = 0;
	event.time_ns =
		clock_realtime_ns(&stream->session->clock, clock_stamp(&stream->session->clock));
	return stream_log_last(stream->log, PROBE_STREAM_STOP, &event);
}

static struct probe_error *take_slice(struct probe_stream *stream, bool *drained_ret)
{
	struct probe_error *error = stream_take(stream, drained_ret);

	if (!error)
		error = end_full_log(stream);
	return note_error(stream, error);
}

/* Begins a flush that the stream shows, and ends it. */
static void begin_flush(struct probe_stream *stream)
{
	stream->flushing++;
	if (stream->state == STREAM_RUNNING)
		stream_mark(stream, PROBE_STREAM_FLUSH_START, false, 0, NULL);
}

static struct probe_error *end_flush(struct probe_stream *stream, struct probe_error *error)
{
	if (!error)
		error = note_error(stream, stream_log_flush(stream->log));
	if (!error && stream->state == STREAM_RUNNING)
		stream_mark(stream, PROBE_STREAM_FLUSH_STOP, false, 0, NULL);
	stream->flushing--;
	stream->flush_again_ns = clock_monotonic_ns() + FLUSH_NS;
	return error;
}

/* Writes what there is now, with the lock. */
static struct probe_error *flush(struct probe_stream *stream)
{
	struct probe_error *error;
	uint64_t until;
	bool drained = false;

	begin_flush(stream);
	until = clock_stamp(&stream->session->clock);
	do {
		/* A thread that waits for the lock gets it. */
		pthread_mutex_unlock(&stream->lock);
		sched_yield();
		pthread_mutex_lock(&stream->lock);
		if (stream->closing) {
			error = error_numbered(
				PROBE_ERROR_STATE, EINVAL, "the stream is being closed");
			break;
		}
		error = take_slice(stream, &drained);
	} while (!error && !drained &&
		 stream->reading.read_ns <= clock_realtime_ns(&stream->session->clock, until));
	return end_flush(stream, error);
}

struct probe_error *probe_stream_flush(struct probe_stream *stream)
{
	struct probe_error *error = enter_with_log(stream);

	if (error)
		return error;
	error = flush(stream);
	stream_leave(stream);
	return error;
}

/* With the lock. */
static struct probe_error *take_record(struct probe_stream *stream, struct probe_ctf *record)
{
	if (stream->log && !stream_log_is_of(stream->log, record))
		return error_numbered(PROBE_ERROR_STATE, EINVAL, "the stream has another log");
	if (stream->log)
		return NULL;
	return stream_log_borrow(
		&stream->index.attributes.options, record, stream->target->pid, &stream->log);
}

struct probe_error *probe_stream_flush_to(struct probe_stream *stream, struct probe_ctf *record)
{
	struct probe_error *error = stream_enter(stream, STREAM_ACTIVE, "be flushed");

	if (error)
		return error;
	error = take_record(stream, record);
	if (!error)
		error = flush(stream);
	stream_leave(stream);
	return error;
}

struct probe_error *probe_stream_poll(struct probe_stream *stream, bool *more_ret)
{
	struct probe_error *error = stream_enter(stream, STREAM_ACTIVE, "be polled");
	bool drained, due;

	if (error)
		return error;
	if (more_ret)
		*more_ret = false;
	if (stream->index.attributes.options.policy != PROBE_STREAM_FLUSH) {
		stream_note_full(stream);
		error = probe_session_poll(stream->session, NULL, NULL, NULL);
		stream_leave(stream);
		return error;
	}
	due = clock_monotonic_ns() >= stream->flush_again_ns;
	if (due)
		begin_flush(stream);
	error = take_slice(stream, &drained);
	if (more_ret)
		*more_ret = stream->reading.taken != 0;
	if (due)
		error = end_flush(stream, error);
	stream_leave(stream);
	return error;
}

struct probe_error *stream_finish_log(struct probe_stream *stream)
{
	struct probe_error *error = NULL;
	bool drained = false;

	while (!error && !drained)
		error = take_slice(stream, &drained);
	if (!error)
		error = note_error(stream, stream_log_flush(stream->log));
	return error;
}
