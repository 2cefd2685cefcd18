/* SPDX-License-Identifier: MIT */
/*
 * How a stub is entered and left. Pairs of registers are pushed, so the stack pointer stays a
 * multiple of 16, as the processor wants it where it is used; nothing of the program is below it.
 *
 *   stp x16, x17, [sp, -N]!
 *   [mrs x16, nzcv]
 *   [mrs x17, tco; msr tco, 1]
 *   stp ...                    the other registers of the small frame, the flags, the tags' check
 *   ...
 *   stp ..., [sp, -M]!         those of the whole frame
 *   sub sp, sp, ...            temporaries
 *   ...
 *   add sp, sp, ...
 *   ldp ...
 *   ...
 *   ldp ...; [msr nzcv, x16]; [msr tco, x17]; ldp x16, x17, [sp], N
 *   b next
 *
 * x16 and x17 may be live at a site, which is no call, so the way on is one direct branch. A stub
 * is entered by such a branch, too, so it needs no landing pad (FEAT_BTI).
 *
 * Memory may have tags, which the upper byte of an address must have, too (FEAT_MTE). A stub reads
 * what its pointer leads to without the tag, or by another register; an operand may be of a freed
 * piece of memory. None of that may fail, so tags are not checked while it runs. A signal handler
 * that interrupts it has them checked as ever, because the kernel keeps this for it.
 *
 * Sources: AAPCS64, 6.4.5 (the stack); DDI 0487, C6.2; Linux, memory-tagging-extension.rst.
 */
#include "arch/aarch64/emit.h"
#include "arch/aarch64/stub/lower.h"
#include "arch/stub/plan.h"

/* FLAGS and TAGS: not registers, but what goes through A64_STEP and A64_STEP_2. */
enum { PAIR_BYTES = 16, FLAGS = -1, TAGS = -2, ALL = 8 /* registers of the form besides VALUE */ };

static int rounded(int words)
{
	return (8 * words + PAIR_BYTES - 1) / PAIR_BYTES * PAIR_BYTES;
}

/* Above what is saved: so nothing more has to be done for a wait. */
static int wait_bytes(const struct stub_plan *p)
{
	return p->stub->room ? rounded(WAIT_WORDS) : 0;
}

/* Does it read memory that the program may have given tags? */
static bool ignores_tags(const struct stub_plan *p)
{
	return p->stub->thread.checks_tags && p->stub->capture_count;
}

/* Unwinders find the registers of a call at distances that are always the same (call.c). */
static bool is_call(const struct stub_plan *p)
{
	return p->stub->kind == ARCH_STUB_CALL;
}

/* The words of the small frame: registers, the flags, and TAGS. Returns their number. */
static int small_words(const struct stub_plan *p, int8_t words[8])
{
	int count = 0;

	words[count++] = A64_STEP;
	words[count++] = A64_STEP_2;
	if (is_call(p))
		words[count++] = A64_STATUS; /* so TAGS take what would be a gap */
	words[count++] = (int8_t)a64_register(FORM_VALUE);
	for (int i = 0; i < p->small.order_count; i++)
		words[count++] = (int8_t)p->small.order[i];
	if (p->keeps_flags)
		words[count++] = FLAGS;
	if (ignores_tags(p))
		words[count++] = TAGS;
	return count;
}

/* What has them when they are stored and loaded. */
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

/*
 * Only stubs that may need all have subroutines, which change two more. A64_STATUS is for system
 * calls, which a wait makes, too, for loops without FEAT_LSE, and for numbers that do not fit into
 * an instruction.
 */
static void add_others(struct frame *f, const struct stub_plan *p, int registers)
{
	if (registers == ALL) {
		f->order[f->order_count++] = A64_NESTED;
		f->order[f->order_count++] = A64_LINK;
	}
	if (!is_call(p) && (registers == ALL || p->stub->room || !p->stub->thread.has_atomics))
		f->order[f->order_count++] = A64_STATUS;
}

static void set_order(struct frame *f, int registers)
{
	static const int order[ALL] = {FORM_RIGHT, FORM_SCRATCH, FORM_SET, FORM_FROM, FORM_POINTER,
		FORM_NEXT, FORM_SPARE, FORM_SPARE_2};

	f->order_count = 0;
	while (f->order_count < registers) {
		f->order[f->order_count] = a64_register(order[f->order_count]);
		f->order_count++;
	}
}

