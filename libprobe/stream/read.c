/* SPDX-License-Identifier: MIT */
/*
 * Moves hits out of a session and inserts the stream's own events in the order of time. The queue
 * of events that readers have not read yet is in this file, too.
 *
 * An operation on the stream (start, stop, filter) is kept as a mark with a stamp of the clock that
 * stamps records. Marks and hits are merged by time:
 *
 *	hits     1   2   3        4   5        6
 *	marks              stop          start
 *	events   1   2   3 stop          start 6
 *
 * A stub tests the session's switches before it stamps a hit. So a hit may be recorded with a stamp
 * later than the mark of the stop, such as hits 4 and 5. Such a hit is ignored. The same holds for
 * filters.
 *
 * PROBE_STREAM_OVERFLOW reports lost hits before the next hit, and PROBE_STREAM_RESUME follows as
 * soon as no more hits are missing. In a ring that is written over, the hits before its oldest
 * record (recording.whole_from) are missing. In a ring that stops when full, the hits after its
 * last record are missing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/event.h"
#include "libprobe/base/value.h"
#include "libprobe/session/session.h"
#include "libprobe/stream/stream.h"

/* ==== Queue of unread events ================================================================== */

/*
 * Events of a session are valid only during a callback: the queue holds copies until a reader takes
 * them. An entry is a struct entry and its packed event.
 */

enum { ALIGN = _Alignof(struct probe_value), ROOM_KEPT = 1 << 20 };

struct entry {
	size_t bytes; /* size of this struct and its packed event */
	struct stream_item item;
};
_Static_assert(
	sizeof(struct entry) % _Alignof(struct probe_event) == 0, "events are aligned after it");

/* ---- Limits -------------------------------------------------------------------------------- */

size_t stream_limit(const struct probe_value *args, size_t count, size_t limit,
	struct probe_value *to, bool *truncated_ret)
{
	*truncated_ret = false;
	for (size_t i = 0; i < count; i++) {
		size_t number =
			args[i].kind < PROBE_VALUE_STRING || args[i].kind == PROBE_VALUE_TEXT
				? sizeof(args[i].u)
				: 0;

		if (number > limit) {
			*truncated_ret = true;
			return i;
		}
		limit -= number;
		to[i] = args[i];
		if (args[i].kind >= PROBE_VALUE_STRING) {
			if (to[i].length > limit) {
				to[i].length = limit;
				to[i].truncated = true;
			}
			limit -= to[i].length;
		}
		*truncated_ret |= to[i].truncated;
	}
	return count;
}

/* ---- In -------------------------------------------------------------------------------------- */

struct probe_error *stream_queue_put(struct buffer *queue, const struct stream_item *item)
{
	size_t bytes = sizeof(struct entry) + event_packed_size(&item->event);
	struct entry *entry = (void *)buffer_reserve(queue, bytes);

	if (!entry)
		return probe_error_no_memory();
	*entry = (struct entry){.bytes = bytes, .item = *item};
	event_pack(&item->event, entry + 1);
	queue->length += bytes;
	return NULL;
}

/* ---- Out ------------------------------------------------------------------------------------- */

/* The rest of the reader's memory. */
struct target {
	char *at;
	size_t room;
	bool truncated;
};

/* Copies as many values as there is room for. */
static struct probe_value *take_values(
	struct target *to, const struct probe_event *event, size_t *count_ret)
{
	size_t skip = -(uintptr_t)to->at % ALIGN, count = event->arg_count;
	struct probe_value *values;

	if (skip > to->room)
		skip = to->room;
	if (count > (to->room - skip) / sizeof(*values)) {
		count = (to->room - skip) / sizeof(*values);
		to->truncated = true;
	}
	*count_ret = count;
	if (!count)
		return NULL;
	values = (struct probe_value *)(void *)(to->at + skip);
	memcpy(values, event->args, count * sizeof(*values));
	to->at += skip + count * sizeof(*values);
	to->room -= skip + count * sizeof(*values);
	return values;
}

static const char *take(struct target *to, const char *bytes, size_t length)
{
	char *at = to->at;

	if (length)
		memcpy(at, bytes, length);
	to->at += length;
	to->room -= length;
	return at;
}

