/* SPDX-License-Identifier: MIT */
/*
 * Subroutines of a stub that measure what a pointer points to.
 *
 * The end of a string is searched in aligned words, which never cross a page: a byte of w is
 * zero where (w - 0x01..01) & ~w & 0x80..80 has a bit, and the lowest such bit is always right
 * (Lamport, "Multiple byte processing with full-word instructions", CACM 18:8, 1975).
 *
 * Bytes whose length another argument states are not read before they are copied; only their
 * pages are checked.
 */
#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/x86/emit.h"
#include "arch/x86/stub/plan.h"

/*
 * The subroutine that measures the string at %r8 up to %r9 (exclusive): %rax = its length and
 * the flag bits, as in the record.
 *
 *	rsi	the word looked at, aligned
 *	rdx	words below it can be read
 *	r9	the first byte that is of no interest
 *	rdi r10	the constants of the search
 */
void emit_measure_subroutine(struct emit *e, const struct stub_plan *p)
{
	int page = emit_label(e), word = emit_label(e), test = emit_label(e);
	int found = emit_label(e), cut = emit_label(e), fault = emit_label(e);
	int null = emit_label(e);

	emit_place(e, p->measure);
	emit_reg(e, true, OP_ADD, R9, R8);
	emit_reg(e, true, OP_MOV_LOAD, RSI, R8);
	emit_imm(e, true, IMM_AND, RSI, -8);
	emit_place(e, page);
	emit_check(e, p, 1);
	emit_jump_label(e, CC_NE, fault);
	emit_mem(e, true, OP_LEA, RDX, mem_at(RSI, PAGE_BYTES));
	emit_imm(e, true, IMM_AND, RDX, -PAGE_BYTES);

	emit_const(e, RDI, UINT64_C(0) - UINT64_C(0x0101010101010101));
	emit_const(e, R10, UINT64_C(0x8080808080808080));
	emit_place(e, word);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RSI, 0));
	emit_reg(e, true, OP_CMP, RSI, R8);
	emit_jump_label(e, CC_AE, test);
	/* the first word: bytes before the string count as nonzero */
	emit_mem(e, false, OP_LEA, RCX,
		(struct emit_mem){.base = REG_NONE, .index = R8, .scale = 8});
	emit_const(e, R11, UINT64_MAX);
	emit_bytes(e, "\x49\xd3\xe3\x49\xf7\xd3", 6); /* shl %cl,%r11; not %r11 */
	emit_reg(e, true, OP_OR, RAX, R11);
	emit_place(e, test);
	emit_mem(e, true, OP_LEA, R11, mem_indexed(RAX, RDI, 0));
	emit_bytes(e, "\x48\xf7\xd0", 3); /* not %rax */
	emit_reg(e, true, OP_AND, RAX, R11);
	emit_reg(e, true, OP_AND, RAX, R10);
	emit_jump_label(e, CC_NE, found);
	emit_imm(e, true, IMM_ADD, RSI, 8);
	emit_reg(e, true, OP_CMP, RSI, R9);
	emit_jump_label(e, CC_AE, cut);
	emit_reg(e, true, OP_CMP, RSI, RDX);
	emit_jump_label(e, CC_B, word);
	emit_jump_label(e, -1, page);

	emit_place(e, found); /* by its bit 7: shifted, the byte's number */
	emit_reg(e, true, OP_BSF, RAX, RAX);
	emit_shift(e, false, false, RAX, 3);
	emit_reg(e, true, OP_ADD, RAX, RSI);
	emit_reg(e, true, OP_CMP, RAX, R9);
	emit_jump_label(e, CC_AE, cut);
	emit_reg(e, true, OP_SUB, RAX, R8);
	emit_u8(e, 0xc3);

	emit_place(e, fault); /* show what came before it, if anything */
	emit_reg(e, true, OP_CMP, RSI, R8);
	emit_jump_label(e, CC_BE, null);
	emit_mem(e, true, OP_LEA, R9, mem_at(RSI, 1));
	emit_place(e, cut);
	emit_const(e, RAX, (UINT64_C(1) << RING_STRING_TRUNCATED_BIT) - 1);
	emit_reg(e, true, OP_ADD, RAX, R9);
	emit_reg(e, true, OP_SUB, RAX, R8);
	emit_u8(e, 0xc3);
	emit_place(e, null);
	emit_const(e, RAX, UINT64_C(1) << RING_STRING_NULL_BIT);
	emit_u8(e, 0xc3);
}

/*
 * The subroutine that checks the pages of [%r8, %r9): %rax = the number of readable bytes and
 * the flag bits, as in the record.
 */
void emit_extent_subroutine(struct emit *e, const struct stub_plan *p)
{
	int page = emit_label(e), all = emit_label(e), fault = emit_label(e);
	int null = emit_label(e);

	emit_place(e, p->extent);
	emit_reg(e, true, OP_CMP, R8, R9);
	emit_jump_label(e, CC_E, all);
	emit_reg(e, true, OP_MOV_LOAD, RSI, R8);
	emit_place(e, page);
	emit_check(e, p, 1);
	emit_jump_label(e, CC_NE, fault);
	emit_imm(e, true, IMM_ADD, RSI, PAGE_BYTES);
	emit_imm(e, true, IMM_AND, RSI, -PAGE_BYTES);
	emit_reg(e, true, OP_CMP, RSI, R9);
	emit_jump_label(e, CC_B, page);

	emit_place(e, all);
	emit_reg(e, true, OP_MOV_LOAD, RAX, R9);
	emit_reg(e, true, OP_SUB, RAX, R8);
	emit_u8(e, 0xc3);

	emit_place(e, fault); /* show what comes before that page, if anything */
	emit_reg(e, true, OP_CMP, RSI, R8);
	emit_jump_label(e, CC_BE, null);
	emit_const(e, RAX, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	emit_reg(e, true, OP_ADD, RAX, RSI);
	emit_reg(e, true, OP_SUB, RAX, R8);
	emit_u8(e, 0xc3);
	emit_place(e, null);
	emit_const(e, RAX, UINT64_C(1) << RING_STRING_NULL_BIT);
	emit_u8(e, 0xc3);
}
