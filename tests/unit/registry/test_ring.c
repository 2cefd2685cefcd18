/* SPDX-License-Identifier: MIT */
/*
 * Reading rings that another process writes: in order, across their end, and with false
 * contents.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/registry/registry.h"

enum { RING_BYTES = 1 << 17, CPUS = 2, PAGE = 4096, SLOTS_SHIFT = 8, RINGS_SHIFT = 18 };

/* The target's side: its own mapping of the data. */
struct host {
	uint8_t *base;
	struct rings rings;
	struct reg_session session;
};

static int setup(void **state)
{
	struct host *h = calloc(1, sizeof(*h));
	int fd = memfd_create("ring", MFD_CLOEXEC);
	struct probe_error *error;

	assert_non_null(h);
	/* The target's addresses: not this process's. */
	h->session = (struct reg_session){.id = 1,
		.cpus = CPUS,
		.data = UINT64_C(0x7f0000000000),
		.data_size = 2 * PAGE + ((uint64_t)2 * CPUS << RINGS_SHIFT),
		.slot_capacity = 16,
		.slots_shift = SLOTS_SHIFT,
		.rings_shift = RINGS_SHIFT,
		.ring_bytes = RING_BYTES};
	h->session.slots = h->session.data + PAGE;
	h->session.rings = h->session.data + 2 * PAGE;
	assert_int_equal(ftruncate(fd, h->session.data_size), 0);
	h->base = mmap(NULL, h->session.data_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(h->base, MAP_FAILED);
	error = rings_open(fd, &h->session, &h->rings);
	close(fd);
	assert_null(error);
	assert_int_equal(h->rings.count, 2 * CPUS);
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct host *h = *state;

	rings_close(&h->rings);
	munmap(h->base, h->session.data_size);
	free(h);
	return 0;
}

static struct ring_header *header_of(const struct host *h, size_t ring)
{
	return (struct ring_header *)(h->base + 2 * PAGE + (ring << RINGS_SHIFT));
}

static uint8_t *data_of(const struct host *h, size_t ring)
{
	return (uint8_t *)(header_of(h, ring) + 1);
}

/* As a stub does: the record, then head. */
static void produce(const struct host *h, size_t ring, uint64_t time, uint32_t site, size_t size)
{
	struct ring_header *header = header_of(h, ring);
	uint8_t *at = data_of(h, ring) + (header->head & (RING_BYTES - 1));
	struct ring_record record = {.time = time, .tid = 7, .site = site};

	memset(at, (int)site, size);
	memcpy(at, &record, sizeof(record));
	header->head += size;
}

/* The next record, which must come from a site and be whole. */
static struct ring *expect(struct host *h, uint32_t site, size_t size)
{
	struct ring *ring;
	size_t got;
	const struct ring_record *record =
		rings_next(&h->rings, RING_RECORD_MAX, UINT64_MAX, &ring, &got);

	assert_non_null(record);
	assert_int_equal(record->site, site);
	assert_true(got >= size);
	for (size_t i = sizeof(*record); i < size; i++)
		assert_int_equal(((const uint8_t *)record)[i], (uint8_t)site);
	rings_consume(ring, size);
	return ring;
}

static void expect_none(struct host *h, uint64_t until)
{
	struct ring *ring;
	size_t size;

	assert_null(rings_next(&h->rings, RING_RECORD_MAX, until, &ring, &size));
}

/* ---- Order -------------------------------------------------------------------------- */

static void test_empty(void **state)
{
	struct host *h = *state;

	rings_begin(&h->rings);
	expect_none(h, UINT64_MAX);
	rings_end(&h->rings);
	assert_int_equal(header_of(h, 0)->tail, 0);
}

static void test_merge(void **state)
{
	struct host *h = *state;

	produce(h, 0, 10, 1, 24);
	produce(h, 0, 40, 4, 32);
	produce(h, 1, 20, 2, 16);
	produce(h, 3, 30, 3, 48);
	produce(h, 3, 50, 5, 16);
	rings_begin(&h->rings);
	for (uint32_t site = 1; site <= 5; site++)
		expect(h, site, (const size_t[]){24, 16, 48, 32, 16}[site - 1]);
	expect_none(h, UINT64_MAX);
	/* The target sees it at the end of the round. */
	assert_int_equal(header_of(h, 0)->tail, 0);
	rings_end(&h->rings);
	assert_int_equal(header_of(h, 0)->tail, 56);
	assert_int_equal(header_of(h, 1)->tail, 16);
	assert_int_equal(header_of(h, 2)->tail, 0);
	assert_int_equal(header_of(h, 3)->tail, 64);
}

static void test_until(void **state)
{
	struct host *h = *state;
	struct ring *ring;
	size_t size;

	produce(h, 0, 10, 1, 16);
	produce(h, 1, 20, 2, 16);
	rings_begin(&h->rings);
	expect_none(h, 10);
	assert_non_null(rings_next(&h->rings, 16, 11, &ring, &size));
	rings_consume(ring, 16);
	expect_none(h, 20);
	rings_end(&h->rings);
	rings_begin(&h->rings);
	expect(h, 2, 16);
	rings_end(&h->rings);
}

/* Records published during a round are read in the next one. */
static void test_rounds(void **state)
{
	struct host *h = *state;

	produce(h, 0, 10, 1, 16);
	rings_begin(&h->rings);
	produce(h, 0, 5, 2, 16);
	produce(h, 1, 1, 3, 16);
	expect(h, 1, 16);
	expect_none(h, UINT64_MAX);
	rings_end(&h->rings);
	rings_begin(&h->rings);
	expect(h, 3, 16);
	expect(h, 2, 16);
	expect_none(h, UINT64_MAX);
	rings_end(&h->rings);
}

/* A record that was read but not consumed comes again. */
static void test_not_consumed(void **state)
{
	struct host *h = *state;
	struct ring *ring;
	size_t size;

	produce(h, 2, 10, 1, 40);
	rings_begin(&h->rings);
	assert_non_null(rings_next(&h->rings, 20, UINT64_MAX, &ring, &size));
	assert_int_equal(size, 20); /* no more than requested */
	rings_end(&h->rings);
	assert_int_equal(header_of(h, 2)->tail, 0);
	rings_begin(&h->rings);
	expect(h, 1, 40);
	rings_end(&h->rings);
}

/* ---- Wrapping ---------------------------------------------------------------------------- */

static void test_wrap(void **state)
{
	struct host *h = *state;
	uint64_t time = 1, written = 0;
	unsigned int seed = 5;

	/* Many times around, with records that end in the slop. */
	while (written < 20 * RING_BYTES) {
		size_t sizes[64], count = 1 + (unsigned int)rand_r(&seed) % 64;

		for (size_t i = 0; i < count; i++) {
			sizes[i] = 16 + 8 * ((unsigned int)rand_r(&seed) % 200);
			produce(h, 1, time++, (uint32_t)(written + i) & 0x7f, sizes[i]);
		}
		rings_begin(&h->rings);
		for (size_t i = 0; i < count; i++)
			expect(h, (uint32_t)(written + i) & 0x7f, sizes[i]);
		expect_none(h, UINT64_MAX);
		rings_end(&h->rings);
		for (size_t i = 0; i < count; i++)
			written += sizes[i];
		assert_int_equal(header_of(h, 1)->tail, header_of(h, 1)->head);
	}
}

static void test_largest_in_slop(void **state)
{
	struct host *h = *state;

	produce(h, 0, 1, 1, RING_BYTES - 8);
	rings_begin(&h->rings);
	rings_consume(&h->rings.rings[0], RING_BYTES - 8);
	rings_end(&h->rings);
	/* Eight bytes before the end, and the whole slop. */
	produce(h, 0, 2, 2, RING_RECORD_MAX);
	rings_begin(&h->rings);
	expect(h, 2, RING_RECORD_MAX);
	expect_none(h, UINT64_MAX);
	rings_end(&h->rings);
}

/* In a long round `tail` is updated now and then, so that the target does not run out of room. */
static void test_told_early(void **state)
{
	struct host *h = *state;

	for (uint64_t i = 0; i < 100; i++)
		produce(h, 0, 1 + i, 1, 1000);
	rings_begin(&h->rings);
	for (int i = 0; i < 100; i++)
		expect(h, 1, 1000);
	assert_in_range(header_of(h, 0)->tail, 60000, 100000);
	rings_end(&h->rings);
	assert_int_equal(header_of(h, 0)->tail, 100000);
}

/* ---- Concurrent writes ------------------------------------------------------------------- */

enum { LIVE_HITS = 400000, LIVE_RECORD = 24 };

static _Atomic uint64_t *live_lost(const struct host *h)
{
	return (_Atomic uint64_t *)(h->base + PAGE + (CPUS << SLOTS_SHIFT) +
				    offsetof(struct probe_slot, lost));
}

/* A stub in C, with its memory orders; it counts hits without room. */
static void *produce_live(void *data)
{
	const struct host *h = data;
	struct ring_header *header = header_of(h, 0);
	_Atomic uint64_t *head = (_Atomic uint64_t *)&header->head;
	_Atomic uint64_t *lost = live_lost(h);

	for (uint64_t i = 1; i <= LIVE_HITS; i++) {
		uint64_t at = atomic_load_explicit(head, memory_order_relaxed);
		uint64_t tail = atomic_load_explicit(
			(_Atomic uint64_t *)&header->tail, memory_order_acquire);
		uint8_t *to = data_of(h, 0) + (at & (RING_BYTES - 1));
		struct ring_record record = {.time = i, .tid = 7, .site = 1};

		if (at + LIVE_RECORD - tail > RING_BYTES) {
			atomic_fetch_add_explicit(lost, 1, memory_order_relaxed);
			continue;
		}
		memcpy(to, &record, sizeof(record));
		memcpy(to + sizeof(record), &i, sizeof(i));
		atomic_store_explicit(head, at + LIVE_RECORD, memory_order_release);
	}
	return NULL;
}

/* Reads everything; returns the number of records. */
static uint64_t consume_live(struct host *h, uint64_t *last)
{
	const struct ring_record *record;
	struct ring *ring;
	uint64_t count = 0, word;
	size_t size;

	rings_begin(&h->rings);
	while ((record = rings_next(&h->rings, LIVE_RECORD, UINT64_MAX, &ring, &size))) {
		memcpy(&word, record + 1, sizeof(word));
		assert_int_equal(size, LIVE_RECORD);
		assert_int_equal(word, record->time); /* whole */
		assert_true(record->time > *last);    /* in order */
		*last = record->time;
		count++;
		rings_consume(ring, LIVE_RECORD);
	}
	rings_end(&h->rings);
	return count;
}

/* Each hit is recorded or lost. Under ThreadSanitizer: without a race. */
static void test_live(void **state)
{
	struct host *h = *state;
	uint64_t read = 0, last = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, produce_live, h), 0);
	while (read + atomic_load(live_lost(h)) < LIVE_HITS)
		read += consume_live(h, &last);
	pthread_join(thread, NULL);
	read += consume_live(h, &last);
	assert_int_equal(read + atomic_load(live_lost(h)), LIVE_HITS);
	assert_true(read > 0);
	assert_int_equal(rings_damaged(&h->rings), 0);
}

