/* SPDX-License-Identifier: MIT */
/* A record of rings' own bytes: packets byte by byte, large and small ones, bad rings and slow
 * disks. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/record/record.h"
#include "tests/unit/record/take_host.h"
#include "tests/unit/skip.h"

enum { MANY_THREADS = 1500 /* more than a packet may have */ };

static void test_bytes(void **state)
{
	static const uint8_t fields[] = {3, 0, 0, 0, 'a', 'b', 'c'};
	struct take_host h;
	uint64_t time, size;
	uint8_t *bytes;
	size_t length;

	(void)state;
	take_open(&h, "/tmp", NULL);
	time = clock_monotonic_ns();
	take_hit(&h, time, 1, 77, "abc");
	take_hit(&h, time + 1, 0, 77, NULL);
	/* It is not worth a write. */
	assert_int_equal(take_hits(&h, PROBE_CTF_MUCH), 0);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 2);
	assert_int_equal(h.known[0].consumed, 1);
	assert_int_equal(h.session.data.rings.rings[0].header->tail, 44);

	bytes = take_contents(&h, "stream_0_cpu0", &length);
	assert_non_null(bytes);
	assert_int_equal(length, TAKE_PAGE);
	assert_int_equal(take_number(bytes + 20, 4), 1);
	assert_int_equal(take_number(bytes + 24, 8), time);
	assert_int_equal(take_number(bytes + 32, 8), time + 1);
	/* The name takes 29 bytes, the string 23, the number 20; each is aligned. */
	size = CTF_TAKEN_HEADER_BYTES + 32 + 24 + 20;
	assert_int_equal(take_number(bytes + 40, 8), 8 * size);
	assert_int_equal(take_number(bytes + 88, 4), CTF_THREAD_ID);
	assert_int_equal(take_number(bytes + 92, 4), 77);
	assert_int_equal(take_number(bytes + 96, 4), TAKE_PID);
	assert_string_equal((char *)bytes + 104, "comm");
	assert_int_equal(take_number(bytes + 112, 8), time);
	assert_int_equal(take_number(bytes + 120, 4), 1);
	assert_memory_equal(bytes + 128, fields, sizeof(fields));
	assert_int_equal(take_number(bytes + 136, 8), time + 1);
	free(bytes);

	bytes = take_contents(&h, "metadata", &length);
	assert_non_null(strstr((char *)bytes, "clock {\n\tname = \"monotonic\";"));
	assert_non_null(strstr((char *)bytes, "freq = 1000000000;"));
	assert_non_null(strstr((char *)bytes,
		"event {\n\tname = \"p:text\";\n\tid = 1;\n\tstream_id = 1;\n"
		"\tmodel.emf.uri = \"/bin/p\";\n\tfields := struct {\n"
		"\t\tlength_t _arg0_length;\n\t\tbit_t arg0_truncated;\n"
		"\t\tbit_t arg0_unreadable;\n\t\tchar_t arg0[_arg0_length];\n"));
	assert_non_null(strstr((char *)bytes, "\t\tint32_t arg0;\n"));
	free(bytes);
	take_close(&h);
}

/* Fills the ring so that it goes across its end. */
static size_t fill(struct take_host *h, uint64_t time)
{
	struct ring *ring = &h->session.data.rings.rings[0];
	size_t count = 0;

	while (ring->header->head - ring->header->tail + 2 * TAKE_NUMBER <= TAKE_RING_BYTES)
		take_hit(h, time + count++, 0, 77, NULL);
	return count;
}

static void check_large(const char *folder, bool direct)
{
	struct take_host h;
	struct take_found found;
	uint64_t time;
	size_t count = 0;

	take_open(&h, folder, NULL);
	time = clock_monotonic_ns();
	for (int round = 0; round < 3; round++) {
		size_t more = fill(&h, time);

		while (clock_monotonic_ns() <= time + more)
			continue;
		assert_int_equal(take_hits(&h, PROBE_CTF_ALL), more);
		assert_int_equal(h.session.data.rings.rings[0].header->tail,
			h.session.data.rings.rings[0].header->head);
		time += more;
		count += more;
	}
	found = take_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, count);
	assert_true(found.in_order);
	assert_int_equal(found.names, 1);
	if (direct)
		assert_true(found.largest > TAKE_RING_BYTES / 2);
	else
		assert_int_equal(found.largest, TAKE_PAGE);
	take_close(&h);
}

