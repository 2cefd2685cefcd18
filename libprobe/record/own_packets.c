/* SPDX-License-Identifier: MIT */
/*
 * Streams of our own records: files of packets, of which a block is in memory.
 *
 *	file    |--packet--|--packet--------------------------|--packet--|
 *	block        |------------------------------|
 *	              ^at                            ^end, or the content's: ^limit
 *
 * Fields are aligned in their packet, which may begin anywhere: `skew` is where its first byte is
 * in a word of memory, and stays so when the block moves on.
 *
 * The file is opened for each block: a record of many processes has more files than a process may
 * have open. Its size counts when it was found, since it may still be written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/record/record.h"

enum {
	SLACK = 8, /* own_decode() reads whole words */
	BITS = 8,
	AHEAD = 4096,		   /* as much of a packet is in memory when an event begins */
	EVENT_BYTES_MAX = 1 << 26, /* no event of ours is longer */
};
static const uint32_t magic = 0xc1fc1fc1;

bool own_stream_init(struct own_stream *stream, const struct own_trace *trace, const char *folder,
	const char *name)
{
	*stream = (struct own_stream){.trace = trace};
	if (asprintf(&stream->path, "%s/%s", folder, name) < 0)
		stream->path = NULL;
	return stream->path != NULL;
}

static void free_block(struct own_stream *stream)
{
	free(stream->block);
	stream->block = NULL;
	own_threads_deinit(&stream->threads);
	stream->last_thread = NULL;
}

void own_stream_deinit(struct own_stream *stream)
{
	free_block(stream);
	free(stream->path);
}

/* ---- The block ---------------------------------------------------------------------------------
 */

/* Where something in the block is in the file. */
static uint64_t place_of(const struct own_stream *stream, const uint8_t *at)
{
	return stream->block_at + (uint64_t)(at - stream->block);
}

static uint64_t end_of(const struct own_stream *stream)
{
	return place_of(stream, stream->end);
}

/* Is nothing of the packet left to be read? */
static bool is_whole(const struct own_stream *stream)
{
	return end_of(stream) >= stream->content_end || end_of(stream) >= stream->size;
}

static void set_limit(struct own_stream *stream)
{
	stream->limit = stream->content_end < end_of(stream)
				? stream->block + (stream->content_end - stream->block_at)
				: stream->end;
	stream->ahead = stream->class && is_whole(stream) ? stream->class->header_bytes : AHEAD;
}

/* Reads until the block is full, or the file ends. */
static struct probe_error *read_more(struct own_stream *stream)
{
	uint64_t at = end_of(stream), left = stream->size - at;
	size_t room = (size_t)(stream->block + stream->room - stream->end);
	struct probe_error *error = NULL;
	int fd = open(stream->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return probe_error_system(errno, "cannot open %s", stream->path);
	if (room > left)
		room = (size_t)left;
	while (room && !error) {
		ssize_t n = pread(fd, (uint8_t *)stream->end, room, (off_t)end_of(stream));

		if (n == 0) /* it has become shorter */
			stream->size = end_of(stream);
		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			error = probe_error_system(errno, "cannot read %s", stream->path);
		if (n < 0)
			continue;
		stream->end += n;
		stream->read += (uint64_t)n;
		room -= (size_t)n;
	}
	close(fd);
	return error;
}

/* Makes `need` bytes from `at` on be in the block, or as many as the file has. */
static struct probe_error *fill(struct own_stream *stream, size_t need)
{
	size_t kept = (size_t)(stream->at - stream->block) & ~(size_t)(SLACK - 1);
	size_t length = (size_t)(stream->end - stream->block) - kept;
	size_t into = (size_t)(stream->at - stream->block) - kept, room = stream->room;
	uint8_t *block = stream->block;
	struct probe_error *error;

