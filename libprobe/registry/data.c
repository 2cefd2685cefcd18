/* SPDX-License-Identifier: MIT */
/*
 * The memory of a session:
 *
 *   data         first page: header, gate, rate word
 *   slots + n << slots_shift, for each CPU and once for the rest:
 *                +--------------+------------------------------------------+
 *                | slots        | cells, one per slot; or a table of cells |
 *                +--------------+------------------------------------------+
 *   flights      the table of start events; one for all CPUs
 *   rings        see arch/layout.h
 *   parts        slots, cells and flights once more, for sessions that share the stubs
 *   notes        of a flight recorder: describe its records (libprobe/session/session.h)
 *
 * The memory is a file in memory, empty at first. A page costs memory only when it is touched,
 * except with vm.overcommit_memory=2 (libprobe/process/process.h). So every part has room for the
 * worst case, which otherwise costs only address space.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/registry/registry.h"

/* ==== Data ==================================================================================== */

enum {
	CPUS_MAX = 1 << 16,
	SHIFT_MAX = 40,
	SET_SHIFT_MAX = 30, /* stubs reach all of a set with a 32-bit offset */
	LINE = 64,
	/* minimum number of entries if pairs match by key, because many requests may be open */
	FLIGHTS_MIN_KEY = 1 << 14,
	FLIGHTS_MAX = 1 << 18
};
/*
 * The maximum size of a table that keeps parts of start events. It is enough for hundreds of pairs
 * in hundreds of threads, because few pairs are open at once.
 */
#define FLIGHTS_KEPT_MAX (UINT64_C(1) << 32)
#define DATA_MAX (UINT64_C(1) << 46)
/* 128 GiB; x86-64 has 1000 times as much address space */
#define DATA_WANTED_MAX (UINT64_C(1) << 37)

static uint8_t log2_up(uint64_t value)
{
	uint8_t bits = 0;

	while ((UINT64_C(1) << bits) < value)
		bits++;
	return bits;
}

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* Returns the number of cells, or table entries, of each set. */
static uint32_t data_cell_count(const struct reg_session *session)
{
	if (!data_has_table(session))
		return session->slot_capacity;
	return session->entries +
	       (session->flags & REG_SESSION_OTHERS ? session->slot_capacity : 0);
}

static size_t data_cell_bytes(bool buckets)
{
	return sizeof(struct probe_cell) + (buckets ? 8 * (size_t)CELL_BUCKETS : 0);
}

size_t data_flight_bytes(const struct reg_session *s)
{
	size_t begin = 8 + (s->flight_identities ? 8 : 0) + (size_t)s->flight_keep;
	size_t text = s->flight_text ? 8 + align_up(s->flight_text, 8) : 0;

	return align_up(sizeof(struct probe_flight) + begin * s->flight_depth + text, LINE);
}

/* Returns the offset of the cell in a table entry: after a tag, an owner, words, and strings. */
static uint32_t entry_cell(const struct data_needs *needs)
{
	size_t text = align_up(needs->string_bytes, 8) + 8;

	return (uint32_t)(16 + 8 * needs->key_count + needs->string_count * text);
}

/* Lays out a set: slots and cells. Returns its bytes. */
static uint64_t lay_out_set(struct reg_session *s, size_t probes, const struct data_needs *needs)
{
	uint64_t used = (uint64_t)probes * sizeof(struct probe_slot);

	if (needs->cells) {
		s->cells = (uint32_t)align_up(used, LINE);
		s->cell_bytes = (uint32_t)align_up(data_cell_bytes(needs->buckets), LINE);
		used = s->cells + (uint64_t)probes * s->cell_bytes;
	}
	if (needs->cells && needs->key_count) {
		s->entries = UINT32_C(1) << log2_up(2 * (uint64_t)needs->keys_max);
		s->entry_cell = entry_cell(needs);
		s->cell_bytes =
			(uint32_t)align_up(s->entry_cell + data_cell_bytes(needs->buckets), LINE);
		s->flags |= REG_SESSION_OTHERS;
		used = s->cells + ((uint64_t)s->entries + probes) * s->cell_bytes;
	}
	/*
	 * No two CPUs share a pair of cache lines, because some processors fetch two lines at once.
	 */
	return used < 128 ? 128 : used;
}

