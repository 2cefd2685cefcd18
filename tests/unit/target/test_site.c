/* SPDX-License-Identifier: MIT */
/* What the bytes at a patched site reveal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/target/site.h"

enum { PATCH = 0x400001, ARENA = 0x500000, ARENA_SIZE = 0x1000 };

static struct reg_arena arena = {ARENA, ARENA_SIZE};
static const struct registry registry = {.arenas = &arena, .arena_count = 1};

/* A jump from the patch to an address. */
static void jump(uint8_t bytes[5], uint8_t opcode, uint64_t to)
{
	int32_t distance = (int32_t)(to - (PATCH + 5));

	bytes[0] = opcode;
	memcpy(bytes + 1, &distance, sizeof(distance));
}

static struct reg_site long_site(void)
{
	struct reg_site site = {.pc = PATCH - 1,
		.patch = PATCH,
		.length = 5,
		.original = {0x48, 0x83, 0xc2, 0x01, 0x48}};

	jump(site.patched, 0xe9, ARENA + 64);
	return site;
}

static void a_jump_of_ours_is_patched(void **state)
{
	struct reg_site site = long_site();
	uint8_t bytes[5];

	(void)state;
	assert_int_equal(site_state(&registry, &site, site.patched), SITE_PATCHED);
	/* Another controller has linked its stub before ours. */
	jump(bytes, 0xe9, ARENA + 512);
	assert_int_equal(site_state(&registry, &site, bytes), SITE_PATCHED);
	jump(bytes, 0xe9, ARENA + ARENA_SIZE);
	assert_int_equal(site_state(&registry, &site, bytes), SITE_FOREIGN);
}

static void a_breakpoint_covers_a_jump_of_ours(void **state)
{
	struct reg_site site = long_site();
	uint8_t bytes[5];

	(void)state;
	jump(bytes, 0xcc, ARENA + 64);
	assert_int_equal(site_state(&registry, &site, bytes), SITE_COVERED);
	/* Over the file's bytes it is only another tool's. */
	memcpy(bytes, site.original, sizeof(bytes));
	bytes[0] = 0xcc;
	assert_int_equal(site_state(&registry, &site, bytes), SITE_FOREIGN);
}

static void other_bytes_are_others(void **state)
{
	struct reg_site site = long_site();
	uint8_t bytes[5];

	(void)state;
	assert_int_equal(site_state(&registry, &site, site.original), SITE_ORIGINAL);
	/* A call by the kernel, which it makes from a 5-byte nop. */
	jump(bytes, 0xe8, ARENA + 64);
	assert_int_equal(site_state(&registry, &site, bytes), SITE_FOREIGN);
	/* The file's first byte, which another tool put back over our jump. */
	memcpy(bytes, site.patched, sizeof(bytes));
	bytes[0] = site.original[0];
	assert_int_equal(site_state(&registry, &site, bytes), SITE_FOREIGN);
	assert_int_equal(site_state(&registry, &site, NULL), SITE_GONE);
}

static void one_byte_says_it_all_of_a_pun(void **state)
{
	static const struct reg_site site = {
		.pc = PATCH, .patch = PATCH, .length = 1, .original = {0x90}, .patched = {0xe9}};
	static const uint8_t bytes[] = {0xe9, 0x90, 0xcc, 0xeb};

	(void)state;
	assert_int_equal(site_state(&registry, &site, &bytes[0]), SITE_PATCHED);
	assert_int_equal(site_state(&registry, &site, &bytes[1]), SITE_ORIGINAL);
	assert_int_equal(site_state(&registry, &site, &bytes[2]), SITE_COVERED);
	assert_int_equal(site_state(&registry, &site, &bytes[3]), SITE_FOREIGN);
}

static void a_site_is_wanted_by_its_probes(void **state)
{
	struct reg_site site = long_site();
	struct reg_stub stub = {.pc = PATCH - 1, .key = 7, .session = 3};
	struct reg_probe probe = {.key = 7, .session = 3, .refcount = 1};
	struct registry r = {.sites = &site,
		.site_count = 1,
		.stubs = &stub,
		.stub_count = 1,
		.probes = &probe,
		.probe_count = 1};

	(void)state;
	assert_true(site_is_wanted(&r, &site));
	probe.refcount = 0;
	assert_false(site_is_wanted(&r, &site));
	probe.refcount = 1;
	stub.session = 4;
	assert_false(site_is_wanted(&r, &site));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_jump_of_ours_is_patched),
		cmocka_unit_test(a_breakpoint_covers_a_jump_of_ours),
		cmocka_unit_test(other_bytes_are_others),
		cmocka_unit_test(one_byte_says_it_all_of_a_pun),
		cmocka_unit_test(a_site_is_wanted_by_its_probes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
