/* SPDX-License-Identifier: MIT */
/*
 * How a stub is entered and left. Registers are pushed in pairs, so the stack pointer stays a
 * multiple of 16: the processor requires this if the stack pointer is the base of an address. The
 * program has no data below the stack pointer.
 *
 *   stp x16, x17, [sp, -N]!
 *   [mrs x16, nzcv]
 *   [mrs x17, tco; msr tco, 1]
 *   stp ...                    other registers of the small frame, flags, tag check setting
 *   ...
 *   stp ..., [sp, -M]!         registers of the whole frame
 *   sub sp, sp, ...            temporaries
 *   ...
 *   add sp, sp, ...
 *   ldp ...
 *   ...
 *   ldp ...; [msr nzcv, x16]; [msr tco, x17]; ldp x16, x17, [sp], N
 *   b next
 *
 * The program may have values in x16 and x17 at a site, because a site is not a call. So the stub
 * is left by one direct branch, which needs no register. The stub is also entered by a direct
 * branch, so it needs no landing pad (FEAT_BTI).
 *
 * Memory may have tags, which the upper byte of a pointer must match (FEAT_MTE). A stub reads
 * memory without the pointer's tag, or through another register, and an operand may lie in freed
 * memory. None of these reads may fault, so tag checks are off while the stub runs. When a signal
 * arrives, the kernel saves this setting and turns tag checks on, so a handler that interrupts the
 * stub runs with tag checks.
 *
 * Sources: AAPCS64, 6.4.5 (the stack); DDI 0487, C6.2; Linux, memory-tagging-extension.rst.
 */

#include "arch/aarch64/emit.h"
#include "arch/aarch64/stub/lower.h"
#include "arch/stub/plan.h"

/* ==== Entering and leaving a stub ============================================================= */

/*
 * FLAGS and TAGS are words of the frame: for the flags, which pass through A64_STEP, and for the
 * tag checks, which pass through A64_STEP_2. ALL: the form's registers without VALUE.
 */
enum { PAIR_BYTES = 16, FLAGS = -1, TAGS = -2, ALL = 8 };

static int rounded(int words)
{
	return (8 * words + PAIR_BYTES - 1) / PAIR_BYTES * PAIR_BYTES;
}

/*
 * Returns the size of the words for waiting. These are above the saved registers, so they need no
 * code.
 */
static int wait_bytes(const struct stub_plan *p)
{
	return p->waits ? rounded(WAIT_WORDS) : 0;
}

/* Returns true if the stub reads memory that may have tags. */
static bool ignores_tags(const struct stub_plan *p)
{
	return p->stub->thread.checks_tags && p->stub->capture_count;
}

/* Lists the small frame's words: registers, FLAGS and TAGS. Returns their number. */
static int small_words(const struct stub_plan *p, int8_t words[8])
{
	int count = 0;

	words[count++] = A64_STEP;
	words[count++] = A64_STEP_2;
	if (p->calls)
		/*
		 * Unwinders need saved registers at fixed distances from the site's stack pointer,
		 * so the size is the same with and without TAGS.
		 */
		words[count++] = A64_STATUS;
	words[count++] = (int8_t)a64_register(FORM_VALUE);
	for (int i = 0; i < p->small.order_count; i++)
		words[count++] = (int8_t)p->small.order[i];
	if (p->keeps_flags)
		words[count++] = FLAGS;
	if (ignores_tags(p))
		words[count++] = TAGS;
	return count;
}

/* Lists the registers that hold the small frame's words. Returns their number. */
static int small_registers(const struct stub_plan *p, int registers[8])
{
	int8_t words[8];
	int count = small_words(p, words);

	for (int i = 0; i < count; i++)
		registers[i] = words[i] == FLAGS  ? A64_STEP
			       : words[i] == TAGS ? A64_STEP_2
						  : words[i];
	return count;
}