static void lay_out_flights(struct reg_session *s, const struct data_needs *needs)
{
	uint64_t entries = 4 * (uint64_t)needs->threads * needs->pairs;
	uint64_t least = DATA_FLIGHTS_MIN, bytes;

	if (needs->by_key && !needs->keep_bytes)
		least = FLIGHTS_MIN_KEY;
	else if (needs->flights_min)
		least = needs->flights_min;

	if (entries < least)
		entries = least;
	if (entries > FLIGHTS_MAX)
		entries = FLIGHTS_MAX;
	s->flight_entries = UINT32_C(1) << log2_up(entries);
	s->flight_depth = needs->by_key	      ? DATA_DEPTH_KEY
			  : needs->keep_bytes ? DATA_DEPTH_SPANS
					      : DATA_DEPTH_THREAD;
	s->flight_keep = (uint32_t)needs->keep_bytes;
	s->flight_text = (uint32_t)needs->text_bytes;
	s->flight_identities = !needs->by_key;
	bytes = data_flight_bytes(s);
	while ((s->flight_keep || s->flight_text) && s->flight_entries > DATA_FLIGHTS_MIN &&
		s->flight_entries * bytes > FLIGHTS_KEPT_MAX)
		s->flight_entries /= 2;
	s->flights = s->data_size;
	s->data_size += s->flight_entries * bytes;
	s->data_size = page_after(s->data_size);
}

/* Lays out what needs say, from session->data_size on. */
static struct probe_error *lay_out(
	struct reg_session *session, size_t probes, const struct data_needs *needs)
{
	uint64_t set;

	if (probes > UINT32_MAX / LINE || needs->keys_max > UINT32_MAX / LINE ||
		needs->string_bytes > PROBE_STRING_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"a session cannot have %zu probes, or %zu keys", probes, needs->keys_max);
	set = lay_out_set(session, probes, needs);
	session->flags |= needs->buckets ? REG_SESSION_BUCKETS : 0;
	session->slot_capacity = (uint32_t)probes;
	session->slots_shift = log2_up(set);
	session->slots = session->data_size;
	session->data_size =
		session->slots + ((session->cpus + UINT64_C(1)) << session->slots_shift);
	session->data_size = page_after(session->data_size);
	if (needs->pairs)
		lay_out_flights(session, needs);
	if (needs->ring_bytes) {
		session->flags |= REG_SESSION_RECORDS;
		session->flags |= needs->overwrite ? REG_SESSION_OVERWRITES : 0;
		session->ring_bytes = UINT32_C(1) << log2_up(needs->ring_bytes);
		session->rings_shift = log2_up((uint64_t)session->ring_bytes +
					       sizeof(struct ring_header) + RING_RECORD_MAX);
		session->rings = session->data_size;
		session->data_size += (uint64_t)2 * session->cpus << session->rings_shift;
	}
	session->data_size += page_after(needs->notes_bytes);
	if (session->slots_shift > SET_SHIFT_MAX || session->data_size > DATA_WANTED_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"the session would take %ju MiB of the target's address space on %u CPUs: "
			"use fewer probes, fewer keys, shorter strings or smaller rings, or no "
			"histogram for each key",
			(uintmax_t)session->data_size >> 20, session->cpus);
	return NULL;
}

struct probe_error *data_lay_out(
	struct reg_session *session, size_t probes, const struct data_needs *needs)
{
	session->data_size = page_bytes();
	return lay_out(session, probes, needs);
}

struct probe_error *data_lay_out_part(
	struct reg_session *session, size_t probes, struct data_part *part)
{
	struct probe_error *error;

	part->layout = (struct reg_session){.cpus = session->cpus,
		.data_size = session->data_size,
		.flags = session->flags & REG_SESSION_KERNEL_TIME};
	error = lay_out(&part->layout, probes, &part->needs);
	session->data_size = part->layout.data_size;
	return error;
}

bool data_fits(const struct reg_session *session, const struct data_needs *needs)
{
	const uint32_t kinds = REG_SESSION_RECORDS | REG_SESSION_OVERWRITES | REG_SESSION_BUCKETS;
	struct reg_session other = {.cpus = session->cpus};
	struct probe_error *error = data_lay_out(&other, 1, needs);
	bool fits =
		!error && (other.flags & kinds) == (session->flags & kinds) &&
		other.cell_bytes == session->cell_bytes &&
		other.entry_cell == session->entry_cell &&
		data_has_table(&other) == data_has_table(session) &&
		!other.flights == !session->flights &&
		(!other.flights || (other.flight_depth == session->flight_depth &&
					   other.flight_keep == session->flight_keep &&
					   other.flight_text == session->flight_text &&
					   other.flight_identities == session->flight_identities));

	probe_error_free(error);
	return fits;
}

