/* SPDX-License-Identifier: MIT */
/* Overwriting rings, read backwards: whole, lapped, during writes, and with false contents. */
/* Not under ThreadSanitizer: it knows no fences. */
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

#include "arch/layout.h"
#include "libprobe/registry/registry.h"

enum { RING_BYTES = 1 << 17, CPUS = 2, RECORD_MAX = 1024, ROUNDS = 200 };

struct host {
	uint8_t *base; /* the target's mapping: at the end of its memory */
	struct snapshot view;
	struct recording recording;
	atomic_bool ending;
};

static int setup(void **state)
{
	struct host *h = calloc(1, sizeof(*h));
	struct reg_session *l = &h->view.layout;
	struct data_needs needs = {.ring_bytes = RING_BYTES, .overwrite = true};

	assert_non_null(h);
	*l = (struct reg_session){.id = 1, .cpus = CPUS};
	assert_null(data_lay_out(l, 1, &needs));
	l->data = UINT64_C(0x7f0000000000);
	data_place(l);
	h->view.fd = memfd_create("recorder", MFD_CLOEXEC);
	assert_int_equal(ftruncate(h->view.fd, (off_t)l->data_size), 0);
	h->base = mmap(NULL, l->data_size, PROT_READ | PROT_WRITE, MAP_SHARED, h->view.fd, 0);
	assert_ptr_not_equal(h->base, MAP_FAILED);
	h->view.base = h->base;
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct host *h = *state;

	recording_deinit(&h->recording);
	munmap(h->base, h->view.layout.data_size);
	close(h->view.fd);
	free(h);
	return 0;
}

static struct ring_header *ring_of(const struct host *h, uint32_t ring)
{
	const struct reg_session *l = &h->view.layout;

	return (struct ring_header *)(h->base + (l->rings - l->data) +
				      ((uint64_t)ring << l->rings_shift));
}

static uint8_t *at_place(struct ring_header *header, uint64_t place)
{
	return (uint8_t *)(header + 1) + (place & (RING_BYTES - 1));
}

/* As a stub does: the record after its word, the next word, then head. */
static void produce(struct host *h, uint32_t ring, uint64_t time, size_t size)
{
	struct ring_header *header = ring_of(h, ring);
	uint64_t place = header->head, end = place + 8 + size, word;
	struct ring_record record = {.time = time, .tid = 7, .site = (uint32_t)size};
	uint8_t *to = at_place(header, place) + 8;

	memset(to + sizeof(record), (int)time, size - sizeof(record));
	memcpy(to, &record, sizeof(record));
	memcpy(&word, at_place(header, place), sizeof(word));
	word = (ring_back_count(word) + 1) << RING_BACK_BITS | (end - place);
	memcpy(at_place(header, end), &word, sizeof(word));
	atomic_store_explicit((_Atomic uint64_t *)&header->head, end, memory_order_release);
}

static size_t read_all(struct host *h)
{
	struct probe_error *error;

	recording_deinit(&h->recording);
	h->view.known_start = h->view.known_end = 0;
	error = recording_read(&h->view, RECORD_MAX, NULL, &h->recording);
	if (error)
		fail_msg("%s", error->message);
	return h->recording.count;
}

/* Checks that every record is whole, and in time order; returns the number of a ring's records. */
static size_t check(const struct host *h, uint32_t ring, uint64_t *first_ret, uint64_t *last_ret)
{
	uint64_t before = 0, last = 0;
	size_t count = 0;

	for (size_t i = 0; i < h->recording.count; i++) {
		const struct recorded *r = &h->recording.records[i];
		const uint8_t *bytes = h->recording.bytes + r->offset;
		struct ring_record record;

		memcpy(&record, bytes, sizeof(record));
		assert_true(record.time >= before && record.time == r->time);
		assert_int_equal(record.site, r->size);
		for (size_t k = sizeof(record); k < r->size; k++)
			assert_int_equal(bytes[k], (uint8_t)record.time);
		before = record.time;
		if (r->ring != ring)
			continue;
		/* No record between two others is missing. */
		if (count)
			assert_true(record.time == last + 1);
		else if (first_ret)
			*first_ret = record.time;
		last = record.time;
		count++;
	}
	if (last_ret)
		*last_ret = last;
	return count;
}

static size_t size_of(uint64_t time)
{
	return 16 + time % 100 * 8;
}