static void test_large(void **state)
{
	char path[] = "/tmp/probectl-take.XXXXXX";
	struct statx status = {0};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status), 0);
	check_large("/tmp", status.stx_mask & STATX_DIOALIGN && status.stx_dio_offset_align);
	close(fd);
	unlink(path);
	/* Memory has no direct writes. */
	if (access("/dev/shm", W_OK) == 0)
		check_large("/dev/shm", false);
}

static void test_bad_times(void **state)
{
	struct take_host h;
	struct take_found found;
	uint64_t time;
	size_t count;

	(void)state;
	take_open(&h, "/tmp", NULL);
	time = clock_monotonic_ns();
	take_hit(&h, time, 0, 1, NULL);
	take_hit(&h, UINT64_MAX, 0, 2, NULL);
	take_hit(&h, 0, 0, 3 | RING_TID_CHILD, NULL);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 3);
	/* Also among many. */
	count = fill(&h, 1);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), count);
	found = take_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, 3 + count);
	assert_true(found.in_order);
	assert_int_equal(found.names, 4);
	assert_true(found.last <= clock_monotonic_ns());
	take_close(&h);
}

static void test_damage(void **state)
{
	struct take_host h;
	struct take_found found;

	(void)state;
	take_open(&h, "/tmp", NULL);
	take_hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	take_hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	take_hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	((uint8_t *)h.session.data.rings.rings[0].data)[TAKE_NUMBER + 8] = 2;
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	assert_int_equal(rings_damaged(&h.session.data.rings), 1);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 0);
	/* Further than the ring is long. */
	h.session.data.rings.rings[0].header->head += 2 * TAKE_RING_BYTES;
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 0);
	assert_int_equal(rings_damaged(&h.session.data.rings), 2);
	found = take_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, 1);
	take_close(&h);
}

static void test_losses(void **state)
{
	struct take_host h;
	size_t length;
	uint8_t *bytes;

	(void)state;
	take_open(&h, "/tmp", NULL);
	take_hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_discarded(h.ctf, &h.session, 5));
	assert_null(probe_ctf_flush(h.ctf));
	assert_null(probe_ctf_flush(h.ctf));
	take_hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	bytes = take_contents(&h, "stream_0_cpu0", &length);
	assert_int_equal(length, 3 * TAKE_PAGE);
	assert_int_equal(take_number(bytes + 64, 8), 0);
	assert_int_equal(take_number(bytes + TAKE_PAGE + 40, 8), 8 * CTF_TAKEN_HEADER_BYTES);
	assert_int_equal(take_number(bytes + TAKE_PAGE + 64, 8), 5);
	assert_int_equal(take_number(bytes + 2 * TAKE_PAGE + 64, 8), 5);
	free(bytes);
	take_close(&h);
}

/* Files may not grow beyond that many bytes; returns what was the limit. */
static struct rlimit limit_files(rlim_t bytes)
{
	struct rlimit limit, small;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){.rlim_cur = bytes, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	return limit;
}

/* Fills the ring with hits of so many threads, one after the other. */
static size_t fill_threads(struct take_host *h, uint64_t time, uint32_t threads)
{
	size_t count = 0;

	for (; (count + 2) * TAKE_NUMBER <= TAKE_RING_BYTES; count++)
		take_hit(h, time + count, 0,
			100 + (uint32_t)(count * TAKE_NUMBER * threads / TAKE_RING_BYTES), NULL);
	return count;
}

static void check_no_room(const char *folder, uint32_t threads)
{
	struct probe_ctf_taken taken;
	struct probe_error *error;
	struct take_found found;
	struct rlimit limit;
	struct take_host h;
	size_t count, left;

	take_open(&h, folder, NULL);
	count = fill_threads(&h, clock_monotonic_ns() - TAKE_RING_BYTES, threads);
	limit = limit_files(100000);
	error = probe_ctf_take(h.ctf, &h.session, PROBE_CTF_ALL, NULL, &taken);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "which is whole so far: File too large"));
	probe_error_free(error);
	found = take_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.packets, 100000 / TAKE_PAGE);
	assert_true(found.in_order);
	/* Each is in the file, or lost, or still there. */
	left = (h.session.data.rings.rings[0].head - h.session.data.rings.rings[0].tail) /
	       TAKE_NUMBER;
	assert_int_equal(found.hits + found.lost + left, count);
	assert_true(found.lost > 0);
	assert_int_equal(probe_ctf_unwritten(h.ctf), found.lost);
	/* Nothing is added any more, but losses are. */
	assert_null(probe_ctf_take(h.ctf, &h.session, PROBE_CTF_ALL, NULL, &taken));
	assert_int_equal(taken.hits, 0);
	assert_null(probe_ctf_discarded(h.ctf, &h.session, left));
	found = take_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits + found.lost, count);
	take_close(&h);
}

