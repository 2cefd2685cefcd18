/* SPDX-License-Identifier: MIT */
/* Patches of every instruction set: what others write at a site, and what may be chosen there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"

enum { AT = 0x400000 };

static const struct arch *const all[] = {&arch_x86_64, &arch_aarch64};
enum { ALL = sizeof(all) / sizeof(*all) };

/* ---- All of them ----------------------------------------------------------------------- */

static void lengths_fit_into_their_buffers(void **state)
{
	(void)state;
	for (int i = 0; i < ALL; i++) {
		assert_in_range(all[i]->jump_length, 1, 8); /* struct reg_site */
		assert_in_range(all[i]->far_jump_length, 0, ARCH_JUMP_MAX);
		assert_in_range(all[i]->breakpoint_length, 1, sizeof(all[i]->breakpoint));
		assert_true(all[i]->breakpoint_length <= all[i]->jump_length);
		assert_true(all[i]->site_nop > 0);
		assert_true(all[i]->jump_reach > 0);
	}
}

static void a_breakpoint_may_stand_before_what_stays(void **state)
{
	(void)state;
	for (int i = 0; i < ALL; i++) {
		const struct arch *arch = all[i];
		size_t length = arch->breakpoint_length;
		uint8_t bytes[16] = {9, 8, 7, 6, 5, 4, 3, 2, 1}, found[16];

		assert_true(arch->is_breakpoint(arch->breakpoint));
		assert_false(arch->is_breakpoint(bytes));
		memcpy(found, bytes, sizeof(found));
		memcpy(found, arch->breakpoint, length);
		assert_true(arch_has_breakpoint(arch, found, bytes, length));
		assert_true(arch_has_breakpoint(arch, found, bytes, sizeof(bytes)));
		/* Less than one is none; and what is behind it has to be as it was. */
		assert_false(arch_has_breakpoint(arch, found, bytes, length - 1));
		found[length] ^= 1;
		assert_true(arch_has_breakpoint(arch, found, bytes, length));
		assert_false(arch_has_breakpoint(arch, found, bytes, length + 1));
		assert_false(arch_has_breakpoint(arch, bytes, bytes, sizeof(bytes)));
	}
}

static void a_guard_is_known_by_all_its_bytes(void **state)
{
	(void)state;
	for (int i = 0; i < ALL; i++) {
		const struct arch *arch = all[i];
		size_t length = arch->jump_length, first = arch->insn_align;
		uint8_t on[ARCH_JUMP_MAX] = {0}, found[ARCH_JUMP_MAX], out[ARCH_JUMP_MAX];

		assert_int_equal(arch->jump(AT, AT + 0x100, on), length);
		memcpy(found, on, length);
		assert_int_equal(arch_guard(arch, AT, AT + 0x100, found, out), ARCH_GUARD_ON);
		assert_memory_equal(out, on, first);
		assert_int_equal(arch_guard(arch, AT, AT + 0x104, found, out), ARCH_GUARD_NONE);
		memcpy(found, arch->guard_off, first);
		assert_int_equal(arch_guard(arch, AT, AT + 0x100, found, out), ARCH_GUARD_OFF);
		assert_memory_equal(out, on, first);
		assert_int_equal(arch_guard(arch, AT, AT + (UINT64_C(1) << 40), found, out),
			ARCH_GUARD_NONE);
		found[length - 1] ^= 1;
		assert_int_equal(arch_guard(arch, AT, AT + 0x100, found, out), ARCH_GUARD_NONE);
		memcpy(found, on, length);
		memcpy(found, arch->breakpoint, arch->breakpoint_length);
		assert_int_equal(arch_guard(arch, AT, AT + 0x100, found, out), ARCH_GUARD_COVERED);
	}
}