static void test_few(void **state)
{
	struct host *h = *state;
	uint64_t first;

	assert_int_equal(read_all(h), 0);
	produce(h, 0, 1, 16);
	assert_int_equal(read_all(h), 1);
	assert_int_equal(check(h, 0, &first, NULL), 1);
	assert_int_equal(first, 1);
	produce(h, 3, 2, RECORD_MAX);
	produce(h, 0, 2, 24);
	produce(h, 0, 3, 64);
	assert_int_equal(read_all(h), 4);
	assert_int_equal(check(h, 0, NULL, NULL), 3);
	/* They stay there. */
	assert_int_equal(read_all(h), 4);
}

/* What is left after many laps is the newest part, without a gap, and nearly the whole ring. */
static void test_laps(void **state)
{
	struct host *h = *state;
	uint64_t time = 0, first, last, bytes = 0;

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 97; i++, time++)
			produce(h, 1, time + 1, size_of(time + 1));
		read_all(h);
		check(h, 1, &first, &last);
		assert_int_equal(last, time);
		if (round == 0)
			assert_int_equal(first, 1);
	}
	for (uint64_t i = first; i <= last; i++)
		bytes += 8 + size_of(i);
	assert_true(bytes > RING_BYTES - 3 * RECORD_MAX && bytes <= RING_BYTES);
}

/* What was read, and what was overwritten before it was, is all there ever was. */
static void test_counts(void **state)
{
	struct ring_since since[2 * CPUS] = {{0}};
	struct host *h = *state;
	uint64_t time = 0, read = 0, gone = 0;
	static const int hits[] = {5, 0, 20000, 1, 20000, 20000, 300};

	for (size_t i = 0; i < sizeof(hits) / sizeof(hits[0]); i++) {
		for (int k = 0; k < hits[i]; k++, time++)
			produce(h, (uint32_t)(time % 2), time / 2 + 1, size_of(time));
		recording_deinit(&h->recording);
		h->view.known_start = h->view.known_end = 0;
		assert_null(recording_read(&h->view, RECORD_MAX, since, &h->recording));
		read += h->recording.count;
		gone += h->recording.overwritten;
		assert_int_equal(h->recording.overwritten != 0, hits[i] == 20000);
		assert_int_equal(read + gone, time);
	}
	/* The same, read for the first time. */
	assert_int_equal(read_all(h) + h->recording.overwritten, time);
}

static void *write_on(void *data)
{
	struct host *h = data;

	for (uint64_t time = 1; !h->ending; time++)
		produce(h, 2, time, size_of(time));
	return NULL;
}

/* What is read while a writer laps the reader is whole, or dropped. */
static void test_writer(void **state)
{
	struct host *h = *state;
	pthread_t writer;
	size_t records = 0;

	assert_int_equal(pthread_create(&writer, NULL, write_on, h), 0);
	for (int i = 0; i < ROUNDS || !records; i++) {
		read_all(h);
		records += check(h, 2, NULL, NULL);
	}
	h->ending = true;
	pthread_join(writer, NULL);
	assert_true(read_all(h) > 0);
	check(h, 2, NULL, NULL);
}

/* A target's words are followed only backwards, and not far. */
static void test_lies(void **state)
{
	struct host *h = *state;
	struct ring_header *header = ring_of(h, 0);
	uint64_t size = h->view.layout.data_size;

	for (uint64_t i = 1; i < 20; i++)
		produce(h, 0, i, 64);
	memcpy(at_place(header, 72 * 10), &(uint64_t){0}, 8); /* to itself */
	assert_int_equal(read_all(h), 9);
	memcpy(at_place(header, 72 * 10), &(uint64_t){72 * 11}, 8); /* to before the first */
	assert_int_equal(read_all(h), 9);
	memcpy(at_place(header, 72 * 10), &(uint64_t){72 * 10}, 8); /* the record is too long */
	assert_int_equal(read_all(h), 9 + 1);
	memcpy(at_place(header, 72 * 10), &(uint64_t){72 + 4}, 8); /* not aligned */
	assert_int_equal(read_all(h), 9);
	/* More hits than there is room for in what was written. */
	memcpy(at_place(header, 72 * 19), &(uint64_t){UINT64_MAX << RING_BACK_BITS | 72}, 8);
	assert_int_equal(read_all(h), 9);
	assert_int_equal(h->recording.overwritten, 0);
	header->head = UINT64_MAX;
	assert_int_equal(read_all(h), 0);
	header->head = UINT64_MAX - 7;
	read_all(h);
	srand48(3);
	for (uint64_t i = 0; i < size; i += 4)
		memcpy(h->base + i, (const int32_t[]){(int32_t)mrand48()}, 4);
	read_all(h);
	memset(h->base, 0xff, size);
	read_all(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_few, setup, teardown),
		cmocka_unit_test_setup_teardown(test_laps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_writer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lies, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