bool data_extent(const struct reg_session *s, uint32_t index, struct data_extent *ret)
{
	uint64_t notes = data_notes_offset(s);

	if (index == 0) {
		*ret = (struct data_extent){0, s->rings ? s->rings : s->data_size};
	} else if (s->rings && index <= 2 * s->cpus) {
		ret->start = s->rings + ((uint64_t)(index - 1) << s->rings_shift);
		ret->end =
			ret->start + sizeof(struct ring_header) + s->ring_bytes + RING_RECORD_MAX;
	} else if (index == 2 * s->cpus + 1 && notes) {
		*ret = (struct data_extent){notes, s->data_size};
	} else {
		return false;
	}
	return true;
}

uint64_t data_bytes(const struct reg_session *session)
{
	struct data_extent extent;
	uint64_t bytes = 0;

	for (uint32_t i = 0; data_extent(session, i, &extent); i++)
		bytes += page_after(extent.end - extent.start);
	return bytes;
}

void data_place(struct reg_session *session)
{
	session->slots += session->data;
	if (session->flights)
		session->flights += session->data;
	if (session->rings)
		session->rings += session->data;
}

void data_place_part(const struct reg_session *session, struct data_part *part)
{
	part->layout.id = session->id;
	part->layout.stamp = session->stamp;
	part->layout.data = session->data;
	part->layout.data_size = session->data_size;
	part->layout.process = part->layout.flights ? session->process : 0;
	data_place(&part->layout);
}

/* ---- Checks ---------------------------------------------------------------------------- */

/* Returns true if [start, start + size) is a part of [outer, outer + outer_size). */
static bool within(uint64_t start, uint64_t size, uint64_t outer, uint64_t outer_size)
{
	return start >= outer && size <= outer_size && start - outer <= outer_size - size;
}

static bool is_power(uint32_t number)
{
	return number && (number & (number - 1)) == 0;
}

static bool cells_make_sense(const struct reg_session *s)
{
	uint64_t count = data_cell_count(s);
	uint64_t cell = data_cell_bytes(s->flags & REG_SESSION_BUCKETS);
	uint64_t slots = (uint64_t)s->slot_capacity * sizeof(struct probe_slot);

	if (!s->cell_bytes)
		return !s->entries;
	if (s->cells % 8 || s->cell_bytes % 8 || s->entry_cell % 8 ||
		!within(s->cells, count * s->cell_bytes, slots,
			(UINT64_C(1) << s->slots_shift) - slots))
		return false;
	return s->entries ? is_power(s->entries) && s->entry_cell >= 16 &&
				    within(s->entry_cell, cell, 0, s->cell_bytes)
			  : cell <= s->cell_bytes;
}

static bool flights_make_sense(const struct reg_session *s)
{
	if (!s->flights)
		return true;
	return is_power(s->flight_entries) && is_power(s->flight_depth) &&
	       s->flight_depth <= DATA_DEPTH_THREAD && s->flights % 8 == 0 &&
	       s->flight_keep <= RING_RECORD_MAX && s->flight_keep % 8 == 0 &&
	       s->flight_text <= RING_RECORD_MAX && s->flight_identities <= 1 &&
	       within(s->flights, s->flight_entries * (uint64_t)data_flight_bytes(s), s->data,
		       s->data_size);
}

uint64_t data_notes_offset(const struct reg_session *s)
{
	uint64_t end = s->rings - s->data + ((uint64_t)2 * s->cpus << s->rings_shift);

	return s->rings && end < s->data_size ? end : 0;
}

bool data_rings_make_sense(const struct reg_session *s)
{
	uint64_t rings = (uint64_t)2 * s->cpus;

	if (!s->cpus || s->cpus > CPUS_MAX || s->data_size > DATA_MAX ||
		s->data > UINT64_MAX - s->data_size)
		return false;
	if (!s->ring_bytes)
		return true;
	return s->rings_shift <= SHIFT_MAX && is_power(s->ring_bytes) &&
	       (uint64_t)s->ring_bytes + sizeof(struct ring_header) + RING_RECORD_MAX <=
		       UINT64_C(1) << s->rings_shift &&
	       within(s->rings, rings << s->rings_shift, s->data, s->data_size);
}

