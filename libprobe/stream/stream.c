/* SPDX-License-Identifier: MIT */
/*
 * Active streams: a recording session with a switch (libprobe/session/select.c), and the additions
 * of POSIX tracing. This file changes the stream's state; read.c orders its events, and log.c
 * writes them. Pre-recorded streams and probe_stream_next() are at the end of this file.
 *
 *	                  start                       a hit finds no room
 *	SUSPENDED -------------------> RUNNING --------------------------> FULL
 *	    ^  <-------------------------  ^     (UNTIL_FULL: the stub         |
 *	    |             stop             |      switches the session off)    |
 *	    |                              | all events have been read         |
 *	    +------------------------------+-----------------------------------+
 *	      SUSPENDED instead of RUNNING after a stop or clear
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/session/session.h"
#include "libprobe/stream/stream.h"

/* ==== Active streams ========================================================================== */

enum {
	NSEC_PER_SEC = 1000000000,
	DATA_BYTES = 1024,
	LOG_BYTES = 64 << 20,
	LOG_BYTES_MIN = 1 << 20,
	WORD = 8
};

/* ---- Calls ----------------------------------------------------------------------------------- */

/*
 * Begins a call, and takes the lock. `what` is for the message: "be flushed". Errors: EINVAL if the
 * stream is closing or of another kind.
 */
enum stream_kind { STREAM_ANY, STREAM_ACTIVE, STREAM_RECORDED };
static struct probe_error *enter(
	struct probe_stream *stream, enum stream_kind kind, const char *what)
{
	struct probe_error *error = NULL;

	pthread_mutex_lock(&stream->lock);
	if (stream->closing)
		error = error_numbered(PROBE_ERROR_STATE, EINVAL, "the stream is being closed");
	else if (kind == STREAM_ACTIVE && !stream->session && !stream->copy)
		error = error_numbered(
			PROBE_ERROR_STATE, EINVAL, "a stream opened from a log cannot %s", what);
	else if (kind == STREAM_RECORDED && (stream->session || stream->copy))
		error = error_numbered(
			PROBE_ERROR_STATE, EINVAL, "a stream that traces cannot %s", what);
	if (error)
		pthread_mutex_unlock(&stream->lock);
	else
		stream->users++;
	return error;
}

static void leave(struct probe_stream *stream)
{
	stream->users--;
	pthread_cond_broadcast(&stream->left);
	pthread_mutex_unlock(&stream->lock);
}

/*
 * For a stream of the calling process, has the operation done by the copy, and leaves the call.
 * Returns false for other streams.
 */
static bool left_to_copy(struct probe_stream *stream, enum copy_op op, const void *in,
	size_t in_bytes, void *out, size_t out_bytes, struct probe_error **error_ret)
{
	if (!stream->copy)
		return false;
	*error_ret = stream_copy_call(stream, op, in, in_bytes, out, out_bytes);
	leave(stream);
	return true;
}

/*
 * Waits until no other thread uses the stream. The caller holds the lock, which it also holds
 * afterwards.
 */
static void expel(struct probe_stream *stream)
{
	const uint64_t one = 1;

	stream->closing = true;
	/* The eventfd is never read, so it wakes every waiting thread. */
	if (write(stream->wake, &one, sizeof(one)) < 0)
		return;
	while (stream->users > 1)
		pthread_cond_wait(&stream->left, &stream->lock);
}

/* Frees a stream that no thread uses. */
static void stream_free(struct probe_stream *stream)
{
	stream_reading_reset(stream);
	free(stream->reading.since);
	free(stream->marks);
	probe_session_free(stream->session);
	stream_copy_free(stream->copy);
	stream_log_free(stream->log);
	buffer_deinit(&stream->queue);
	free(stream->probe_types);
	free(stream->filter_text);
	probe_catalogue_free(stream->catalogue);
	probe_reader_close(stream->reader);
	free(stream->path);
	stream_index_deinit(&stream->index);
	cleanup_fd(&stream->wake);
	pthread_cond_destroy(&stream->left);
	pthread_mutex_destroy(&stream->lock);
	free(stream);
}

/* Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM. */
static struct probe_error *stream_alloc(struct probe_stream **ret)
{
	struct probe_stream *stream = calloc(1, sizeof(*stream));
	struct probe_error *error;

