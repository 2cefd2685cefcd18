/* SPDX-License-Identifier: MIT */
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
 * Each word `back` has the bytes to the word before it, and how many records the ring has ever
 * had (arch/layout.h). So a record's length is known before anything in it is looked at, and how
 * many were written over follows from the newest word.
 *
 * The target keeps writing. At any time it may be changing the bytes after the
 * head, up to the longest record and two words. What was copied is believed only
 * if the head that is read afterwards shows that none of it can have been there: x86 and the fence
 * keep the order of the loads, x86 that of the stores.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "libprobe/registry/registry.h"

enum { HEAD_TRIES = 16, RECORD_LEAST = sizeof(struct ring_record) + RING_BACK_BYTES };

struct reader {
	const struct snapshot *view;
	struct recording *recording;
	size_t record_room, byte_room, byte_count;
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

	if (to->count == r->record_room) {
		size_t room = r->record_room ? 2 * r->record_room : 256;
		struct recorded *records = reallocarray(to->records, room, sizeof(*records));

		if (!records)
			return false;
		to->records = records;
		r->record_room = room;
	}
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

/* Copies the record at a place, which ends at `end`; *ok_ret: it could be one. */
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

/* Takes off the records that were overwritten; the oldest was copied last. */
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

/* So many records that had not been read were written over. */
static void note_gap(struct recording *to, size_t first, uint64_t gone)
{
	if (!gone)
		return;
	to->overwritten += gone;
	if (to->count > first && to->records[to->count - 1].time > to->whole_from)
		to->whole_from = to->records[to->count - 1].time;
}

/*
 * The head of a ring, and the word there. False if the target is too fast for us, or has written
 * nonsense: what is there is read another time.
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

/* Reads one ring from its head backwards, to *since; false without memory. */
static bool read_ring(struct reader *r, struct ring_since *since)
{
	uint64_t ring_bytes = r->view->layout.ring_bytes, head, newest, place, end, word, made;
	size_t first = r->recording->count, room = 0, kept;
	uint64_t *places = NULL;
	bool ok = true, memory = true;

	if (!read_head(r, &head, &newest))
		return true;
	for (end = head; ok && memory && end > since->place; end = place) {
		size_t count = r->recording->count - first;

		if (!read_word(r, place_offset(r, end), &word) || !ring_back_length(word) ||
			ring_back_length(word) > end ||
			head - end + ring_back_length(word) > ring_bytes)
			break;
		place = end - ring_back_length(word);
		if (count == room) {
			uint64_t *more = reallocarray(places, 2 * room + 64, sizeof(*places));

			memory = more != NULL;
			places = more ? more : places;
			room = more ? 2 * room + 64 : room;
		}
		memory = memory && copy_record(r, place, end, &ok);
		if (memory && ok)
			places[count] = place;
	}
	if (memory && places)
		drop_overwritten(r, first, places);
	kept = r->recording->count - first;
	/* The target can write any number there, but has not had a hit for each. */
	made = ring_back_count(newest) - since->count;
	if (head > since->place && made >= kept && made <= (head - since->place) / RECORD_LEAST)
		note_gap(r->recording, first, made - kept);
	*since = (struct ring_since){head, ring_back_count(newest)};
	free(places);
	return memory;
}

static int compare_records(const void *a, const void *b)
{
	const struct recorded *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->ring != y->ring)
		return x->ring < y->ring ? -1 : 1;
	/* Of one ring, what was copied later is older. */
	return x->offset > y->offset ? -1 : x->offset < y->offset;
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
