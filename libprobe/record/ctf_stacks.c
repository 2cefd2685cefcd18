/* SPDX-License-Identifier: MIT */
/*
 * Call stacks in a record. They are unwound while the process is there; its record has addresses,
 * which mean nothing without it. So each stream names every address before its first use: no
 * stream needs another one, even if we are killed before that is written. A process may map
 * something else at an address, which is named again.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/record.h"

enum {
	SLOTS_FIRST = 64,
	TEXT_MAX = 4096, /* the names of templates of C++ have no limit */
	FRAME_ROOM = 128 /* size of an event that names a frame, without texts */
};

uint8_t *ctf_put_stack(uint8_t *at, const struct probe_stack *stack)
{
	uint32_t count = stack ? (uint32_t)stack->count : 0;

	*at++ = stack ? (uint8_t)stack->end : 0;
	at = ctf_put(at, &count, sizeof(count));
	for (uint32_t i = 0; i < count; i++)
		at = ctf_put(at, &stack->frames[i]->ip, sizeof(stack->frames[i]->ip));
	return at;
}

/* ---- Which frames have been named ---------------------------------------------------- */

static const struct probe_frame **slot_of(
	const struct probe_frame **slots, size_t room, const struct probe_frame *frame)
{
	size_t at = (size_t)(((uintptr_t)frame * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (room - 1);

	while (slots[at] && slots[at] != frame)
		at = (at + 1) & (room - 1);
	return &slots[at];
}

/* At most half of the slots are taken. False without memory. */
static bool make_room(struct ctf_frames *frames)
{
	size_t room = frames->room ? 2 * frames->room : SLOTS_FIRST;
	const struct probe_frame **slots;

	if (2 * (frames->count + 1) <= frames->room)
		return true;
	slots = calloc(room, sizeof(struct probe_frame *));
	if (!slots)
		return false;
	for (size_t i = 0; i < frames->room; i++)
		if (frames->slots[i])
			*slot_of(slots, room, frames->slots[i]) = frames->slots[i];
	free(frames->slots);
	frames->slots = slots;
	frames->room = room;
	return true;
}

/* ---- Naming them --------------------------------------------------------------------- */

static const char *name_of(const char *text)
{
	return text && *text ? text : CTF_UNKNOWN;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
	at = ctf_put(at, text, strnlen(text, TEXT_MAX));
	*at++ = '\0';
	return at;
}

static size_t frame_room(const struct probe_frame *frame, const char *comm)
{
	return FRAME_ROOM + strnlen(comm, TEXT_MAX) + strnlen(name_of(frame->module), TEXT_MAX) +
	       strnlen(name_of(frame->symbol), TEXT_MAX) + strnlen(name_of(frame->file), TEXT_MAX);
}

/* Its context is that of the hit, without a stack. */
static uint8_t *put_frame(uint8_t *at, const struct ctf_stream *stream, const struct probe_hit *hit,
	const char *comm, const struct probe_frame *frame)
{
	const uint32_t id = CTF_FRAME_ID, line = frame->file ? (uint32_t)frame->line : 0;

	at = ctf_put(at, &id, sizeof(id));
	at = ctf_put(at, &stream->last, sizeof(stream->last));
	at = ctf_put(at, &hit->pid, sizeof(int32_t));
	at = ctf_put(at, &hit->tid, sizeof(int32_t));
	at = put_text(at, comm);
	at = ctf_put_stack(at, NULL);
	at = ctf_put(at, &frame->ip, sizeof(frame->ip));
	at = put_text(at, name_of(frame->module));
	at = put_text(at, name_of(frame->symbol));
	at = ctf_put(at, &frame->offset, sizeof(frame->offset));
	at = ctf_put(at, &frame->function, sizeof(frame->function));
	at = put_text(at, name_of(frame->file));
	return ctf_put(at, &line, sizeof(line));
}

struct probe_error *ctf_name_frames(struct ctf_part *part, struct ctf_stream *stream,
	const struct probe_hit *hit, const char *comm)
{
	struct ctf_frames *named = &stream->frames;

	for (size_t i = 0; i < hit->stack->count; i++) {
		const struct probe_frame *frame = hit->stack->frames[i], **slot;
		struct probe_error *error;
		uint8_t *at;

		if (!make_room(named))
			return probe_error_no_memory();
		slot = slot_of(named->slots, named->room, frame);
		if (*slot)
			continue;
		error = ctf_part_room(part, stream, frame_room(frame, comm), &at);
		if (error)
			return error;
		at = put_frame(at, stream, hit, comm, frame);
		stream->length = (size_t)(at - stream->buffer);
		*slot = frame;
		named->count++;
	}
	return NULL;
}