	if (!stream)
		return probe_error_no_memory();
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->left, NULL);
	error = stream_types_create(&stream->index.types);
	stream->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!error && stream->wake < 0)
		error = probe_error_system(errno, "cannot make an event descriptor");
	if (error) {
		stream_free(stream);
		return error;
	}
	*ret = stream;
	return NULL;
}

/* ---- Attributes ------------------------------------------------------------------------------ */

static struct probe_error *invalid(const char *message)
{
	return error_numbered(PROBE_ERROR_USAGE, EINVAL, "%s", message);
}

static struct probe_error *check_options(const struct probe_stream_options *o)
{
	if (o->name && strlen(o->name) > PROBE_STREAM_NAME_MAX)
		return error_numbered(PROBE_ERROR_USAGE, ENAMETOOLONG,
			"the name of a stream has at most %d bytes", PROBE_STREAM_NAME_MAX);
	if ((unsigned int)o->policy > PROBE_STREAM_FLUSH)
		return invalid("there is no such policy of a stream");
	if ((unsigned int)o->log_policy > PROBE_STREAM_LOG_APPEND)
		return invalid("there is no such policy of a log");
	if (o->policy == PROBE_STREAM_FLUSH && !o->log)
		return invalid("a stream is flushed to a log: there is none");
	if (o->wait_ns &&
		(!o->log || o->policy == PROBE_STREAM_LOOP || o->policy == PROBE_STREAM_UNTIL_FULL))
		return invalid("hits wait for room only where the stream is flushed to a log");
	if (o->data_bytes && o->data_bytes < WORD)
		return invalid("an event has at least eight bytes of data");
	if ((o->log_parts.rotate_bytes || o->log_parts.rotate_ns) &&
		o->log_policy != PROBE_STREAM_LOG_APPEND)
		return invalid("only a log without a limit can be divided into parts of a given "
			       "size or time");
	if (o->log && o->log_bytes && o->log_bytes < LOG_BYTES_MIN)
		return invalid("a log has at least a mebibyte");
	return NULL;
}

/* Copies the options and strings, and fills in defaults. */
static struct probe_error *set_options(
	struct probe_stream *stream, const struct probe_stream_options *options)
{
	struct probe_stream_attributes *a = &stream->index.attributes;
	struct probe_stream_options *o = &a->options;
	struct probe_error *error = check_options(options);
	char **strings = stream->index.strings;

	if (error)
		return error;
	*o = *options;
	if (!o->data_bytes)
		o->data_bytes = DATA_BYTES;
	if (!o->log_bytes)
		o->log_bytes = LOG_BYTES;
	if (o->policy == PROBE_STREAM_DEFAULT)
		o->policy = o->log ? PROBE_STREAM_FLUSH : PROBE_STREAM_LOOP;
	strings[0] = strdup(o->name ? o->name : "");
	strings[1] = strdup("probectl " PROBE_VERSION);
	strings[2] = o->log ? strdup(o->log) : NULL;
	stream->filter_text = o->filter ? strdup(o->filter) : NULL;
	if (!o->catalogue)
		error = probe_catalogue_create(&stream->catalogue);
	o->catalogue = o->catalogue ? o->catalogue : stream->catalogue;
	if (!error && (!strings[0] || !strings[1] || !strings[2] != !o->log ||
			      !stream->filter_text != !o->filter))
		error = probe_error_no_memory();
	o->name = strings[0];
	a->version = strings[1];
	o->log = strings[2];
	o->filter = stream->filter_text;
	return error;
}

/* Sets attributes that the session has determined, such as the rings' size. */
static void note_session(struct probe_stream *stream)
{
	struct probe_stream_attributes *a = &stream->index.attributes;
	const struct probe_session *s = stream->session;

	a->created_ns = clock_now_ns();
	/* Events' times are in ns, though the counter is finer. */
	a->clock_resolution_ns = 1;
	a->options.stream_bytes = s->data.rings.layout.ring_bytes;
	/*
	 * A stub reserves room for the longest record before it writes. With PROBE_STREAM_LOOP,
	 * older records in that room are lost even if the new one is short.
	 */
	a->user_event_bytes = a->options.policy == PROBE_STREAM_LOOP ? 2 * s->record_max + 4 * WORD
								     : s->record_max;
	/* System events are not in the rings. */
	a->system_event_bytes = 0;
}

