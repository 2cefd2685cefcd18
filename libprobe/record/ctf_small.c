/* SPDX-License-Identifier: MIT */
/*
 * Few bytes of a ring become packets of a page each. So do records that are older than the one
 * before, or of the future: they get a time that readers accept.
 */
#include <string.h>

#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

/* The name of the thread of a record, if it has to be told first. */
struct probe_error *ctf_add_name(struct taking *t, uint32_t word)
{
	struct ctf_stream *stream = t->stream;
	struct ctf_thread *thread = ctf_threads_find(&stream->threads, word);
	uint8_t event[CTF_THREAD_BYTES], *at;
	struct probe_error *error;
	size_t length;

	if (!thread)
		return probe_error_no_memory();
	length = (size_t)(ctf_name_thread(
				  t->source->session, t->names, thread, stream->last, event) -
			  event);
	if (!length)
		return NULL;
	error = ctf_part_room(t->part, stream, length, &at);
	if (!error)
		stream->length = (size_t)(ctf_put(at, event, length) - stream->buffer);
	return error;
}

/* Adds one record, of so many bytes; its time becomes one that readers accept. */
static struct probe_error *add_record(struct taking *t, uint8_t *bytes, size_t length, bool same)
{
	struct ctf_stream *stream = t->stream;
	struct probe_error *error = NULL;
	struct ring_record record;
	uint8_t *at;

	memcpy(&record, bytes, sizeof(record));
	if (record.time >= t->now)
		record.time = t->now - 1;
	if (record.time > stream->last)
		stream->last = record.time;
	record.time = stream->last;
	t->source->hits[record.site]++;
	ctf_kinds_describe(&t->ctf->kinds, &t->ctf->description, t->source, record.site);
	if (!same)
		error = ctf_add_name(t, record.tid);
	if (!error)
		error = ctf_part_room(t->part, stream, length, &at);
	if (error)
		return error;
	memcpy(bytes, &record, sizeof(record));
	stream->length = (size_t)(ctf_put(at, bytes, length) - stream->buffer);
	ctf_stream_note_hit(stream);
	return NULL;
}

/* Adds the records of a copy; *length_ret: the bytes that they have there, *ok_ret: all are sane.
 */
struct probe_error *ctf_add_records(struct taking *t, uint8_t *copy, size_t size, size_t begins,
	size_t *length_ret, bool *ok_ret)
{
	struct probe_error *error = NULL;
	uint32_t thread = 0;
	size_t at = 0;

	*ok_ret = true;
	while (!error && at < size && at < begins) {
		uint8_t *bytes = copy + at;
		size_t length = ring_record_length(&t->forms, bytes, size - at);
		struct ring_record record;

		*ok_ret = length && ring_padded(length, RING_ALIGN) <= size - at;
		if (!*ok_ret)
			break;
		memcpy(&record, bytes, sizeof(record));
		if (at && record.time >= t->until && record.time < t->now)
			break;
		error = add_record(t, bytes, length, at && record.tid == thread);
		thread = record.tid;
		if (!error)
			at += ring_padded(length, RING_ALIGN);
	}
	*length_ret = at;
	return error;
}

/* Writes what was added to a stream, which has our memory for packets no longer. */
struct probe_error *ctf_end_packets(
	struct ctf_part *part, struct ctf_stream *stream, struct probe_error *error)
{
	if (!error) {
		ctf_stream_close(stream, part->uuid);
		error = ctf_part_write(part, stream);
	}
	ctf_stream_empty(stream, 0);
	stream->buffer = NULL;
	return error;
}

/* Copies records from a ring. Returns how many bytes; *begins_ret: where the last one may begin. */
size_t ctf_copy_some(const struct taking *t, size_t most, uint8_t *to, size_t *begins_ret)
{
	const struct rings *rings = &t->source->session->rings;
	size_t to_end = rings->layout.ring_bytes - (t->ring->tail & (rings->layout.ring_bytes - 1));
	size_t size = t->ring->head - t->ring->tail;

	*begins_ret = most < to_end ? most : to_end;
	/* Into the slop at most: see arch/layout.h. */
	if (size > *begins_ret + t->record_max)
		size = *begins_ret + t->record_max;
	memcpy(to, rings_first(rings, t->ring), size);
	return size;
}

struct probe_error *ctf_take_small(struct taking *t)
{
	struct probe_ctf *ctf = t->ctf;
	struct probe_error *error;
	size_t size, begins, length;
	bool ok;

	size = ctf_copy_some(
		t, t->most < CTF_PIECE_BYTES ? t->most : CTF_PIECE_BYTES, ctf->copy, &begins);
	t->stream->buffer = ctf->packets;
	error = ctf_add_records(t, ctf->copy, size, begins, &length, &ok);
	error = ctf_end_packets(t->part, t->stream, error);
	if (error) {
		/* Each of them is in the file, or dropped. */
		if (length)
			rings_consume(t->ring, length);
		return error;
	}
	ctf_count_hits(ctf, t->source->session, t->source->hits, t->source->agreed);
	ctf_note_moved(t);
	if (length)
		rings_consume(t->ring, length);
	if (!ok)
		rings_consume(t->ring, 0);
	return NULL;
}