	while (room < need + SLACK)
		room *= 2;
	if (!block || room > stream->room) {
		block = malloc(room + SLACK);
		if (!block)
			return probe_error_no_memory();
		memset(block + room, 0, SLACK);
	}
	if (length)
		memmove(block, stream->block + kept, length);
	if (block != stream->block)
		free(stream->block);
	stream->block = block;
	stream->room = room;
	stream->block_at += kept;
	stream->at = block + into;
	stream->end = block + length;
	error = read_more(stream);
	/* What is beyond the end is read, and not used: it must be something. */
	memset((uint8_t *)stream->end, 0, SLACK);
	set_limit(stream);
	return error;
}

/* Goes to a place in the file. */
static struct probe_error *seek(struct own_stream *stream, uint64_t place)
{
	if (stream->block && place >= stream->block_at && place <= end_of(stream)) {
		stream->at = stream->block + (place - stream->block_at);
	} else {
		stream->at = stream->end = stream->block;
		stream->block_at = place;
	}
	stream->content_end = stream->size;
	if (stream->block && (size_t)(stream->end - stream->at) >= AHEAD) {
		set_limit(stream);
		return NULL;
	}
	return fill(stream, AHEAD);
}

/* ---- Damage ------------------------------------------------------------------------------------
 */

/* Gives up the packet from `from` to `to`; whatever was in it is a loss. */
static void spoil(struct own_stream *stream, const char *why, uint64_t from, uint64_t to)
{
	if (!stream->why)
		stream->why = why;
	stream->unread += to > from ? to - from : 0;
	stream->owed_ns = stream->time_ns;
	stream->owed_events++;
	stream->class = NULL;
}

static void spoil_packet(struct own_stream *stream, const char *why)
{
	spoil(stream, why, place_of(stream, stream->at), stream->content_end);
}

/* Where the next packet would be is not known. */
static void spoil_stream(struct own_stream *stream, const char *why)
{
	spoil(stream, why, stream->packet_end, stream->size);
	stream->packet_end = stream->size;
}

/* ---- Packets
 * ------------------------------------------------------------------------------------- */

static const char *check_header(struct own_stream *stream, const struct step_result *result)
{
	const struct own_trace *trace = stream->trace;

	if (result->numbers[OWN_MAGIC] != magic)
		return "no packet begins there";
	if (trace->has_uuid && result->uuid &&
		memcmp(result->uuid, trace->uuid, sizeof(trace->uuid)) != 0)
		return "a packet is of another record";
	stream->class =
		ARRAY_FIND(trace->streams, trace->stream_count, id, result->numbers[OWN_STREAM_ID]);
	return stream->class ? NULL : "a packet is of a stream that is not described";
}

/* Sizes are bits, and whole bytes. */
static const char *check_sizes(
	const struct own_stream *stream, const struct step_result *result, uint64_t context_bytes)
{
	uint64_t content = result->numbers[OWN_CONTENT], size = result->numbers[OWN_PACKET];

	if (size % BITS || content % BITS || content > size || content / BITS < context_bytes)
		return "a packet's size makes no sense";
	if (size / BITS > stream->size - stream->packet_end)
		return "the last packet is cut off";
	return NULL;
}

/* What was lost since the last packet. Counters begin at 0. */
static void find_losses(struct own_stream *stream, const struct step_result *result)
{
	uint64_t sequence = result->numbers[OWN_SEQUENCE];
	uint64_t discarded = result->numbers[OWN_DISCARDED];
	uint64_t begin_ns = own_time_ns(&stream->class->clock, result->numbers[OWN_BEGIN]);

	stream->owed_ns = stream->begun ? stream->end_ns : begin_ns;
	if (discarded > stream->discarded)
		stream->owed_events += discarded - stream->discarded;
	if (stream->begun && sequence > stream->sequence)
		stream->owed_packets = sequence - stream->sequence - 1;
	stream->sequence = sequence;
	stream->discarded = discarded;
	stream->end_ns = own_time_ns(&stream->class->clock, result->numbers[OWN_END]);
	stream->time_ns = begin_ns;
	stream->begun = true;
}

/* Opens the packet at packet_end, if there is one: `class` tells. */
static struct probe_error *open_packet(struct own_stream *stream, struct step_result *result)
{
	uint64_t start = stream->packet_end;
	struct probe_error *error = seek(stream, start);
	const uint8_t *at, *begin;
	const char *why;