struct probe_error *probe_stream_get_attributes(
	struct probe_stream *stream, struct probe_stream_attributes *ret)
{
	struct probe_error *error = enter(stream, STREAM_ANY, NULL);

	if (error)
		return error;
	*ret = stream->index.attributes;
	ret->options.comm = NULL;
	ret->options.comm_data = NULL;
	leave(stream);
	return NULL;
}

/* ---- Event types ----------------------------------------------------------------------------- */

struct probe_error *probe_stream_type_open(
	struct probe_stream *stream, const char *name, uint32_t *type_ret)
{
	struct probe_error *error;

	if (!name || !*name)
		return error_numbered(PROBE_ERROR_USAGE, EINVAL, "an event type needs a name");
	if (strlen(name) > PROBE_STREAM_TYPE_NAME_MAX)
		return error_numbered(PROBE_ERROR_USAGE, ENAMETOOLONG,
			"the name of an event type has at most %d bytes, not %zu",
			PROBE_STREAM_TYPE_NAME_MAX, strlen(name));
	error = enter(stream, STREAM_ACTIVE, "open types");
	if (error)
		return error;
	if (stream->copy)
		error = stream_copy_call(stream, COPY_TYPE, name, strlen(name) + 1, NULL, 0);
	error = error ?: stream_types_of_name(stream->index.types, name, type_ret);
	leave(stream);
	return error;
}

struct probe_error *probe_stream_type_name(
	struct probe_stream *stream, uint32_t type, const char **ret)
{
	struct probe_error *error = enter(stream, STREAM_ANY, NULL);

	if (error)
		return error;
	if (stream_types_has(stream->index.types, type))
		*ret = stream->index.types->types[type].text;
	else
		error = error_numbered(
			PROBE_ERROR_USAGE, EINVAL, "the stream has no event type %u", type);
	leave(stream);
	return error;
}

struct probe_error *probe_stream_type_next(
	struct probe_stream *stream, uint32_t from, uint32_t *type_ret, bool *there_ret)
{
	struct probe_error *error = enter(stream, STREAM_ANY, NULL);

	if (error)
		return error;
	while (from < PROBE_STREAM_TYPES_END && !stream_types_has(stream->index.types, from))
		from++;
	*there_ret = from < PROBE_STREAM_TYPES_END;
	if (*there_ret)
		*type_ret = from;
	leave(stream);
	return NULL;
}

/* ---- Making one ------------------------------------------------------------------------------ */

static struct probe_error *start_session(struct probe_stream *stream,
	const struct probe_request *request, struct probe_report *report)
{
	const struct probe_stream_options *o = &stream->index.attributes.options;
	size_t string = o->string_bytes ? o->string_bytes : o->data_bytes;
	const struct probe_session_options its = {
		.kind = PROBE_SESSION_RECORD,
		.switched = true,
		.until_full = o->policy == PROBE_STREAM_UNTIL_FULL,
		.overwrite = o->policy == PROBE_STREAM_LOOP,
		.wait_ns = o->wait_ns,
		.ring_bytes = o->stream_bytes,
		.string_bytes =
			(uint16_t)(string < PROBE_STRING_BYTES_MAX ? string
								   : PROBE_STRING_BYTES_MAX),
		.filter = o->filter,
		.guess_strings = o->guess_strings,
		.follow_libraries = o->follow_libraries,
		.follow_children = o->inherit,
		.together = o->together,
		.catalogue = o->catalogue,
		.texts = true,
		.frames = true,
		.watch = o->watch,
	};
	struct probe_error *error =
		probe_session_start(stream->target, request, &its, report, &stream->session);

	if (error || !its.overwrite)
		return error;
	stream->reading.since = calloc(
		2 * (size_t)stream->session->data.rings.layout.cpus, sizeof(struct ring_since));
	return stream->reading.since ? NULL : probe_error_no_memory();
}

/* Adds the errno that the standard prescribes. */
static struct probe_error *with_number(struct probe_error *error)
{
	static const int numbers[] = {[PROBE_ERROR_USAGE] = EINVAL,
		[PROBE_ERROR_NOT_FOUND] = ESRCH,
		[PROBE_ERROR_PERMISSION] = EPERM};