static void frame_layout(struct frame *f, const struct stub_plan *p, int registers, int temps)
{
	int8_t words[8];
	int count, more, below = rounded(temps);
	static const int order[ALL] = {FORM_RIGHT, FORM_SCRATCH, FORM_SET, FORM_FROM, FORM_POINTER,
		FORM_NEXT, FORM_SPARE, FORM_SPARE_2};

	f->temps = temps;
	for (int i = 0; i < FRAME_REGISTERS; i++)
		f->saved[i] = -1;
	f->order_count = 0;
	while (f->order_count < registers) {
		f->order[f->order_count] = a64_register(order[f->order_count]);
		f->order_count++;
	}
	if (f == &p->frame) {
		/*
		 * Registers beside the form's: for subroutines, which only stubs with ALL registers
		 * have; for system calls (also a wait's), loops without FEAT_LSE, large constants.
		 */
		if (registers == ALL) {
			f->order[f->order_count++] = A64_NESTED;
			f->order[f->order_count++] = A64_LINK;
		}
		if (!p->calls && (registers == ALL || p->waits || !p->stub->thread.has_atomics))
			f->order[f->order_count++] = A64_STATUS;
	}
	count = small_words(p, words);
	more = f->order_count - p->small.order_count;
	for (int i = 0; i < more; i++)
		f->saved[f->order[p->small.order_count + i]] = below + 8 * i;
	below += rounded(more);
	for (int i = 0; i < count; i++)
		if (words[i] >= 0)
			f->saved[words[i]] = below + 8 * i;
	f->size = below + rounded(count) + wait_bytes(p);
}

/* lay_out() of struct stub_isa. */
static void a64_lay_out(struct stub_plan *p, int registers)
{
	if (registers > 2 && p->stub->thread.no_counter)
		registers = ALL; /* the time comes from a subroutine */
	p->small.order_count = registers < 2 ? registers : 2;
	frame_layout(&p->small, p, p->small.order_count, 0);
	frame_layout(&p->frame, p, registers, p->frame.temps);
	p->wait_temp = (p->frame.size - wait_bytes(p)) / 8;
}

static struct a64 *set_frame(struct form *f, const struct frame *frame)
{
	struct a64_lowering *l = (struct a64_lowering *)f;

	l->frame = frame;
	return l->e;
}

/*
 * Returns the register that is stored together with registers[i]: the next one, or the zero
 * register.
 */
static int second(const int *registers, int i, int count)
{
	return i + 1 < count ? registers[i + 1] : A64_ZERO;
}

static void a64_enter(struct form *f, const struct stub_plan *p)
{
	struct a64 *e = set_frame(f, &p->small);
	int registers[8], count = small_registers(p, registers);

	a64_pair(e, A64_PUSH_PAIR, A64_STEP, A64_STEP_2, -p->small.size);
	if (p->keeps_flags)
		a64_one(e, A64_GET_FLAGS, A64_STEP);
	if (ignores_tags(p)) {
		a64_one(e, A64_GET_TAGS, A64_STEP_2);
		a64_one(e, A64_IGNORE_TAGS, 0);
	}
	for (int i = 2; i < count; i += 2)
		a64_pair(e, A64_STORE_PAIR, registers[i], second(registers, i, count), 8 * i);
}

static void a64_leave(struct form *f, const struct stub_plan *p)
{
	struct a64_lowering *l = (struct a64_lowering *)f;
	struct a64 *e = l->e;
	int registers[8], count = small_registers(p, registers);

	for (int i = 2; i < count; i += 2)
		a64_pair(e, A64_LOAD_PAIR, registers[i], second(registers, i, count), 8 * i);
	if (p->keeps_flags)
		a64_one(e, A64_SET_FLAGS, A64_STEP);
	if (ignores_tags(p))
		a64_one(e, A64_SET_TAGS, A64_STEP_2);
	a64_pair(e, A64_POP_PAIR, A64_STEP, A64_STEP_2, p->small.size);
	l->next_jump = e->length;
	l->reaches = a64_jump_to(e, p->stub->next);
	l->frame = &p->frame; /* the slow parts come next, and run with the whole frame */
	e->has_thread = false;
}

