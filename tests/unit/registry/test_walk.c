/* SPDX-License-Identifier: MIT */
/* Records looked at where they are: how far they make sense, and nothing outside is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "libprobe/registry/registry.h"

enum { HEADER = sizeof(struct ring_record), MOST = 40, PAGE = 65536, NOW = 1000 };

/* Site 0: a number of 4 bytes; site 1: one of 1 byte, and two strings; there is no site 2. */
static const struct ring_form forms[] = {
	{.fixed = HEADER + 4},
	{.fixed = HEADER + 9, .count = 2, .words = {{HEADER + 1, MOST}, {HEADER + 5, MOST}}},
	{.fixed = 0},
};
static const struct ring_forms all = {forms, 3};

static uint8_t bytes[4096];

/* Returns where the record ends. */
static size_t put(size_t at, uint64_t time, uint32_t site, uint32_t tid, uint32_t a, uint32_t b)
{
	const struct ring_record record = {.time = time, .site = site, .tid = tid};

	memcpy(bytes + at, &record, HEADER);
	if (site == 1) {
		memcpy(bytes + at + HEADER + 1, &a, 4);
		memcpy(bytes + at + HEADER + 5, &b, 4);
	}
	return at + ring_padded(forms[site].fixed + (a & 0xff) + (b & 0xff), RING_ALIGN);
}

struct seen {
	uint32_t words[8];
	size_t count, most;
};

static bool see(void *data, uint32_t word)
{
	struct seen *seen = data;

	if (seen->count == seen->most)
		return false;
	seen->words[seen->count++] = word;
	return true;
}

static uint64_t hits[3];

static size_t walk(struct ring_walk *w, struct seen *seen, size_t size, size_t begins)
{
	*seen = (struct seen){.most = seen->most ? seen->most : 8};
	w->forms = &all;
	w->hits = hits;
	w->now = NOW;
	w->until = w->until ? w->until : UINT64_MAX;
	w->thread = see;
	w->data = seen;
	memset(hits, 0, sizeof(hits));
	return ring_walk(w, bytes, size, begins);
}

static void test_length(void **state)
{
	size_t end = put(0, 1, 1, 7, 3 | UINT32_C(1) << RING_STRING_TRUNCATED_BIT, 5);

	(void)state;
	assert_int_equal(ring_record_length(&all, bytes, end), HEADER + 9 + 8);
	assert_int_equal(ring_record_length(&all, bytes, HEADER + 9 + 8), HEADER + 9 + 8);
	assert_int_equal(ring_record_length(&all, bytes, HEADER + 9 + 7), 0);
	assert_int_equal(ring_record_length(&all, bytes, HEADER - 1), 0);
	put(0, 1, 1, 7, MOST, MOST);
	assert_int_equal(ring_record_length(&all, bytes, sizeof(bytes)), HEADER + 9 + 2 * MOST);
	put(0, 1, 1, 7, MOST + 1, 0);
	assert_int_equal(ring_record_length(&all, bytes, sizeof(bytes)), 0);
	put(0, 1, 2, 7, 0, 0);
	assert_int_equal(ring_record_length(&all, bytes, sizeof(bytes)), 0);
	bytes[offsetof(struct ring_record, site)] = 3;
	assert_int_equal(ring_record_length(&all, bytes, sizeof(bytes)), 0);
}

static void test_all(void **state)
{
	struct ring_walk w = {.last = 5};
	struct seen seen = {0};
	size_t second = put(0, 5, 0, 7, 0, 0), third = put(second, 6, 1, 7, 1, 2);
	size_t end = put(third, 6, 0, 8, 0, 0);

	(void)state;
	assert_int_equal(walk(&w, &seen, end, end), end);
	assert_int_equal(w.end, RING_WALK_ALL);
	assert_int_equal(w.records, 3);
	assert_int_equal(w.first, 5);
	assert_int_equal(w.last, 6);
	assert_int_equal(w.content, third + HEADER + 4);
	assert_int_equal(hits[0], 2);
	assert_int_equal(hits[1], 1);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.words[1], 8);

	/* The padding of the last one is no content. */
	w = (struct ring_walk){0};
	assert_int_equal(walk(&w, &seen, end, third), third);
	assert_int_equal(w.content, second + HEADER + 9 + 3);
	assert_int_equal(w.records, 2);

	/* Its padding is missing. */
	w = (struct ring_walk){0};
	assert_int_equal(walk(&w, &seen, third - 1, third), second);
	assert_int_equal(w.end, RING_WALK_DAMAGED);
}

