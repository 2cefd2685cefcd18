/* SPDX-License-Identifier: MIT */
/*
 * Stubs of x86-64 hit by many threads, under a storm of signals whose handlers are hits
 * themselves: every hit is recorded or counted as lost, no record is torn, and each ring is in
 * time order.
 */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_crowd.h"
#include "tests/unit/stub/stub_host.h"

enum {
	COUNT_THREADS = 16,
	COUNT_HITS = 300000,
	RECORD_THREADS = 4,
	RECORD_HITS = 30000,
	MAGIC = 0x5eed
};

/* Shared by the threads of a test. */
struct crowd {
	struct stub_host host;
	stub_host_site *site;
	uint64_t signal_hits;
	atomic_bool done;
};

/* A hit whose arguments can be checked against each other. */
static void hit(void *data, uint64_t number)
{
	struct crowd *crowd = data;
	static const char *const strings[] = {
		"", "a", "of some length", "four", "sixteen letters!"};

	crowd->site(number, number ^ MAGIC, (uintptr_t)strings[number % 5]);
}

/* ---- Counting ---------------------------------------------------------------------------- */

static void check_counts(bool has_rseq, bool storm)
{
	struct crowd crowd = {0};
	struct arch_stub stub;

	stub_host_init(&crowd.host, has_rseq);
	if (has_rseq && !crowd.host.thread.has_rseq) {
		stub_host_deinit(&crowd.host);
		print_message("no rseq in this C library: left out\n");
		return;
	}
	stub = stub_host_stub(&crowd.host, has_rseq);
	crowd.site = stub_host_emit_site(&crowd.host, &stub);
	crowd.signal_hits = crowd_run(hit, &crowd, COUNT_THREADS, COUNT_HITS, storm);
	assert_int_equal(stub_host_hits(&crowd.host),
		(uint64_t)COUNT_THREADS * COUNT_HITS + crowd.signal_hits);
	assert_int_equal(stub_host_lost(&crowd.host), 0);
	assert_true(!storm || crowd.signal_hits > 0);
	stub_host_deinit(&crowd.host);
}

static void counts_are_exact(void **state)
{
	(void)state;
	check_counts(true, false);
	check_counts(true, true);
}

static void counts_without_rseq_are_exact(void **state)
{
	(void)state;
	check_counts(false, false);
	check_counts(false, true);
}

/* ---- Recording --------------------------------------------------------------------------- */

/* The arguments of hit(). */
struct __attribute__((packed)) hit_record {
	struct ring_record header;
	uint64_t number, number_masked;
	uint32_t string;
	char text[];
};

struct reader {
	struct crowd *crowd;
	uint64_t records, broken, unordered;
	uint64_t last_time[256]; /* of each ring */
};

/* Consumes one record; returns its length. */
static size_t consume(struct reader *reader, uint32_t ring, const struct hit_record *r)
{
	static const uint8_t lengths[] = {0, 1, 14, 4, 16};
	uint32_t length = lengths[r->number % 5];

	if ((r->number ^ MAGIC) != r->number_masked || r->string != length ||
		r->header.site != (uint32_t)HOST_SITE || r->header.tid < 2)
		reader->broken++;
	else if (length == 16 && memcmp(r->text, "sixteen letters!", 16))
		reader->broken++;
	if (r->header.time < reader->last_time[ring])
		reader->unordered++;
	reader->last_time[ring] = r->header.time;
	reader->records++;
	return sizeof(*r) + ((length + 3) & ~3u);
}

static void drain(struct reader *reader)
{
	struct stub_host *host = &reader->crowd->host;

	for (uint32_t i = 0; i < stub_host_ring_count(host); i++) {
		struct ring_header *ring = stub_host_ring(host, i);
		const uint8_t *data = (const uint8_t *)(ring + 1);
		uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), at = ring->tail;

		while (at < head)
			at += consume(reader, i,
				(const struct hit_record *)(data + (at & (HOST_RING_BYTES - 1))));
		if (at != head)
			reader->broken++;
		__atomic_store_n(&ring->tail, at, __ATOMIC_RELEASE);
	}
}

static void *reading(void *data)
{
	struct reader *reader = data;
	struct timespec pause = {0, 100000};

	while (!atomic_load(&reader->crowd->done)) {
		drain(reader);
		nanosleep(&pause, NULL);
	}
	drain(reader);
	return NULL;
}