static void frame_layout(struct frame *f, const struct stub_plan *p, int registers, int temps)
{
	int8_t words[8];
	int count, more, below = rounded(temps);

	f->temps = temps;
	for (int i = 0; i < FRAME_REGISTERS; i++)
		f->saved[i] = -1;
	set_order(f, registers);
	if (f == &p->frame)
		add_others(f, p, registers);
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

void a64_lay_out(struct stub_plan *p, int registers)
{
	if (registers > 2 && p->stub->thread.no_counter)
		registers = ALL; /* a subroutine gets the time */
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

/* The second of a pair, if there is one. */
static int second(const int *registers, int i, int count)
{
	return i + 1 < count ? registers[i + 1] : A64_ZERO;
}

void a64_enter(struct form *f, const struct stub_plan *p)
{
	struct a64 *e = set_frame(f, &p->small);
	int registers[8], count = small_registers(p, registers);

	a64_push_pair(e, A64_STEP, A64_STEP_2, p->small.size);
	if (p->keeps_flags)
		a64_flags(e, A64_STEP);
	if (ignores_tags(p)) {
		a64_tags(e, A64_STEP_2);
		a64_ignore_tags(e);
	}
	for (int i = 2; i < count; i += 2)
		a64_store_pair(e, registers[i], second(registers, i, count), 8 * i);
}

void a64_leave(struct form *f, const struct stub_plan *p)
{
	struct a64_lowering *l = (struct a64_lowering *)f;
	struct a64 *e = l->e;
	int registers[8], count = small_registers(p, registers);

	for (int i = 2; i < count; i += 2)
		a64_load_pair(e, registers[i], second(registers, i, count), 8 * i);
	if (p->keeps_flags)
		a64_set_flags(e, A64_STEP);
	if (ignores_tags(p))
		a64_set_tags(e, A64_STEP_2);
	a64_pop_pair(e, A64_STEP, A64_STEP_2, p->small.size);
	l->next_jump = e->length;
	l->reaches = a64_jump_to(e, p->stub->next);
	l->frame = &p->frame; /* of the slow parts, which follow */
	e->has_thread = false;
}

void a64_check_tags(struct a64 *e, const struct stub_plan *p)
{
	int8_t words[8];
	int last = small_words(p, words) - 1;

	if (!ignores_tags(p))
		return;
	a64_lower_load(e, A64_STEP_2, form_at(FORM_FRAME, p->frame.size - p->small.size + 8 * last),
		sizeof(uint64_t), false);
	a64_set_tags(e, A64_STEP_2);
}

void a64_check_no_tags(struct a64 *e, const struct stub_plan *p)
{
	if (ignores_tags(p))
		a64_ignore_tags(e);
}

/* sp += or -= some bytes. */
static void move_stack(struct a64 *e, enum a64_op op, int bytes)
{
	if (bytes > 0xfff)
		a64_op_const(e, true, op, A64_SP, A64_SP, (uint64_t)bytes & ~UINT64_C(0xfff));
	if (bytes & 0xfff)
		a64_op_const(e, true, op, A64_SP, A64_SP, (uint64_t)bytes & 0xfff);
}

void a64_grow(struct form *f, const struct stub_plan *p)
{
	struct a64 *e = set_frame(f, &p->frame);
	const int *registers = p->frame.order + p->small.order_count;
	int count = p->frame.order_count - p->small.order_count;

	if (count)
		a64_push_pair(e, registers[0], second(registers, 0, count), rounded(count));
	for (int i = 2; i < count; i += 2)
		a64_store_pair(e, registers[i], second(registers, i, count), 8 * i);
	move_stack(e, A64_SUB, rounded(p->frame.temps));
}

void a64_shrink(struct form *f, const struct stub_plan *p)
{
	struct a64 *e = set_frame(f, &p->small);
	const int *registers = p->frame.order + p->small.order_count;
	int count = p->frame.order_count - p->small.order_count;

	move_stack(e, A64_ADD, rounded(p->frame.temps));
	for (int i = 2; i < count; i += 2)
		a64_load_pair(e, registers[i], second(registers, i, count), 8 * i);
	if (count)
		a64_pop_pair(e, registers[0], second(registers, 0, count), rounded(count));
}
