/* SPDX-License-Identifier: MIT */
/*
 * The encoder of aarch64: words as an assembler writes them, what does not fit, and labels. What
 * such code does is shown by tests/unit/form, on aarch64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/aarch64/emit.h"
#include "arch/aarch64/encoding.h"

enum { WORDS = 64 };
#define AT UINT64_C(0x7f0000400000)

struct output {
	uint8_t bytes[WORDS * AARCH64_INSN_LENGTH];
	struct a64 e;
};

static struct a64 *start(struct output *o)
{
	memset(o, 0, sizeof(*o));
	o->e.out = o->bytes;
	o->e.room = sizeof(o->bytes);
	o->e.at = AT;
	return &o->e;
}

static void assert_words(const struct output *o, const uint32_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (aarch64_load(o->bytes + 4 * i) != words[i])
			fail_msg("instruction %zu: %#x, expected %#x", i,
				aarch64_load(o->bytes + 4 * i), words[i]);
	assert_int_equal(o->e.length, 4 * count);
}

#define EXPECT(o, ...)                                                                             \
	assert_words(o, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

static void registers(void **state)
{
	struct output o;
	struct a64 *e = start(&o);

	(void)state;
	a64_op(e, true, A64_ADD, 9, 10, 11);
	a64_op(e, false, A64_ADD, 9, 10, 11);
	a64_op(e, true, A64_SUB, 1, A64_ZERO, 2);
	a64_op(e, true, A64_SUBS, A64_ZERO, 3, 4);
	a64_move(e, 0, 30);
	a64_op(e, false, A64_ORN, 1, A64_ZERO, 2);
	a64_op(e, true, A64_EOR, 9, 9, 17);
	a64_op(e, false, A64_MUL, 9, 9, 10);
	a64_op(e, true, A64_UDIV, 16, 9, 10);
	a64_op(e, false, A64_SDIV, 9, 9, 10);
	a64_op(e, true, A64_LSLV, 9, 9, 10);
	a64_op(e, false, A64_LSRV, 9, 9, 10);
	a64_op(e, true, A64_ASRV, 9, 9, 10);
	a64_op(e, false, A64_MSUB | 9 << 10, 9, 16, 10);
	a64_op(e, true, A64_ADD | 3 << 10, 16, 12, 11);
	a64_op(e, true, A64_CLZ, 9, 10, 0);
	a64_bits(e, true, false, 9, 10, 64 - 63, 63 - 63);
	a64_bits(e, false, false, 9, 10, 31, 31);
	a64_bits(e, true, true, 9, 10, 8, 8 + 8 - 1);
	a64_bits(e, true, true, 9, 10, 0, 32 - 1);
	a64_bits(e, true, false, 9, 10, 0, 16 - 1);
	a64_one(e, A64_GET_THREAD, 16);
	a64_op(e, false, 8 == 8 ? A64_FMOV : A64_FMOV_HALF, 9, 31, 0);
	a64_op(e, false, 4 == 8 ? A64_FMOV : A64_FMOV_HALF, 9, 0, 0);
	EXPECT(&o, 0x8b0b0149 /* add x9, x10, x11 */, 0x0b0b0149 /* add w9, w10, w11 */,
		0xcb0203e1 /* neg x1, x2 */, 0xeb04007f /* cmp x3, x4 */,
		0xaa1e03e0 /* mov x0, x30 */, 0x2a2203e1 /* mvn w1, w2 */,
		0xca110129 /* eor x9, x9, x17 */, 0x1b0a7d29 /* mul w9, w9, w10 */,
		0x9aca0930 /* udiv x16, x9, x10 */, 0x1aca0d29 /* sdiv w9, w9, w10 */,
		0x9aca2129 /* lsl x9, x9, x10 */, 0x1aca2529 /* lsr w9, w9, w10 */,
		0x9aca2929 /* asr x9, x9, x10 */, 0x1b0aa609 /* msub w9, w16, w10, w9 */,
		0x8b0b0d90 /* add x16, x12, x11, lsl 3 */, 0xdac01149 /* clz x9, x10 */,
		0xd3410149 /* lsl x9, x10, 63 */, 0x531f7d49 /* lsr w9, w10, 31 */,
		0x93483d49 /* sbfx x9, x10, 8, 8 */, 0x93407d49 /* sxtw x9, w10 */,
		0xd3403d49 /* ubfx x9, x10, 0, 16 */, 0xd53bd050 /* mrs x16, tpidr_el0 */,
		0x9e6603e9 /* fmov x9, d31 */, 0x1e260009 /* fmov w9, s0 */);
}

