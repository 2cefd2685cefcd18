/* SPDX-License-Identifier: MIT */
/*
 * Pages of 4, 16 and 64 KiB: what is mapped begins and ends with one, and nobody gets a part of a
 * page that has other rights. page_bytes() is this test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/base/page.h"
#include "libprobe/registry/registry.h"

#define BASE UINT64_C(0x555500000000)
enum { ARENA = 256 << 10 };

static uint64_t size = 4096;
static const uint64_t sizes[] = {4096, 16384, 65536};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

uint64_t page_bytes(void)
{
	return size;
}

static void addresses(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		size = sizes[i];
		assert_int_equal(page_of(3 * size), 3 * size);
		assert_int_equal(page_of(4 * size - 1), 3 * size);
		assert_int_equal(page_after(3 * size), 3 * size);
		assert_int_equal(page_after(3 * size + 1), 4 * size);
		assert_false(page_is_crossed(3 * size, size));
		assert_true(page_is_crossed(3 * size, size + 1));
		assert_true(page_is_crossed(4 * size - 4, 5));
		assert_false(page_is_crossed(4 * size - 4, 4));
	}
	size = 65536; /* what ends a page of 4 KiB is in the middle of a larger one */
	assert_false(page_is_crossed(0x10ffe, 5));
}

/* A gap between mappings of a kernel with smaller pages, too. */
static void arenas(void **state)
{
	const char text[] = "555500000000-555500105000 r-xp 00000000 00:00 0 /bin/x\n"
			    "555500305000-555600000000 r-xp 00000000 00:00 0 /bin/y\n";
	struct maps maps;

	(void)state;
	assert_null(maps_parse(text, strlen(text), &maps));
	for (size_t i = 0; i < SIZES; i++) {
		uint64_t at;

		size = sizes[i];
		at = space_find(&maps, 5000, BASE + 0x100000, BASE + 0x105000);
		assert_int_equal(at, page_after(BASE + 0x105000) + 65536);
		assert_true(space_is_free(&maps, at, at + page_after(5000)));
		assert_int_equal(space_find(&maps, ARENA + 1, BASE, BASE + 0x105000) % size, 0);
	}
	maps_deinit(&maps);
}

/* The page of the guard is no code memory, however large it is; that of home has room for code. */
static void guard(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct reg_arena arena = {.start = BASE, .size = ARENA};
		struct registry registry = {.home = BASE, .arenas = &arena, .arena_count = 1};
		struct code_taken taken = {0};
		uint64_t at, end = BASE;

		size = sizes[i];
		registry.guard = BASE + ARENA - size + 8; /* of a child's child */
		while ((at = code_alloc(&registry, &taken, 4096, 64, BASE, BASE + ARENA))) {
			assert_true(at >= BASE + REGISTRY_PAGE);
			end = at + 4096;
		}
		assert_int_equal(end, BASE + ARENA - size);
		code_release_all(&taken);
		/* A single page is a pun's. */
		arena.size = size;
		assert_false(code_arena(&registry, BASE));
		arena.size = 2 * size;
		assert_true(code_arena(&registry, BASE));
		free(taken.items);
	}
}

/* What may be mapped or wiped for itself begins with a page. */
static void data(void **state)
{
	const struct data_needs needs = {
		.ring_bytes = DATA_RING_MIN, .pairs = 1, .threads = 5, .notes_bytes = 100};

	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct reg_session session = {.cpus = 3};

		size = sizes[i];
		assert_null(data_lay_out(&session, 7, &needs));
		assert_true(session.slots >= size);
		assert_int_equal(session.slots % size, 0);
		assert_int_equal(session.flights % size, 0);
		assert_int_equal(session.rings % size, 0);
		assert_int_equal(session.data_size % size, 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
		cmocka_unit_test(arenas),
		cmocka_unit_test(guard),
		cmocka_unit_test(data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