bool stream_queue_take(struct buffer *queue, const struct stream_types *types,
	struct probe_stream_event *ret, void *data, size_t size)
{
	struct target to = {.at = data, .room = data ? size : 0};
	struct entry *entry = (void *)(queue->data + queue->start);
	const struct probe_event *event;
	const struct stream_type *type;
	struct probe_value *values;
	size_t count, length;

	if (queue->start == queue->length)
		return false;
	type = &types->types[entry->item.type];
	event = event_unpack(entry + 1, entry->bytes - sizeof(*entry));
	values = take_values(&to, event, &count);
	for (size_t i = 0; i < count; i++) {
		if (!value_has_bytes(&values[i]))
			continue;
		if (values[i].length > to.room) {
			values[i].length = to.room;
			to.truncated = values[i].truncated = true;
		}
		values[i].bytes = take(&to, values[i].bytes, values[i].length);
	}
	length = event->comm ? strlen(event->comm) + 1 : 0;
	*ret = (struct probe_stream_event){.type = entry->item.type,
		.truncation = to.truncated ? PROBE_STREAM_TRUNCATED_READ : entry->item.truncation,
		.pc = entry->item.pc,
		.event = *event};
	ret->event.provider = type->provider;
	ret->event.name = type->name;
	ret->event.args = values;
	ret->event.arg_count = count;
	ret->event.comm = length && length <= to.room ? take(&to, event->comm, length) : NULL;
	ret->data_used = data ? (size_t)(to.at - (char *)data) : 0;
	queue->start += entry->bytes;
	if (queue->start == queue->length)
		stream_queue_clear(queue);
	return true;
}

void stream_queue_clear(struct buffer *queue)
{
	queue->start = queue->length = 0;
	if (queue->room > ROOM_KEPT)
		buffer_deinit(queue);
}

/* ==== Reading the session ===================================================================== */

enum {
	WORD = 8,
	QUEUE_BYTES = 1 << 18, /* about how many bytes stream_take() puts into the queue at once */
	LOG_EVENTS = 1 << 16,  /* about how many events stream_take() puts into a log at once */
	MARKS_MAX = 1024
};

/* ---- Marks ----------------------------------------------------------------------------------- */

static void pop_mark(struct probe_stream *stream)
{
	free(stream->marks[0].sets);
	memmove(stream->marks, stream->marks + 1, --stream->mark_count * sizeof(*stream->marks));
}

static void apply_mark(struct stream_reading *r, const struct stream_mark *mark, uint64_t time_ns)
{
	if (mark->type == PROBE_STREAM_START) {
		r->closed = false;
	} else if (mark->type == PROBE_STREAM_STOP && !mark->value) {
		r->closed = true;
		r->closed_ns = time_ns;
	} else if (mark->type == PROBE_STREAM_FILTER) {
		r->filter = mark->sets[1];
		r->filter_ns = time_ns;
	}
}

void stream_mark(struct probe_stream *stream, uint32_t type, bool silent, int value,
	const struct probe_stream_set sets[2])
{
	struct stream_mark mark = {.stamp = clock_stamp(&stream->session->clock),
		.type = type,
		.silent = silent,
		.value = value};

	if (!stream->marks)
		stream->marks = calloc(MARKS_MAX, sizeof(*stream->marks));
	if (sets)
		mark.sets = malloc(2 * sizeof(*sets));
	if (!stream->marks || (sets && !mark.sets)) {
		free(mark.sets);
		stream->overrun = true;
		return;
	}
	if (sets)
		memcpy(mark.sets, sets, 2 * sizeof(*sets));
	/* Drop the oldest mark, because the stream is not being read. */
	if (stream->mark_count == MARKS_MAX) {
		apply_mark(&stream->reading, &stream->marks[0],
			clock_realtime_ns(&stream->session->clock, stream->marks[0].stamp));
		pop_mark(stream);
		stream->overrun = true;
	}
	stream->marks[stream->mark_count++] = mark;
}

/* ---- Full streams ---------------------------------------------------------------------------- */

void stream_note_full(struct probe_stream *stream)
{
	if (stream->state != STREAM_RUNNING ||
		stream->index.attributes.options.policy != PROBE_STREAM_UNTIL_FULL ||
		probe_session_is_on(stream->session))
		return;
	stream->state = STREAM_FULL;
	stream->restarts = true;
	stream->overrun = true;
}

