/* SPDX-License-Identifier: MIT */
/*
 * Captures of the stack: its bytes, or the return addresses in it.
 *
 * Memory above the stack pointer's own page may be unmapped, so each page is checked before it
 * is read, as pointers are (captures.c). In code built without frame pointers %rbp may be
 * any number; the chain ends if the next one is not above the last one, is far away, or cannot
 * be read. Where the site's function has saved its caller's, to use the register for something
 * else, the chain begins there.
 */
#include "arch/layout.h"
#include "arch/x86/stub/plan.h"

enum { FRAME_BYTES_MAX = 1 << 20 };

/* For return addresses: the last frame pointer, the readable page, the count. */
enum { LAST, PAGE, COUNT, FRAME_TEMPS };

int stack_temps(const struct arch_capture *c)
{
	return c->stack == ARCH_STACK_FRAMES ? FRAME_TEMPS + c->bytes_max / 8 : 0;
}

/*
 *	r8	the stack pointer
 *	r9	the end of the wanted bytes
 *	rsi	the page to check
 */
static void emit_bytes_of_stack(struct emit *e, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	int next = emit_label(e), all = emit_label(e), cut = emit_label(e), done = emit_label(e);

	emit_original(e, &p->frame, RSP, R8);
	emit_mem(e, true, OP_LEA, R9, mem_at(R8, c->bytes_max));
	emit_mem(e, true, OP_LEA, RSI, mem_at(R8, PAGE_BYTES));
	emit_imm(e, true, IMM_AND, RSI, -PAGE_BYTES);
	emit_place(e, next);
	emit_reg(e, true, OP_CMP, RSI, R9);
	emit_jump_label(e, CC_AE, all);
	emit_check(e, p, 0);
	emit_jump_label(e, CC_NE, cut);
	emit_imm(e, true, IMM_ADD, RSI, PAGE_BYTES);
	emit_jump_label(e, -1, next);
	emit_place(e, cut);
	emit_const(e, RAX, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	emit_reg(e, true, OP_ADD, RAX, RSI);
	emit_reg(e, true, OP_SUB, RAX, R8);
	emit_jump_label(e, -1, done);
	emit_place(e, all);
	emit_const(e, RAX, c->bytes_max);
	emit_place(e, done);
	emit_store_pair(e, p->temp[i], R8);
}

/* Jumps to `end` unless the word at %r9 + offset is readable; changes all but %r8, %r9. */
static void emit_readable(
	struct emit *e, const struct stub_plan *p, int page, int32_t offset, int end)
{
	int known = emit_label(e);

	emit_mem(e, true, OP_LEA, RSI, mem_at(R9, offset));
	emit_reg(e, true, OP_MOV_LOAD, RAX, RSI);
	emit_imm(e, true, IMM_AND, RAX, -PAGE_BYTES);
	emit_mem(e, true, OP_CMP, RAX, temp_at(page));
	emit_jump_label(e, CC_E, known);
	emit_check(e, p, 0);
	emit_jump_label(e, CC_NE, end);
	emit_imm(e, true, IMM_AND, RSI, -PAGE_BYTES);
	emit_mem(e, true, OP_MOV_STORE, RSI, temp_at(page));
	emit_place(e, known);
}

/*
 *	r8	where the addresses go
 *	r9	the frame pointer
 */
static void emit_frames(struct emit *e, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	int last = p->spill[i] + LAST, page = p->spill[i] + PAGE, count = p->spill[i] + COUNT;
	int next = emit_label(e), end = emit_label(e);

	emit_mem(e, true, OP_LEA, R8, temp_at(p->spill[i] + FRAME_TEMPS));
	emit_original(e, &p->frame, RSP, RAX);
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(last));
	emit_store_imm(e, true, temp_at(page), 1); /* none */
	emit_store_imm(e, true, temp_at(count), 0);
	if (c->arg.kind == ARCH_ARG_MEMORY) {
		emit_address(e, &p->frame, &c->arg, R9);
		emit_mem(e, true, OP_MOV_LOAD, R9, mem_at(R9, 0));
	} else {
		emit_original(e, &p->frame, RBP, R9);
	}
	emit_place(e, next);
	emit_reg(e, true, OP_MOV_LOAD, RAX, R9);
	emit_imm(e, true, IMM_AND, RAX, 7);
	emit_jump_label(e, CC_NE, end);
	emit_reg(e, true, OP_MOV_LOAD, RAX, R9);
	emit_mem(e, true, OP_SUB, RAX, temp_at(last));
	emit_imm(e, true, IMM_CMP, RAX, FRAME_BYTES_MAX);
	emit_jump_label(e, CC_AE, end); /* below the last one counts as far above, unsigned */
	emit_readable(e, p, page, 0, end);
	emit_readable(e, p, page, 8, end);
	emit_mem(e, true, OP_MOV_LOAD, RDX, temp_at(count));
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(R9, 8));
	emit_mem(e, true, OP_MOV_STORE, RAX,
		(struct emit_mem){.base = R8, .index = RDX, .scale = 8});
	emit_imm(e, true, IMM_ADD, RDX, 1);
	emit_mem(e, true, OP_MOV_STORE, RDX, temp_at(count));
	emit_imm(e, true, IMM_CMP, RDX, c->bytes_max / 8);
	emit_jump_label(e, CC_AE, end);
	emit_mem(e, true, OP_LEA, RAX, mem_at(R9, 8));
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(last));
	emit_mem(e, true, OP_MOV_LOAD, R9, mem_at(R9, 0));
	emit_jump_label(e, -1, next);
	emit_place(e, end);
	emit_mem(e, true, OP_MOV_LOAD, RAX, temp_at(count));
	emit_shift(e, true, true, RAX, 3);
	emit_store_pair(e, p->temp[i], R8);
}

void emit_prepare_stacks(struct emit *e, const struct stub_plan *p)
{
	for (int i = 0; i < p->stub->capture_count; i++) {
		if (p->stub->captures[i].stack == ARCH_STACK_BYTES)
			emit_bytes_of_stack(e, p, i);
		else if (p->stub->captures[i].stack == ARCH_STACK_FRAMES)
			emit_frames(e, p, i);
	}
}
