/* SPDX-License-Identifier: MIT */
/* What the metadata of a record says, compiled: its clocks, its streams and their events. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/record/record.h"

enum { NSEC_PER_SEC = 1000000000, BYTE = 8, TIME_BITS = 64 };

/* ---- Clocks ---------------------------------------------------------------------------------- */

static struct own_clock compile_clock(const struct tsdl_clock *clock)
{
	unsigned __int128 rest = clock->offset % clock->freq;
	uint64_t base_ns = (uint64_t)clock->offset_s * NSEC_PER_SEC +
			   clock->offset / clock->freq * NSEC_PER_SEC +
			   (uint64_t)(rest * NSEC_PER_SEC / clock->freq);
	unsigned __int128 part = NSEC_PER_SEC % clock->freq;

	return (struct own_clock){.base_ns = (int64_t)base_ns,
		.freq = clock->freq,
		.whole = NSEC_PER_SEC / clock->freq,
		.part = (uint64_t)((part << 64) / clock->freq)};
}

static const struct tsdl_type *type_of(const struct tsdl_type *structure, const char *name)
{
	for (size_t i = 0; structure && i < structure->field_count; i++)
		if (strcmp(structure->fields[i].name, name) == 0)
			return structure->fields[i].type;
	return NULL;
}

static bool is_time(const struct tsdl_type *type, const char *clock)
{
	return type && type->kind == TSDL_INTEGER && type->size == TIME_BITS && type->clock_name &&
	       strcmp(type->clock_name, clock) == 0;
}

/* All times of a stream are of one clock. */
static struct probe_error *find_clock(
	const struct tsdl *tsdl, const struct tsdl_stream *stream, struct own_clock *ret)
{
	const struct tsdl_type *time = type_of(stream->event_header, "timestamp");
	const char *name = time && time->clock_name ? time->clock_name : "";

	if (is_time(time, name) &&
		is_time(type_of(stream->packet_context, "timestamp_begin"), name) &&
		is_time(type_of(stream->packet_context, "timestamp_end"), name))
		for (const struct tsdl_clock *clock = tsdl->clocks; clock; clock = clock->next)
			if (strcmp(clock->name, name) == 0) {
				*ret = compile_clock(clock);
				return NULL;
			}
	return probe_error_new(PROBE_ERROR_FORMAT, "its times are not of one clock");
}

/* ---- Streams -----------------------------------------------------------------------------------
 */

static bool has_all(uint32_t has, const enum own_number *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!OWN_HAS(has, numbers[i]))
			return false;
	return true;
}

/*
 * The header of events has an id and a time at known places: which class comes next, and when, is
 * looked up long before the event is decoded.
 */
static struct probe_error *compile_header(
	const struct tsdl_stream *stream, struct own_stream_class *ret)
{
	static const enum own_number wanted[] = {OWN_ID, OWN_TIME};
	struct step_builder b = {0};

	if (own_context_steps(&b, OWN_EVENT_HEADER, stream->event_header, &ret->has) &&
		(!has_all(ret->has, wanted, 2) || b.count != 3 || b.bits % BYTE ||
			b.run_align % BYTE))
		steps_fail(&b, "its events' header is not understood");
	for (size_t i = 0; i < b.count && !b.error; i++) {
		if (b.steps[i].op == STEP_RUN) {
			ret->header_bytes = b.steps[i].offset;
			ret->header_align = b.steps[i].kind + 1U;
		} else if (b.steps[i].to == OWN_ID) {
			ret->id_at = b.steps[i];
		} else {
			ret->time_at = b.steps[i];
		}
	}
	free(b.steps);
	return b.error;
}

static struct probe_error *compile_packet(
	const struct tsdl_stream *stream, struct own_stream_class *ret)
{
	static const enum own_number wanted[] = {
		OWN_BEGIN, OWN_END, OWN_CONTENT, OWN_PACKET, OWN_SEQUENCE, OWN_DISCARDED, OWN_CPU};
	struct step_builder b = {0};

	if (own_context_steps(&b, OWN_PACKET_CONTEXT, stream->packet_context, &ret->has) &&
		!has_all(ret->has, wanted, sizeof(wanted) / sizeof(wanted[0])))
		steps_fail(&b, "its packets' context lacks something");
	if (!b.error)
		steps_end(&b);
	ret->packet = b.steps;
	return b.error;
}

