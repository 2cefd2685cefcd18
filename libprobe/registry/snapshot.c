/* SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/layout.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

/* ---- Bytes ------------------------------------------------------------------------------ */

bool snapshot_read(const struct snapshot *view, uint64_t offset, void *to, size_t size)
{
	uint64_t *words = to;

	if (offset > view->layout.data_size || size > view->layout.data_size - offset)
		return false;
	if (!view->base && !view->pid)
		return pread(view->file, to, size, (off_t)(view->file_start + offset)) ==
		       (ssize_t)size;
	if (!view->base)
		return memory_read_known(view->served, view->layout.data + offset, to, size) ==
		       size;
	for (size_t i = 0; i < size / 8; i++)
		words[i] = atomic_load_explicit(
			(const _Atomic uint64_t *)(view->base + offset + 8 * i),
			memory_order_relaxed);
	return true;
}

/* Finds the next contents from an offset on; false: that is unknown. */
static bool learn(struct snapshot *view, uint64_t offset)
{
	off_t start, end;

	view->hole_start = offset;
	start = view->fd < 0 ? -1 : lseek(view->fd, (off_t)offset, SEEK_DATA);
	if (start < 0)
		return false;
	end = lseek(view->fd, start, SEEK_HOLE);
	view->known_start = (uint64_t)start;
	view->known_end = end < 0 ? view->layout.data_size : (uint64_t)end;
	return true;
}

void snapshot_begin_round(struct snapshot *view)
{
	view->hole_start = UINT64_MAX;
	if (view->served) {
		served_end(view->served);
		served_begin(view->pid, view->served);
	}
}

/*
 * The next contents may have been there for a while: if some at [start, end) are known, it asks
 * again only after them, or where there was a hole.
 */
bool snapshot_is_empty(struct snapshot *view, uint64_t offset, size_t size)
{
	if (view->fd < 0)
		return false;
	if (offset >= view->known_start && offset < view->known_end)
		return false;
	if (offset >= view->hole_start && offset + size <= view->known_start)
		return true;
	if (!learn(view, offset)) { /* there is no more: ENXIO */
		view->known_start = view->known_end = UINT64_MAX;
		return true;
	}
	return view->known_start >= offset + size;
}

/* ---- Cells ------------------------------------------------------------------------------ */

static uint64_t set_offset(const struct snapshot *view, uint32_t set)
{
	return view->layout.slots - view->layout.data + ((uint64_t)set << view->layout.slots_shift);
}

uint64_t snapshot_sum_slots(const struct snapshot *view, uint32_t slot, size_t field)
{
	uint64_t sum = 0, word;

	for (uint32_t set = 0; set <= view->layout.cpus && slot < view->layout.slot_capacity; set++)
		if (snapshot_read(view,
			    set_offset(view, set) + slot * sizeof(struct probe_slot) + field, &word,
			    sizeof(word)))
			sum += word;
	return sum;
}

static uint64_t word_at(const uint8_t *bytes, size_t index)
{
	uint64_t word;

	memcpy(&word, bytes + 8 * index, sizeof(word));
	return word;
}

static size_t padded(uint64_t length)
{
	return (length + 7) & ~(size_t)7;
}

size_t snapshot_key_bytes(const struct view_keys *keys, const uint8_t *key)
{
	size_t bytes = 8 * keys->count;

	for (size_t i = 0; i < keys->count; i++)
		if (keys->is_string[i])
			bytes += padded(ring_string_length(word_at(key, i)));
	return bytes;
}

/* Does a key keep within its entry? What pads its strings becomes 0: it has no meaning. */
static bool clean_key(const struct view_keys *keys, uint8_t *key, size_t room)
{
	size_t at = 8 * keys->count;

	for (size_t i = 0; i < keys->count; i++) {
		uint64_t length = ring_string_length(word_at(key, i));

		if (!keys->is_string[i])
			continue;
		if (length > keys->string_bytes || at + padded(length) > room)
			return false;
		memset(key + at + length, 0, padded(length) - length);
		at += padded(length);
	}
	return at <= room;
}

struct walk {
	struct snapshot *view;
	const struct view_keys *keys;
	size_t cell_bytes;
	uint8_t *entry; /* a private copy */
	bool (*visit)(void *data, const struct view_cell *cell);
	void *data;
};

/*
 * An entry of a table. Its tag is stored after its key, and does not change again; in
 * the cell after it, everything does.
 */
static bool walk_entry(const struct walk *w, uint64_t offset)
{
	const struct reg_session *l = &w->view->layout;
	struct view_cell cell = {.key = w->entry + 16,
		.cell = (const struct probe_cell *)(w->entry + l->entry_cell)};
	uint64_t tag, owner;

	if (!snapshot_read(w->view, offset, &tag, sizeof(tag)) || !(tag & 1))
		return true;
	/* Pairs with the store of the tag, which the stub publishes (arch/stub/table.c). */
	atomic_thread_fence(memory_order_acquire);
	if (!snapshot_read(w->view, offset, w->entry, l->entry_cell + w->cell_bytes))
		return true;
	owner = word_at(w->entry, 1);
	if (owner >= l->slot_capacity || !clean_key(w->keys, w->entry + 16, l->entry_cell - 16))
		return true;
	cell.slot = (uint32_t)owner;
	return w->visit(w->data, &cell);
}