static void numbers(void **state)
{
	struct output o;
	struct a64 *e = start(&o);

	(void)state;
	a64_const(e, 1, 0xffff0000);
	a64_const(e, 1, UINT64_MAX);
	a64_const(e, 1, 0);
	a64_const(e, 9, UINT64_C(0xffffffff1234ffff));
	a64_const(e, 9, UINT64_C(0x8000000000001234));
	assert_true(a64_op_const(e, true, A64_ADDS, A64_ZERO, 5, 4095));
	assert_true(a64_op_const(e, false, A64_SUBS, A64_ZERO, 5, 4096));
	assert_true(a64_op_const(e, true, A64_ADD, 19, A64_SP, 0));
	assert_true(a64_op_const(e, true, A64_SUB, A64_SP, A64_SP, 4080));
	assert_false(a64_op_const(e, true, A64_ADD, 9, 9, 4097));
	assert_false(a64_op_const(e, true, A64_ADD, 9, 9, 1 << 24));
	assert_true(a64_op_mask(e, false, A64_AND, 9, 9, 0xff00ff00));
	assert_true(a64_op_mask(e, true, A64_EOR, 9, 9, UINT64_C(1) << 63));
	assert_true(a64_op_mask(e, true, A64_ORR, 9, 9, UINT64_C(0x5555555555555555)));
	assert_true(a64_op_mask(e, true, A64_AND, 9, 9, ~UINT64_C(15)));
	assert_false(a64_op_mask(e, true, A64_AND, 9, 9, 0));
	assert_false(a64_op_mask(e, true, A64_AND, 9, 9, UINT64_MAX));
	assert_false(a64_op_mask(e, false, A64_AND, 9, 9, UINT32_MAX));
	assert_false(a64_op_mask(e, true, A64_AND, 9, 9, 5));
	EXPECT(&o, 0xd2bfffe1 /* mov x1, 0xffff0000 */, 0x92800001 /* mov x1, -1 */,
		0xd2800001 /* mov x1, 0 */, 0x92bdb969 /* movn x9, 0xedcb, lsl 16 */,
		0xd2824689 /* mov x9, 0x1234 */, 0xf2f00009 /* movk x9, 0x8000, lsl 48 */,
		0xb13ffcbf /* cmn x5, 4095 */, 0x714004bf /* cmp w5, 1, lsl 12 */,
		0x910003f3 /* mov x19, sp */, 0xd13fc3ff /* sub sp, sp, 4080 */,
		0x12089d29 /* and w9, w9, 0xff00ff00 */, 0xd2410129 /* eor x9, x9, 1 << 63 */,
		0xb200f129 /* orr x9, x9, 0x5555... */, 0x927ced29 /* and x9, x9, -16 */);
}

static void memory(void **state)
{
	struct output o;
	struct a64 *e = start(&o);

	(void)state;
	assert_true(a64_memory(e, A64_LOAD, 9, A64_SP, 32760, 8));
	assert_false(a64_memory(e, A64_LOAD, 9, A64_SP, 32768, 8));
	assert_true(a64_memory(e, A64_LOAD, 9, 10, 16380, 4));
	assert_true(a64_memory(e, A64_LOAD_SIGNED, 9, 10, 4095, 1));
	assert_false(a64_memory(e, A64_LOAD_SIGNED, 9, 10, 4096, 1));
	assert_true(a64_memory(e, A64_LOAD_SIGNED, 9, 10, -256, 4));
	assert_false(a64_memory(e, A64_LOAD_SIGNED, 9, 10, -257, 4));
	assert_true(a64_memory(e, A64_LOAD, 9, 10, 255, 2));
	assert_false(a64_memory(e, A64_LOAD, 9, 10, 257, 2));
	assert_true(a64_memory(e, A64_STORE, 9, A64_SP, 8, 8));
	assert_true(a64_memory(e, A64_STORE, 9, 10, -8, 8));
	a64_indexed(e, A64_LOAD, 9, 12, 11, 3, 8);
	a64_indexed(e, A64_LOAD, 9, 12, 11, 0, 1);
	a64_indexed(e, A64_STORE, 9, 12, 17, 0, 8);
	a64_atomic(e, A64_LOAD_EXCLUSIVE, 0, 17, 16, 8);
	a64_atomic(e, A64_STORE_EXCLUSIVE, 15, 17, 16, 8);
	EXPECT(&o, 0xf97fffe9 /* ldr x9, [sp, 32760] */, 0xb97ffd49 /* ldr w9, [x10, 16380] */,
		0x39bffd49 /* ldrsb x9, [x10, 4095] */, 0xb8900149 /* ldursw x9, [x10, -256] */,
		0x784ff149 /* ldurh w9, [x10, 255] */, 0xf90007e9 /* str x9, [sp, 8] */,
		0xf81f8149 /* stur x9, [x10, -8] */, 0xf86b7989 /* ldr x9, [x12, x11, lsl 3] */,
		0x386b6989 /* ldrb w9, [x12, x11] */, 0xf8316989 /* str x9, [x12, x17] */,
		0xc85ffe11 /* ldaxr x17, [x16] */, 0xc80ffe11 /* stlxr w15, x17, [x16] */);
	assert_true(a64_finish(e));
	a64_indexed(e, A64_LOAD, 9, 12, 11, 2, 8); /* by its size, or not at all */
	assert_false(a64_finish(e));
}

