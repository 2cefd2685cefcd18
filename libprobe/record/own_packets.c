/* SPDX-License-Identifier: MIT */
/*
 * Reads the streams of records. A stream is a file of packets; one block of the file is in memory.
 *
 *	file    |--packet--|--packet--------------------------|--packet--|
 *	block        |------------------------------|
 *	              ^at                            ^end; ^limit if the packet ends before
 *
 * Fields are aligned relative to the start of their packet, which may have any address in memory.
 * `skew` is the address of the packet modulo 8; it stays the same when the block moves.
 *
 * The file is opened anew for each block: a record of many processes has more files than a process
 * may have open. Bytes that are appended after the first opening are ignored, since the file may
 * still grow.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/record/record.h"

/* ==== Executing steps ========================================================================= */

/* The decoder: executes a class's steps. All input is untrusted. */

/* Extracts up to 64 bits from the 8 bytes at a step's offset. */
static uint64_t bits(const uint8_t *run, const struct step *step)
{
	uint64_t word;

	memcpy(&word, run + step->offset, sizeof(word));
	return word << step->left >> step->right;
}

static int64_t signed_bits(const uint8_t *run, const struct step *step)
{
	uint64_t word;

	memcpy(&word, run + step->offset, sizeof(word));
	return (int64_t)(word << step->left) >> step->right;
}

/* ---- Fields of variable length ------------------------------------------------------------ */

/* A null value has no bytes. */
static void set_bytes(struct probe_value *value, const uint8_t *at, uint64_t length)
{
	bool is_null = value->kind == PROBE_VALUE_NULL;

	value->bytes = is_null ? NULL : (const char *)at;
	value->length = is_null ? 0 : length;
}

/*
 * Returns true if all characters are printable or blanks, as in the locale "C", or bytes above 0x7f
 * (UTF-8).
 */
static bool is_text(const uint8_t *at, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++)
		if ((at[i] < ' ' && !(at[i] >= '\t' && at[i] <= '\r')) || at[i] == 0x7f)
			return false;
	return true;
}

/* Attaches text to a pointer if the catalogue says "string", or the bytes look like text. */
static void set_guess(
	struct probe_value *value, const uint8_t *at, uint64_t length, bool unreadable)
{
	const uint8_t *nul = length ? memchr(at, '\0', length) : NULL;
	uint64_t used = nul ? (uint64_t)(nul - at) : length;

	bool is_shown = value->known || (used && is_text(at, used));

	if (unreadable || !is_shown)
		used = 0;
	if (is_shown && !unreadable && value->kind != PROBE_VALUE_NULL)
		value->kind = PROBE_VALUE_TEXT;
	else
		value->truncated = false;
	value->truncated &= !nul;
	set_bytes(value, at, used);
}

static struct probe_value *value_of(const struct step *step, const struct step_result *result)
{
	return &result->values[step->to];
}

/* Executes a step that ends a run, and all steps after it. */
static __attribute__((noinline)) const uint8_t *decode_variable(
	const struct step *step, const uint8_t *at, const uint8_t *end, struct step_result *result)
{
	uint64_t room = (uint64_t)(end - at);
	uint64_t length = step->from == STEP_NO_NUMBER ? step->offset : result->numbers[step->from];
	const uint8_t *nul;

	if (step->op == STEP_STRING || step->op == STEP_COMM) {
		nul = at < end ? memchr(at, '\0', room) : NULL;
		if (!nul)
			return NULL;
		if (step->op == STEP_COMM)
			result->comm = (const char *)at;
		else
			set_bytes(value_of(step, result), at, (uint64_t)(nul - at));
		return own_decode(step + 1, nul + 1, end, result);
	}
	if (length > room / step->kind)
		return NULL;
	switch (step->op) {
	case STEP_CHARS: /* a string, which ends at the first NUL */
		nul = length ? memchr(at, '\0', length) : NULL;
		set_bytes(value_of(step, result), at, nul ? (uint64_t)(nul - at) : length);
		value_of(step, result)->truncated &= !nul;
		break;
	case STEP_BYTES:
		set_bytes(value_of(step, result), at, length);
		break;
	case STEP_GUESS:
		set_guess(value_of(step, result), at, length, result->numbers[step->also] != 0);
		break;
	case STEP_UUID:
		result->uuid = at;
		break;
	case STEP_STACK:
		result->stack = at;
		result->frames = length;
		break;
	}
	return own_decode(step + 1, at + length * step->kind, end, result);
}