/* ---- False contents ------------------------------------------------------------------ */

static void test_hostile_heads(void **state)
{
	static const uint64_t heads[] = {RING_BYTES + 1, UINT64_MAX, UINT64_MAX - 15,
		UINT64_C(1) << 63, RING_BYTES * 2 + 8, 1};
	struct host *h = *state;

	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		/* `tail` equals the last head by now, so each of these is false. */
		header_of(h, 0)->head = heads[i];
		rings_begin(&h->rings);
		expect_none(h, UINT64_MAX);
		rings_end(&h->rings);
	}
	/* Reading continues where the target claims to be. */
	header_of(h, 0)->head = 4096;
	rings_begin(&h->rings);
	expect_none(h, 0);
	rings_end(&h->rings);
	header_of(h, 0)->head = h->rings.rings[0].tail;
	produce(h, 0, 1, 9, 32);
	rings_begin(&h->rings);
	expect(h, 9, 32);
	rings_end(&h->rings);
	assert_int_equal(rings_damaged(&h->rings), sizeof(heads) / sizeof(*heads));
}

static void test_hostile_tail(void **state)
{
	struct host *h = *state;

	produce(h, 0, 1, 1, 32);
	header_of(h, 0)->tail = UINT64_MAX;
	rings_begin(&h->rings);
	expect(h, 1, 32);
	rings_end(&h->rings);
	assert_int_equal(header_of(h, 0)->tail, 32);
}