	if (error && !error->err && error->code < sizeof(numbers) / sizeof(*numbers) &&
		numbers[error->code])
		error->err = numbers[error->code];
	return error;
}

struct probe_error *probe_stream_create(struct probe_target *target,
	const struct probe_request *request, const struct probe_stream_options *options,
	struct probe_report *report, struct probe_stream **ret)
{
	static const struct probe_stream_options defaults;
	struct probe_stream *stream;
	struct probe_error *error = stream_alloc(&stream);
	bool drained;

	if (error)
		return error;
	stream->target = target;
	error = set_options(stream, options ? options : &defaults);
	if (!error && target->pid == getpid() && options && options->watch)
		error = invalid(
			"a stream of the calling process cannot watch programs that it starts");
	if (!error && target->pid == getpid()) {
		error = stream_copy_create(stream, request, options, report);
		if (error)
			stream_free(stream);
		else
			*ret = stream;
		return error;
	}
	error = error ?: with_number(start_session(stream, request, report));
	/* Create the log only now: if nothing can be traced, no folder must be left. */
	if (!error && stream->index.attributes.options.log)
		error = stream_log_create(&stream->index.attributes.options, NULL, 0, &stream->log);
	if (!error) {
		note_session(stream);
		stream_reading_reset(stream);
		/* Gives probes types, in order. */
		error = stream_take(stream, &drained);
	}
	/* Write the log's index now, so that it exists if we are killed. */
	if (!error && stream->log)
		error = stream_index_write(stream->index.strings[2], &stream->index);
	if (error) {
		if (stream->session)
			probe_error_free(probe_session_stop(stream->session));
		stream_free(stream);
		return error;
	}
	*ret = stream;
	return NULL;
}

struct probe_session *probe_stream_session(const struct probe_stream *stream)
{
	return stream->session;
}

struct probe_error *probe_stream_look(struct probe_stream *stream, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	return stream->session ? probe_session_look(stream->session, last, visit, data) : NULL;
}

