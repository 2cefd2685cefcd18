/* SPDX-License-Identifier: MIT */
/*
 * The memory of a session:
 *
 *   data         first page: header, gate, rate word
 *   slots + n << slots_shift, for each CPU and once for the rest:
 *                +--------------+------------------------------------------+
 *                | slots        | cells, one per slot; or a table of cells |
 *                +--------------+------------------------------------------+
 *   flights      the table of what has begun; one for all CPUs
 *   rings        see arch/layout.h
 *   notes        of a flight recorder: what its records are (libprobe/session/session.h)
 *
 * It is a file in memory, empty at first: only pages that are touched cost anything, except with
 * vm.overcommit_memory=2 (libprobe/process/process.h). So everything has room for the worst
 * case, and otherwise only the address space is limited.
 */
#include "arch/layout.h"
#include "libprobe/base/page.h"
#include "libprobe/registry/registry.h"

/* Bounds beyond which a session makes no sense, or is not made. */
enum {
	CPUS_MAX = 1 << 16,
	SHIFT_MAX = 40,
	SET_SHIFT_MAX = 30, /* stubs reach all of a set with a 32-bit offset */
	LINE = 64,
	FLIGHTS_MIN_KEY = 1 << 14, /* any number of requests may be under way */
	FLIGHTS_MAX = 1 << 18
};
/* Hundreds of pairs in hundreds of threads: of those that begin, only a few are kept at once. */
#define FLIGHTS_KEPT_MAX (UINT64_C(1) << 32)
#define DATA_MAX (UINT64_C(1) << 46)
#define DATA_WANTED_MAX (UINT64_C(1) << 37) /* 128 GiB: x86-64 has a thousand times as much */

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

uint32_t data_cell_count(const struct reg_session *session)
{
	if (!data_has_table(session))
		return session->slot_capacity;
	return session->entries +
	       (session->flags & REG_SESSION_OTHERS ? session->slot_capacity : 0);
}

size_t data_cell_bytes(bool buckets)
{
	return sizeof(struct probe_cell) + (buckets ? 8 * (size_t)CELL_BUCKETS : 0);
}

size_t data_flight_bytes(const struct reg_session *s)
{
	size_t begin = 8 + (s->flight_identities ? 8 : 0) + (size_t)s->flight_keep;
	size_t text = s->flight_text ? 8 + align_up(s->flight_text, 8) : 0;

	return align_up(sizeof(struct probe_flight) + begin * s->flight_depth + text, LINE);
}

/* An entry of a table is its tag, owner and words, then strings, then the cell. */
static uint32_t entry_cell(const struct data_needs *needs)
{
	size_t text = align_up(needs->string_bytes, 8) + 8;

	return (uint32_t)(16 + 8 * needs->key_count + needs->string_count * text);
}

/* The slots and cells of one set. */
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
	/* CPUs share no pair of cache lines: some processors fetch two at once. */
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

static void lay_out_rings(struct reg_session *s, const struct data_needs *needs)
{
	s->flags |= REG_SESSION_RECORDS | (needs->overwrite ? REG_SESSION_OVERWRITES : 0);
	s->ring_bytes = UINT32_C(1) << log2_up(needs->ring_bytes);
	s->rings_shift =
		log2_up((uint64_t)s->ring_bytes + sizeof(struct ring_header) + RING_RECORD_MAX);
	s->rings = s->data_size;
	s->data_size += (uint64_t)2 * s->cpus << s->rings_shift;
}

struct probe_error *data_lay_out(
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
	session->slots = page_bytes();
	session->data_size =
		session->slots + ((session->cpus + UINT64_C(1)) << session->slots_shift);
	session->data_size = page_after(session->data_size);
	if (needs->pairs)
		lay_out_flights(session, needs);
	if (needs->ring_bytes)
		lay_out_rings(session, needs);
	session->data_size += page_after(needs->notes_bytes);
	if (session->slots_shift > SET_SHIFT_MAX || session->data_size > DATA_WANTED_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"the session would take %ju MiB of the target's address space on %u CPUs: "
			"use fewer probes, fewer keys, shorter strings or smaller rings, or no "
			"histogram for each key",
			(uintmax_t)session->data_size >> 20, session->cpus);
	return NULL;
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

/* ---- Checks ---------------------------------------------------------------------------- */

/* Is [start, start + size) a part of [outer, outer + outer_size)? */
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

static bool rings_make_sense(const struct reg_session *s)
{
	uint64_t rings = (uint64_t)2 * s->cpus;

	if (!s->ring_bytes)
		return true;
	return s->rings_shift <= SHIFT_MAX && is_power(s->ring_bytes) &&
	       (uint64_t)s->ring_bytes + sizeof(struct ring_header) + RING_RECORD_MAX <=
		       UINT64_C(1) << s->rings_shift &&
	       within(s->rings, rings << s->rings_shift, s->data, s->data_size);
}

uint64_t data_notes_offset(const struct reg_session *s)
{
	uint64_t end = s->rings - s->data + ((uint64_t)2 * s->cpus << s->rings_shift);

	return s->rings && end < s->data_size ? end : 0;
}

bool data_rings_make_sense(const struct reg_session *s)
{
	return s->cpus && s->cpus <= CPUS_MAX && s->data_size <= DATA_MAX &&
	       s->data <= UINT64_MAX - s->data_size && rings_make_sense(s);
}

bool data_makes_sense(const struct reg_session *s)
{
	return s->id && s->cpus && s->cpus <= CPUS_MAX && s->slots_shift <= SHIFT_MAX &&
	       s->data_size <= DATA_MAX && s->data <= UINT64_MAX - s->data_size &&
	       s->slot_count <= s->slot_capacity &&
	       (uint64_t)s->slot_capacity * sizeof(struct probe_slot) <=
		       UINT64_C(1) << s->slots_shift &&
	       within(s->slots, (s->cpus + UINT64_C(1)) << s->slots_shift, s->data, s->data_size) &&
	       cells_make_sense(s) && flights_make_sense(s) && rings_make_sense(s);
}