static void what_is_filled_stops_whoever_comes(void **state)
{
	(void)state;
	for (int i = 0; i < ALL; i++) {
		uint8_t out[34];

		memset(out, 0x11, sizeof(out));
		arch_fill(all[i], out, 32);
		for (size_t at = 0; at < 32; at += all[i]->breakpoint_length)
			assert_true(all[i]->is_breakpoint(out + at));
		assert_int_equal(out[32], 0x11);
		arch_fill(all[i], out, 0);
	}
}

static void a_jump_leads_where_it_says(void **state)
{
	(void)state;
	for (int i = 0; i < ALL; i++) {
		int64_t far = (int64_t)all[i]->jump_reach - 64;
		const int64_t distances[] = {0, 4, -4, 64, -64, 0x12340, -0x12340, far, -far};
		uint8_t out[ARCH_JUMP_MAX] = {0};
		uint64_t at = UINT64_C(0x7f0000000000);

		for (size_t k = 0; k < sizeof(distances) / sizeof(*distances); k++) {
			uint64_t to = at + (uint64_t)distances[k];

			assert_int_equal(all[i]->jump(at, to, out), all[i]->jump_length);
			assert_true(all[i]->jump_target(at, out) == to);
		}
		assert_int_equal(all[i]->jump(at, at + all[i]->jump_reach + 64, out), 0);
		assert_int_equal(all[i]->jump(at, at - all[i]->jump_reach - 64, out), 0);
		assert_int_equal(all[i]->jump_target(at, all[i]->breakpoint), 0);
	}
}

/* ---- x86-64 ---------------------------------------------------------------------------- */

static void a_pun_leads_where_the_bytes_say(void **state)
{
	static const uint8_t bytes[] = {0x90, 0x8d, 0x87, 0x01, 0x00};
	static const uint8_t back[] = {0x90, 0xfe, 0xff, 0xff, 0xff};
	struct arch_pun pun = arch_x86_64.pun(bytes, AT, 4);

	(void)state;
	assert_int_equal(pun.first, AT + 5 + 0x1878d);
	assert_int_equal(pun.step, 0);
	assert_int_equal(arch_x86_64.pun(back, AT, 4).first, AT + 3);
	/* Less of it stays: the nearest place above, and how far apart they are. */
	pun = arch_x86_64.pun(back, AT, 2);
	assert_int_equal(pun.first, AT + 5 + 0xfffe);
	assert_int_equal(pun.step, 0x10000);
	pun = arch_x86_64.pun(bytes, AT, 1);
	assert_int_equal(pun.first, AT + 5 + 0x8d);
	assert_int_equal(pun.step, 0x100);
}

/* Each choice: both jumps lead where they say, and few pages are chosen twice. */
static void twins_share_their_bytes(void **state)
{
	size_t near = 0;

	(void)state;
	for (unsigned int i = 0; i < arch_x86_64.twin_choices; i++) {
		struct arch_twin twin = arch_x86_64.twin(AT, i);

		assert_int_equal(arch_x86_64.jump_target(AT, twin.bytes), twin.first);
		assert_int_equal(arch_x86_64.jump_target(AT + 1, twin.bytes + 1), twin.second);
		/* What is one page, and not a jump to anywhere in a jump to anywhere. */
		near += twin.first / 4096 == twin.second / 4096;
	}
	assert_true(near > arch_x86_64.twin_choices / 4U);
	assert_int_equal(arch_x86_64.twin(AT, 16).second, AT + 6 + 0x01010100);
	assert_int_equal(arch_x86_64.twin(AT, 32).second, AT + 6 - 0x00000010);
}

