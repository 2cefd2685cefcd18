/* SPDX-License-Identifier: MIT */
/* What the memory at a planned site may hold: breakpoints of others, and what the kernel writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "libprobe/patch/patch.h"

/* A plan for code, with `offset` bytes that stay and 5 that are moved. */
static struct plan plan_for(const uint8_t *code, size_t length, uint8_t offset)
{
	struct plan plan = {.byte_count = length,
		.short_nop = true,
		.behind = {.offset = offset, .length = 5},
		.pun = {.relies = 5}};

	memcpy(plan.bytes, code, length);
	return plan;
}

static bool holds(const struct plan *plan, const struct plan_ops *chosen, size_t at, uint8_t byte)
{
	uint8_t found[PLAN_BYTES];

	memcpy(found, plan->bytes, sizeof(found));
	found[at] = byte;
	return plan_holds(&arch_x86_64, plan, chosen, found);
}

static void test_breakpoints(void **state)
{
	static const uint8_t nop[] = {0x90, 0x48, 0x8d, 0x40, 1, 0x98, 0xc3};
	static const uint8_t both[] = {
		0x90, 0x0f, 0x1f, 0x44, 0, 0, 0x48, 0x8d, 0x40, 1, 0x98, 0xc3};
	static const uint8_t entry[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 0x3b, 0, 0, 0, 0x0f, 5};
	struct plan plan = plan_for(nop, sizeof(nop), 1);

	(void)state;
	/* Somebody's breakpoint is no difference; anything else at a short nop is. */
	assert_int_equal(plan_needs(&plan, &plan_behind), 6);
	assert_true(holds(&plan, &plan_behind, 0, 0x90));
	assert_true(holds(&plan, &plan_behind, 0, 0xcc));
	assert_false(holds(&plan, &plan_behind, 0, 0xe9));
	for (size_t i = 1; i <= 5; i++)
		assert_false(holds(&plan, &plan_behind, i, 0xcc));
	assert_true(holds(&plan, &plan_behind, 6, 0xcc));
	assert_false(holds(&plan, &plan_pun, 0, 0xcc));

	/* The bytes of a long nop are the kernel's. */
	plan = plan_for(both, sizeof(both), 6);
	plan.nop.offset = 1;
	plan.nop.relies = 5;
	assert_true(holds(&plan, &plan_behind, 0, 0xcc));
	assert_false(holds(&plan, &plan_behind, 0, 0xeb));
	assert_true(holds(&plan, &plan_behind, 1, 0xe8));
	assert_true(holds(&plan, &plan_behind, 5, 0x12));
	assert_false(holds(&plan, &plan_behind, 6, 0xcc));
	assert_true(holds(&plan, &plan_nop, 0, 0xcc));
	assert_false(holds(&plan, &plan_nop, 1, 0xe8));

	/* A function's first instruction. */
	plan = plan_for(entry, sizeof(entry), 4);
	assert_true(holds(&plan, &plan_behind, 0, 0xcc));
	assert_false(holds(&plan, &plan_behind, 1, 0xcc));
	assert_false(holds(&plan, &plan_behind, 4, 0xcc));
}

/* Where every nop is as long as a jump, the kernel writes breakpoints over it and nothing else. */
static void test_nops_that_hold_a_jump(void **state)
{
	static const uint8_t code[] = {0x1f, 0x20, 0x03, 0xd5, 0xe0, 0x03, 0x15, 0xaa};
	static const uint8_t brk[] = {0xa0, 0x00, 0x20, 0xd4}, jump[] = {1, 0, 0, 0x14};
	struct plan plan = plan_for(code, sizeof(code), 4);
	uint8_t found[PLAN_BYTES];

	(void)state;
	plan.short_nop = false;
	plan.behind.length = plan.nop.relies = 4;
	memcpy(found, plan.bytes, sizeof(found));
	assert_true(plan_holds(&arch_aarch64, &plan, &plan_behind, found));
	assert_true(plan_holds(&arch_aarch64, &plan, &plan_nop, found));
	memcpy(found, brk, sizeof(brk));
	assert_true(plan_holds(&arch_aarch64, &plan, &plan_behind, found));
	assert_false(plan_holds(&arch_aarch64, &plan, &plan_nop, found));
	memcpy(found, jump, sizeof(jump));
	assert_false(plan_holds(&arch_aarch64, &plan, &plan_behind, found));
	memcpy(found, plan.bytes, sizeof(found));
	memcpy(found + 4, brk, sizeof(brk));
	assert_false(plan_holds(&arch_aarch64, &plan, &plan_behind, found));
	assert_true(plan_holds(&arch_aarch64, &plan, &plan_nop, found));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_breakpoints),
		cmocka_unit_test(test_nops_that_hold_a_jump),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