static void check_records(bool has_rseq, bool storm)
{
	struct crowd crowd = {0};
	struct reader reader = {.crowd = &crowd};
	struct arch_capture captures[3];
	struct arch_stub stub;
	pthread_t thread;

	stub_host_init(&crowd.host, !has_rseq);
	if ((has_rseq && !crowd.host.thread.has_rseq) || stub_host_ring_count(&crowd.host) > 256) {
		stub_host_deinit(&crowd.host);
		print_message("no rseq in this C library, or too many CPUs: left out\n");
		return;
	}
	stub = stub_host_stub(&crowd.host, has_rseq);
	stub.actions[0].kind = ARCH_ACTION_RECORD;
	for (int i = 0; i < 3; i++) {
		captures[i] = stub_host_argument(i);
	}
	captures[2].is_string = true;
	captures[2].bytes_max = 100;
	stub.captures = captures;
	stub.capture_count = stub.recorded = 3;
	crowd.site = stub_host_emit_site(&crowd.host, &stub);

	assert_int_equal(pthread_create(&thread, NULL, reading, &reader), 0);
	crowd.signal_hits = crowd_run(hit, &crowd, RECORD_THREADS, RECORD_HITS, storm);
	atomic_store(&crowd.done, true);
	pthread_join(thread, NULL);
	assert_int_equal(reader.broken, 0);
	assert_int_equal(reader.unordered, 0);
	assert_int_equal(reader.records + stub_host_lost(&crowd.host),
		(uint64_t)RECORD_THREADS * RECORD_HITS + crowd.signal_hits);
	assert_true(reader.records > 0);
	assert_true(!storm || crowd.signal_hits > 0);
	stub_host_deinit(&crowd.host);
}

static void records_are_whole_and_in_order(void **state)
{
	(void)state;
	check_records(true, false);
	check_records(true, true);
}

static void records_without_rseq_too(void **state)
{
	(void)state;
	check_records(false, false);
	check_records(false, true);
}

/* ---- Threads that are not registered ---------------------------------------------- */

/* Unregisters this thread, as if something other than libc had started it. */
static bool leave_rseq(const struct arch_thread *thread)
{
	enum { UNREGISTER = 1 };
	char *area = (char *)__builtin_thread_pointer() + thread->rseq_offset;

	/* the size it was registered with: glibc has changed it */
	for (uint32_t bytes = 32; bytes <= 256; bytes++)
		if (!syscall(SYS_rseq, area, bytes, UNREGISTER, thread->rseq_signature))
			return true;
	return false;
}

static void *hitting_unregistered(void *data)
{
	struct crowd *crowd = data;

	atomic_store(&crowd->done, leave_rseq(&crowd->host.thread));
	for (uint64_t i = 0; i < 3; i++)
		hit(crowd, i);
	return NULL;
}

static void check_unregistered(enum arch_action_kind kind)
{
	struct crowd crowd = {0};
	struct arch_stub stub;
	pthread_t thread;
	uint64_t bytes = 0;

	stub_host_init(&crowd.host, false);
	stub = stub_host_stub(&crowd.host, crowd.host.thread.has_rseq);
	stub.actions[0].kind = kind;
	crowd.site = stub_host_emit_site(&crowd.host, &stub);
	assert_int_equal(pthread_create(&thread, NULL, hitting_unregistered, &crowd), 0);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&crowd.done), crowd.host.thread.has_rseq);
	for (uint32_t cpu = 0; cpu < crowd.host.cpus; cpu++) {
		assert_int_equal(stub_host_ring(&crowd.host, cpu)->head, 0);
		bytes += stub_host_ring(&crowd.host, crowd.host.cpus + cpu)->head;
	}
	if (kind == ARCH_ACTION_COUNT)
		assert_int_equal(stub_host_hits(&crowd.host), 3);
	else
		assert_int_equal(bytes, 3 * sizeof(struct ring_record));
	assert_int_equal(stub_host_lost(&crowd.host), 0);
	stub_host_deinit(&crowd.host);
}

static void unregistered_threads_use_the_shared_sets(void **state)
{
	(void)state;
	check_unregistered(ARCH_ACTION_COUNT);
	check_unregistered(ARCH_ACTION_RECORD);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_exact),
		cmocka_unit_test(counts_without_rseq_are_exact),
		cmocka_unit_test(records_are_whole_and_in_order),
		cmocka_unit_test(records_without_rseq_too),
		cmocka_unit_test(unregistered_threads_use_the_shared_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