	if (error)
		return error;
	begin = stream->at;
	result->uuid = NULL;
	result->skew = stream->skew = (uintptr_t)begin & (SLACK - 1);
	at = own_decode(stream->trace->packet_header, begin, stream->limit, result);
	why = at ? check_header(stream, result) : "the last packet is cut off";
	if (!why) {
		at = own_decode(stream->class->packet, at, stream->limit, result);
		why = at ? check_sizes(stream, result, (uint64_t)(at - begin))
			 : "the last packet is cut off";
	}
	if (why) {
		spoil_stream(stream, why);
		return NULL;
	}
	stream->at = at;
	stream->content_end = start + result->numbers[OWN_CONTENT] / BITS;
	stream->packet_end = start + result->numbers[OWN_PACKET] / BITS;
	stream->cpu = (int)result->numbers[OWN_CPU];
	stream->pid = OWN_HAS(stream->class->has, OWN_PACKET_PID)
			      ? (pid_t)result->numbers[OWN_PACKET_PID]
			      : 0;
	set_limit(stream);
	find_losses(stream, result);
	return NULL;
}

/* ---- Events
 * --------------------------------------------------------------------------------------- */

static uint64_t bits_at(const uint8_t *at, const struct step *step)
{
	uint64_t word;

	memcpy(&word, at + step->offset, sizeof(word));
	return word << step->left >> step->right;
}

/* Numbers of classes usually count from 0. */
static const struct own_class *class_of(const struct own_stream_class *stream, uint64_t id)
{
	if (id < stream->class_count && stream->classes[id].id == id)
		return &stream->classes[id];
	return ARRAY_FIND(stream->classes, stream->class_count, id, id);
}

/* Looks at the header of the packet's next event, which is in memory. */
static inline bool read_header(struct own_stream *stream, const uint8_t *at)
{
	const struct own_stream_class *class = stream->class;
	const struct own_class *event = class_of(class, bits_at(at, &class->id_at));

	if (!event)
		return false;
	stream->event = event;
	stream->item = OWN_ITEM_EVENT;
	stream->time_ns = own_time_ns(&class->clock, bits_at(at, &class->time_at));
	stream->at = at + class->header_bytes;
	return true;
}

/* Finds the packet's next event, if there is one that makes sense. */
static void find_event(struct own_stream *stream)
{
	if ((size_t)(stream->limit - stream->at) < stream->class->header_bytes) {
		if (place_of(stream, stream->at) < stream->content_end)
			spoil_packet(stream, "an event is cut off");
		stream->class = NULL;
	} else if (!read_header(stream, stream->at)) {
		spoil_packet(stream, "an event is of a kind that is not described");
	}
}

/* How far it is to where the next event would begin. */
static size_t padding(const struct own_stream *stream)
{
	uintptr_t place = (uintptr_t)stream->at - stream->skew;

	return -place & (stream->class->header_align - 1U);
}

/* Goes there, and has some of it in memory. */
static struct probe_error *align(struct own_stream *stream)
{
	size_t over = padding(stream), left = (size_t)(stream->limit - stream->at);

	stream->at += over < left ? over : left;
	if ((size_t)(stream->limit - stream->at) >= AHEAD || is_whole(stream))
		return NULL;
	return fill(stream, AHEAD);
}

bool own_stream_next(struct own_stream *stream)
{
	const uint8_t *at;

	if (!stream->class || stream->owed_events || stream->owed_packets)
		return false;
	at = stream->at + padding(stream);
	return stream->limit - at >= (ptrdiff_t)stream->ahead && read_header(stream, at);
}

struct probe_error *own_stream_advance(struct own_stream *stream, struct step_result *result)
{
	struct probe_error *error = NULL;

	stream->item = OWN_ITEM_NONE;
	while (!error && stream->item == OWN_ITEM_NONE) {
		if (stream->owed_events || stream->owed_packets) {
			uint64_t *owed =
				stream->owed_events ? &stream->owed_events : &stream->owed_packets;

			stream->item = OWN_ITEM_LOST;
			stream->time_ns = stream->owed_ns;
			stream->lost = *owed;
			*owed = 0;
		} else if (stream->class) {
			error = align(stream);
			if (!error)
				find_event(stream);
		} else if (stream->packet_end < stream->size) {
			error = open_packet(stream, result);
		} else {
			free_block(stream);
			break;
		}
	}
	return error;
}

/* The event is longer than what is in memory: there may be more of its packet. */
static struct probe_error *take_long(
	struct own_stream *stream, struct step_result *result, bool *taken_ret)
{
	const uint8_t *after;

	do {
		size_t have = (size_t)(stream->limit - stream->at);
		struct probe_error *error;

		if (is_whole(stream) || 2 * have > EVENT_BYTES_MAX) {
			spoil_packet(stream, "an event is longer than its packet");
			return NULL;
		}
		error = fill(stream, 2 * have);
		if (error)
			return error;
		after = own_decode(stream->event->steps, stream->at, stream->limit, result);
	} while (!after);
	stream->at = after;
	*taken_ret = true;
	return NULL;
}

struct probe_error *own_stream_take(
	struct own_stream *stream, struct step_result *result, bool *taken_ret)
{
	*taken_ret = own_stream_decode(stream, result);
	return *taken_ret ? NULL : take_long(stream, result, taken_ret);
}
