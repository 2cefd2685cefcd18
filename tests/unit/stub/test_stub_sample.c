/* SPDX-License-Identifier: MIT */
/* Stubs that take only some hits, and stubs that keep only the last ones. */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_gathering.h"
#include "tests/unit/wait.h"

/* ---- Sampling ---------------------------------------------------------------------------- */

static void hit(void *data, uint64_t number)
{
	struct gathering *c = data;

	c->site(number, 0, 0);
}

static void sampling(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = stub_host_stub(&c->host, rseq);
		uint64_t taken;

		stub_host_reset(&c->host);
		stub.every = 10;
		c->site = stub_host_emit_site(&c->host, &stub);
		for (int i = 0; i < 1000; i++)
			c->site(0, 0, 0);
		taken = stub_host_hits(&c->host);
		assert_true(taken <= 100 && taken + c->host.cpus >= 100);
		stub_host_reset(&c->host);
		stub.every = 0;
		stub.rate = 7;
		stub.rate_ticks = UINT64_C(1) << 40; /* some minutes */
		stub.rate_word = (uintptr_t)c->extra;
		memset(c->extra, 0, 8);
		c->site = stub_host_emit_site(&c->host, &stub);
		for (int i = 0; i < 1000; i++)
			c->site(0, 0, 0);
		taken = stub_host_hits(&c->host); /* the window may end just then */
		assert_true(taken == 7 || taken == 14);
		stub_host_reset(&c->host);
		stub.rate_ticks = 1000000;
		c->site = stub_host_emit_site(&c->host, &stub);
		/* A busy machine may take us off its processor for many windows. */
		wait_until((c->site(0, 0, 0), stub_host_hits(&c->host) >= 14));
	}
}

static void rate_by_many(void **state)
{
	struct gathering *c = *state;
	struct arch_stub stub = stub_host_stub(&c->host, true);

	stub_host_reset(&c->host);
	stub.rate = 1000;
	stub.rate_ticks = UINT64_C(1) << 50;
	stub.rate_word = (uintptr_t)c->extra;
	memset(c->extra, 0, 8);
	c->site = stub_host_emit_site(&c->host, &stub);
	gathering_run(c, hit, GATHERING_HITS, true);
	assert_int_equal(stub_host_hits(&c->host), 1000);
}

/* ---- Flight recorders ---------------------------------------------------------------------- */

/*
 * Walks a ring backwards, and adds how many records it has ever had; returns its number of records,
 * whose values must differ by 8 bytes each.
 */
static uint64_t walk_back(
	const struct gathering *c, uint32_t number, uint64_t *newest_ret, uint64_t *made_ret)
{
	const struct ring_header *ring = stub_host_ring(&c->host, number);
	const uint8_t *data = (const uint8_t *)(ring + 1);
	uint64_t at = ring->head, count = 0, previous = UINT64_MAX, time = UINT64_MAX;

	for (;;) {
		uint64_t back, word;
		struct ring_record record;

		memcpy(&back, data + (at & (HOST_RING_BYTES - 1)), sizeof(back));
		if (count == 0)
			*made_ret += ring_back_count(back);
		back = at - ring_back_length(back);
		if (back >= at || ring->head - back > HOST_RING_BYTES)
			return count;
		assert_int_equal(back % RING_BACK_BYTES, 0);
		memcpy(&record, data + (back & (HOST_RING_BYTES - 1)) + 8, sizeof(record));
		memcpy(&word, data + (back & (HOST_RING_BYTES - 1)) + 8 + sizeof(record),
			sizeof(word));
		assert_int_equal(record.site, (uint32_t)HOST_SITE);
		assert_true(record.time <= time);
		if (count == 0)
			*newest_ret = word;
		else
			assert_true(word < previous);
		time = record.time;
		previous = word;
		at = back;
		count++;
	}
}

static const char *const texts[] = {"", "a", "abcdefg", "abcdefgh", "abcdefghi", "sixteen letters!",
	"a string that is longer than is kept, and is cut"};

static void flight_recorders(void **state)
{
	struct gathering *c = *state;

	for (int variant = 0; variant < 4; variant++) {
		bool rseq = variant & 1, with_string = variant & 2;
		struct arch_stub stub = stub_host_stub(&c->host, rseq);
		uint64_t kept = 0, newest = 0, made = 0;
		struct arch_capture captures[2] = {gathering_captures[0], gathering_captures[2]};

		captures[1].arg.base = 6;
		stub_host_reset(&c->host);
		stub.actions[0].kind = ARCH_ACTION_RECORD;
		stub.actions[0].record.overwrite = true;
		stub.captures = captures;
		stub.capture_count = stub.recorded = with_string ? 2 : 1;
		c->site = stub_host_emit_site(&c->host, &stub);
		for (uint64_t i = 0; i < 100000; i++)
			c->site(i, (uintptr_t)texts[i % 7], 0);
		for (uint32_t ring = 0; ring < stub_host_ring_count(&c->host); ring++) {
			uint64_t last = 0, count = walk_back(c, ring, &last, &made);

			kept += count;
			newest = last > newest ? last : newest;
		}
		assert_int_equal(newest, 99999);
		assert_int_equal(made, 100000);
		assert_true(kept > HOST_RING_BYTES / 120);
		assert_int_equal(stub_host_lost(&c->host), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sampling, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(rate_by_many, gathering_setup, gathering_teardown),
#ifdef __x86_64__
		cmocka_unit_test_setup_teardown(
			flight_recorders, gathering_setup, gathering_teardown),
#endif
	};

	(void)flight_recorders; /* only x86-64 has such stubs */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
