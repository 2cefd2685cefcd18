/* SPDX-License-Identifier: MIT */
/*
 * Instructions that change only general registers, arithmetic flags and memory. The list has the
 * opcodes that compilers use; any other may do anything. The legacy maps of one and two bytes are
 * enough; VEX, EVEX and XOP begin with bytes that are not on the list (c4, c5, 62, 8f).
 *
 * A repeat or operand-size prefix selects vector instructions only for opcodes that are not on the
 * list; for those on it, it changes the operand's size, repeats, is ignored, or makes another
 * general instruction (popcnt, tzcnt, lzcnt, pause, endbr64).
 *
 * Source: Intel SDM vol. 2, appendix A.
 */
#include "arch/x86/decode/general.h"
#include "arch/x86/decode/insn.h"

struct range {
	uint8_t first, last;
};

/* clang-format off */
static const struct range one_byte[] = {
	{0x50, 0x5f},	/* push, pop */
	{0x63, 0x63},	/* movsxd */
	{0x68, 0x6b},	/* push, imul */
	{0x70, 0x7f},	/* jcc */
	{0x80, 0x81}, {0x83, 0x83},	/* add ... cmp */
	{0x84, 0x8b}, {0x8d, 0x8d},	/* test, xchg, mov, lea */
	{0x90, 0x99},	/* nop, xchg, cdqe, cqo */
	{0xa4, 0xaf},	/* movs, cmps, test, stos, lods, scas */
	{0xb0, 0xbf},	/* mov */
	{0xc0, 0xc3},	/* shifts, ret */
	{0xc6, 0xc7},	/* mov; see below */
	{0xc9, 0xc9},	/* leave */
	{0xd0, 0xd3},	/* shifts */
	{0xe0, 0xe3},	/* loop, jrcxz */
	{0xe8, 0xe9}, {0xeb, 0xeb},	/* call, jmp */
	{0xf6, 0xf7},	/* test, not, neg, mul, div */
	{0xfe, 0xff},	/* inc, dec, push; see below */
};
static const struct range two_bytes[] = {
	{0x0b, 0x0b},	/* ud2 */
	{0x1e, 0x1f},	/* endbr64, nop */
	{0x31, 0x31},	/* rdtsc */
	{0x40, 0x4f},	/* cmovcc */
	{0x80, 0x9f},	/* jcc, setcc */
	{0xa3, 0xa5},	/* bt, shld */
	{0xab, 0xad},	/* bts, shrd */
	{0xaf, 0xb1},	/* imul, cmpxchg */
	{0xb3, 0xb3},	/* btr */
	{0xb6, 0xb7},	/* movzx */
	{0xba, 0xbf},	/* bt..., bsf, bsr, movsx */
	{0xc0, 0xc1},	/* xadd */
	{0xc8, 0xcf},	/* bswap */
};
/* clang-format on */

static bool is_listed(const struct range *ranges, size_t count, uint8_t opcode)
{
	for (size_t i = 0; i < count; i++)
		if (opcode >= ranges[i].first && opcode <= ranges[i].last)
			return true;
	return false;
}

bool x86_64_is_general(const uint8_t *bytes, size_t length)
{
	struct x86_64_prefixes prefixes = x86_64_prefixes(bytes, length);
	const uint8_t *at = bytes + prefixes.length;
	size_t left = length - prefixes.length;
	uint8_t operation = left > 1 ? at[1] >> 3 & 7 : 0;

	if (!left)
		return false;
	if (at[0] < 0x40 && (at[0] & 7) < 6) /* add, or, adc, sbb, and, sub, xor, cmp */
		return true;
	if (at[0] == 0x0f)
		return left > 1 &&
		       (is_listed(two_bytes, sizeof(two_bytes) / sizeof(*two_bytes), at[1]) ||
			       (at[1] == 0xb8 && prefixes.repeat == 0xf3)); /* popcnt */
	if (at[0] == 0xc6 || at[0] == 0xc7)
		return left > 1 && operation == 0; /* not xabort, xbegin */
	if (at[0] == 0xfe)
		return left > 1 && operation < 2;
	if (at[0] == 0xff) /* calls and jumps by a pointer lead anywhere */
		return left > 1 && (operation < 2 || operation == 6);
	return is_listed(one_byte, sizeof(one_byte) / sizeof(*one_byte), at[0]);
}