static void test_partial_record(void **state)
{
	struct host *h = *state;

	header_of(h, 0)->head = sizeof(struct ring_record) - 1;
	rings_begin(&h->rings);
	expect_none(h, UINT64_MAX);
	rings_end(&h->rings);
}

static void test_senseless_lengths(void **state)
{
	struct host *h = *state;
	struct ring *ring;
	size_t size;

	for (int i = 0; i < 2; i++) {
		produce(h, 0, 1, 1, 32);
		produce(h, 0, 2, 2, 32);
		rings_begin(&h->rings);
		assert_non_null(rings_next(&h->rings, 64, UINT64_MAX, &ring, &size));
		/* Nonsense, or more than there is: everything there is skipped. */
		rings_consume(ring, i ? 65 : 0);
		expect_none(h, UINT64_MAX);
		rings_end(&h->rings);
		assert_int_equal(header_of(h, 0)->tail, header_of(h, 0)->head);
		assert_int_equal(rings_damaged(&h->rings), i + 1);
	}
}

/* At the end, what is not a record is reported; what was read is not. */
static void test_discard(void **state)
{
	struct host *h = *state;

	produce(h, 0, 1, 1, 32);
	produce(h, 1, UINT64_MAX, 2, 32); /* no such time stamp exists */
	rings_begin(&h->rings);
	expect(h, 1, 32);
	expect_none(h, UINT64_MAX);
	assert_int_equal(rings_damaged(&h->rings), 0);
	rings_discard(&h->rings);
	rings_end(&h->rings);
	assert_int_equal(rings_damaged(&h->rings), 1);
	rings_discard(&h->rings);
	assert_int_equal(rings_damaged(&h->rings), 1);
	assert_int_equal(header_of(h, 1)->tail, 32);
	/* It is told after the memory was given back, too. */
	rings_discharge(&h->rings);
	assert_int_equal(rings_damaged(&h->rings), 1);
}

