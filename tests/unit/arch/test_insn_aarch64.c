/* SPDX-License-Identifier: MIT */
/*
 * Decoding aarch64: flows and targets, what is refused, and what move() says of it. What moved code
 * does is shown by test_move_aarch64.c, and what it looks like by tests/golden.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/aarch64/encoding.h"
#include "arch/arch.h"

#define AT UINT64_C(0x7f0000400000)
enum { NEAR = 1 << 21, NOWHERE = 0 };

static enum arch_move_status move(uint32_t insn, uint64_t to, struct arch_moved *ret)
{
	uint8_t bytes[AARCH64_INSN_LENGTH];

	aarch64_store(bytes, insn);
	return arch_aarch64.move(bytes, sizeof(bytes), AT, to, sizeof(bytes), ret);
}

static void flows(void **state)
{
	/* clang-format off */
	static const struct {
		uint32_t insn;
		enum arch_flow flow;
		int64_t distance; /* 0: no target */
	} cases[] = {
		{0xd503201f, ARCH_FLOW_NONE, 0},	    /* nop */
		{0x8b020c20, ARCH_FLOW_NONE, 0},	    /* add x0, x1, x2, lsl 3 */
		{0x10000003, ARCH_FLOW_NONE, 0},	    /* adr x3, . */
		{0x58000001, ARCH_FLOW_NONE, 0},	    /* ldr x1, . */
		{0xd4000001, ARCH_FLOW_NONE, 0},	    /* svc 0 */
		{0xd503245f, ARCH_FLOW_NONE, 0},	    /* bti c */
		{0xd53bd040, ARCH_FLOW_NONE, 0},	    /* mrs x0, tpidr_el0 */
		{0x14000001, ARCH_FLOW_JUMP, 4},	    /* b */
		{0x17ffffff, ARCH_FLOW_JUMP, -4},
		{0x15ffffff, ARCH_FLOW_JUMP, (1 << 27) - 4},
		{0x16000000, ARCH_FLOW_JUMP, -(1 << 27)},
		{0x94000002, ARCH_FLOW_CALL, 8},	    /* bl */
		{0x54000040, ARCH_FLOW_BRANCH, 8},	    /* b.eq */
		{0x54800010, ARCH_FLOW_BRANCH, -(1 << 20)}, /* bc.eq */
		{0x547fffee, ARCH_FLOW_BRANCH, (1 << 20) - 4}, /* b.al */
		{0x34000047, ARCH_FLOW_BRANCH, 8},	    /* cbz w7 */
		{0xb5ffffe7, ARCH_FLOW_BRANCH, -4},	    /* cbnz x7 */
		{0xb60bffe7, ARCH_FLOW_BRANCH, 0x7ffc}, /* tbz x7, 33 */
		{0x37040007, ARCH_FLOW_BRANCH, -(1 << 15)}, /* tbnz w7, 0 */
		{0xd61f0100, ARCH_FLOW_INDIRECT_JUMP, 0},   /* br x8 */
		{0xd61f091f, ARCH_FLOW_INDIRECT_JUMP, 0},   /* braaz x8 */
		{0xd71f0909, ARCH_FLOW_INDIRECT_JUMP, 0},   /* braa x8, x9 */
		{0xd63f0100, ARCH_FLOW_INDIRECT_CALL, 0},   /* blr x8 */
		{0xd63f0d1f, ARCH_FLOW_INDIRECT_CALL, 0},   /* blrabz x8 */
		{0xd73f0d1f, ARCH_FLOW_INDIRECT_CALL, 0},   /* blrab x8, sp */
		{0xd65f03c0, ARCH_FLOW_RETURN, 0},	    /* ret */
		{0xd65f0bff, ARCH_FLOW_RETURN, 0},	    /* retaa */
		{0xd4200000, ARCH_FLOW_STOP, 0},	    /* brk 0 */
		{0x00000000, ARCH_FLOW_STOP, 0},	    /* udf 0 */
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t bytes[AARCH64_INSN_LENGTH];
		struct arch_insn insn;

		aarch64_store(bytes, cases[i].insn);
		assert_true(arch_aarch64.decode(bytes, sizeof(bytes), AT, &insn));
		assert_int_equal(insn.length, 4);
		if (insn.flow != cases[i].flow)
			fail_msg("%08x: flow %d", cases[i].insn, insn.flow);
		if (insn.target != (cases[i].distance ? AT + (uint64_t)cases[i].distance : 0))
			fail_msg("%08x: to %#lx", cases[i].insn, (long)insn.target);
	}
}

