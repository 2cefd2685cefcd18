/* SPDX-License-Identifier: MIT */
/* What the bytes at a patched site reveal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/registry/registry.h"

enum { SITE = 0x400000, ARENA = 0x500000, ARENA_SIZE = 0x1000 };

static struct reg_arena arena = {.start = ARENA, .size = ARENA_SIZE};
static const struct registry registry = {.arenas = &arena, .arena_count = 1};

/* The first instruction after the nop of a site. */
static uint64_t after_nop(void)
{
	return SITE + arch_host()->site_nop;
}

/* A jump from there to an address. */
static void jump(uint8_t *bytes, uint64_t to)
{
	assert_int_equal(arch_host()->jump(after_nop(), to, bytes), arch_host()->jump_length);
}

/* Another tool's breakpoint over the first instruction of these bytes. */
static void cover(uint8_t *bytes)
{
	memcpy(bytes, arch_host()->breakpoint, arch_host()->breakpoint_length);
}

static struct reg_site long_site(void)
{
	struct reg_site site = {.pc = SITE,
		.patch = after_nop(),
		.length = arch_host()->jump_length,
		.original = {0x48, 0x83, 0xc2, 0x01, 0x48}};

	jump(site.patched, ARENA + 64);
	return site;
}

static void a_jump_of_ours_is_patched(void **state)
{
	struct reg_site site = long_site();
	uint8_t bytes[ARCH_JUMP_MAX];

	(void)state;
	assert_int_equal(site_state(&registry, &site, site.patched), SITE_PATCHED);
	/* Another controller has linked its stub before ours. */
	jump(bytes, ARENA + 512);
	assert_int_equal(site_state(&registry, &site, bytes), SITE_PATCHED);
	jump(bytes, ARENA + ARENA_SIZE);
	assert_int_equal(site_state(&registry, &site, bytes), SITE_FOREIGN);
}

static void a_breakpoint_covers_a_jump_of_ours(void **state)
{
	struct reg_site site = long_site();
	uint8_t bytes[ARCH_JUMP_MAX];

	(void)state;
	jump(bytes, ARENA + 64);
	cover(bytes);
	assert_int_equal(site_state(&registry, &site, bytes), SITE_COVERED);
}

static void other_bytes_are_others(void **state)
{
	struct reg_site site = long_site();
	uint8_t bytes[ARCH_JUMP_MAX];

	(void)state;
	assert_int_equal(site_state(&registry, &site, site.original), SITE_ORIGINAL);
	/* Of another tool. */
	jump(bytes, ARENA - 64);
	assert_int_equal(site_state(&registry, &site, bytes), SITE_FOREIGN);
	assert_int_equal(site_state(&registry, &site, NULL), SITE_GONE);
}

/* Where instructions have several lengths. */
#ifdef __x86_64__
static void over_a_part_of_the_jump(void **state)
{
	struct reg_site site = long_site();
	uint8_t bytes[ARCH_JUMP_MAX];

	(void)state;
	/* A breakpoint over the file's bytes is only another tool's. */
	memcpy(bytes, site.original, site.length);
	cover(bytes);
	assert_int_equal(site_state(&registry, &site, bytes), SITE_FOREIGN);
	/* A call by the kernel, which it makes from a 5-byte nop. */
	jump(bytes, ARENA + 64);
	bytes[0] = 0xe8;
	assert_int_equal(site_state(&registry, &site, bytes), SITE_FOREIGN);
	/* The file's first byte, which another tool put back over our jump. */
	memcpy(bytes, site.patched, site.length);
	bytes[0] = site.original[0];
	assert_int_equal(site_state(&registry, &site, bytes), SITE_FOREIGN);
}

static void one_byte_says_it_all_of_a_pun(void **state)
{
	static const struct reg_site site = {
		.pc = SITE, .patch = SITE, .length = 1, .original = {0x90}, .patched = {0xe9}};
	static const uint8_t bytes[] = {0xe9, 0x90, 0xcc, 0xeb};

	(void)state;
	assert_int_equal(site_state(&registry, &site, &bytes[0]), SITE_PATCHED);
	assert_int_equal(site_state(&registry, &site, &bytes[1]), SITE_ORIGINAL);
	assert_int_equal(site_state(&registry, &site, &bytes[2]), SITE_COVERED);
	assert_int_equal(site_state(&registry, &site, &bytes[3]), SITE_FOREIGN);
}

#endif

static void a_site_is_wanted_by_its_probes(void **state)
{
	struct reg_site site = long_site();
	struct reg_stub stub = {.pc = SITE, .key = 7, .session = 3};
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
#ifdef __x86_64__
		cmocka_unit_test(over_a_part_of_the_jump),
		cmocka_unit_test(one_byte_says_it_all_of_a_pun),
#endif
		cmocka_unit_test(a_site_is_wanted_by_its_probes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
