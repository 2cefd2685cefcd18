/* SPDX-License-Identifier: MIT */
/*
 * How a stub is entered and left:
 *
 *   lea -128(%rsp),%rsp       step over the red zone (System V ABI, 3.2.2)
 *   push %rax
 *   [lahf; seto %al; push %rax    flags: popf costs 6 ns more; not if the code after the
 *                                 site overwrites them: decode/flags.c]
 *   [clear other flags  alignment.c]
 *   push ...                  two more registers
 *   ...
 *   push ...                  the others
 *   ...
 *   pop ...
 *   ...
 *   pop ...; [pop %rax; add $0x7f,%al; sahf]; pop %rax; lea 128(%rsp),%rsp
 *   jmp next
 *
 * Sources: Intel SDM volume 2, LAHF, SETcc.
 */
#include <assert.h>

#include "arch/x86/stub/frame.h"
#include "arch/x86/stub/lower.h"

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

/* The red zone, and behind it the words of a wait: so nothing more has to be done for them. */
static int skipped_bytes(const struct stub_plan *p)
{
	return p->isa->red_zone + (p->stub->room ? 8 * WAIT_WORDS : 0);
}

void x86_64_lay_out(struct stub_plan *p, int registers)
{
	int flags = p->keeps_flags + !stub_is_aligned(p), skipped = skipped_bytes(p);

	frame_layout(&p->frame, skipped, flags, registers, p->frame.temps);
	frame_layout(&p->small, skipped, flags, registers < 2 ? registers : 2, 0);
	p->wait_temp = (p->frame.size - skipped) / 8;
	assert(p->stub->kind != ARCH_STUB_GATE || p->frame.saved[RDI] == GATE_ARGUMENT);
}

void x86_64_enter(struct form *f, const struct stub_plan *p)
{
	const struct frame *small = &p->small;
	struct emit *e = lowering_set_frame(f, small);

	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -skipped_bytes(p)));
	emit_push(e, RAX);
	if (p->keeps_flags) {
		emit_bytes(e, "\x9f\x0f\x90\xc0", 4); /* lahf; seto %al */
		emit_push(e, RAX);
	}
	lower_alignment_enter((struct lowering *)f, p);
	for (int i = 0; i < small->order_count; i++)
		emit_push(e, small->order[i]);
}

void x86_64_grow(struct form *f, const struct stub_plan *p)
{
	const struct frame *frame = &p->frame;
	struct emit *e = lowering_set_frame(f, frame);

	for (int i = p->small.order_count; i < frame->order_count; i++)
		emit_push(e, frame->order[i]);
	if (frame->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -8 * frame->temps));
}

void x86_64_shrink(struct form *f, const struct stub_plan *p)
{
	const struct frame *frame = &p->frame;
	struct emit *e = lowering_set_frame(f, &p->small);

	if (frame->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, 8 * frame->temps));
	for (int i = frame->order_count - 1; i >= p->small.order_count; i--)
		emit_pop(e, frame->order[i]);
}

void x86_64_leave(struct form *f, const struct stub_plan *p)
{
	struct lowering *l = (struct lowering *)f;
	struct emit *e = l->e;

	for (int i = p->small.order_count - 1; i >= 0; i--)
		emit_pop(e, p->small.order[i]);
	lower_alignment_leave(l, p);
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