/* ---- All steps ------------------------------------------------------------------------------ */

const uint8_t *own_decode(
	const struct step *steps, const uint8_t *at, const uint8_t *end, struct step_result *result)
{
	struct probe_value *values = result->values;
	const uint8_t *run = at;
	float single;

	for (const struct step *step = steps;; step++) {
		switch ((enum step_op)step->op) {
		case STEP_END:
			return at;
		case STEP_RUN:
			at += -((uintptr_t)at - result->skew) & step->kind;
			if (at > end || (size_t)(end - at) < step->offset)
				return NULL;
			run = at;
			at += step->offset;
			break;
		case STEP_WORD:
			/* Several STEP_WORD in a row are common. */
			do
				memcpy(&values[step->to].u, run + step->offset, sizeof(uint64_t));
			while ((++step)->op == STEP_WORD);
			step--;
			break;
		case STEP_UNSIGNED:
			values[step->to].u = bits(run, step);
			break;
		case STEP_SIGNED:
			values[step->to].i = signed_bits(run, step);
			break;
		case STEP_SINGLE:
			memcpy(&single, run + step->offset, sizeof(single));
			values[step->to].f = (double)single;
			break;
		case STEP_DOUBLE:
			memcpy(&values[step->to].f, run + step->offset, sizeof(double));
			break;
		case STEP_KIND:
			values[step->to].kind = step->kind;
			values[step->to].truncated = false;
			break;
		case STEP_READABLE:
		case STEP_UNREADABLE:
			if ((bits(run, step) != 0) == (step->op == STEP_READABLE))
				break;
			values[step->to].kind = PROBE_VALUE_NULL;
			values[step->to].u = 0;
			break;
		case STEP_TRUNCATED:
			values[step->to].truncated = bits(run, step) != 0;
			break;
		case STEP_NUMBER:
			result->numbers[step->to] = bits(run, step);
			break;
		case STEP_NUMBER_SIGNED:
			result->numbers[step->to] = (uint64_t)signed_bits(run, step);
			break;
		default:
			/* A tail call, so that the loop above keeps its state in registers. */
			return decode_variable(step, at, end, result);
		}
	}
}

/* ==== Packets and events ====================================================================== */

enum {
	SLACK = 8, /* zeroed bytes after the block, because own_decode() reads whole words */
	BITS = 8,
	AHEAD = 4096, /* bytes of a packet that must be in memory before an event is decoded */
	EVENT_BYTES_MAX = 1 << 26, /* maximum size of an event in bytes */
};
static const uint32_t magic = 0xc1fc1fc1;

/* Frees the block and the threads. */
static void free_block(struct own_stream *stream)
{
	const struct own_thread *thread;

	free(stream->block);
	stream->block = NULL;
	for (size_t i = 0; (thread = map_next(&stream->threads, &i));)
		free(thread->comm);
	map_clear(&stream->threads);
	stream->last_thread = NULL;
}

void own_stream_deinit(struct own_stream *stream)
{
	free_block(stream);
	free(stream->path);
}

/* ---- The block ------------------------------------------------------------------------------- */

/* Returns the offset in the file of an address in the block. */
static uint64_t place_of(const struct own_stream *stream, const uint8_t *at)
{
	return stream->block_at + (uint64_t)(at - stream->block);
}

static uint64_t end_of(const struct own_stream *stream)
{
	return place_of(stream, stream->end);
}

/* Returns true if the rest of the packet is in the block. */
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

