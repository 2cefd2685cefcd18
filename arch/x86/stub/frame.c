/* SPDX-License-Identifier: MIT */
/*
 * The way into a stub and out of it, the calls of functions, and what arch/stub knows of x86-64.
 */
#include <assert.h>

#include "arch/layout.h"
#include "arch/stub/plan.h"
#include "arch/x86/stub/lower.h"

/* ==== Alignment =============================================================================== */

/*
 * Flags that a stub cannot run with: the alignment check, and the direction of string instructions.
 *
 * A program that sets EFLAGS.AC gets a SIGBUS for each misaligned word that it reads or writes. A
 * stub reads strings, structures and numbers at any address, and so may a function of the program
 * that the stub calls (memcpy(3) does). The SIGBUS would stop the program. So the stub tests the
 * flag and, if it is set, clears it for as long as the stub runs:
 *
 *   pushf                  below the other flags (struct frame)
 *   testl $FLAGS,(%rsp)    set?
 *   jne clear              out of line: popf costs twenty times as much as the test
 *   ...
 *   testl $FLAGS,(%rsp)
 *   jne restore
 *
 * A stub that reads only registers, constants and aligned words omits this. It writes each word of
 * eight bytes in a record in two halves, because a record begins at a multiple of four. The stack
 * is aligned if the flag is set, because the program itself pushes onto it.
 *
 * Functions start with the direction flag clear, so a stub that calls a function clears this flag
 * in the same way. Other stubs have no string instructions.
 *
 * Sources: Intel SDM volume 1, 3.4.3; volume 3, 6.15 (interrupt 17); System V ABI, AMD64
 * supplement, 3.2.1.
 */

enum { FLAG_DF = 1 << 10, FLAG_AC = 1 << 18 };

static bool operand_is_aligned(const struct arch_arg *arg, bool is_static)
{
	if (arg->kind != ARCH_ARG_MEMORY || arg->size == 1)
		return true;
	if (arg->index != ARCH_REG_NONE || arg->disp % (int64_t)arg->size != 0)
		return false;
	return arg->base == RSP || (is_static && arg->base < 0);
}

/*
 * Are the stub's accesses to records aligned? A start event's captures are copied in words of eight
 * bytes, but records are aligned to four.
 */
static bool record_is_aligned(const struct stub_plan *p, const struct arch_action *action)
{
	const struct arch_stub *s = p->stub;

	if (action->kind != ARCH_ACTION_RECORD && !action_has_spans(action))
		return true;
	for (int i = 0; i < s->recorded; i++) {
		int32_t size = (int32_t)arch_capture_fixed(&s->captures[i]);

		if (p->record_at[i] & ((size < RING_ALIGN ? size : RING_ALIGN) - 1))
			return false;
	}
	if (p->records_mask && p->record_mask_at % (int32_t)ring_mask_bytes(s->recorded))
		return false;
	return action->kind == ARCH_ACTION_BEGIN || !action_has_spans(action);
}

/* Is every word that the stub accesses aligned, wherever pointers lead? */
static bool stub_is_aligned(const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	for (int i = 0; i < s->action_count; i++)
		if (!record_is_aligned(p, &s->actions[i]))
			return false;
	for (int i = 0; i < s->capture_count; i++)
		if (arch_capture_has_bytes(&s->captures[i]) || s->captures[i].step_count ||
			!operand_is_aligned(&s->captures[i].arg, s->captures[i].is_static))
			return false;
	return !p->calls;
}

/* Returns the flags that are clear while the stub runs. */
static int32_t cleared(const struct stub_plan *p)
{
	return FLAG_AC | (p->calls ? FLAG_DF : 0);
}

/* Jumps if a flag that the stub clears was set. */
static void emit_if_set(struct emit *e, const struct stub_plan *p, int label)
{
	emit_bytes(e, "\xf7\x04\x24", 3); /* testl $imm32,(%rsp) */
	emit_u32(e, (uint32_t)cleared(p));
	emit_jump_label(e, CC_NE, label);
}

/* The out-of-line code that clears and restores flags. */
static void x86_64_late(struct form *f, const struct stub_plan *p)
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

static struct emit *set_frame(struct form *f, const struct frame *frame)
{
	struct lowering *l = (struct lowering *)f;

	l->frame = frame;
	return l->e;
}

/* ==== Frame =================================================================================== */

/*
 * How a stub is entered and left:
 *
 *  lea -128(%rsp),%rsp       step over the red zone (System V ABI, 3.2.2)
 *  push %rax
 *  [lahf; seto %al; push %rax    save the flags, unless the code after the site
 *                                overwrites them (decode/registers.c); pushf and
 *                                popf would cost 6 ns more]
 *  [clear other flags: "Alignment" above]
 *  push ...                  two more registers
 *  ...
 *  push ...                  the remaining registers
 *  ...
 *  pop ...
 *  ...
 *  pop ...; [pop %rax; add $0x7f,%al; sahf]; pop %rax; lea 128(%rsp),%rsp
 *  jmp next
 *
 * Sources: Intel SDM volume 2, LAHF, SETcc.
 */

