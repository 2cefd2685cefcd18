/* SPDX-License-Identifier: MIT */
/* The layout of a session's data: nothing overlaps, and it is checked when read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/base/page.h"
#include "arch/layout.h"
#include "libprobe/registry/registry.h"

#define DATA UINT64_C(0x7f0000000000)

static struct reg_session lay_out(size_t probes, struct data_needs needs)
{
	struct reg_session s = {.id = 1, .cpus = 3};
	struct probe_error *error = data_lay_out(&s, probes, &needs);

	if (error)
		fail_msg("%s", error->message);
	s.data = DATA;
	data_place(&s);
	assert_true(data_makes_sense(&s));
	assert_int_equal(s.data_size % 4096, 0);
	assert_int_equal(s.slots, DATA + page_bytes());
	return s;
}

static uint64_t sets_end(const struct reg_session *s)
{
	return s->slots + ((s->cpus + UINT64_C(1)) << s->slots_shift);
}

static void test_counters(void **state)
{
	struct reg_session s = lay_out(1, (struct data_needs){0});

	(void)state;
	assert_int_equal(s.slots_shift, 7);
	assert_int_equal(s.data_size, 2 * page_bytes());
	assert_false(data_has_table(&s));
	assert_int_equal(s.cell_bytes | s.flights | s.rings | s.flags, 0);
}

static void test_rings(void **state)
{
	struct reg_session s =
		lay_out(5, (struct data_needs){.ring_bytes = 100000, .overwrite = true});

	(void)state;
	assert_int_equal(s.ring_bytes, 1 << 17);
	assert_int_equal(s.rings_shift, 18);
	assert_int_equal(s.flags, REG_SESSION_RECORDS | REG_SESSION_OVERWRITES);
	assert_true(s.rings >= sets_end(&s));
	assert_int_equal(DATA + s.data_size, s.rings + (6 << 18));
}

static void test_cells(void **state)
{
	struct reg_session s = lay_out(5, (struct data_needs){.cells = true});

	(void)state;
	assert_int_equal(s.cells, 192); /* after five slots of 32 bytes, cache-line aligned */
	assert_int_equal(s.cell_bytes, 64);
	assert_int_equal(s.slots_shift, 9); /* 192 + 5 * 64 */
	s = lay_out(5, (struct data_needs){.cells = true, .buckets = true});
	assert_int_equal(s.flags, REG_SESSION_BUCKETS);
	assert_int_equal(s.cell_bytes, 15424); /* 48 + 8 * 1921, and padding */
	assert_true(s.cells + 5 * s.cell_bytes <= 1u << s.slots_shift);
	assert_false(data_has_table(&s));
}

static void test_table(void **state)
{
	struct data_needs needs = {.cells = true, .key_count = 1, .keys_max = 4096};
	struct reg_session s = lay_out(2, needs);

	(void)state;
	assert_true(data_has_table(&s));
	assert_int_equal(s.entries, 8192);
	assert_int_equal(s.entry_cell, 24);
	assert_int_equal(s.cell_bytes, 128); /* 24 + 48, and padding */
	assert_true(s.cells + s.entries * s.cell_bytes <= 1u << s.slots_shift);
	needs.keys_max = 3;
	needs.key_count = 3;
	needs.string_count = 2;
	needs.string_bytes = 61;
	s = lay_out(2, needs);
	assert_int_equal(s.entries, 8);
	assert_int_equal(s.entry_cell, 16 + 24 + 2 * 72);
	assert_true(s.cell_bytes >= s.entry_cell + sizeof(struct probe_cell));
}

static void test_flights(void **state)
{
	struct data_needs needs = {.cells = true, .pairs = 2, .threads = 10, .ring_bytes = 4096};
	struct reg_session s = lay_out(4, needs);

	(void)state;
	assert_int_equal(s.flight_entries, 1024);
	assert_int_equal(s.flight_depth, 1024);
	assert_int_equal(s.flight_identities, 1);
	assert_int_equal(data_flight_bytes(&s), 16448 /* 32 + 1024 * 16, in lines of 64 */);
	assert_true(s.flights >= sets_end(&s) && s.flights % 64 == 0);
	assert_true(s.rings >= s.flights + 1024 * 16448);
	needs.threads = 1000;
	assert_int_equal(lay_out(4, needs).flight_entries, 8192);
	needs.by_key = true;
	s = lay_out(4, needs);
	assert_int_equal(s.flight_depth, 8);
	assert_int_equal(s.flight_identities, 0);
	assert_int_equal(data_flight_bytes(&s), 128 /* 32 + 8 * 8, in lines of 64 */);
	assert_int_equal(s.flight_entries, 16384);
}