/* Changes by the target while a record is being processed have no effect. */
static void test_private_copy(void **state)
{
	struct host *h = *state;
	const struct ring_record *record;
	struct ring *ring;
	size_t size;

	produce(h, 0, 1, 1, 32);
	rings_begin(&h->rings);
	record = rings_next(&h->rings, 64, UINT64_MAX, &ring, &size);
	memset(data_of(h, 0), 0xff, 32);
	assert_int_equal(record->site, 1);
	rings_consume(ring, 32);
	rings_end(&h->rings);
}

/* ---- Counters ------------------------------------------------------------------------ */

static uint64_t hits_of(const struct host *h, uint32_t slot)
{
	const struct snapshot view = {.base = h->base, .fd = -1, .layout = h->session};

	return snapshot_sum_hits(&view, slot);
}

static uint64_t lost_of(const struct host *h, uint32_t slot)
{
	const struct snapshot view = {.base = h->base, .fd = -1, .layout = h->session};

	return snapshot_shared_count(&view, slot, offsetof(struct probe_slot, lost));
}

static void test_counters(void **state)
{
	struct host *h = *state;

	for (uint32_t set = 0; set <= CPUS; set++) {
		struct probe_slot *slots =
			(struct probe_slot *)(h->base + PAGE + ((size_t)set << SLOTS_SHIFT));

		slots[0] = (struct probe_slot){.hits = 1 + set, .lost = 0};
		slots[15] = (struct probe_slot){.hits = 100 * (1 + set), .lost = 7 + set};
	}
	assert_int_equal(hits_of(h, 0), 6);
	assert_int_equal(lost_of(h, 0), 0);
	assert_int_equal(hits_of(h, 15), 600);
	assert_int_equal(lost_of(h, 15), 7 + CPUS);
	assert_int_equal(hits_of(h, 1), 0);
	/* No more than were laid out, whatever the registry says. */
	assert_int_equal(hits_of(h, 16), 0);
	assert_int_equal(lost_of(h, UINT32_MAX), 0);
}

static void test_counters_alone(void **state)
{
	struct reg_session session = {
		.id = 1, .cpus = 1, .data = PAGE, .data_size = 2 * PAGE, .slots = 2 * PAGE};
	struct rings rings;
	struct probe_error *error;
	struct ring *ring;
	size_t size;
	int fd = memfd_create("ring", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	assert_null(rings_open(fd, &session, &rings));
	rings_begin(&rings);
	assert_null(rings_next(&rings, 16, UINT64_MAX, &ring, &size));
	rings_end(&rings);
	rings_close(&rings);
	close(fd);
	error = rings_open(-1, &session, &rings);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "cannot map"));
	probe_error_free(error);
	rings_close(&rings);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_empty),
		TEST(test_merge),
		TEST(test_until),
		TEST(test_rounds),
		TEST(test_not_consumed),
		TEST(test_wrap),
		TEST(test_largest_in_slop),
		TEST(test_told_early),
		TEST(test_live),
		TEST(test_hostile_heads),
		TEST(test_hostile_tail),
		TEST(test_partial_record),
		TEST(test_senseless_lengths),
		TEST(test_discard),
		TEST(test_private_copy),
		TEST(test_counters),
		cmocka_unit_test(test_counters_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