/* The first bytes are chosen, the last ones are the code's. */
static void a_part_of_a_jump_leads_near(void **state)
{
	static const uint8_t bytes[] = {0x48, 0x89, 0xc7, 0x83, 0xc0};
	static const uint64_t sizes[] = {1, 0x100, 0x10000, 0x1000000};
	const uint64_t high = AT + 5 - UINT64_C(0x100000000);

	(void)state;
	for (unsigned int k = 1; k < 5; k++) {
		struct arch_extent to = arch_x86_64.part(bytes, AT, k);
		uint8_t jump[ARCH_JUMP_MAX];

		assert_int_equal(to.size, sizes[k - 1]);
		assert_int_equal(to.start, high + (0xc083c789 & ~(to.size - 1)));
		for (uint64_t at = to.start; at < to.start + to.size; at += to.size / 2 + 1) {
			assert_int_equal(arch_x86_64.jump(AT, at, jump), 5);
			assert_memory_equal(jump + k, bytes + k, 5 - k);
		}
	}
}

static void a_nop_keeps_what_others_need(void **state)
{
	static const uint8_t five[] = {0x0f, 0x1f, 0x44, 0, 0}, odd[] = {0x66, 0x0f, 0x1f, 0x40, 0};
	static const uint8_t eight[] = {0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};

	(void)state;
	assert_int_equal(arch_x86_64.nop_fixed(five, 5, true), 2);
	assert_int_equal(arch_x86_64.nop_fixed(five, 5, false), 2);
	assert_int_equal(arch_x86_64.nop_fixed(odd, 5, false), 4);
	assert_int_equal(arch_x86_64.nop_fixed(eight, 8, true), 4);
	assert_int_equal(arch_x86_64.nop_fixed(eight, 8, false), 0);
	/* The kernel takes two nops of five as one of ten. */
	assert_int_equal(arch_x86_64.nop_fixed(eight, 10, false), 4);
}

/* ---- aarch64 ----------------------------------------------------------------------------- */

static void aarch64_knows_its_nop_and_its_breakpoints(void **state)
{
	static const uint8_t nop[] = {0x1f, 0x20, 0x03, 0xd5}, yield[] = {0x3f, 0x20, 0x03, 0xd5};
	static const uint8_t uprobe[] = {0xa0, 0x00, 0x20, 0xd4}, hlt[] = {0x00, 0x00, 0x40, 0xd4};
	static const uint8_t call[] = {0x10, 0x00, 0x00, 0x94};
	uint8_t out[4];

	(void)state;
	assert_int_equal(arch_aarch64.nop_length(nop, 4), 4);
	assert_int_equal(arch_aarch64.nop_length(nop, 3), 0);
	assert_int_equal(arch_aarch64.nop_length(yield, 4), 0);
	assert_true(arch_aarch64.is_breakpoint(uprobe));
	assert_false(arch_aarch64.is_breakpoint(hlt));
	assert_false(arch_aarch64.is_breakpoint(nop));
	assert_int_equal(arch_aarch64.jump_target(AT, call), 0);
	assert_int_equal(arch_aarch64.jump_target(AT, nop), 0);
	/* b .+8, b .-4; half an instruction away is nowhere. */
	assert_int_equal(arch_aarch64.jump(AT, AT + 8, out), 4);
	assert_memory_equal(out, ((const uint8_t[]){0x02, 0x00, 0x00, 0x14}), 4);
	assert_int_equal(arch_aarch64.jump(AT, AT - 4, out), 4);
	assert_memory_equal(out, ((const uint8_t[]){0xff, 0xff, 0xff, 0x17}), 4);
	assert_int_equal(arch_aarch64.jump(AT, AT + 6, out), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_fit_into_their_buffers),
		cmocka_unit_test(a_breakpoint_may_stand_before_what_stays),
		cmocka_unit_test(a_guard_is_known_by_all_its_bytes),
		cmocka_unit_test(what_is_filled_stops_whoever_comes),
		cmocka_unit_test(a_jump_leads_where_it_says),
		cmocka_unit_test(a_pun_leads_where_the_bytes_say),
		cmocka_unit_test(twins_share_their_bytes),
		cmocka_unit_test(a_part_of_a_jump_leads_near),
		cmocka_unit_test(a_nop_keeps_what_others_need),
		cmocka_unit_test(aarch64_knows_its_nop_and_its_breakpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
