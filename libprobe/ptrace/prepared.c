/* SPDX-License-Identifier: MIT */
/*
 * The frame of a borrowed thread, its floating-point state and, for calls that it makes on its
 * way, one more frame are put into rooms: into one that is large enough for all, or each into
 * another. Where that state is a part of the frame, they have one room, and the other frame has its
 * own.
 */
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

struct prepared *control_prepared(void)
{
	return array_resident(sizeof(struct prepared));
}

void prepared_forget(struct prepared *p)
{
	for (size_t i = 0; i < PREPARED_ROOMS; i++)
		p->written[i].size = 0;
}

static size_t align_up(size_t size)
{
	return (size + ROOM_ALIGN - 1) & ~(size_t)(ROOM_ALIGN - 1);
}

size_t prepared_frame_bytes(void)
{
	return align_up(arch_process()->frame_bytes);
}

/* Of one more frame, which has the state of the other one if it can. */
static size_t first_bytes(const struct prepared *p)
{
	return prepared_frame_bytes() + (arch_process()->layout->state ? 0 : p->state_size);
}

/* Both parts in one room, from an offset of it on; or the frame alone. */
static void put_frame(struct prepared *p, const struct room *room, size_t offset, bool both)
{
	size_t next = align_up(offset + arch_process()->frame_bytes);

	p->written[0].room = *room;
	p->written[0].size = both ? next + p->state_size : offset + arch_process()->frame_bytes;
	p->frame_address = room->start + offset;
	if (both)
		p->state_address = room->start + next;
}

static bool place(struct prepared *p, const struct rooms *rooms)
{
	size_t state = p->state_size;

	for (size_t i = 0; i < rooms->count; i++) {
		if (rooms->items[i].size < prepared_frame_bytes() + state)
			continue;
		put_frame(p, &rooms->items[i], 0, true);
		return true;
	}
	for (size_t i = 0; i < rooms->count && arch_process()->layout->state; i++)
		for (size_t k = 0; k < rooms->count; k++) {
			if (k == i || rooms->items[i].size < arch_process()->frame_bytes ||
				rooms->items[k].size < state)
				continue;
			put_frame(p, &rooms->items[i], 0, false);
			p->written[1].room = rooms->items[k];
			p->written[1].size = state;
			p->state_address = rooms->items[k].start;
			return true;
		}
	return false;
}

static bool is_used(const struct prepared *p, const struct room *room)
{
	for (size_t i = 0; i < PREPARED_ROOMS; i++)
		if (p->written[i].size && p->written[i].room.start == room->start)
			return true;
	return false;
}

/* After one of them, or in a room of its own. */
static void place_first(struct prepared *p, const struct rooms *rooms)
{
	for (size_t i = 0; i < PREPARED_ROOMS - 1 && !p->first_address; i++) {
		struct written *w = &p->written[i];
		size_t offset = align_up(w->size), end = offset + first_bytes(p);

		if (!w->size || end > w->room.size)
			continue;
		p->first_address = w->room.start + offset;
		w->size = end;
	}
	for (size_t i = 0; i < rooms->count && !p->first_address; i++) {
		const struct room *room = &rooms->items[i];

		if (room->size < first_bytes(p) || is_used(p, room))
			continue;
		p->first_address = room->start;
		p->written[PREPARED_ROOMS - 1].room = *room;
		p->written[PREPARED_ROOMS - 1].size = first_bytes(p);
	}
}

struct probe_error *prepared_place(
	pid_t pid, const struct rooms *rooms, bool with_first, struct prepared *p)
{
	struct room room;

	prepared_forget(p);
	p->first_address = 0;
	if (place(p, rooms)) {
		if (with_first)
			place_first(p, rooms);
		return NULL;
	}
	if (!room_on_stack(pid, rooms->maps, &room))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d has no memory that is certainly unused: nothing can be run in "
			"it safely",
			pid);
	put_frame(p, &room, ROOM_ALIGN, true);
	p->written[0].size = ROOM_STACK_BYTES;
	return NULL;
}

void prepared_touch(pid_t pid, const struct control_coming *coming)
{
	const struct memory_piece nothing = {0};
	const struct rooms *rooms = coming->rooms;
	struct prepared *p = coming->prepared;
	bool placed;

	gadgets_are_there(pid, coming->gadgets, &nothing);
	prepared_forget(p);
	p->state_size = rooms->usual_state.bytes;
	placed = place(p, rooms);
	for (size_t i = 0; i < PREPARED_ROOMS && placed; i++) {
		struct written *w = &p->written[i];
		struct probe_error *error = NULL;

		if (!w->size)
			continue;
		error = memory_read_code(rooms->mem, w->room.start, w->before, w->size);
		if (!error)
			error = memory_write_code(rooms->mem, w->room.start, w->before, 1);
		probe_error_free(error);
	}
	prepared_forget(p);
}

/* The bytes for an address of the target. */
static void compose(struct prepared *p, uint64_t address, const void *bytes, size_t size)
{
	for (size_t i = 0; i < PREPARED_ROOMS; i++) {
		struct written *w = &p->written[i];

		if (address - w->room.start < w->size)
			memcpy(w->bytes + (address - w->room.start), bytes, size);
	}
}

struct probe_error *prepared_write(const struct rooms *rooms, struct prepared *p)
{
	struct probe_error *error = NULL;
	size_t done = 0;

	for (size_t i = 0; i < PREPARED_ROOMS; i++)
		memset(p->written[i].bytes, 0, p->written[i].size);
	compose(p, p->frame_address, p->frame, arch_process()->frame_bytes);
	compose(p, p->state_address, p->state, p->state_size);
	for (size_t i = 0; i < PREPARED_ROOMS && !error; i++) {
		struct written *w = &p->written[i];

		if (w->size && w->room.kind == ROOM_STACK)
			room_seal(w->bytes);
		else if (w->size)
			error = memory_read_code(rooms->mem, w->room.start, w->before, w->size);
		if (w->size && !error)
			error = memory_write_code(rooms->mem, w->room.start, w->bytes, w->size);
		done += !error;
	}
	for (size_t i = done; i < PREPARED_ROOMS; i++)
		p->written[i].size = 0;
	return error;
}

/* A room on the stack holds nothing but its seal then. */
void control_clear(const struct rooms *rooms, struct prepared *p)
{
	for (size_t i = 0; i < PREPARED_ROOMS; i++) {
		struct written *w = &p->written[i];

		if (!w->size)
			continue;
		if (w->room.kind == ROOM_STACK) {
			memset(w->before, 0, w->size);
			room_seal(w->before);
		}
		probe_error_free(memory_write_code(rooms->mem, w->room.start, w->before, w->size));
		w->size = 0;
	}
}