/* What threads share: in order, and of 4 or 8 bytes; and products of 128 bits. */
static void shared(void **state)
{
	struct output o;
	struct a64 *e = start(&o);

	(void)state;
	a64_atomic(e, A64_CAS, 15, 2, 16, 8);
	a64_atomic(e, A64_CAS, 15, 2, 16, 4);
	a64_atomic(e, A64_SWAP, 2, 2, 16, 8);
	a64_atomic(e, A64_SWAP, 2, 3, 16, 4);
	a64_atomic(e, A64_ADD_TO, 2, A64_ZERO, 16, 8);
	a64_atomic(e, A64_ADD_TO, 2, A64_ZERO, 16, 4);
	a64_atomic(e, A64_FETCH_ADD, 2, 3, 16, 8);
	a64_atomic(e, A64_FETCH_ADD, 2, 3, 16, 4);
	a64_atomic(e, A64_LOAD_EXCLUSIVE, 0, 17, 16, 4);
	a64_atomic(e, A64_STORE_EXCLUSIVE, 15, 17, 16, 4);
	a64_atomic(e, A64_LOAD_ACQUIRE, 0, 2, 16, 8);
	a64_atomic(e, A64_LOAD_ACQUIRE, 0, 2, 16, 4);
	a64_atomic(e, A64_STORE_RELEASE, 0, 2, 16, 8);
	a64_atomic(e, A64_STORE_RELEASE, 0, A64_ZERO, 16, 4);
	a64_op(e, true, A64_UMULH, 16, 9, 10);
	a64_op(e, true, A64_EXTR | 32 << 10, 9, 16, 9);
	a64_op(e, true, A64_EXTR | 1 << 10, 9, 16, 9);
	EXPECT(&o, 0xc8effe02 /* casal x15, x2, [x16] */, 0x88effe02 /* casal w15, w2, [x16] */,
		0xf8e28202 /* swpal x2, x2, [x16] */, 0xb8e28203 /* swpal w2, w3, [x16] */,
		0xf862021f /* staddl x2, [x16] */, 0xb862021f /* staddl w2, [x16] */,
		0xf8e20203 /* ldaddal x2, x3, [x16] */, 0xb8e20203 /* ldaddal w2, w3, [x16] */,
		0x885ffe11 /* ldaxr w17, [x16] */, 0x880ffe11 /* stlxr w15, w17, [x16] */,
		0xc8dffe02 /* ldar x2, [x16] */, 0x88dffe02 /* ldar w2, [x16] */,
		0xc89ffe02 /* stlr x2, [x16] */, 0x889ffe1f /* stlr wzr, [x16] */,
		0x9bca7d30 /* umulh x16, x9, x10 */, 0x93c98209 /* extr x9, x16, x9, 32 */,
		0x93c90609 /* extr x9, x16, x9, 1 */);
	assert_true(a64_finish(e));
}

static void addresses(void **state)
{
	struct output o;
	struct a64 *e = start(&o);

	(void)state;
	a64_address(e, 9, AT + 0x1008);
	a64_address(e, 9, AT - 0x1000);
	a64_address(e, 9, UINT64_C(0x12340000));
	EXPECT(&o, 0xb0000009 /* adrp */, 0x91002129 /* add x9, x9, 8 */, 0xf0ffffe9 /* adrp */,
		0xd2a24689 /* mov x9, 0x12340000 */);
}

static void labels(void **state)
{
	struct output o;
	struct a64 *e = start(&o);
	int back = a64_label(e), forth = a64_label(e);

	(void)state;
	a64_place(e, back);
	a64_branch(e, A64_B, forth);
	a64_branch(e, A64_B_IF | A64_HI, back);
	a64_jump_zero(e, false, true, 9, back);
	a64_jump_zero(e, true, false, 9, forth);
	a64_branch(e, A64_ADR | 9, back);
	assert_false(a64_finish(e)); /* one has no place */
	a64_place(e, forth);
	assert_true(a64_finish(e));
	EXPECT(&o, 0x14000005 /* b */, 0x54ffffe8 /* b.hi */, 0x34ffffc9 /* cbz w9 */,
		0xb5000049 /* cbnz x9 */, 0x10ffff89 /* adr x9 */);
	e->room = 12;
	assert_false(a64_finish(e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers),
		cmocka_unit_test(numbers),
		cmocka_unit_test(memory),
		cmocka_unit_test(shared),
		cmocka_unit_test(addresses),
		cmocka_unit_test(labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