static struct probe_error *compile_stream(
	const struct tsdl *tsdl, const struct tsdl_stream *stream, struct own_stream_class *ret)
{
	struct probe_error *error;

	*ret = (struct own_stream_class){.id = stream->id, .described = stream};
	error = compile_header(stream, ret);
	if (!error)
		error = compile_packet(stream, ret);
	if (!error)
		error = find_clock(tsdl, stream, &ret->clock);
	return probe_error_prefix(error, "stream %ju", (uintmax_t)stream->id);
}

/* ---- The trace
 * ----------------------------------------------------------------------------------- */

static struct probe_error *compile_packet_header(const struct tsdl *tsdl, struct own_trace *ret)
{
	static const enum own_number wanted[] = {OWN_MAGIC, OWN_STREAM_ID};
	struct step_builder b = {0};
	uint32_t has = 0;

	if (own_context_steps(&b, OWN_PACKET_HEADER, tsdl->packet_header, &has) &&
		!has_all(has, wanted, 2))
		steps_fail(&b, "the packets' header lacks something");
	if (!b.error)
		steps_end(&b);
	ret->packet_header = b.steps;
	return b.error;
}

static struct probe_error *compile_streams(const struct tsdl *tsdl, struct own_trace *ret)
{
	for (const struct tsdl_stream *s = tsdl->streams; s; s = s->next) {
		struct probe_error *error;

		if (!ARRAY_ROOM(ret->streams, ret->stream_count))
			return probe_error_no_memory();
		error = compile_stream(tsdl, s, &ret->streams[ret->stream_count++]);
		if (error)
			return error;
	}
	ARRAY_SORT(ret->streams, ret->stream_count, id);
	for (size_t i = 1; i < ret->stream_count; i++)
		if (ret->streams[i].id == ret->streams[i - 1].id)
			return probe_error_new(PROBE_ERROR_FORMAT, "two streams have number %ju",
				(uintmax_t)ret->streams[i].id);
	return NULL;
}

static struct probe_error *compile_event(const struct tsdl_event *event, struct own_trace *ret)
{
	struct own_stream_class *stream =
		ARRAY_FIND(ret->streams, ret->stream_count, id, event->stream_id);
	struct probe_error *error;

	if (!stream)
		return probe_error_new(PROBE_ERROR_FORMAT, "its stream is not described");
	if (!ARRAY_ROOM(stream->classes, stream->class_count))
		return probe_error_no_memory();
	error = own_class_compile(
		event, stream->described, &stream->has, &stream->classes[stream->class_count]);
	stream->class_count++;
	return error;
}

static struct probe_error *compile_events(const struct tsdl *tsdl, struct own_trace *ret)
{
	for (const struct tsdl_event *event = tsdl->events; event; event = event->next) {
		struct probe_error *error = compile_event(event, ret);

		if (error)
			return probe_error_prefix(
				error, "event %s", event->name ? event->name : "");
	}
	for (size_t i = 0; i < ret->stream_count; i++) {
		struct own_stream_class *stream = &ret->streams[i];

		ARRAY_SORT(stream->classes, stream->class_count, id);
		for (size_t k = 1; k < stream->class_count; k++)
			if (stream->classes[k].id == stream->classes[k - 1].id)
				return probe_error_new(PROBE_ERROR_FORMAT,
					"two events have number %ju",
					(uintmax_t)stream->classes[k].id);
	}
	return NULL;
}

struct probe_error *own_trace_compile(const struct tsdl *tsdl, struct own_trace *ret)
{
	struct probe_error *error;

	*ret = (struct own_trace){.has_uuid = tsdl->has_uuid};
	memcpy(ret->uuid, tsdl->uuid, sizeof(ret->uuid));
	error = compile_packet_header(tsdl, ret);
	if (!error)
		error = compile_streams(tsdl, ret);
	return error ? error : compile_events(tsdl, ret);
}

void own_trace_free(struct own_trace *trace)
{
	for (size_t i = 0; i < trace->stream_count; i++) {
		struct own_stream_class *stream = &trace->streams[i];

		for (size_t k = 0; k < stream->class_count; k++)
			own_class_free(&stream->classes[k]);
		free(stream->classes);
		free(stream->packet);
	}
	free(trace->streams);
	free(trace->packet_header);
	*trace = (struct own_trace){0};
}
