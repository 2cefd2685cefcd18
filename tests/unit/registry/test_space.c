/* SPDX-License-Identifier: MIT */
/* Free address space: near, away from what grows, and really free. */
/* Not under ThreadSanitizer: nothing has threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/base/page.h"
#include "arch/arch.h"
#include "libprobe/registry/registry.h"

enum { PAGE = 4096, ASIDE = 64 << 10 };
#define GIB (arch_host()->jump_reach / 2) /* on x86-64; less where a jump does not lead as far */
#define MIB (UINT64_C(1) << 20)
#define BASE UINT64_C(0x555500000000)

static struct maps maps_of(const char *text)
{
	struct maps maps;
	struct probe_error *error = maps_parse(text, strlen(text), &maps);

	if (error)
		fail_msg("%s", error->message);
	return maps;
}

/* Maps of [start, end) pairs, the last start being 0; a name may be given to each. */
struct piece {
	uint64_t start, end;
	const char *name;
};

static struct maps maps_of_pieces(const struct piece *pieces)
{
	char text[4096];
	size_t at = 0;

	for (; pieces->start; pieces++)
		at += snprintf(text + at, sizeof(text) - at, "%jx-%jx r-xp 00000000 00:00 0 %s\n",
			(uintmax_t)pieces->start, (uintmax_t)pieces->end,
			pieces->name ? pieces->name : "");
	return maps_of(text);
}

static void check(const struct maps *maps, uint64_t at, uint64_t size, uint64_t start, uint64_t end)
{
	assert_int_not_equal(at, 0);
	assert_int_equal(at % PAGE, 0);
	assert_true(space_is_free(maps, at, at + size));
	assert_true(code_reaches(at, at + size, start, end));
}

static void test_beside_the_module(void **state)
{
	const struct piece pieces[] = {{BASE, BASE + MIB, "/bin/x"}, {0}};
	struct maps maps = maps_of_pieces(pieces);
	uint64_t at = space_find(&maps, 5000, BASE, BASE + MIB);

	(void)state;
	check(&maps, at, 2 * PAGE, BASE, BASE + MIB);
	/* An overrun of either still faults. */
	assert_int_equal(at, BASE - ASIDE - page_after(5000));
	maps_deinit(&maps);
}

static void test_gap_that_just_fits(void **state)
{
	/* Everything in reach is taken, except one gap. */
	const uint64_t gap = BASE + GIB / 2;
	const struct piece pieces[] = {
		{BASE - 3 * GIB, gap, NULL}, {gap + 2 * ASIDE, BASE + 3 * GIB, NULL}, {0}};
	struct maps maps = maps_of_pieces(pieces);

	(void)state;
	assert_int_equal(space_find(&maps, ASIDE, BASE, BASE + PAGE), gap);
	assert_int_equal(space_find(&maps, ASIDE + 1, BASE, BASE + PAGE), 0);
	maps_deinit(&maps);
}

static void test_out_of_reach(void **state)
{
	const struct piece pieces[] = {{BASE - 3 * GIB, BASE + 3 * GIB, NULL}, {0}};
	struct maps maps = maps_of_pieces(pieces);

	(void)state;
	assert_int_equal(space_find(&maps, PAGE, BASE, BASE + PAGE), 0);
	/* There is room near one end, and it must reach the whole module. */
	assert_int_not_equal(space_find(&maps, PAGE, BASE + 2 * GIB, BASE + 2 * GIB + PAGE), 0);
	assert_int_equal(space_find(&maps, PAGE, BASE + GIB - 2 * MIB, BASE + 2 * GIB), 0);
	maps_deinit(&maps);
}

static void test_absurd_sizes(void **state)
{
	const struct piece pieces[] = {{BASE, BASE + PAGE, NULL}, {0}};
	struct maps maps = maps_of_pieces(pieces), none = {0};

	(void)state;
	assert_int_equal(space_find(&maps, UINT64_MAX, BASE, BASE + PAGE), 0);
	assert_int_equal(space_find(&maps, UINT64_MAX - PAGE, BASE, BASE + PAGE), 0);
	assert_int_equal(space_find(&maps, 3 * GIB, BASE, BASE + PAGE), 0);
	assert_int_equal(space_find(&none, PAGE, BASE, BASE + PAGE), 0);
	maps_deinit(&maps);
}