static bool walk_cell(const struct walk *w, uint64_t offset, uint32_t slot)
{
	struct view_cell cell = {.slot = slot, .cell = (const struct probe_cell *)w->entry};

	return !snapshot_read(w->view, offset, w->entry, w->cell_bytes) || w->visit(w->data, &cell);
}

bool snapshot_cells(struct snapshot *view, const struct view_keys *keys,
	bool (*visit)(void *data, const struct view_cell *cell), void *data)
{
	const struct reg_session *l = &view->layout;
	struct walk walk = {.view = view,
		.keys = keys,
		.cell_bytes = data_cell_bytes(l->flags & REG_SESSION_BUCKETS),
		.entry = malloc(l->entry_cell + data_cell_bytes(true)),
		.visit = visit,
		.data = data};
	uint32_t count = data_cell_count(l);
	bool go_on = walk.entry != NULL;

	snapshot_begin_round(view);
	for (uint32_t set = 0; set <= l->cpus && l->cell_bytes; set++) {
		uint64_t first = set_offset(view, set) + l->cells;

		for (uint32_t i = 0; i < count && go_on; i++) {
			uint64_t offset = first + (uint64_t)i * l->cell_bytes;

			if (snapshot_is_empty(view, offset, l->cell_bytes))
				continue;
			if (!data_has_table(l))
				go_on = walk_cell(&walk, offset, i);
			else if (i < l->entries)
				go_on = walk_entry(&walk, offset);
			else
				go_on = walk_cell(&walk, offset + l->entry_cell, i - l->entries);
		}
	}
	free(walk.entry);
	return go_on;
}

struct counter {
	uint64_t *hits; /* of each slot */
	bool has_buckets;
};

static bool count_cell(void *data, const struct view_cell *cell)
{
	const struct counter *counter = data;

	if (!counter->has_buckets)
		counter->hits[cell->slot] += cell->cell->count;
	for (size_t i = 0; counter->has_buckets && i < CELL_BUCKETS; i++)
		counter->hits[cell->slot] += cell->cell->buckets[i];
	return true;
}

uint64_t *snapshot_hits(struct snapshot *view, const struct view_keys *keys)
{
	struct counter counter = {
		.hits = calloc((size_t)view->layout.slot_capacity + 1, sizeof(*counter.hits)),
		.has_buckets = view->layout.flags & REG_SESSION_BUCKETS};

	if (counter.hits && !snapshot_cells(view, keys, count_cell, &counter)) {
		free(counter.hits);
		return NULL;
	}
	return counter.hits;
}

/* ---- Flights ---------------------------------------------------------------------------- */

enum { TIMES_READ = 128 };

uint64_t snapshot_open_begins(
	const struct snapshot *view, uint64_t offset, const struct probe_flight *flight)
{
	uint32_t places = view->layout.flight_depth;
	uint32_t count = flight->depth < places ? flight->depth : places;
	uint64_t open = 0, part[TIMES_READ];

	offset += sizeof(*flight);
	for (uint32_t i = 0; i < count; i += TIMES_READ) {
		uint32_t n = count - i < TIMES_READ ? count - i : TIMES_READ;

		if (!snapshot_read(view, offset + 8 * (uint64_t)i, part, 8 * (size_t)n))
			return 0;
		for (uint32_t k = 0; k < n; k++)
			open += part[k] != 0;
	}
	return open;
}

void snapshot_walk_flights(struct snapshot *view,
	void (*visit)(void *data, uint64_t offset, const struct probe_flight *flight), void *data)
{
	const struct reg_session *l = &view->layout;
	size_t bytes = data_flight_bytes(l);

	snapshot_begin_round(view);
	for (uint32_t i = 0; l->flights && i < l->flight_entries; i++) {
		uint64_t offset = l->flights - l->data + (uint64_t)i * bytes;
		size_t first = offsetof(struct probe_flight, key);
		struct probe_flight flight;
		uint64_t word; /* state and depth */

		if (snapshot_is_empty(view, offset, bytes) ||
			!snapshot_read(view, offset, &word, first))
			continue;
		flight.state = (uint32_t)word;
		flight.depth = (uint32_t)(word >> 32);
		if (flight.state < FLIGHT_PAIR || !flight.depth)
			continue;
		/* Pairs with the stores of state and depth, which the stub publishes. */
		atomic_thread_fence(memory_order_acquire);
		if (snapshot_read(view, offset + first, &flight.key, sizeof(flight) - first))
			visit(data, offset, &flight);
	}
}

struct flight_counter {
	const struct snapshot *view;
	uint64_t *ret;
	uint32_t pairs;
	bool (*lives)(void *data, uint32_t tid);
	void *data;
};

static void count_flight(void *data, uint64_t offset, const struct probe_flight *flight)
{
	const struct flight_counter *counter = data;
	uint32_t pair = flight->state - FLIGHT_PAIR;

	if (pair < counter->pairs &&
		(!counter->lives || counter->lives(counter->data, flight->tid)))
		counter->ret[pair] += snapshot_open_begins(counter->view, offset, flight);
}

void snapshot_flights(struct snapshot *view, uint64_t *ret, uint32_t pairs,
	bool (*lives)(void *data, uint32_t tid), void *data)
{
	struct flight_counter counter = {view, ret, pairs, lives, data};

	snapshot_walk_flights(view, count_flight, &counter);
}