/* A smaller frame (fewer registers, no temporaries) is a prefix of a larger one. */
static void frame_layout(struct frame *f, int skipped, int flags, int registers, int temps)
{
	static const int regs[] = {RCX, RDX, RDI, RSI, R8, R9, R10, R11};

	f->order_count = registers;
	f->temps = temps;
	for (int i = 0; i < FRAME_REGISTERS; i++)
		f->saved[i] = -1;
	for (int i = 0; i < f->order_count; i++)
		f->order[i] = regs[i];
	f->size = skipped + 8 * (1 + flags + f->order_count + f->temps);
	f->saved[RAX] = 8 * (flags + f->order_count + f->temps);
	for (int i = 0; i < f->order_count; i++)
		f->saved[f->order[i]] = 8 * (f->temps + f->order_count - 1 - i);
}

/* Returns the bytes skipped on entry: the red zone, and words for a wait for room. */
static int skipped_bytes(const struct stub_plan *p)
{
	return p->isa->red_zone + (p->waits ? 8 * WAIT_WORDS : 0);
}

/* See struct stub_isa. */
static void x86_64_lay_out(struct stub_plan *p, int registers)
{
	int flags = p->keeps_flags + !stub_is_aligned(p), skipped = skipped_bytes(p);

	frame_layout(&p->frame, skipped, flags, registers, p->frame.temps);
	frame_layout(&p->small, skipped, flags, registers < 2 ? registers : 2, 0);
	p->wait_temp = (p->frame.size - skipped) / 8;
	assert(p->stub->actions[0].kind != ARCH_ACTION_GATE ||
		p->frame.saved[RDI] == GATE_ARGUMENT);
}

static void x86_64_enter(struct form *f, const struct stub_plan *p)
{
	const struct frame *small = &p->small;
	struct lowering *l = (struct lowering *)f;
	struct emit *e = set_frame(f, small);

	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -skipped_bytes(p)));
	emit_push(e, RAX);
	if (p->keeps_flags) {
		emit_bytes(e, "\x9f\x0f\x90\xc0", 4); /* lahf; seto %al */
		emit_push(e, RAX);
	}
	if (!stub_is_aligned(p)) { /* clearing the flags is out of line */
		l->alignment = (struct alignment){
			emit_label(e), emit_label(e), emit_label(e), emit_label(e)};
		emit_u8(e, 0x9c); /* pushf */
		emit_if_set(e, p, l->alignment.clear);
		emit_place(e, l->alignment.cleared);
	}
	for (int i = 0; i < small->order_count; i++)
		emit_push(e, small->order[i]);
}

static void x86_64_grow(struct form *f, const struct stub_plan *p)
{
	const struct frame *frame = &p->frame;
	struct emit *e = set_frame(f, frame);

	for (int i = p->small.order_count; i < frame->order_count; i++)
		emit_push(e, frame->order[i]);
	if (frame->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -8 * frame->temps));
}

/* See struct stub_isa. */
static void x86_64_shrink(struct form *f, const struct stub_plan *p)
{
	const struct frame *frame = &p->frame;
	struct emit *e = set_frame(f, &p->small);

	if (frame->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, 8 * frame->temps));
	for (int i = frame->order_count - 1; i >= p->small.order_count; i--)
		emit_pop(e, frame->order[i]);
}

/* Returns false if the address is out of reach. */
static bool emit_jump(struct emit *e, uint64_t to)
{
	int64_t distance = (int64_t)(to - (e->at + e->length + 5));

	emit_u8(e, 0xe9);
	emit_u32(e, distance);
	return distance == (int32_t)distance;
}

static void x86_64_leave(struct form *f, const struct stub_plan *p)
{
	struct lowering *l = (struct lowering *)f;
	struct emit *e = l->e;

	for (int i = p->small.order_count - 1; i >= 0; i--)
		emit_pop(e, p->small.order[i]);
	if (!stub_is_aligned(p)) {
		emit_if_set(e, p, l->alignment.restore);
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, 8));
		emit_place(e, l->alignment.restored);
	}
	if (p->keeps_flags) {
		emit_pop(e, RAX);
		emit_bytes(e, "\x04\x7f\x9e", 3); /* add $0x7f,%al (sets OF as it was); sahf */
	}
	emit_pop(e, RAX);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, skipped_bytes(p)));
	l->next_jump = e->length;
	l->reaches = emit_jump(e, p->stub->next);
	l->frame = &p->frame;
}

/* ==== Call ==================================================================================== */