int probe_stream_fd(const struct probe_stream *stream)
{
	return stream->session ? probe_session_fd(stream->session) : -1;
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

struct probe_error *probe_stream_start(struct probe_stream *stream)
{
	struct probe_error *error = enter(stream, STREAM_ACTIVE, "be started");

	if (error || left_to_copy(stream, COPY_START, NULL, 0, NULL, 0, &error))
		return error;
	stream_note_full(stream);
	if (stream->state == STREAM_FULL)
		stream->restarts = true;
	else if (stream->state == STREAM_SUSPENDED &&
		 !(stream->log && stream_log_is_full(stream->log)))
		stream_go_on(stream);
	leave(stream);
	return NULL;
}

static void stop(struct probe_stream *stream)
{
	stream_note_full(stream);
	stream->restarts = false;
	if (stream->state != STREAM_RUNNING)
		return;
	probe_session_switch(stream->session, SIZE_MAX, false);
	stream->state = STREAM_SUSPENDED;
	stream_mark(stream, PROBE_STREAM_STOP, false, 0, NULL);
}

struct probe_error *probe_stream_stop(struct probe_stream *stream)
{
	struct probe_error *error = enter(stream, STREAM_ACTIVE, "be stopped");

	if (error || left_to_copy(stream, COPY_STOP, NULL, 0, NULL, 0, &error))
		return error;
	stop(stream);
	leave(stream);
	return NULL;
}

/* Returns true if the stream has a log of its own. */
static bool has_own_log(const struct probe_stream *stream)
{
	return stream->log && !stream_log_borrowed(stream->log);
}

struct probe_error *probe_stream_clear(struct probe_stream *stream)
{
	struct probe_error *error = enter(stream, STREAM_ACTIVE, "be cleared");

	if (error || left_to_copy(stream, COPY_CLEAR, NULL, 0, NULL, 0, &error))
		return error;
	stream_note_full(stream);
	if (stream->state == STREAM_FULL)
		stream->state = STREAM_SUSPENDED;
	if (stream->reading.since) {
		struct recording gone;

		error = session_take_recording(stream->session, stream->reading.since, &gone);
		if (!error)
			recording_deinit(&gone);
	} else {
		rings_clear(&stream->session->data.rings);
	}
	stream_queue_clear(&stream->queue);
	stream->filter = (struct probe_stream_set){0};
	for (size_t i = 0; i < stream->probe_count; i++)
		probe_session_switch(stream->session, i, true);
	stream_reading_reset(stream);
	stream->lost_before += stream_lost(stream);
	stream->lost_status = stream->gone_status = 0;
	stream->overrun = false;
	if (!error && has_own_log(stream))
		error = stream_log_clear(stream->log);
	if (!error && has_own_log(stream))
		error = stream_index_write(stream->index.strings[2], &stream->index);
	leave(stream);
	return error;
}

/* ---- Filters -------------------------------------------------------------------- */

static bool combine(
	struct probe_stream_set *to, const struct probe_stream_set *set, enum probe_stream_how how)
{
	for (size_t i = 0; i < sizeof(to->words) / sizeof(*to->words); i++) {
		switch (how) {
		case PROBE_STREAM_FILTER_SET:
			to->words[i] = set->words[i];
			break;
		case PROBE_STREAM_FILTER_ADD:
			to->words[i] |= set->words[i];
			break;
		case PROBE_STREAM_FILTER_SUB:
			to->words[i] &= ~set->words[i];
			break;
		default:
			return false;
		}
	}
	return true;
}

/* Switches the probes whose type is in `in` and not in `not_in`. */
static void switch_probes(struct probe_stream *stream, const struct probe_stream_set *in,
	const struct probe_stream_set *not_in, bool on)
{
	for (size_t i = 0; i < stream->probe_count; i++)
		if (stream_set_has(in, stream->probe_types[i]) &&
			!stream_set_has(not_in, stream->probe_types[i]))
			probe_session_switch(stream->session, i, on);
}

struct probe_error *probe_stream_set_filter(
	struct probe_stream *stream, const struct probe_stream_set *set, enum probe_stream_how how)
{
	struct probe_error *error = enter(stream, STREAM_ACTIVE, "set a filter");
	const struct stream_filtering filtering = {*set, how};
	struct probe_stream_set sets[2];

	if (error || left_to_copy(stream, COPY_SET_FILTER, &filtering, sizeof(filtering), NULL, 0,
			     &error))
		return error;
	sets[0] = sets[1] = stream->filter;
	if (!combine(&sets[1], set, how)) {
		leave(stream);
		return invalid("there is no such way to change a filter");
	}
	stream_note_full(stream);
	/*
	 * Switch off before the mark and on after it, so that hits of new types have later stamps.
	 */
	switch_probes(stream, &sets[1], &sets[0], false);
	stream_mark(stream, PROBE_STREAM_FILTER, stream->state != STREAM_RUNNING, 0, sets);
	stream->filter = sets[1];
	switch_probes(stream, &sets[0], &sets[1], true);
	leave(stream);
	return NULL;
}

struct probe_error *probe_stream_get_filter(
	struct probe_stream *stream, struct probe_stream_set *ret)
{
	struct probe_error *error = enter(stream, STREAM_ACTIVE, "have a filter");

	if (error || left_to_copy(stream, COPY_GET_FILTER, NULL, 0, ret, sizeof(*ret), &error))
		return error;
	*ret = stream->filter;
	leave(stream);
	return NULL;
}

/* ---- Status --------------------------------------------------------------------- */

static void get_status(struct probe_stream *stream, struct probe_stream_status *ret)
{
	stream_note_full(stream);
	*ret = (struct probe_stream_status){.running = stream->state == STREAM_RUNNING,
		.full = stream->state == STREAM_FULL,
		.flushing = stream->flushing != 0,
		.flush_error = stream->flush_error,
		.lost = stream_lost(stream)};
	ret->overrun = stream->overrun || ret->lost > stream->lost_status;
	ret->overwritten = stream->reading.overwritten;
	ret->lost += ret->overwritten;
	if (stream->reading.since && !stream->session->stopped) {
		uint64_t gone;

		ret->full |= stream_is_lapped(stream, &gone);
		ret->overrun |= gone > stream->gone_status;
		stream->gone_status = gone;
	}
	if (stream->log)
		stream_log_status(stream->log, ret);
}

struct probe_error *probe_stream_get_status(
	struct probe_stream *stream, struct probe_stream_status *ret)
{
	struct probe_error *error = enter(stream, STREAM_ANY, NULL);

	if (error || left_to_copy(stream, COPY_STATUS, NULL, 0, ret, sizeof(*ret), &error))
		return error;
	if (stream->session) {
		get_status(stream, ret);
		stream->lost_status = ret->lost - ret->overwritten;
		stream->overrun = false;
		stream->flush_error = 0;
	} else {
		*ret = stream->index.status;
	}
	leave(stream);
	return NULL;
}

/* ---- Flushing -------------------------------------------------------------------------------- */

/*
 * A flush moves events from the rings into the log's packets, as each poll does, so that the rings
 * do not fill up, and packets into files, when they are full and once a second.
 *
 * It releases the lock in between, so that other threads can see the flush, and stop, filter or
 * clear the stream.
 */

/* Keeps the first error for the status. A failed log accepts no more events. */
static struct probe_error *note_error(struct probe_stream *stream, struct probe_error *error)
{
	if (!error)
		return NULL;
	if (!stream->flush_error)
		stream->flush_error = error->err ? error->err : EIO;
	stream->overrun = true;
	return error;
}

/* If the log is full, writes its last event and stops the stream. */
static struct probe_error *end_full_log(struct probe_stream *stream)
{
	const struct probe_stream_options *o = &stream->index.attributes.options;
	const struct probe_value automatic = {.kind = PROBE_VALUE_SIGNED, .i = 1};
	struct probe_event event = {.args = &automatic, .arg_count = 1};

	if (o->log_policy != PROBE_STREAM_LOG_UNTIL_FULL || !stream_log_is_full(stream->log) ||
		stream->state == STREAM_SUSPENDED)
		return NULL;
	probe_session_switch(stream->session, SIZE_MAX, false);
	stream->state = STREAM_SUSPENDED;
	stream->restarts = false;
	stream->reading.closed = true;
	stream->reading.closed_ns = 0;
	event.time_ns =
		clock_realtime_ns(&stream->session->clock, clock_stamp(&stream->session->clock));
	return stream_log_last(stream->log, &event);
}

static struct probe_error *take_slice(struct probe_stream *stream, bool *drained_ret)
{
	struct probe_error *error = stream_take(stream, drained_ret) ?: end_full_log(stream);

	return note_error(stream, error);
}

/* Begins a flush that the stream reports by events. */
static void begin_flush(struct probe_stream *stream)
{
	stream->flushing++;
	if (stream->state == STREAM_RUNNING)
		stream_mark(stream, PROBE_STREAM_FLUSH_START, false, 0, NULL);
}

static struct probe_error *end_flush(struct probe_stream *stream, struct probe_error *error)
{
	error = error ?: note_error(stream, stream_log_flush(stream->log));
	if (!error && stream->state == STREAM_RUNNING)
		stream_mark(stream, PROBE_STREAM_FLUSH_STOP, false, 0, NULL);
	stream->flushing--;
	stream->flush_again_ns = clock_monotonic_ns() + NSEC_PER_SEC;
	return error;
}

/* Writes all events up to now. The caller holds the lock; it is released in between. */
static struct probe_error *flush(struct probe_stream *stream)
{
	struct probe_error *error;
	uint64_t until;
	bool drained = false;

	begin_flush(stream);
	until = clock_stamp(&stream->session->clock);
	do {
		/* Let a waiting thread run. */
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
	struct probe_error *error = enter(stream, STREAM_ACTIVE, "be flushed");

	if (error || left_to_copy(stream, COPY_FLUSH, NULL, 0, NULL, 0, &error))
		return error;
	error = stream->log ? flush(stream)
			    : error_numbered(PROBE_ERROR_STATE, EINVAL,
				      "the stream has no log that it could be flushed to");
	leave(stream);
	return error;
}

struct probe_error *probe_stream_flush_to(struct probe_stream *stream, struct probe_ctf *record)
{
	struct probe_error *error = enter(stream, STREAM_ACTIVE, "be flushed");

	if (error)
		return error;
	if (stream->copy)
		error = error_numbered(PROBE_ERROR_STATE, EINVAL,
			"a stream of the calling process is not written to a record of the caller");
	else if (!stream->log)
		error = stream_log_create(&stream->index.attributes.options, record,
			stream->target->pid, &stream->log);
	else if (stream_log_borrowed(stream->log) != record)
		error = error_numbered(PROBE_ERROR_STATE, EINVAL, "the stream has another log");
	error = error ?: flush(stream);
	leave(stream);
	return error;
}

struct probe_error *probe_stream_poll(struct probe_stream *stream, bool *more_ret)
{
	struct probe_error *error = enter(stream, STREAM_ACTIVE, "be polled");
	bool drained, due;

	if (error)
		return error;
	if (more_ret)
		*more_ret = false;
	if (stream->copy) {
		/* The copy polls by itself. */
		leave(stream);
		return NULL;
	}
	if (stream->index.attributes.options.policy != PROBE_STREAM_FLUSH) {
		stream_note_full(stream);
		error = probe_session_poll(stream->session, NULL, NULL, NULL);
		leave(stream);
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
	leave(stream);
	return error;
}

/* ---- The end -------------------------------------------------------------------- */

struct probe_error *probe_stream_shutdown(struct probe_stream *stream)
{
	struct probe_error *error = enter(stream, STREAM_ACTIVE, "be shut down");
	struct probe_error *failed = NULL;
	bool drained = false;

	if (error)
		return error;
	expel(stream);
	if (stream->copy) {
		error = stream_copy_call(stream, COPY_SHUTDOWN, NULL, 0, NULL, 0);
		pthread_mutex_unlock(&stream->lock);
		stream_free(stream);
		return error;
	}
	stop(stream);
	error = probe_session_stop(stream->session);
	if (stream->log && !has_own_log(stream)) {
		error = probe_error_first(error, stream_log_leave(stream->log, stream->session));
	} else if (stream->log) {
		while (!failed && !drained)
			failed = take_slice(stream, &drained);
		if (!failed)
			failed = note_error(stream, stream_log_flush(stream->log));
		error = probe_error_first(error, failed);
		get_status(stream, &stream->index.status);
		error = probe_error_first(
			error, stream_index_write(stream->index.strings[2], &stream->index));
	}
	pthread_mutex_unlock(&stream->lock);
	stream_free(stream);
	return error;
}

/* ==== Pre-recorded streams and the next event ================================================= */

enum { FIRST_SLEEP_NS = 500 * 1000, LAST_SLEEP_NS = 20 * 1000 * 1000 };

/* ---- Pre-recorded streams -------------------------------------------------------------------- */

static struct probe_error *open_reader(struct probe_stream *stream)
{
	struct probe_error *error = reader_open(stream->path, true, &stream->reader);

	if (error && !error->err &&
		(error->code == PROBE_ERROR_FORMAT || error->code == PROBE_ERROR_NOT_FOUND))
		error->err = EINVAL;
	return error;
}

struct probe_error *probe_stream_open(const char *path, struct probe_stream **ret)
{
	struct probe_stream *stream;
	struct probe_error *error = stream_alloc(&stream);

	if (error)
		return error;
	stream->path = strdup(path);
	stream->index.strings[0] = strdup("");
	stream->index.strings[1] = strdup("");
	stream->index.attributes.options.name = stream->index.strings[0];
	stream->index.attributes.version = stream->index.strings[1];
	if (!stream->path || !stream->index.strings[0] || !stream->index.strings[1])
		error = probe_error_no_memory();
	error = error ?: open_reader(stream) ?: stream_index_read(stream->path, &stream->index);
	if (error) {
		stream_free(stream);
		return error;
	}
	*ret = stream;
	return NULL;
}

struct probe_error *probe_stream_rewind(struct probe_stream *stream)
{
	struct probe_error *error = enter(stream, STREAM_RECORDED, "be rewound");

	if (error)
		return error;
	stream_queue_clear(&stream->queue);
	probe_reader_close(stream->reader);
	stream->reader = NULL;
	error = open_reader(stream);
	leave(stream);
	return error;
}

struct probe_error *probe_stream_close(struct probe_stream *stream)
{
	struct probe_error *error = enter(stream, STREAM_RECORDED, "be closed");

	if (error)
		return error;
	expel(stream);
	pthread_mutex_unlock(&stream->lock);
	stream_free(stream);
	return NULL;
}

/* Moves a record's next event into the queue. *there_ret is false after the last event. */
static struct probe_error *take_from_record(struct probe_stream *stream, bool *there_ret)
{
	struct stream_item item = {.type = PROBE_STREAM_OVERFLOW};
	struct probe_event *event = &item.event;
	struct probe_error *error = NULL;

	*there_ret = false;
	/* After an error the reader is NULL, and the stream has ended. */
	if (stream->reader)
		error = probe_reader_next(stream->reader, event, there_ret);
	if (error || !*there_ret)
		return error;
	if (event->kind == PROBE_EVENT_HIT) {
		for (size_t i = 0; i < event->arg_count; i++)
			if (event->args[i].truncated)
				item.truncation = PROBE_STREAM_TRUNCATED_RECORD;
		if (system_event_is(event))
			item.type = system_event_type(event->provider, event->name);
		else
			error = stream_types_of_probe(
				stream->index.types, event->provider, event->name, &item.type);
	}
	if (item.type == PROBE_STREAM_OVERFLOW)
		event->kind = PROBE_EVENT_LOST;
	return error ?: stream_queue_put(&stream->queue, &item);
}

/* ---- The next event -------------------------------------------------------------------------- */

struct next {
	struct probe_stream_event *event;
	void *data;
	size_t size;
	const struct timespec *until; /* deadline in CLOCK_REALTIME; NULL means no limit */
	uint64_t sleep_ns;
};

struct probe_error *stream_find_event(struct probe_stream *stream, bool *over_ret)
{
	bool alive, drained = false;
	struct probe_error *error = NULL;

	*over_ret = false;
	if (stream_queue_bytes(&stream->queue))
		return NULL;
	if (stream->copy)
		return stream_copy_call(stream, COPY_TAKE, NULL, 0, over_ret, sizeof(*over_ret));
	if (!stream->session) {
		error = take_from_record(stream, &alive);
		*over_ret = !alive;
		return error;
	}
	alive = probe_target_alive(stream->target);
	/* The filter may discard all hits of a round, so repeat until the rings are empty. */
	while (!error && !drained && !stream_queue_bytes(&stream->queue))
		error = stream_take(stream, &drained);
	*over_ret = !alive && !stream_queue_bytes(&stream->queue);
	return error;
}

/* Returns how long to sleep at most. Errors: EINVAL, ETIMEDOUT. */
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
 * Releases the lock and sleeps. Hits do not wake it: the longer nothing arrives, the less often
 * rings are read. Errors: EINTR.
 */
static struct probe_error *sleep_a_while(struct probe_stream *stream, uint64_t sleep_ns)
{
	struct pollfd fds[] = {{.fd = stream->wake, .events = POLLIN},
		{.fd = probe_stream_fd(stream), .events = POLLIN}};
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

/* Waits for the next event and takes it. The caller holds the lock. */
static struct probe_error *next_event(
	struct probe_stream *stream, struct next *next, bool *there_ret)
{
	for (;;) {
		struct probe_error *error;
		uint64_t sleep_ns;
		bool over;

		error = stream_find_event(stream, &over);
		*there_ret = stream_queue_take(
			&stream->queue, stream->index.types, next->event, next->data, next->size);
		/*
		 * Drop the error if there is an event: a lasting error is found again by the next
		 * call.
		 */
		if (*there_ret) {
			probe_error_free(error);
			return NULL;
		}
		if (error || over)
			return error;
		if (next->until && !next->until->tv_sec && !next->until->tv_nsec)
			return NULL;
		error = time_left(next, &sleep_ns) ?: sleep_a_while(stream, sleep_ns);
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
		enter(stream, until ? STREAM_ACTIVE : STREAM_ANY, "limit a wait for events");

	if (error)
		return error;
	if (stream->log || stream->index.attributes.options.log)
		error = error_numbered(PROBE_ERROR_STATE, EINVAL,
			"the events of a stream with a log are in its log");
	else
		error = next_event(stream, &next, there_ret);
	leave(stream);
	return error;
}
