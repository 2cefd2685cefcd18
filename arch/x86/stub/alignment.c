/* SPDX-License-Identifier: MIT */
/*
 * Flags that a stub cannot run with: the alignment check, and the direction of string instructions.
 *
 * A program that sets EFLAGS.AC gets a SIGBUS for each misaligned word that it reads or writes.
 * A stub reads strings, structures and numbers wherever they are, and so may a function of the
 * program that the stub calls (memcpy(3) does): neither must stop the program. Such a stub
 * tests the flag, and clears it until it leaves:
 *
 *   pushf                  below the other flags (struct frame)
 *   testl $FLAGS,(%rsp)    set?
 *   jne clear              out of line: popf costs twenty times what this does
 *   ...
 *   testl $FLAGS,(%rsp)
 *   jne restore
 *
 * Stubs that read only registers, constants and aligned words omit this. They write each eight
 * bytes of a record, which begins at a multiple of four, in halves. The stack is aligned if the
 * flag is set: the program itself pushes onto it.
 *
 * Functions begin with the direction flag clear, so a stub that calls one does the same with it.
 * Others have no string instructions.
 *
 * Sources: Intel SDM volume 1, 3.4.3; volume 3, 6.15 (interrupt 17); System V ABI, AMD64
 * supplement, 3.2.1.
 */
#include "arch/layout.h"
#include "arch/x86/stub/frame.h"
#include "arch/x86/stub/lower.h"

enum { FLAG_DF = 1 << 10, FLAG_AC = 1 << 18 };

static bool operand_is_aligned(const struct arch_arg *arg, bool is_static)
{
	if (arg->kind != ARCH_ARG_MEMORY || arg->size == 1)
		return true;
	if (arg->index != ARCH_REG_NONE || arg->disp % (int64_t)arg->size != 0)
		return false;
	return arg->base == RSP || (is_static && arg->base < 0);
}

/* What was kept of a begin is copied in words of eight bytes; a record has half their alignment. */
static bool record_is_aligned(const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (s->kind != ARCH_STUB_RECORD && !stub_has_spans(s))
		return true;
	for (int i = 0; i < s->recorded; i++) {
		int32_t size = (int32_t)arch_capture_fixed(&s->captures[i]);

		if (p->record_at[i] & ((size < RING_ALIGN ? size : RING_ALIGN) - 1))
			return false;
	}
	if (p->records_mask && p->record_mask_at % (int32_t)ring_mask_bytes(s->recorded))
		return false;
	return s->kind == ARCH_STUB_BEGIN || !stub_has_spans(s);
}

bool stub_is_aligned(const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (s->kind == ARCH_STUB_CALL || !record_is_aligned(p))
		return false;
	for (int i = 0; i < s->capture_count; i++)
		if (arch_capture_has_bytes(&s->captures[i]) || s->captures[i].step_count ||
			!operand_is_aligned(&s->captures[i].arg, s->captures[i].is_static))
			return false;
	return true;
}

/* The flags that are cleared until the stub leaves. */
static int32_t cleared(const struct stub_plan *p)
{
	return FLAG_AC | (p->stub->kind == ARCH_STUB_CALL ? FLAG_DF : 0);
}

/* Jumps to the label if one of them was set. */
static void emit_if_set(struct emit *e, const struct stub_plan *p, int label)
{
	emit_bytes(e, "\xf7\x04\x24", 3); /* testl $imm32,(%rsp) */
	emit_u32(e, (uint32_t)cleared(p));
	emit_jump_label(e, CC_NE, label);
}

void lower_alignment_enter(struct lowering *l, const struct stub_plan *p)
{
	struct emit *e = l->e;

	if (stub_is_aligned(p))
		return;
	l->alignment =
		(struct alignment){emit_label(e), emit_label(e), emit_label(e), emit_label(e)};
	emit_u8(e, 0x9c); /* pushf */
	emit_if_set(e, p, l->alignment.clear);
	emit_place(e, l->alignment.cleared);
}

void lower_alignment_leave(struct lowering *l, const struct stub_plan *p)
{
	struct emit *e = l->e;

	if (stub_is_aligned(p))
		return;
	emit_if_set(e, p, l->alignment.restore);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, 8));
	emit_place(e, l->alignment.restored);
}

/* What both jump to. */
void x86_64_late(struct form *f, const struct stub_plan *p)
{
	struct lowering *l = (struct lowering *)f;
	struct emit *e = l->e;

	if (stub_is_aligned(p))
		return;
	emit_place(e, l->alignment.clear);
	emit_u8(e, 0x9c);
	emit_imm_mem(e, false, IMM_AND, mem_at(RSP, 0), ~cleared(p));
	emit_u8(e, 0x9d); /* popf */
	emit_jump_label(e, -1, l->alignment.cleared);
	emit_place(e, l->alignment.restore);
	emit_u8(e, 0x9d);
	emit_jump_label(e, -1, l->alignment.restored);
}