/*
 * How a stub calls a function of the program from the middle of another function.
 *
 * The stub has already saved the registers it uses. These are the registers that a function may
 * change, except the vector and floating-point registers, which the called function saves
 * (arch/x86/enter.c). It remains to align the stack as functions expect, in a way that unwinders
 * can still follow:
 *
 *	site's %rsp ------>	+----------------------------+
 *				| red zone, 128 bytes        |
 *				| %rax, flags, %rflags,      |  always at the same distance
 *				| %rcx ... %r11              |
 *				| temporaries                |
 *	stub's %rsp ------>	+----------------------------+
 *				| (to be a multiple of 16)   |
 *				| site's address             |
 *				| site's %rsp                |  CFA: *(%rsp + 8)
 *	%rsp at the call ->	| stub's %rsp                |
 *				+----------------------------+
 *				| return address: the stub   |
 *
 * Source: figure 3.36 of the System V ABI, AMD64 supplement (register numbers).
 */

enum { CALL_FRAME = 32, CALL_STUB_SP = 0, CALL_SITE_SP = 8, CALL_SITE_PC = 16 };

/* ---- The call ----------------------------------------------------------------------- */

static void x86_64_call(struct form *f, const struct stub_plan *p)
{
	const struct arch_call *call = &p->at->action->call;
	struct emit *e = ((struct lowering *)f)->e;

	emit_mem(e, true, OP_LEA, RDI, mem_at(RSP, 8 * p->at->call_temp));
	emit_const(e, RSI, call->data);
	emit_mem(e, true, OP_LEA, RDX, mem_at(RSP, p->frame.size));
	emit_const(e, RCX, call->pc);
	emit_const(e, R11, call->function);
	emit_reg(e, true, OP_MOV_LOAD, RAX, RSP);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -CALL_FRAME));
	emit_imm(e, true, IMM_AND, RSP, -16);
	emit_mem(e, true, OP_MOV_STORE, RAX, mem_at(RSP, CALL_STUB_SP));
	emit_mem(e, true, OP_MOV_STORE, RDX, mem_at(RSP, CALL_SITE_SP));
	emit_mem(e, true, OP_MOV_STORE, RCX, mem_at(RSP, CALL_SITE_PC));
	emit_bytes(e, "\x41\xff\xd3", 3); /* call *%r11 */
	emit_mem(e, true, OP_MOV_LOAD, RSP, mem_at(RSP, CALL_STUB_SP));
}

/* ---- Unwinding ------------------------------------------------------------------------ */

enum { DWARF_RA = 16, SP_BASE = UNWIND_OP_BREG + 7 };

/* UNWIND_OFFSET: a saved register's DWARF number, and its distance below the CFA in 8 bytes. */
static const uint8_t cie[] = UNWIND_CIE(DWARF_RA, /* clang-format off */
	UNWIND_DEF_CFA_EXPRESSION, 3, SP_BASE, CALL_SITE_SP, UNWIND_OP_DEREF,
	UNWIND_EXPRESSION, DWARF_RA, 2, SP_BASE, CALL_SITE_PC,
	UNWIND_OFFSET | 0, 17,  /* rax */
	UNWIND_OFFSET | 2, 20,  /* rcx, below two words of flags */
	UNWIND_OFFSET | 1, 21,  /* rdx */
	UNWIND_OFFSET | 5, 22,  /* rdi */
	UNWIND_OFFSET | 4, 23,  /* rsi */
	UNWIND_OFFSET | 8, 24, UNWIND_OFFSET | 9, 25, UNWIND_OFFSET | 10, 26, UNWIND_OFFSET | 11, 27,
	0, 0 /* pads to a multiple of 8, including the length */
	/* clang-format on */);
_Static_assert((sizeof(cie) + 4) % 8 == 0, "entries are aligned");

/* ==== The table =============================================================================== */

static enum arch_stub_status x86_64_write(
	struct stub_plan *p, uint64_t at, uint8_t *out, size_t room, struct arch_stub_code *ret)
{
	struct emit e = {.out = out, .room = room, .at = at};
	struct lowering l;

	lowering_init(&l, &e, NULL);
	form_stub(&l.form, p);
	emit_again(&e);
	form_stub(&l.form, p);
	if (!emit_finish(&e))
		return ARCH_STUB_NO_ROOM;
	ret->next_jump = l.next_jump;
	ret->length = e.length;
	return l.reaches ? ARCH_STUB_OK : ARCH_STUB_OUT_OF_REACH;
}

const struct stub_isa x86_64_stubs = {
	.stack_pointer = RSP,
	.frame_pointer = RBP,
	.first_argument = RDI,
	.registers = 16,
	.vectors = 16, /* the vector registers from 16 on need AVX-512 */
	.red_zone = 128,
	.has_cpu_hint = true,
	.lay_out = x86_64_lay_out,
	.enter = x86_64_enter,
	.grow = x86_64_grow,
	.shrink = x86_64_shrink,
	.leave = x86_64_leave,
	.late = x86_64_late,
	.call = x86_64_call,
	.time_subroutine = x86_64_time_subroutine,
	.cie = cie,
	.cie_bytes = sizeof(cie),
	.write = x86_64_write,
};