static void test_ends(void **state)
{
	struct ring_walk w = {.last = 5, .until = 7};
	struct seen seen = {0};
	size_t second = put(0, 5, 0, 7, 0, 0), end = put(second, 7, 0, 8, 0, 0);

	(void)state;
	assert_int_equal(walk(&w, &seen, end, end), second);
	assert_int_equal(w.end, RING_WALK_CUT);
	/* Everything is later. */
	w = (struct ring_walk){.last = 5, .until = 4};
	assert_int_equal(walk(&w, &seen, end, end), 0);
	assert_int_equal(w.end, RING_WALK_CUT);
	/* Older than the one before. */
	w = (struct ring_walk){.last = 6};
	assert_int_equal(walk(&w, &seen, end, end), 0);
	assert_int_equal(w.end, RING_WALK_TIME);
	/* Of the future. */
	put(second, NOW, 0, 8, 0, 0);
	w = (struct ring_walk){.until = 7};
	assert_int_equal(walk(&w, &seen, end, end), second);
	assert_int_equal(w.end, RING_WALK_TIME);
	put(second, UINT64_MAX, 0, 8, 0, 0);
	w = (struct ring_walk){0};
	assert_int_equal(walk(&w, &seen, end, end), second);
	assert_int_equal(w.end, RING_WALK_TIME);
	/* One thread too many. */
	put(second, 7, 0, 8, 0, 0);
	w = (struct ring_walk){0};
	seen.most = 1;
	assert_int_equal(walk(&w, &seen, end, end), second);
	assert_int_equal(w.end, RING_WALK_FULL);
	assert_int_equal(hits[0], 1);
}

/* Records one by one, as the walk promises; ends of threads apart. */
static size_t walk_slowly(struct ring_walk *w, const uint8_t *from, size_t size, size_t begins)
{
	size_t at = 0, length;

	for (; at < begins && at < size; at += ring_padded(length, RING_ALIGN)) {
		struct ring_record record;

		length = ring_record_length(w->forms, from + at, size - at);
		if (!length || ring_padded(length, RING_ALIGN) > size - at)
			return at;
		memcpy(&record, from + at, HEADER);
		if (record.time < w->last || record.time >= w->until || record.time >= w->now)
			return at;
		w->last = record.time;
		w->content = at + length;
		w->hits[record.site]++;
		w->records++;
	}
	return at;
}

/* Many records of the same site and thread are walked at once: nothing in them is overlooked. */
static void test_same(void **state)
{
	(void)state;
	srand(2);
	for (int round = 0; round < 20000; round++) {
		uint64_t slow_hits[3] = {0}, time = 100;
		struct ring_walk w = {.last = 100, .until = 150}, slow = {.forms = &all,
									  .hits = slow_hits,
									  .last = 100,
									  .until = 150,
									  .now = NOW};
		size_t count = 2 + (size_t)rand() % 30, odd = (size_t)rand() % count, end = 0, size;
		struct seen seen = {0};

		for (size_t i = 0; i < count; i++) {
			uint32_t site = i == odd && rand() % 3 == 0,
				 tid = i == odd && rand() % 3 == 0;
			bool is_odd = i == odd && rand() % 3 == 0;

			time += (uint64_t)rand() % 3;
			end = put(end, is_odd ? (uint64_t)rand() % 200 : time, site, 7 + tid, 0, 0);
		}
		if (rand() % 4 == 0)
			bytes[(size_t)rand() % end] = (uint8_t)rand();
		size = end - (size_t)rand() % 3 * ((size_t)rand() % 30);
		assert_int_equal(
			walk(&w, &seen, size, end - 20), walk_slowly(&slow, bytes, size, end - 20));
		assert_int_equal(w.records, slow.records);
		assert_int_equal(w.last, slow.last);
		assert_int_equal(w.content, slow.content);
		assert_memory_equal(hits, slow_hits, sizeof(hits));
	}
}

/* Any bytes: it stays within them (behind them nothing is mapped), and its results agree. */
static void test_any_bytes(void **state)
{
	uint8_t *page =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(mprotect(page + PAGE, PAGE, PROT_NONE), 0);
	srand(1);
	for (int round = 0; round < 100000; round++) {
		size_t size = (size_t)rand() % 256, at = 0;
		uint8_t *from = page + PAGE - size;
		struct seen seen = {.most = 3};
		struct ring_walk w = {.forms = &all,
			.hits = hits,
			.until = UINT64_MAX,
			.now = UINT64_MAX,
			.thread = see,
			.data = &seen};

		/* Mostly records that nearly make sense. */
		for (size_t i = 0; i < size; i++)
			from[i] = (uint8_t)(rand() % 8 ? 0 : rand() % 4);
		memset(hits, 0, sizeof(hits));
		at = ring_walk(&w, from, size, size);
		assert_true(at <= size && w.content <= at && at - w.content < RING_ALIGN);
		assert_int_equal(hits[0] + hits[1], w.records);
		assert_int_equal(hits[2], 0);
	}
	munmap(page, 2 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