bool data_makes_sense(const struct reg_session *s)
{
	return s->id && data_rings_make_sense(s) && s->slots_shift <= SHIFT_MAX &&
	       s->slot_count <= s->slot_capacity &&
	       (uint64_t)s->slot_capacity * sizeof(struct probe_slot) <=
		       UINT64_C(1) << s->slots_shift &&
	       within(s->slots, (s->cpus + UINT64_C(1)) << s->slots_shift, s->data, s->data_size) &&
	       cells_make_sense(s) && flights_make_sense(s);
}

bool data_read_header(struct served *known, const struct mapping *m, struct data_header *ret)
{
	return shared_is_data(m) && m->offset == 0 &&
	       memory_read_known(known, m->start, ret, sizeof(*ret)) == sizeof(*ret) &&
	       ret->magic == DATA_MAGIC;
}

/* ==== Snapshot ================================================================================ */

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

/* Forgets the holes that were found in the file. The process's pages are read again when needed. */
static void snapshot_begin_round(struct snapshot *view)
{
	view->hole_start = UINT64_MAX;
	if (view->served) {
		served_end(view->served);
		*view->served = served_of(view->pid);
	}
}

/*
 * Returns true if [offset, offset + size) is zero because it was never written. Remembers the
 * written range and the hole found last, and asks the file only about offsets outside them.
 */
static bool snapshot_is_empty(struct snapshot *view, uint64_t offset, size_t size)
{
	off_t start, end;

	if (view->fd < 0 || (offset >= view->known_start && offset < view->known_end))
		return false;
	if (offset >= view->hole_start && offset + size <= view->known_start)
		return true;
	view->hole_start = offset;
	start = lseek(view->fd, (off_t)offset, SEEK_DATA);
	if (start < 0) { /* ENXIO: nothing is written from here to the end */
		view->known_start = view->known_end = UINT64_MAX;
		return true;
	}
	end = lseek(view->fd, start, SEEK_HOLE);
	view->known_start = (uint64_t)start;
	view->known_end = end < 0 ? view->layout.data_size : (uint64_t)end;
	return view->known_start >= offset + size;
}

/* ---- Cells ------------------------------------------------------------------------------ */

static uint64_t set_offset(const struct snapshot *view, uint32_t set)
{
	return view->layout.slots - view->layout.data + ((uint64_t)set << view->layout.slots_shift);
}

static uint64_t read_slot(const struct snapshot *view, uint32_t set, uint32_t slot, size_t field)
{
	uint64_t word;

	return slot < view->layout.slot_capacity &&
			       snapshot_read(view,
				       set_offset(view, set) + slot * sizeof(struct probe_slot) +
					       field,
				       &word, sizeof(word))
		       ? word
		       : 0;
}

uint64_t snapshot_sum_hits(const struct snapshot *view, uint32_t slot)
{
	uint64_t sum = 0;

	for (uint32_t set = 0; set <= view->layout.cpus; set++)
		sum += read_slot(view, set, slot, offsetof(struct probe_slot, hits));
	return sum;
}

uint64_t snapshot_shared_count(const struct snapshot *view, uint32_t slot, size_t field)
{
	return read_slot(view, view->layout.cpus, slot, field);
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

/* Returns true if a key fits into its entry. Zeroes the padding of its strings. */
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
	uint8_t *entry; /* a private copy of the current entry */
	bool (*visit)(void *data, const struct view_cell *cell);
	void *data;
};

/*
 * Visits a table entry. The stub stores the key and then the tag; after that, both stay the same.
 */
static bool walk_entry(const struct walk *w, uint64_t offset)
{
	const struct reg_session *l = &w->view->layout;
	struct view_cell cell = {.key = w->entry + 16,
		.cell = (const struct probe_cell *)(w->entry + l->entry_cell)};
	uint64_t tag, owner;

	if (!snapshot_read(w->view, offset, &tag, sizeof(tag)) || !(tag & 1))
		return true;
	/* Pairs with the store of the tag, which publishes the entry (arch/stub/table.c). */
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
	AUTO_FREE uint8_t *entry = malloc(l->entry_cell + data_cell_bytes(true));
	struct walk walk = {.view = view,
		.keys = keys,
		.cell_bytes = data_cell_bytes(l->flags & REG_SESSION_BUCKETS),
		.entry = entry,
		.visit = visit,
		.data = data};
	uint32_t count = data_cell_count(l);
	bool go_on = entry != NULL;

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
	return go_on;
}