/* Adds `bytes` to sp (A64_ADD), or subtracts them (A64_SUB). */
static void move_stack(struct a64 *e, enum a64_op op, int bytes)
{
	if (bytes > 0xfff)
		a64_op_const(e, true, op, A64_SP, A64_SP, (uint64_t)bytes & ~UINT64_C(0xfff));
	if (bytes & 0xfff)
		a64_op_const(e, true, op, A64_SP, A64_SP, (uint64_t)bytes & 0xfff);
}

static void a64_grow(struct form *f, const struct stub_plan *p)
{
	struct a64 *e = set_frame(f, &p->frame);
	const int *registers = p->frame.order + p->small.order_count;
	int count = p->frame.order_count - p->small.order_count;

	if (count)
		a64_pair(e, A64_PUSH_PAIR, registers[0], second(registers, 0, count),
			-rounded(count));
	for (int i = 2; i < count; i += 2)
		a64_pair(e, A64_STORE_PAIR, registers[i], second(registers, i, count), 8 * i);
	move_stack(e, A64_SUB, rounded(p->frame.temps));
}

/* shrink() of struct stub_isa. */
static void a64_shrink(struct form *f, const struct stub_plan *p)
{
	struct a64 *e = set_frame(f, &p->small);
	const int *registers = p->frame.order + p->small.order_count;
	int count = p->frame.order_count - p->small.order_count;

	move_stack(e, A64_ADD, rounded(p->frame.temps));
	for (int i = 2; i < count; i += 2)
		a64_pair(e, A64_LOAD_PAIR, registers[i], second(registers, i, count), 8 * i);
	if (count)
		a64_pair(
			e, A64_POP_PAIR, registers[0], second(registers, 0, count), rounded(count));
}

/* ==== Calls of functions of the program ======================================================= */

/*
 * Calls a function of the program from the middle of another function.
 *
 * The stub has already saved the registers that it uses. The called function may change six more,
 * which are saved here. It may also change the vector and floating-point registers, which
 * arch/aarch64/enter.c saves. The first two words are a frame record, as in any function:
 *
 *	site's sp --------->	+----------------------------+
 *				| x16, x17, x8 ... flags     |  always at the same distance
 *				| x0 ... x30                 |
 *				| temporaries                |
 *	stub's sp --------->	+----------------------------+
 *				| x15, x13, x14, x6, x7, x18 |
 *				| site's sp                  |  CFA: *(sp + 16)
 *				| site's address             |
 *	sp, x29 at the call ->	| site's x29                 |
 *				+----------------------------+
 *
 * Sources: AAPCS64, 6.1.1 (registers), 6.4.6 (frame records); DWARF for the Arm 64-bit Architecture
 * (register numbers); gcc, config/aarch64/aarch64.h (DWARF_ALT_FRAME_RETURN_COLUMN).
 */

enum { FRAME = 29, SITE_PC = 8, SITE_SP = 16, CALL_FRAME = 80 };

/* Pairs of registers, and their offset from sp. A64_STEP holds the site's sp; 31 is no register. */
static const int8_t kept[][3] = {{A64_STEP, 18, SITE_SP}, {6, 7, 32}, {13, 14, 48}, {15, 31, 64}};

enum { KEPT = sizeof(kept) / sizeof(*kept) };

