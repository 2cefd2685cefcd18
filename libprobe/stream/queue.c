/* SPDX-License-Identifier: MIT */
/*
 * Events between the session, which hands them over for a moment, and readers, which
 * have their own memory. They follow each other: a struct entry, and its event,
 * packed.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/event.h"
#include "libprobe/base/value.h"
#include "libprobe/stream/stream.h"

enum { ALIGN = _Alignof(struct probe_value), ROOM_MIN = 1 << 16, ROOM_KEPT = 1 << 20 };

struct entry {
	size_t bytes; /* with the event */
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

static bool make_room(struct stream_queue *q, size_t bytes)
{
	size_t used = q->end - q->begin, room = q->room ? q->room : ROOM_MIN;
	uint8_t *moved;

	if (bytes <= q->room - q->end)
		return true;
	while (room < used + bytes)
		room *= 2;
	moved = malloc(room);
	if (!moved)
		return false;
	if (used)
		memcpy(moved, q->bytes + q->begin, used);
	free(q->bytes);
	*q = (struct stream_queue){.bytes = moved, .room = room, .end = used};
	return true;
}

struct probe_error *stream_queue_put(struct stream_queue *queue, const struct stream_item *item)
{
	size_t bytes = sizeof(struct entry) + event_packed_size(&item->event);
	struct entry *entry;

	if (!make_room(queue, bytes))
		return probe_error_no_memory();
	entry = (struct entry *)(queue->bytes + queue->end);
	*entry = (struct entry){.bytes = bytes, .item = *item};
	event_pack(&item->event, entry + 1);
	queue->end += bytes;
	return NULL;
}

/* ---- Out ------------------------------------------------------------------------------------- */

/* The reader's memory, as far as it is used. */
struct target {
	char *at;
	size_t room;
	bool truncated;
};

/* The array of values, or as much of it as there is room for. */
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

static void take_bytes(struct target *to, struct probe_value *value)
{
	if (value->length > to->room) {
		value->length = to->room;
		to->truncated = value->truncated = true;
	}
	value->bytes = take(to, value->bytes, value->length);
}

static const char *take_comm(struct target *to, const char *comm)
{
	size_t length = comm ? strlen(comm) + 1 : 0;

	return length && length <= to->room ? take(to, comm, length) : NULL;
}

bool stream_queue_take(struct stream_queue *queue, const struct stream_types *types,
	struct probe_stream_event *ret, void *data, size_t size)
{
	struct target to = {.at = data, .room = data ? size : 0};
	struct entry *entry = (struct entry *)(queue->bytes + queue->begin);
	const struct probe_event *event;
	const struct stream_type *type;
	struct probe_value *values;
	size_t count;

	if (queue->begin == queue->end)
		return false;
	type = &types->types[entry->item.type];
	event = event_unpack(entry + 1, entry->bytes - sizeof(*entry));
	values = take_values(&to, event, &count);
	for (size_t i = 0; i < count; i++)
		if (value_has_bytes(&values[i]))
			take_bytes(&to, &values[i]);
	*ret = (struct probe_stream_event){.type = entry->item.type,
		.truncation = to.truncated ? PROBE_STREAM_TRUNCATED_READ : entry->item.truncation,
		.pc = entry->item.pc,
		.event = *event};
	ret->event.provider = type->provider;
	ret->event.name = type->name;
	ret->event.args = values;
	ret->event.arg_count = count;
	ret->event.comm = take_comm(&to, event->comm);
	ret->data_used = data ? (size_t)(to.at - (char *)data) : 0;
	queue->begin += entry->bytes;
	if (queue->begin == queue->end)
		stream_queue_clear(queue);
	return true;
}

void stream_queue_clear(struct stream_queue *queue)
{
	queue->begin = queue->end = 0;
	if (queue->room > ROOM_KEPT)
		stream_queue_deinit(queue);
}

void stream_queue_deinit(struct stream_queue *queue)
{
	free(queue->bytes);
	*queue = (struct stream_queue){0};
}