/* What may know its address in a way that is not known here. */
static void unknown_ones_are_refused(void **state)
{
	static const uint32_t insns[] = {
		0x74c00002, /* cbeq w2, w0: FEAT_CMPBR */
		0x75000002, /* cbgt w2, 0 */
		0x5500001f, /* retaasppc */
		0xd65f0be1, /* retaasppcr x1 */
		0xf380001f, /* autiasppc */
		0xdac1a3fe, /* paciasppc */
		0xdac1903e, /* autiasppcr x1 */
		0xdc000000, /* a literal of no size */
		0xd69f03e0, /* eret */
		0xd5800000, /* no group */
		0x02000000,
		0x06000000,
		0x20000000,
		0x00010000,
		0x80800000, /* SME */
		0xffffffff & ~(UINT32_C(0xe) << 25),
	};
	struct arch_moved moved;

	(void)state;
	for (size_t i = 0; i < sizeof(insns) / sizeof(*insns); i++) {
		uint8_t bytes[AARCH64_INSN_LENGTH];
		struct arch_insn insn;

		aarch64_store(bytes, insns[i]);
		if (arch_aarch64.decode(bytes, sizeof(bytes), AT, &insn))
			fail_msg("%08x: decoded", insns[i]);
		assert_int_equal(move(insns[i], AT + NEAR, &moved), ARCH_MOVE_UNDECODABLE);
	}
}

static void fixed_ones_stay(void **state)
{
	static const uint32_t insns[] = {
		0xd4000001,					/* svc 0 */
		0xd4200000,					/* brk 0 */
		0xd4400000,					/* hlt 0 */
		0xd503241f, 0xd503245f, 0xd503249f, 0xd50324df, /* bti, c, j, jc */
		0xd503233f, 0xd503237f,				/* paciasp, pacibsp */
		0xd50324ff,					/* pacm */
		0x19000440, 0x19400440, 0x19800440,		/* cpyf* */
		0x1d000440, 0x1dc20440,				/* cpy*, set* */
		0x88007c01, 0xc8207c02, 0x0800fc01,		/* stxr, stxp, stlxrb */
		0xd5233060,					/* tstart x0 */
		0xd63f03c0, 0xd73f0bc1, 0xd73f093e, /* blr x30; blraa x30, x1; blraa x9, x30 */
	};
	struct arch_moved moved;

	(void)state;
	for (size_t i = 0; i < sizeof(insns) / sizeof(*insns); i++)
		if (move(insns[i], AT + NEAR, &moved) != ARCH_MOVE_UNSUPPORTED)
			fail_msg("%08x: not refused", insns[i]);
	/* ldr xzr, ldr wzr, ldrsw xzr of a literal that is far away */
	for (uint32_t opc = 0; opc < 3; opc++)
		assert_int_equal(
			move(0x1800101f | opc << 30, AT + NEAR, &moved), ARCH_MOVE_UNSUPPORTED);
}

static void copies_reach_as_far_as_a_jump(void **state)
{
	const uint64_t reach = arch_aarch64.jump_reach;
	struct arch_moved moved;

	(void)state;
	/* b, bl, and cbz, whose copy needs a b at its second place; from - to = reach */
	assert_int_equal(move(0x14000000, AT - reach + 4, &moved), ARCH_MOVE_OK);
	assert_int_equal(move(0x14000000, AT - reach, &moved), ARCH_MOVE_OUT_OF_REACH);
	assert_int_equal(move(0x14000000, AT + reach, &moved), ARCH_MOVE_OK);
	assert_int_equal(move(0x14000000, AT + reach + 4, &moved), ARCH_MOVE_OUT_OF_REACH);
	assert_int_equal(move(0x94000000, AT + reach, &moved), ARCH_MOVE_OUT_OF_REACH);
	assert_int_equal(move(0xb4000000, AT + reach, &moved), ARCH_MOVE_OUT_OF_REACH);
	assert_int_equal(move(0xb4000000, AT + reach - 4, &moved), ARCH_MOVE_OK);
	/* adr and ldr reach 4 GiB. */
	assert_int_equal(move(0x10000003, AT + (UINT64_C(1) << 32), &moved), ARCH_MOVE_OK);
	assert_int_equal(
		move(0x10000003, AT + (UINT64_C(1) << 33), &moved), ARCH_MOVE_OUT_OF_REACH);
	assert_int_equal(
		move(0x90000003, AT + (UINT64_C(1) << 33), &moved), ARCH_MOVE_OUT_OF_REACH);
	assert_int_equal(
		move(0x5c000043, AT - (UINT64_C(1) << 33), &moved), ARCH_MOVE_OUT_OF_REACH);
	/* Plain ones may go anywhere. */
	assert_int_equal(move(0x8b020c20, 0, &moved), ARCH_MOVE_OK);
}