struct counter {
	uint64_t *hits; /* hits of each slot */
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
		uint64_t word; /* state and depth of the entry */

		if (snapshot_is_empty(view, offset, bytes) ||
			!snapshot_read(view, offset, &word, first))
			continue;
		flight.state = (uint32_t)word;
		flight.depth = (uint32_t)(word >> 32);
		if (flight.state < FLIGHT_PAIR || !flight.depth)
			continue;
		/* Pairs with the stores of state and depth, which publish the entry. */
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

/* ==== Recorder ================================================================================ */

/*
 * A flight recorder has no tail: it is read from its head backwards.
 *
 *              place of the oldest                     newest            head
 *                    |                                   |                |
 *      - - - +-------+----------------+------+--- - - ---+------+---------+------+
 *            | (back)| record         | back | ...       | back | record  | back |
 *      - - - +-------+----------------+------+--- - - ---+------+---------+------+
 *            ^                          |                   ^               |
 *            +--------------------------+                   +---------------+
 *
 * Each word `back` holds the distance in bytes to the word before it, and the number of records
 * that the ring has ever had (arch/layout.h). So the length of a record is known before the record
 * is read, and the newest word tells how many records were overwritten.
 *
 * The target keeps writing. At any time it may be changing the bytes after the head, up to the
 * longest record and two words. A copy is used only if the head, read again afterwards, shows that
 * the copy cannot overlap these bytes. The fences keep the controller's loads in order; x86 keeps
 * the target's stores in order.
 */

enum { HEAD_TRIES = 16, RECORD_LEAST = sizeof(struct ring_record) + RING_BACK_BYTES };

struct reader {
	const struct snapshot *view;
	struct recording *recording;
	size_t byte_room, byte_count;
	size_t record_max;
	uint32_t ring;
	uint64_t start; /* offset of the ring in the data */
};

static uint64_t place_offset(const struct reader *r, uint64_t place)
{
	return r->start + sizeof(struct ring_header) + (place & (r->view->layout.ring_bytes - 1));
}

static bool read_word(const struct reader *r, uint64_t offset, uint64_t *ret)
{
	return snapshot_read(r->view, offset, ret, sizeof(*ret));
}

static bool make_room(struct reader *r, size_t bytes)
{
	struct recording *to = r->recording;

	if (!ARRAY_ROOM(to->records, to->count))
		return false;
	if (bytes > r->byte_room - r->byte_count) {
		size_t room = 2 * r->byte_room + bytes + 4096;
		uint8_t *more = realloc(to->bytes, room);

		if (!more)
			return false;
		to->bytes = more;
		r->byte_room = room;
	}
	return true;
}

/*
 * Copies the record in [place, end). *ok_ret is true if it may be a record. Returns false if memory
 * is short.
 */
static bool copy_record(struct reader *r, uint64_t place, uint64_t end, bool *ok_ret)
{
	uint64_t size = end - place - RING_BACK_BYTES;
	struct recorded record = {.offset = r->byte_count, .size = size, .ring = r->ring};

	*ok_ret = end - place > RING_BACK_BYTES && size >= sizeof(struct ring_record) &&
		  size <= r->record_max && size % RING_BACK_BYTES == 0;
	if (!*ok_ret)
		return true;
	if (!make_room(r, size))
		return false;
	*ok_ret = snapshot_read(r->view, place_offset(r, place) + RING_BACK_BYTES,
		r->recording->bytes + record.offset, size);
	if (!*ok_ret)
		return true;
	memcpy(&record.time, r->recording->bytes + record.offset, sizeof(record.time));
	r->byte_count += size;
	r->recording->records[r->recording->count++] = record;
	return true;
}

/* Removes records that were overwritten during copying. The oldest was copied last. */
static void drop_overwritten(struct reader *r, size_t first, const uint64_t *places)
{
	struct recording *to = r->recording;
	uint64_t head;

	atomic_thread_fence(memory_order_acquire);
	if (!read_word(r, r->start, &head)) {
		to->count = first;
		return;
	}
	while (to->count > first && places[to->count - first - 1] + r->view->layout.ring_bytes <
					    head + 2 * RING_BACK_BYTES + r->record_max)
		to->count--;
}

/*
 * Reads a ring's head, and the word `back` there. Returns false if the target writes too fast, or
 * if its values are impossible: a later round tries again.
 */
static bool read_head(const struct reader *r, uint64_t *head_ret, uint64_t *word_ret)
{
	uint64_t again;

	for (int i = 0; i < HEAD_TRIES; i++) {
		if (!read_word(r, r->start, head_ret) || *head_ret % RING_BACK_BYTES)
			return false;
		atomic_thread_fence(memory_order_acquire); /* pairs with the store of head */
		if (!read_word(r, place_offset(r, *head_ret), word_ret))
			return false;
		atomic_thread_fence(memory_order_acquire);
		if (!read_word(r, r->start, &again))
			return false;
		if (again - *head_ret + 2 * RING_BACK_BYTES + r->record_max <
			r->view->layout.ring_bytes)
			return true;
	}
	return false;
}

/* Reads a ring from its head back to *since. Returns false if memory is short. */
static bool read_ring(struct reader *r, struct ring_since *since)
{
	uint64_t ring_bytes = r->view->layout.ring_bytes, head, newest, place, end, word, made;
	struct recording *to = r->recording;
	size_t first = to->count, kept;
	AUTO_FREE uint64_t *places = NULL;
	bool ok = true, memory = true;

	if (!read_head(r, &head, &newest))
		return true;
	for (end = head; ok && memory && end > since->place; end = place) {
		size_t count = to->count - first;

		if (!read_word(r, place_offset(r, end), &word) || !ring_back_length(word) ||
			ring_back_length(word) > end ||
			head - end + ring_back_length(word) > ring_bytes)
			break;
		place = end - ring_back_length(word);
		memory = ARRAY_ROOM(places, count) && copy_record(r, place, end, &ok);
		if (memory && ok)
			places[count] = place;
	}
	if (memory && places)
		drop_overwritten(r, first, places);
	kept = to->count - first;
	/*
	 * The target can write any number to `back`, so check whether the ring can have had this
	 * many records.
	 */
	made = ring_back_count(newest) - since->count;
	if (head > since->place && made > kept && made <= (head - since->place) / RECORD_LEAST) {
		to->overwritten += made - kept;
		if (kept && to->records[to->count - 1].time > to->whole_from)
			to->whole_from = to->records[to->count - 1].time;
	}
	*since = (struct ring_since){head, ring_back_count(newest)};
	return memory;
}

static int compare_records(const void *a, const void *b)
{
	const struct recorded *x = a, *y = b;

	/* In one ring, the record that was copied later is older. */
	return ORDER(x->time, y->time) ?: ORDER(x->ring, y->ring) ?: ORDER(y->offset, x->offset);
}

struct probe_error *recording_read(
	struct snapshot *view, size_t record_max, struct ring_since *since, struct recording *ret)
{
	const struct reg_session *l = &view->layout;
	struct reader reader = {.view = view, .recording = ret, .record_max = record_max};
	bool memory = true;