/* Begins that are kept until their ends have room in the entries, which are then fewer. */
static void test_kept(void **state)
{
	struct data_needs needs = {
		.pairs = 2, .threads = 10, .ring_bytes = 4096, .keep_bytes = 304};
	struct reg_session s = lay_out(4, needs), other;

	(void)state;
	assert_int_equal(s.flight_depth, 128);
	assert_int_equal(s.flight_keep, 304);
	assert_int_equal(data_flight_bytes(&s), 41024 /* 32 + 128 * 320, in lines of 64 */);
	assert_true(s.rings >= s.flights + 1024 * 41024);
	assert_true(data_fits(&s, &needs));
	needs.keep_bytes = 312;
	assert_false(data_fits(&s, &needs));
	needs.by_key = true;
	needs.flights_min = 4096;
	other = lay_out(4, needs);
	assert_int_equal(other.flight_depth, 8);
	assert_int_equal(other.flight_entries, 4096);
	/* 4 GiB of address space is enough. */
	needs = (struct data_needs){
		.pairs = 500, .threads = 100, .ring_bytes = 4096, .keep_bytes = 1024};
	other = lay_out(4, needs);
	assert_int_equal(other.flight_entries, 16384);
	/* A key that is a text, behind 8 times: 32 + 8 * 8 + 8 + 104. */
	needs = (struct data_needs){
		.pairs = 1, .threads = 1, .ring_bytes = 4096, .by_key = true, .text_bytes = 100};
	s = lay_out(4, needs);
	assert_int_equal(data_flight_bytes(&s), 256);
	assert_true(data_fits(&s, &needs));
	needs.text_bytes = 0;
	assert_false(data_fits(&s, &needs));
	assert_true(
		other.flight_entries * (uint64_t)data_flight_bytes(&other) <= UINT64_C(1) << 32);
	assert_true(data_makes_sense(&s));
	s.flight_keep = 305;
	assert_false(data_makes_sense(&s));
	s.flight_keep = RING_RECORD_MAX + 8;
	assert_false(data_makes_sense(&s));
	s = lay_out(4, needs);
	s.flight_identities = 2;
	assert_false(data_makes_sense(&s));
}

static void refused(size_t probes, struct data_needs needs, const char *part)
{
	struct reg_session s = {.id = 1, .cpus = 64};
	struct probe_error *error = data_lay_out(&s, probes, &needs);

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	if (!strstr(error->message, part))
		fail_msg("%s", error->message);
	probe_error_free(error);
}

static void test_absurd(void **state)
{
	(void)state;
	refused(1,
		(struct data_needs){
			.cells = true, .key_count = 1, .buckets = true, .keys_max = 1 << 20},
		"MiB of the target's address space on 64 CPUs: use fewer");
	refused(1, (struct data_needs){.cells = true, .key_count = 1, .keys_max = SIZE_MAX / 2},
		"keys");
	refused(SIZE_MAX / 2, (struct data_needs){.cells = true}, "probes");
	refused(1, (struct data_needs){.ring_bytes = 1 << 30}, "MiB");
}

/* What a damaged registry, or one that the target wrote, may contain. */
static void test_nonsense(void **state)
{
	struct data_needs needs = {
		.cells = true, .key_count = 1, .keys_max = 100, .pairs = 1, .ring_bytes = 1 << 17};
	const struct reg_session good = lay_out(4, needs);
	struct reg_session s;

	(void)state;
#define BAD(field, value)                                                                          \
	do {                                                                                       \
		s = good;                                                                          \
		s.field = (value);                                                                 \
		if (data_makes_sense(&s))                                                          \
			fail_msg("%s = %s was believed", #field, #value);                          \
	} while (0)
	BAD(cells, 4);
	BAD(cells, 64);		    /* overlaps the slots */
	BAD(cells, UINT32_MAX - 7); /* past the set */
	BAD(cell_bytes, 0);
	BAD(cell_bytes, 64); /* the cell extends past it */
	BAD(cell_bytes, UINT32_MAX - 7);
	BAD(entries, 100);
	BAD(entries, 1 << 20);
	BAD(entry_cell, 8);
	BAD(entry_cell, 20);
	BAD(entry_cell, UINT32_MAX - 7);
	BAD(flags, good.flags | REG_SESSION_BUCKETS);
	BAD(flights, 8);
	BAD(flights, DATA + good.data_size - 8);
	BAD(flight_entries, 0);
	BAD(flight_entries, 3);
	BAD(flight_entries, UINT32_C(1) << 31);
	BAD(flight_depth, 0);
	BAD(flight_depth, 3);
	BAD(flight_depth, UINT32_MAX);
	BAD(ring_bytes, 3000);
	BAD(rings, UINT64_MAX);
#undef BAD
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_rings),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_flights),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_absurd),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