/* No room, in the middle of a large packet: whole packets stay, as many as there is room for. */
static void test_no_room(void **state)
{
	(void)state;
	check_no_room("/tmp", 1);
	/* The second of two is not tried. */
	check_no_room("/tmp", MANY_THREADS);
	/* The same of small ones. */
	if (access("/dev/shm", W_OK) == 0)
		check_no_room("/dev/shm", 1);
}

/* Losses that no packet tells at an error: each stream has its own, the longest the rest. */
static void test_late_losses(void **state)
{
	struct take_host h, short_one, empty;
	struct probe_error *error;
	char path[128];
	int fd;

	(void)state;
	take_open(&h, "/tmp", NULL);
	short_one = empty = (struct take_host){0};
	take_session_open(&short_one);
	take_session_open(&empty);
	short_one.ctf = empty.ctf = h.ctf;
	for (int i = 0; i < 2; i++) {
		fill(&h, clock_monotonic_ns());
		usleep(1000);
		take_hits(&h, PROBE_CTF_ALL);
	}
	take_hit(&short_one, clock_monotonic_ns(), 0, 77, NULL);
	assert_int_equal(take_hits(&short_one, PROBE_CTF_ALL), 1);
	assert_int_equal(take_hits(&empty, PROBE_CTF_ALL), 0);
	assert_null(probe_ctf_discarded(h.ctf, &h.session, 1));
	assert_null(probe_ctf_discarded(h.ctf, &short_one.session, 10));
	/* No other file is ours. */
	snprintf(path, sizeof(path), "%s/stream_2_cpu0", h.path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	error = probe_ctf_discarded(h.ctf, &empty.session, 100);
	assert_non_null(error);
	probe_error_free(error);
	assert_null(probe_ctf_discarded(h.ctf, &short_one.session, 1000));
	assert_int_equal(take_stream(&h, "stream_0_cpu0").lost, 1101);
	assert_int_equal(take_stream(&h, "stream_1_cpu0").lost, 10);
	assert_int_equal(probe_ctf_unwritten(h.ctf), 0);
	rings_close(&short_one.session.data.rings);
	rings_close(&empty.session.data.rings);
	take_close(&h);
}

/* Does a thread write large packets? Only where the file system takes them past its cache. */
static bool has_writer(void)
{
	struct take_host h;
	bool found;

	take_open(&h, "/tmp", NULL);
	fill(&h, clock_monotonic_ns() - TAKE_RING_BYTES);
	take_hits(&h, PROBE_CTF_ALL);
	found = h.ctf->writer;
	take_close(&h);
	return found;
}

/*
 * Packets that could not be written as a whole, of more threads than one may have: what was handed
 * over after the first one was not written either, and all comes in packets of a page.
 */
static void test_late_room(void **state)
{
	struct take_found found;
	struct rlimit limit;
	struct take_host h;
	uint64_t hits;
	size_t count;

	(void)state;
	if (!has_writer())
		skip_because("needs a file system with O_DIRECT");
	take_open(&h, "/tmp", NULL);
	count = fill_threads(&h, clock_monotonic_ns(), MANY_THREADS);
	usleep(1000);
	limit = limit_files(100000);
	hits = take_hits(&h, PROBE_CTF_MUCH);
	assert_int_equal(ctf_writer_finished(h.ctf->writer, true), 2);
	assert_int_equal(hits, 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	hits += take_hits(&h, PROBE_CTF_ALL);
	assert_int_equal(hits, count);
	assert_int_equal(h.known[0].consumed, count);
	found = take_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, count);
	assert_int_equal(found.names, MANY_THREADS);
	assert_int_equal(found.largest, TAKE_PAGE);
	assert_true(found.in_order);
	take_close(&h);
}

/* Ends the thread that writes: it is as a disk that takes nothing. */
static void stop_writer(struct ctf_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	writer->over = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	worker_join(&writer->worker);
}

/* It does what was given to it; then jobs are done at once. */
static void finish_writer(struct ctf_writer *writer)
{
	struct ctf_job *job;

	for (size_t i = 0; (job = ctf_writer_waiting(writer, i)); i++) {
		assert_int_equal(write(job->fd, job->bytes, job->size), job->size);
		job->done = true;
	}
	writer->finished = writer->given;
	writer->has_thread = false;
}

/* Nobody waits for a slow disk until everything is to be written. */
static void test_slow(void **state)
{
	struct probe_ctf_taken taken;
	struct take_found found;
	struct take_host h;
	size_t before, count;
	uint64_t tail;

	(void)state;
	if (!has_writer())
		skip_because("needs a file system with O_DIRECT");
	take_open(&h, "/tmp", NULL);
	count = before = fill(&h, clock_monotonic_ns());
	usleep(1000);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), count);
	stop_writer(h.ctf->writer);
	for (size_t i = 0; i < CTF_JOBS; i++) {
		count += fill(&h, clock_monotonic_ns());
		usleep(1000);
		assert_int_equal(take_hits(&h, PROBE_CTF_MUCH), 0);
	}
	/* There is no room, neither for little nor for much; it is asked again soon. */
	tail = h.session.data.rings.rings[0].tail;
	take_hit(&h, clock_monotonic_ns(), 0, 77, NULL);
	assert_int_equal(take_hits(&h, PROBE_CTF_NOW), 0);
	count += 1 + fill(&h, clock_monotonic_ns());
	usleep(1000);
	assert_null(probe_ctf_take(h.ctf, &h.session, PROBE_CTF_NOW, NULL, &taken));
	assert_int_equal(taken.hits, 0);
	assert_int_equal(tail, h.session.data.rings.rings[0].tail);
	assert_true(taken.active);
	assert_in_range(taken.due_ns, 500000, 5000000);
	/* What was lost is told later. */
	assert_null(probe_ctf_discarded(h.ctf, &h.session, 5));
	assert_null(probe_ctf_flush(h.ctf));
	finish_writer(h.ctf->writer);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), count - before);
	found = take_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, count);
	assert_int_equal(found.names, 1);
	assert_int_equal(found.lost, 5);
	assert_true(found.in_order);
	take_close(&h);
}