/* call() of struct stub_isa. */
static void a64_call_function(struct form *f, const struct stub_plan *p)
{
	const struct arch_call *call = &p->at->action->call;
	struct a64 *e = ((struct a64_lowering *)f)->e;

	if (ignores_tags(p)) {
		int8_t words[8];
		int at = p->frame.size - p->small.size + 8 * (small_words(p, words) - 1);

		a64_lower_load(e, A64_STEP_2, form_at(FORM_FRAME, at), sizeof(uint64_t), false);
		a64_one(e, A64_SET_TAGS, A64_STEP_2);
	}
	a64_add_disp(e, 0, A64_SP, 8 * p->at->call_temp);
	a64_add_disp(e, A64_STEP, A64_SP, p->frame.size);
	a64_const(e, A64_STEP_2, call->pc);
	a64_pair(e, A64_PUSH_PAIR, FRAME, A64_STEP_2, -CALL_FRAME);
	for (int i = 0; i < KEPT; i++)
		a64_pair(e, A64_STORE_PAIR, kept[i][0], kept[i][1], kept[i][2]);
	a64_add_disp(e, FRAME, A64_SP, 0);
	a64_const(e, 1, call->data);
	a64_const(e, A64_STEP, call->function);
	a64_op(e, false, A64_BLR, 0, A64_STEP, 0);
	for (int i = 0; i < KEPT; i++)
		a64_pair(e, A64_LOAD_PAIR, kept[i][0], kept[i][1], kept[i][2]);
	a64_pair(e, A64_POP_PAIR, FRAME, A64_STEP_2, CALL_FRAME);
	if (ignores_tags(p))
		a64_one(e, A64_IGNORE_TAGS, 0);
}

/* ---- Unwinding ------------------------------------------------------------------------ */

enum {
	/*
	 * The column of the return address is the one that libgcc uses for signal frames: x30 is an
	 * ordinary register at a site, and libgcc has no column for the pc (32).
	 */
	RETURN_COLUMN = 96,
	SP_BASE = UNWIND_OP_BREG + A64_SP
};

/* A register is saved at sp + offset, a signed LEB128 of one byte: at most 63. */
#define AT(reg, offset) UNWIND_EXPRESSION, reg, 2, SP_BASE, offset
#define BELOW(reg, distance) UNWIND_OFFSET | (reg), (distance) / 8

static const uint8_t cie[] = UNWIND_CIE(RETURN_COLUMN, /* clang-format off */
	UNWIND_DEF_CFA_EXPRESSION, 3, SP_BASE, SITE_SP, UNWIND_OP_DEREF,
	AT(RETURN_COLUMN, SITE_PC), AT(FRAME, 0), AT(18, SITE_SP + 8),
	AT(6, 32), AT(7, 40), AT(13, 48), AT(14, 56),
	UNWIND_EXPRESSION, 15, 3, SP_BASE, 64 | 0x80, 0,
	BELOW(16, 64), BELOW(17, 56), BELOW(8, 48), BELOW(9, 40), BELOW(10, 32), BELOW(2, 24),
	BELOW(0, 128), BELOW(1, 120), BELOW(4, 112), BELOW(5, 104), BELOW(3, 96), BELOW(11, 88),
	BELOW(12, 80), BELOW(30, 72),
	0, 0, 0, 0 /* pads the CIE, with its length field, to a multiple of 8 */
	/* clang-format on */);
_Static_assert((sizeof(cie) + 4) % 8 == 0, "entries are aligned");

/* ==== The table =============================================================================== */

static enum arch_stub_status a64_write(
	struct stub_plan *p, uint64_t at, uint8_t *out, size_t room, struct arch_stub_code *ret)
{
	struct a64 e = {.out = out, .room = room, .at = at};
	struct a64_lowering l;

	a64_lowering_init(&l, &e, NULL, &p->stub->thread);
	form_stub(&l.form, p);
	if (!a64_finish(&e))
		return ARCH_STUB_NO_ROOM;
	ret->next_jump = l.next_jump;
	ret->length = e.length;
	return l.reaches ? ARCH_STUB_OK : ARCH_STUB_OUT_OF_REACH;
}

const struct stub_isa aarch64_stubs = {
	.stack_pointer = A64_SP,
	.frame_pointer = 29,
	.first_argument = 0,
	.registers = 32,
	.vectors = 32,
	.lay_out = a64_lay_out,
	.enter = a64_enter,
	.grow = a64_grow,
	.shrink = a64_shrink,
	.leave = a64_leave,
	.call = a64_call_function,
	.time_subroutine = a64_time_subroutine,
	.cie = cie,
	.cie_bytes = sizeof(cie),
	.write = a64_write,
};
