/* SPDX-License-Identifier: MIT */
/* A record of rings' own bytes in parts, and over the sleep of a machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/record/take_host.h"

static void test_parts(void **state)
{
	const struct probe_ctf_options options = {.rotate_bytes = TAKE_PAGE};
	struct take_found first, second;
	struct take_host h;

	(void)state;
	take_open(&h, "/tmp", &options);
	for (int i = 0; i < 2; i++) {
		take_hit(&h, clock_monotonic_ns(), 0, 77, NULL);
		assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	}
	first = take_stream(&h, "000001/stream_0_cpu0");
	second = take_stream(&h, "000002/stream_0_cpu0");
	assert_int_equal(first.hits, 1);
	assert_int_equal(second.hits, 1);
	/* Each part by itself says who has hit. */
	assert_int_equal(second.names, 1);
	assert_true(first.last < second.last);
	take_close(&h);
}

/*
 * A part tells of what was lost before it ended, though nothing follows there; and what is lost in
 * the next one was not lost before it began.
 */
static void test_losses_of_parts(void **state)
{
	const struct probe_ctf_options options = {.rotate_bytes = TAKE_PAGE};
	struct probe_ctf_taken taken;
	struct take_host h, other = {0};
	uint64_t time;
	size_t length;
	uint8_t *bytes;

	(void)state;
	take_open(&h, "/tmp", &options);
	take_session_open(&other);
	time = clock_monotonic_ns();
	take_hit(&h, time, 0, 77, NULL);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_discarded(h.ctf, &h.session, 5));
	take_hit(&other, clock_monotonic_ns(), 0, 77, NULL);
	assert_null(probe_ctf_take(h.ctf, &other.session, PROBE_CTF_ALL, NULL, &taken));
	bytes = take_contents(&h, "000001/stream_0_cpu0", &length);
	assert_int_equal(length, 2 * TAKE_PAGE);
	assert_int_equal(take_number(bytes + TAKE_PAGE + 64, 8), 5);
	free(bytes);
	assert_null(probe_ctf_discarded(h.ctf, &h.session, 6));
	bytes = take_contents(&h, "000002/stream_1_cpu0", &length);
	assert_int_equal(length, 2 * TAKE_PAGE);
	assert_true(take_number(bytes + 24, 8) > time);
	assert_int_equal(take_number(bytes + TAKE_PAGE + 64, 8), 6);
	free(bytes);
	rings_close(&other.session.data.rings);
	take_close(&h);
}

/*
 * A part lasts from its first hit on, and ends in time though hardly anything is in the rings: what
 * is older than its end is in it, however late it is read, and none is empty.
 */
static void test_times(void **state)
{
	const uint64_t length_ns = 20000000;
	const struct probe_ctf_options options = {.rotate_ns = length_ns};
	struct probe_ctf_taken taken;
	struct take_host h;
	uint64_t time;

	(void)state;
	take_open(&h, "/tmp", &options);
	usleep(30000);
	time = clock_monotonic_ns();
	take_hit(&h, time, 0, 77, NULL);
	assert_null(probe_ctf_take(h.ctf, &h.session, PROBE_CTF_MUCH, NULL, &taken));
	assert_int_equal(taken.hits, 1);
	/* On a busy machine, the part may have ended before it was taken. */
	if (clock_monotonic_ns() < time + length_ns)
		assert_true(taken.due_ns <= length_ns);
	take_hit(&h, time + length_ns / 2, 0, 77, NULL);
	while (clock_monotonic_ns() < time + 3 * length_ns)
		usleep(1000);
	take_hit(&h, time + 2 * length_ns, 0, 77, NULL);
	take_hit(&h, time + 2 * length_ns + length_ns / 2, 0, 77, NULL);
	assert_int_equal(take_hits(&h, PROBE_CTF_MUCH), 3);
	assert_int_equal(take_stream(&h, "000001/stream_0_cpu0").hits, 2);
	assert_int_equal(take_stream(&h, "000002/stream_0_cpu0").hits, 2);
	usleep(30000);
	/* A part that has ended waits for its next one's first hit. */
	assert_int_equal(take_hits(&h, PROBE_CTF_MUCH), 0);
	assert_int_equal(h.ctf->part_count, 2);
	take_close(&h);
}

/* Nothing waits for hits that claim to be old once the part before is closed. */
static void test_old_hits(void **state)
{
	const struct probe_ctf_options options = {.rotate_bytes = TAKE_PAGE};
	struct take_host h;
	size_t length;
	uint8_t *bytes;

	(void)state;
	take_open(&h, "/tmp", &options);
	for (int i = 0; i < 2; i++) {
		take_hit(&h, clock_monotonic_ns(), 0, 77, NULL);
		assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	}
	for (int i = 0; i < 2; i++)
		assert_null(probe_ctf_flush(h.ctf));
	take_hit(&h, 1, 0, 77, NULL);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	assert_int_equal(take_stream(&h, "000002/stream_0_cpu0").hits, 2);
	bytes = take_contents(&h, "000003/metadata", &length);
	assert_non_null(bytes);
	free(bytes);
	take_close(&h);
}

static uint64_t counter_ahead;

static uint64_t counter(void)
{
	return clock_monotonic_ns() + counter_ahead;
}

/* What metadata says of the counter's frequency. */
static uint64_t frequency(const struct take_host *h)
{
	size_t length;
	uint8_t *bytes = take_contents(h, "metadata", &length);
	const char *at = strstr((char *)bytes, "name = \"counter\"");
	uint64_t value;

	assert_non_null(at);
	value = strtoull(strstr(at, "freq = ") + strlen("freq = "), NULL, 10);
	free(bytes);
	return value;
}

/* A machine sleeps, and its counter begins again: hits are kept, and the times of those before. */
static void test_counter_again(void **state)
{
	struct take_host h;
	struct take_found found;
	uint64_t last;

	(void)state;
	take_open(&h, "/tmp", NULL);
	counter_ahead = UINT64_C(1) << 50;
	clock_init(&h.session.clock, counter);
	last = counter();
	take_hit(&h, last, 0, 77, NULL);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_flush(h.ctf));
	assert_in_range(frequency(&h), 900000000, 1100000000);
	counter_ahead = 0;
	take_hit(&h, counter(), 0, 77, NULL);
	assert_int_equal(take_hits(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_flush(h.ctf));
	assert_in_range(frequency(&h), 900000000, 1100000000);
	found = take_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, 2);
	assert_int_equal(found.last, last);
	take_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_losses_of_parts),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_old_hits),
		cmocka_unit_test(test_counter_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
