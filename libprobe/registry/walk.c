/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/registry/registry.h"

enum { SITE_AT = offsetof(struct ring_record, site), TID_AT = offsetof(struct ring_record, tid) };
_Static_assert(TID_AT == SITE_AT + sizeof(uint32_t), "both are read at once");

/* Records are aligned to RING_ALIGN, their words to bytes. */
static inline uint32_t load32(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static inline uint64_t load64(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* Like ring_record_length(), for a site whose form is known. */
static inline size_t length_of(const struct ring_form *form, const uint8_t *record, size_t size)
{
	size_t length = form->fixed;

	if (length > size)
		return 0;
	for (size_t i = 0; i < form->count; i++) {
		uint32_t bytes = ring_string_length(load32(record + form->words[i].at));

		if (bytes > form->words[i].most)
			return 0;
		length += bytes;
	}
	return length <= size && length <= RING_RECORD_MAX ? length : 0;
}

size_t ring_record_length(const struct ring_forms *forms, const uint8_t *record, size_t size)
{
	uint32_t site;

	if (size < sizeof(struct ring_record))
		return 0;
	site = load32(record + SITE_AT);
	return site < forms->count ? length_of(&forms->forms[site], record, size) : 0;
}

/* Is `time` in [last, until)? One comparison checks both ends. */
static inline bool is_between(uint64_t time, uint64_t last, uint64_t until)
{
	return time - last < until - last;
}

/* Checks a record of at most `size` bytes. RING_WALK_ALL if nothing is wrong. */
static inline enum ring_walk_end check(const struct ring_walk *walk, const uint8_t *record,
	size_t size, uint64_t until, size_t *length_ret)
{
	uint64_t time;
	uint32_t site;

	if (size < sizeof(struct ring_record))
		return RING_WALK_DAMAGED;
	site = load32(record + SITE_AT);
	if (site >= walk->forms->count)
		return RING_WALK_DAMAGED;
	*length_ret = length_of(&walk->forms->forms[site], record, size);
	if (!*length_ret || ring_padded(*length_ret, RING_ALIGN) > size)
		return RING_WALK_DAMAGED;
	time = load64(record);
	if (is_between(time, walk->last, until))
		return RING_WALK_ALL;
	return time >= walk->last && time >= walk->until && time < walk->now ? RING_WALK_CUT
									     : RING_WALK_TIME;
}

/*
 * Walks records that follow one of the same site, thread and constant length, as most do. The next
 * record's place is known early, so the processor works on several at once. No record begins at
 * `end` or later. Returns where it stopped.
 */
static size_t walk_same(
	struct ring_walk *walk, const uint8_t *record, size_t step, size_t end, uint64_t until)
{
	const uint64_t who = load64(record + SITE_AT);
	uint64_t last = walk->last;
	size_t at = step, count = 0;

	for (; at < end && load64(record + at + SITE_AT) == who; at += step) {
		uint64_t time = load64(record + at);

		if (!is_between(time, last, until))
			break;
		last = time;
		count++;
	}
	walk->last = last;
	walk->records += count;
	walk->hits[load32(record + SITE_AT)] += count;
	return at;
}

size_t ring_walk(struct ring_walk *walk, const uint8_t *from, size_t size, size_t begins)
{
	uint64_t until = walk->until < walk->now ? walk->until : walk->now;
	size_t at = 0, length, step;
	uint32_t thread = 0;

	until = until > walk->last ? until : walk->last;
	walk->end = RING_WALK_ALL;
	walk->content = walk->records = 0;
	while (at < begins && at < size) {
		const uint8_t *record = from + at;
		uint32_t site, word;

		walk->end = check(walk, record, size - at, until, &length);
		if (walk->end != RING_WALK_ALL)
			break;
		site = load32(record + SITE_AT);
		word = load32(record + TID_AT);
		if ((word != thread || !walk->records) && !walk->thread(walk->data, word)) {
			walk->end = RING_WALK_FULL;
			break;
		}
		thread = word;
		walk->last = load64(record);
		if (!walk->records++)
			walk->first = walk->last;
		walk->hits[site]++;
		step = ring_padded(length, RING_ALIGN);
		at += step;
		if (!walk->forms->forms[site].count && step <= size - at) {
			size_t whole = size - step + 1;

			at += walk_same(walk, record, step,
				      (begins < whole ? begins : whole) - (at - step), until) -
			      step;
		}
		walk->content = at - step + length;
	}
	return at;
}