/* Sessions share what they agree on. */
static void test_kinds(void **state)
{
	struct probe_ctf_taken taken;
	struct take_host h, same, other;
	size_t length;
	uint8_t *bytes;

	(void)state;
	take_open(&h, "/tmp", NULL);
	same = other = (struct take_host){0};
	take_session_open(&same);
	take_session_open(&other);
	other.probes[1].name = "else";
	take_hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	take_hit(&same, clock_monotonic_ns(), 0, 1, NULL);
	take_hit(&other, clock_monotonic_ns(), 1, 1, "");
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_take(h.ctf, &same.session, PROBE_CTF_ALL, NULL, &taken));
	assert_null(probe_ctf_take(h.ctf, &other.session, PROBE_CTF_ALL, NULL, &taken));
	bytes = take_contents(&h, "stream_1_cpu0", &length);
	assert_int_equal(take_number(bytes + 20, 4), 1);
	free(bytes);
	bytes = take_contents(&h, "stream_2_cpu0", &length);
	assert_int_equal(take_number(bytes + 20, 4), 2);
	free(bytes);
	bytes = take_contents(&h, "metadata", &length);
	assert_non_null(
		strstr((char *)bytes, "\tname = \"p:else\";\n\tid = 1;\n\tstream_id = 2;\n"));
	assert_null(strstr(strstr((char *)bytes, "\"p:number\"") + 1, "\"p:number\""));
	free(bytes);

	/* Names of addresses need the controller. */
	other.sites[1].layout.args[0].is_symbol = true;
	assert_null(probe_ctf_forget(h.ctf, &other.session));
	assert_null(probe_ctf_take(h.ctf, &other.session, PROBE_CTF_ALL, NULL, &taken));
	assert_false(taken.can);
	rings_close(&same.session.data.rings);
	rings_close(&other.session.data.rings);
	take_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_bad_times),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_late_losses),
		cmocka_unit_test(test_late_room),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