/* Fills the block, unless the file ends. */
static struct probe_error *read_more(struct own_stream *stream)
{
	uint64_t at = end_of(stream), left = stream->size - at;
	size_t room = (size_t)(stream->block + stream->room - stream->end);
	struct probe_error *error = NULL;
	AUTO_FD int fd = open(stream->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return probe_error_system(errno, "cannot open %s", stream->path);
	if (room > left)
		room = (size_t)left;
	while (room && !error) {
		ssize_t n = pread(fd, (uint8_t *)stream->end, room, (off_t)end_of(stream));

		if (n == 0) /* the file was truncated */
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
	return error;
}

/* Reads until the block has `need` bytes from stream->at on, or all bytes up to the file's end. */
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
	/* own_decode() reads the bytes after the end, but ignores them. */
	memset((uint8_t *)stream->end, 0, SLACK);
	set_limit(stream);
	return error;
}

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

/* ---- Damage ---------------------------------------------------------------------------------- */

/* Gives up the bytes [from, to) of a packet, as one lost event. */
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

/* ---- Packets --------------------------------------------------------------------------------- */

/* Computes the losses since the previous packet. Counters start at 0. */
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

/* Opens the packet at packet_end. If there is no packet, stream->class stays NULL. */
static struct probe_error *open_packet(struct own_stream *stream, struct step_result *result)
{
	const struct own_trace *trace = stream->trace;
	uint64_t start = stream->packet_end, content, size;
	struct probe_error *error = seek(stream, start);
	const uint8_t *at, *begin;
	const char *why;

	if (error)
		return error;
	begin = stream->at;
	result->uuid = NULL;
	result->skew = stream->skew = (uintptr_t)begin & (SLACK - 1);
	at = own_decode(trace->packet_header, begin, stream->limit, result);
	if (!at) {
		why = "the last packet is cut off";
	} else if (result->numbers[OWN_MAGIC] != magic) {
		why = "no packet begins there";
	} else if (trace->has_uuid && result->uuid &&
		   memcmp(result->uuid, trace->uuid, sizeof(trace->uuid)) != 0) {
		why = "a packet is of another record";
	} else {
		stream->class = ARRAY_FIND(
			trace->streams, trace->stream_count, id, result->numbers[OWN_STREAM_ID]);
		why = stream->class ? NULL : "a packet is of a stream that is not described";
	}
	if (!why) {
		at = own_decode(stream->class->packet, at, stream->limit, result);
		content = result->numbers[OWN_CONTENT];
		size = result->numbers[OWN_PACKET];
		/* Sizes are in bits, but must be whole bytes. */
		if (at && (size % BITS || content % BITS || content > size ||
				  content / BITS < (uint64_t)(at - begin)))
			why = "a packet's size makes no sense";
		else if (!at || size / BITS > stream->size - stream->packet_end)
			why = "the last packet is cut off";
	}
	if (why) {
		/* The next packet cannot be found. */
		spoil(stream, why, stream->packet_end, stream->size);
		stream->packet_end = stream->size;
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

/* ---- Events ---------------------------------------------------------------------------------- */

/* Reads the next event's header, which is in memory. */
static inline bool read_header(struct own_stream *stream, const uint8_t *at)
{
	const struct own_stream_class *class = stream->class;
	const struct own_class *event;
	uint64_t id = bits(at, &class->id_at);

	/* Ids usually count from 0. */
	event = id < class->class_count && class->classes[id].id == id
			? &class->classes[id]
			: ARRAY_FIND(class->classes, class->class_count, id, id);
	if (!event)
		return false;
	stream->event = event;
	stream->item = OWN_ITEM_EVENT;
	stream->time_ns = own_time_ns(&class->clock, bits(at, &class->time_at));
	stream->at = at + class->header_bytes;
	return true;
}

static size_t padding(const struct own_stream *stream)
{
	uintptr_t place = (uintptr_t)stream->at - stream->skew;

	return -place & (stream->class->header_align - 1U);
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
	size_t over, left;

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
			/* Skip the padding, and get enough of the event into memory. */
			over = padding(stream);
			left = (size_t)(stream->limit - stream->at);
			stream->at += over < left ? over : left;
			if ((size_t)(stream->limit - stream->at) < AHEAD && !is_whole(stream))
				error = fill(stream, AHEAD);
			if (error)
				break;
			left = (size_t)(stream->limit - stream->at);
			if (left >= stream->class->header_bytes) {
				if (!read_header(stream, stream->at))
					spoil_packet(stream,
						"an event is of a kind that is not described");
				continue;
			}
			if (place_of(stream, stream->at) < stream->content_end)
				spoil_packet(stream, "an event is cut off");
			stream->class = NULL;
		} else if (stream->packet_end < stream->size) {
			error = open_packet(stream, result);
		} else {
			free_block(stream);
			break;
		}
	}
	return error;
}

/* Takes an event longer than the bytes in memory. */
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