	*ret = (struct recording){0};
	snapshot_begin_round(view);
	for (uint32_t i = 0; i < 2 * l->cpus && l->ring_bytes && memory; i++) {
		struct ring_since from = since ? since[i] : (struct ring_since){0};

		reader.ring = i;
		reader.start = l->rings - l->data + ((uint64_t)i << l->rings_shift);
		if (!snapshot_is_empty(view, reader.start, sizeof(struct ring_header)))
			memory = read_ring(&reader, &from);
		if (since && memory)
			since[i] = from;
	}
	if (!memory) {
		recording_deinit(ret);
		return probe_error_no_memory();
	}
	if (ret->count)
		qsort(ret->records, ret->count, sizeof(*ret->records), compare_records);
	return NULL;
}

uint64_t recording_total(struct snapshot *view)
{
	const struct reg_session *l = &view->layout;
	struct reader reader = {.view = view};
	uint64_t head, word, sum = 0;

	snapshot_begin_round(view);
	for (uint32_t i = 0; i < 2 * l->cpus && l->ring_bytes; i++) {
		reader.start = l->rings - l->data + ((uint64_t)i << l->rings_shift);
		if (!snapshot_is_empty(view, reader.start, sizeof(struct ring_header)) &&
			read_head(&reader, &head, &word))
			sum += ring_back_count(word);
	}
	return sum;
}

void recording_deinit(struct recording *recording)
{
	free(recording->records);
	free(recording->bytes);
	*recording = (struct recording){0};
}