/* The heap grows up, the stack grows down. */
static void test_what_grows(void **state)
{
	const uint64_t stack = UINT64_C(0x7ffc00000000);
	const struct piece pieces[] = {{BASE, BASE + MIB, "/bin/x"},
		{BASE + 16 * MIB, BASE + 17 * MIB, "[heap]"}, {stack, stack + MIB, "[stack]"}, {0}};
	struct maps maps = maps_of_pieces(pieces);
	uint64_t at;

	(void)state;
	assert_true(space_is_free(&maps, BASE + 2 * MIB, BASE + 16 * MIB));
	assert_false(space_is_free(&maps, BASE + 17 * MIB, BASE + 17 * MIB + PAGE));
	assert_false(space_is_free(&maps, BASE + 60 * MIB, BASE + 61 * MIB));
	assert_true(space_is_free(&maps, BASE + 512 * MIB, BASE + 513 * MIB));
	assert_false(space_is_free(&maps, stack - PAGE, stack));
	assert_false(space_is_free(&maps, stack - 32 * MIB, stack - 31 * MIB));
	assert_true(space_is_free(&maps, stack - 65 * MIB, stack - 64 * MIB));
	at = space_find(&maps, PAGE, stack, stack + MIB);
	check(&maps, at, PAGE, stack, stack + MIB);
	at = space_find(&maps, PAGE, BASE + 16 * MIB, BASE + 17 * MIB);
	check(&maps, at, PAGE, BASE + 16 * MIB, BASE + 17 * MIB);
	maps_deinit(&maps);
}

static void test_ends_of_the_address_space(void **state)
{
	const struct piece pieces[] = {{0x400000, 0x401000, "/bin/x"},
		{UINT64_C(0xffffffffff600000), UINT64_C(0xffffffffff601000), "[vsyscall]"}, {0}};
	const uint64_t end = arch_process()->address_end;
	struct maps maps = maps_of_pieces(pieces);

	(void)state;
	assert_false(space_is_free(&maps, 0, PAGE));
	assert_false(space_is_free(&maps, PAGE, 0));
	assert_false(space_is_free(&maps, PAGE, PAGE));
	assert_true(space_is_free(&maps, end - PAGE, end));
	assert_false(space_is_free(&maps, end, end + PAGE));
	check(&maps, space_find(&maps, PAGE, 0x400000, 0x401000), PAGE, 0x400000, 0x401000);
	maps_deinit(&maps);
}

/* Whatever is mapped: the result is free and in reach; nothing is found only if all is full. */
static void test_random(void **state)
{
	unsigned int seed = 1;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct piece pieces[33] = {{0}};
		uint64_t at = BASE - 3 * GIB, reach, found, size;
		struct maps maps;
		bool any = false;

		for (size_t i = 0; i < 32; i++) {
			at += (uint64_t)(rand_r(&seed) % 100) *
			      (rand_r(&seed) % 3 ? PAGE : 4 * MIB);
			pieces[i].start = at;
			at += (uint64_t)(1 + rand_r(&seed) % 200) *
			      (rand_r(&seed) % 3 ? PAGE : 4 * MIB);
			pieces[i].end = at;
			pieces[i].name = rand_r(&seed) % 16 ? NULL : "[heap]";
		}
		maps = maps_of_pieces(pieces);
		reach = pieces[rand_r(&seed) % 32].start;
		size = (uint64_t)(1 + rand_r(&seed) % 300) * PAGE;
		found = space_find(&maps, size, reach, reach + PAGE);
		if (found)
			check(&maps, found, size, reach, reach + PAGE);
		for (uint64_t k = reach - 2 * GIB; k < reach + 2 * GIB && !any; k += 8 * PAGE)
			any = space_is_free(&maps, k - ASIDE, k + size + ASIDE) &&
			      code_reaches(k, k + size, reach, reach + PAGE);
		assert_true(found || !any);
		maps_deinit(&maps);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beside_the_module),
		cmocka_unit_test(test_gap_that_just_fits),
		cmocka_unit_test(test_out_of_reach),
		cmocka_unit_test(test_absurd_sizes),
		cmocka_unit_test(test_what_grows),
		cmocka_unit_test(test_ends_of_the_address_space),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
