/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/ring/walk.h"

enum { SITE_AT = offsetof(struct ring_record, site), TID_AT = offsetof(struct ring_record, tid) };

/* Records are aligned to RING_ALIGN only, and the words in them to nothing. */
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

/* The same as ring_record_length(), of a site that is known. */
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

size_t ring_walk(struct ring_walk *walk, const uint8_t *from, size_t size, size_t begins)
{
	const struct ring_form *forms = walk->forms->forms;
	uint64_t last = walk->last, until = walk->until < walk->now ? walk->until : walk->now;
	size_t count = walk->forms->count, at = 0, records = 0, length;
	uint32_t thread = 0;

	until = until > last ? until : last;
	walk->end = RING_WALK_ALL;
	walk->content = 0;
	while (at < begins && at < size) {
		const uint8_t *record = from + at;
		uint32_t site, word;
		uint64_t time;

		walk->end = RING_WALK_DAMAGED;
		if (size - at < sizeof(struct ring_record))
			break;
		site = load32(record + SITE_AT);
		if (site >= count)
			break;
		length = length_of(&forms[site], record, size - at);
		if (!length || ring_padded(length, RING_ALIGN) > size - at)
			break;
		time = load64(record);
		/* One comparison for both ends. */
		if (time - last >= until - last) {
			walk->end = time >= last && time >= walk->until && time < walk->now
					    ? RING_WALK_CUT
					    : RING_WALK_TIME;
			break;
		}
		word = load32(record + TID_AT);
		if (word != thread || !records) {
			walk->end = RING_WALK_FULL;
			if (!walk->thread(walk->data, word))
				break;
			thread = word;
		}
		walk->end = RING_WALK_ALL;
		if (!records++)
			walk->first = time;
		walk->hits[site]++;
		last = time;
		walk->content = at + length;
		at += ring_padded(length, RING_ALIGN);
	}
	walk->last = last;
	walk->records = records;
	return at;
}