void stream_go_on(struct probe_stream *stream)
{
	const struct probe_stream_set sets[2] = {{{0}}, stream->filter};

	/* Add the mark before switching on, so that all hits have later stamps. */
	stream_mark(stream, PROBE_STREAM_START, false, 0, sets);
	stream->state = STREAM_RUNNING;
	probe_session_switch(stream->session, SIZE_MAX, true);
}

/* ---- Putting events ------------------------------------------------------------------------- */

static void put_event(struct probe_stream *stream, uint32_t type,
	enum probe_stream_truncation truncation, uint64_t pc, const struct probe_event *event)
{
	struct stream_reading *r = &stream->reading;
	struct stream_item item = {
		.type = type, .truncation = truncation, .pc = pc, .event = *event};

	if (!r->error)
		r->error = stream_queue_put(&stream->queue, &item);
	r->last_ns = event->time_ns > r->last_ns ? event->time_ns : r->last_ns;
	r->taken++;
}

/* Adds one of the stream's own events, unless it is filtered. */
static void put_own(struct probe_stream *stream, uint32_t type, uint64_t time_ns, uint64_t lost,
	const struct probe_value *args, size_t count)
{
	struct stream_reading *r = &stream->reading;
	struct probe_event event = {
		.kind = type == PROBE_STREAM_OVERFLOW ? PROBE_EVENT_LOST : PROBE_EVENT_HIT,
		.time_ns = time_ns,
		.lost = lost,
		.args = args,
		.arg_count = count};

	if (stream_set_has(&r->filter, type) || r->error)
		return;
	if (!stream->log) {
		put_event(stream, type, PROBE_STREAM_WHOLE, 0, &event);
		return;
	}
	/* A log gets the number of lost hits instead. */
	r->error = lost ? stream_log_lost(stream->log, stream->session, lost)
			: stream_log_own(stream->log, type, &event);
	r->last_ns = time_ns > r->last_ns ? time_ns : r->last_ns;
	r->taken++;
}

static void put_mark(struct probe_stream *stream, const struct stream_mark *mark, uint64_t time_ns)
{
	struct probe_value args[2];
	size_t count = 0;

	if (mark->type == PROBE_STREAM_FILTER)
		args[count++] = stream_set_value(&mark->sets[0]);
	if (mark->sets)
		args[count++] = stream_set_value(&mark->sets[1]);
	if (mark->type == PROBE_STREAM_STOP)
		args[count++] = (struct probe_value){.kind = PROBE_VALUE_SIGNED, .i = mark->value};
	put_own(stream, mark->type, time_ns, 0, args, count);
}

/* Applies and removes marks up to until_ns (CLOCK_REALTIME) and stamp `until`. */
static void pass_marks(struct probe_stream *stream, uint64_t until_ns, uint64_t until)
{
	while (stream->mark_count && !stream->reading.error) {
		const struct stream_mark *mark = &stream->marks[0];
		uint64_t time_ns = clock_realtime_ns(&stream->session->clock, mark->stamp);

		if (time_ns > until_ns || mark->stamp > until)
			return;
		apply_mark(&stream->reading, mark, time_ns);
		if (!mark->silent)
			put_mark(stream, mark, time_ns);
		pop_mark(stream);
	}
}

/* ---- Hits ------------------------------------------------------------------------------------ */

/* Assigns types to probes of newly opened libraries. */
static struct probe_error *know_probes(struct probe_stream *stream)
{
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(stream->session, &count);
	struct probe_error *error = NULL;
	uint32_t *types;

	if (count == stream->probe_count)
		return NULL;
	types = reallocarray(stream->probe_types, count, sizeof(*types));
	if (!types)
		return probe_error_no_memory();
	stream->probe_types = types;
	for (size_t i = stream->probe_count; i < count && !error; i++) {
		error = stream_types_of_probe(
			stream->index.types, probes[i].provider, probes[i].name, &types[i]);
		if (error)
			break;
		stream->probe_count = i + 1;
		if (stream_set_has(&stream->filter, types[i]))
			probe_session_switch(stream->session, i, false);
	}
	return error;
}