/* More than one instruction, as the interface allows. */
static void several_are_moved(void **state)
{
	/* add; cbz +0x100; bl +0x200; nop */
	static const uint32_t insns[] = {0x8b020c20, 0xb4000800, 0x94000080, 0xd503201f};
	uint8_t bytes[sizeof(insns)];
	struct arch_moved moved;

	(void)state;
	for (int i = 0; i < 4; i++)
		aarch64_store(bytes + 4 * i, insns[i]);
	assert_int_equal(arch_aarch64.move(bytes, 12, AT, AT + NEAR, 12, &moved), ARCH_MOVE_OK);
	assert_int_equal(moved.count, 3);
	assert_int_equal(moved.length, 12);
	assert_false(moved.falls_through);
	assert_int_equal(moved.code_length, 4 + 8 + 12);
	assert_memory_equal(moved.from_offset, ((uint8_t[]){0, 4, 8}), 3);
	assert_memory_equal(moved.to_offset, ((uint8_t[]){0, 4, 12}), 3);
	assert_int_equal(arch_aarch64.move(bytes, 8, AT, AT + NEAR, 6, &moved), ARCH_MOVE_OK);
	assert_true(moved.falls_through);
	assert_int_equal(moved.length, 8);
	assert_int_equal(
		arch_aarch64.move(bytes, 16, AT, AT + NEAR, 16, &moved), ARCH_MOVE_CALL_INSIDE);
	assert_int_equal(
		arch_aarch64.move(bytes, 11, AT, AT + NEAR, 12, &moved), ARCH_MOVE_TRUNCATED);
	assert_int_equal(
		arch_aarch64.move(bytes, 0, AT, AT + NEAR, 4, &moved), ARCH_MOVE_TRUNCATED);
	aarch64_store(bytes, 0xd65f03c0); /* ret */
	assert_int_equal(
		arch_aarch64.move(bytes, 8, AT, AT + NEAR, 8, &moved), ARCH_MOVE_FLOW_INSIDE);
	/* b . +4 leads into what is moved; to its start may be led. */
	aarch64_store(bytes, 0xb4000020);
	assert_int_equal(
		arch_aarch64.move(bytes, 8, AT, AT + NEAR, 8, &moved), ARCH_MOVE_UNSUPPORTED);
	aarch64_store(bytes, 0xb4000000);
	assert_int_equal(arch_aarch64.move(bytes, 8, AT, AT + NEAR, 8, &moved), ARCH_MOVE_OK);
}

static void hostile_bytes(void **state)
{
	uint8_t bytes[64];
	uint64_t random = 1;

	(void)state;
	for (int i = 0; i < 300000; i++) {
		size_t length = (size_t)(random >> 40) % sizeof(bytes), need;
		struct arch_moved moved;
		struct arch_insn insn;

		for (size_t k = 0; k < sizeof(bytes); k++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
			bytes[k] = (uint8_t)(random >> 33);
		}
		need = 1 + (size_t)(random >> 50) % 40;
		arch_aarch64.decode(bytes, length, random & ~UINT64_C(3), &insn);
		if (arch_aarch64.move(bytes, length, random & ~UINT64_C(3),
			    random >> 7 & ~UINT64_C(3), need, &moved) != ARCH_MOVE_OK)
			continue;
		assert_in_range(moved.length, need, need + 3);
		assert_in_range(moved.code_length, moved.length, sizeof(moved.code));
		assert_int_equal(moved.count, moved.length / 4);
	}
	assert_false(arch_aarch64.decode(bytes, 3, AT, &(struct arch_insn){0}));
	assert_false(arch_aarch64.decode(bytes, 4, AT + 2, &(struct arch_insn){0}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flows),
		cmocka_unit_test(unknown_ones_are_refused),
		cmocka_unit_test(fixed_ones_stay),
		cmocka_unit_test(copies_reach_as_far_as_a_jump),
		cmocka_unit_test(several_are_moved),
		cmocka_unit_test(hostile_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