static void put_hit(struct probe_stream *stream, uint32_t type, const struct probe_hit *hit)
{
	const struct probe_stream_options *o = &stream->index.attributes.options;
	struct stream_reading *r = &stream->reading;
	struct probe_value args[ARCH_ARGS_MAX];
	bool truncated;
	size_t count = stream_limit(hit->args, hit->arg_count, o->data_bytes, args, &truncated);
	struct probe_event event = {.kind = PROBE_EVENT_HIT,
		.time_ns = hit->time_ns,
		.pid = hit->pid,
		.tid = hit->tid,
		.cpu = hit->cpu,
		.args = args,
		.arg_count = count};

	if (o->comm)
		event.comm = o->comm(o->comm_data, hit->pid, hit->tid, hit->time_ns);
	if (stream->log) {
		struct probe_hit limited = *hit;

		limited.args = args;
		limited.arg_count = count;
		r->error = stream_log_hit(stream->log, stream->session, &limited, event.comm);
		r->last_ns = hit->time_ns > r->last_ns ? hit->time_ns : r->last_ns;
		r->taken++;
		return;
	}
	put_event(stream, type, truncated ? PROBE_STREAM_TRUNCATED_RECORD : PROBE_STREAM_WHOLE,
		hit->pc, &event);
}

static bool is_enough(const struct probe_stream *stream)
{
	return stream->log ? stream->reading.taken >= LOG_EVENTS
			   : stream_queue_bytes(&stream->queue) >= QUEUE_BYTES;
}

static bool visit_hit(const struct probe_hit *hit, void *data)
{
	struct probe_stream *stream = data;
	struct stream_reading *r = &stream->reading;
	uint32_t type;

	r->read_ns = hit->time_ns;
	if (hit->probe >= stream->probe_count)
		r->error = know_probes(stream);
	pass_marks(stream, hit->time_ns, UINT64_MAX);
	if (r->error)
		return false;
	type = stream->probe_types[hit->probe];
	if ((r->closed && hit->time_ns >= r->closed_ns) ||
		(stream_set_has(&r->filter, type) && hit->time_ns >= r->filter_ns))
		return true;
	if (r->overflow) {
		/* The overflow began after the last event that was read. */
		put_own(stream, PROBE_STREAM_OVERFLOW, r->last_ns ? r->last_ns : hit->time_ns,
			stream->log ? 0 : r->overflow, NULL, 0);
		r->overflow = 0;
	}
	if (r->resume && hit->time_ns >= r->resume_ns) {
		put_own(stream, PROBE_STREAM_RESUME, hit->time_ns, 0, NULL, 0);
		r->resume = false;
	}
	if (!r->error)
		put_hit(stream, type, hit);
	return !r->error && !is_enough(stream);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

uint64_t stream_lost(struct probe_stream *stream)
{
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(stream->session, &count);
	uint64_t lost = 0;

	session_count_lost(stream->session);
	for (size_t i = 0; i < count; i++)
		lost += probes[i].lost;
	return lost - stream->lost_before;
}

/*
 * Reports lost hits as an overflow event. Without a log, a stream that stops when full needs no
 * such event, because its stop event says so.
 */
static void tell_lost(struct probe_stream *stream)
{
	struct stream_reading *r = &stream->reading;
	uint64_t lost = stream_lost(stream);
	bool flushes = stream->index.attributes.options.policy == PROBE_STREAM_FLUSH;

	if ((!flushes && !stream->log) || lost == r->lost)
		return;
	put_own(stream, PROBE_STREAM_OVERFLOW, r->last_ns, lost - r->lost, NULL, 0);
	r->lost = lost;
	r->resume = flushes;
	r->resume_ns = 0;
}

/* ---- Rounds --------------------------------------------------------------------- */

bool stream_is_lapped(const struct probe_stream *stream, uint64_t *gone_ret)
{
	const struct probe_session *s = stream->session;
	const struct reg_session *l = &s->data.rings.layout;
	uint64_t margin = s->record_max + 2 * WORD;
	bool full = false;

	*gone_ret = 0;
	for (uint32_t i = 0; i < 2 * l->cpus; i++) {
		uint64_t head = 0, unread;

		if (!snapshot_read(&s->data.view,
			    l->rings - l->data + ((uint64_t)i << l->rings_shift), &head,
			    sizeof(head)) ||
			head <= stream->reading.since[i].place)
			continue;
		unread = head - stream->reading.since[i].place;
		full |= unread + margin > l->ring_bytes;
		*gone_ret += unread > l->ring_bytes ? unread - l->ring_bytes : 0;
	}
	return full;
}

/*
 * Notes that unread hits were overwritten. `is_told` means that the caller knows this from the
 * status.
 */
static void note_overwritten(struct probe_stream *stream, bool is_told)
{
	struct stream_reading *r = &stream->reading;
	uint64_t gone = r->recording.overwritten;

	stream->overrun |= !is_told;
	r->overwritten += gone;
	r->resume = true;
	r->resume_ns = 0;
	if (r->recording.whole_from)
		r->resume_ns = clock_realtime_ns(&stream->session->clock, r->recording.whole_from);
	/* The overflow event precedes the next hit; a log gets the number now. */
	r->overflow += gone;
	if (stream->log)
		put_own(stream, PROBE_STREAM_OVERFLOW, r->last_ns, gone, NULL, 0);
}

/* Hands over hits of rings that are written over. *drained_ret as in stream_take(). */
static struct probe_error *take_recorded(struct probe_stream *stream, bool *drained_ret)
{
	struct stream_reading *r = &stream->reading;
	struct probe_error *error;

	if (r->recorded == r->recording.count) {
		uint64_t gone, told = stream->gone_status;

		recording_deinit(&r->recording);
		r->recorded = 0;
		stream_is_lapped(stream, &gone);

		error = session_take_recording(stream->session, r->since, &r->recording);
		if (error)
			return error;
		stream->gone_status = 0;
		if (r->recording.overwritten)
			note_overwritten(stream, told && gone <= told);
	}
	r->recorded = session_visit_recording(
		stream->session, &r->recording, r->recorded, visit_hit, stream);
	*drained_ret = r->recorded == r->recording.count && !is_enough(stream);
	return NULL;
}

/*
 * Leaves STREAM_FULL after all events were read: adds a stop event, and restarts the stream if
 * `restarts` is set.
 */
static void leave_full(struct probe_stream *stream)
{
	struct probe_value arg = {.kind = PROBE_VALUE_SIGNED, .i = 1};

	put_own(stream, PROBE_STREAM_STOP,
		clock_realtime_ns(&stream->session->clock, clock_stamp(&stream->session->clock)), 0,
		&arg, 1);
	stream->state = STREAM_SUSPENDED;
	if (stream->restarts)
		stream_go_on(stream);
}

struct probe_error *stream_take(struct probe_stream *stream, bool *drained_ret)
{
	struct stream_reading *r = &stream->reading;
	uint64_t begin = clock_stamp(&stream->session->clock), damaged;
	struct probe_error *error;
	bool drained;

	*drained_ret = false;
	r->taken = 0;
	stream_note_full(stream);
	error = know_probes(stream) ?: probe_session_poll(stream->session, visit_hit, stream, NULL);
	drained = !is_enough(stream);
	if (!error && !r->error && r->since)
		error = take_recorded(stream, &drained);
	if (!error && !r->error && drained) {
		tell_lost(stream);
		damaged = probe_session_damaged(stream->session);
		if (damaged != r->damaged) {
			const struct probe_value arg = {.kind = PROBE_VALUE_SIGNED, .i = EBADMSG};

			r->damaged = damaged;
			stream->overrun = true;
			put_own(stream, PROBE_STREAM_ERROR, r->last_ns, 0, &arg, 1);
		}
		pass_marks(stream, UINT64_MAX, begin);
		if (stream->state == STREAM_FULL)
			leave_full(stream);
	}
	*drained_ret = drained;
	error = probe_error_first(error, r->error);
	r->error = NULL;
	return error;
}

void stream_reading_reset(struct probe_stream *stream)
{
	struct stream_reading *r = &stream->reading;
	bool closed = stream->state != STREAM_RUNNING;

	while (stream->mark_count)
		pop_mark(stream);
	recording_deinit(&r->recording);
	probe_error_free(r->error);
	*r = (struct stream_reading){.closed = closed,
		.damaged = stream->session ? probe_session_damaged(stream->session) : 0,
		.since = r->since};
}
