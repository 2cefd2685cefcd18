/* SPDX-License-Identifier: MIT */
/* How a stub of x86-64 is entered and left, and what is in its frame. */
#ifndef ARCH_X86_STUB_FRAME_H
#define ARCH_X86_STUB_FRAME_H

#include "arch/stub/plan.h"
#include "arch/x86/emit.h"

struct lowering;

/*
 * The stack frame (struct frame) of a running stub:
 *
 *	rsp + size	the site's %rsp
 *			red zone, 128 bytes; some words, if hits wait for room (wait.c)
 *			%rax, flags if they are kept, all of %rflags if they may have to be
 *			cleared (alignment.c), the saved registers
 *	rsp		temporaries of 8 bytes
 */
static inline struct emit_mem temp_at(int temp)
{
	return mem_at(RSP, 8 * temp);
}

enum {
	GATE_REGISTERS = 8,
	/* Where a gate's stub has saved %rdi, the third of them, from %rsp on. */
	GATE_ARGUMENT = 8 * (GATE_TEMPS + GATE_REGISTERS - 3)
};

/* See struct stub_isa: frame.c, alignment.c, call.c, kernel.c. */
void x86_64_lay_out(struct stub_plan *plan, int registers);
void x86_64_enter(struct form *f, const struct stub_plan *plan);
void x86_64_grow(struct form *f, const struct stub_plan *plan);
void x86_64_shrink(struct form *f, const struct stub_plan *plan);
void x86_64_leave(struct form *f, const struct stub_plan *plan);
void x86_64_late(struct form *f, const struct stub_plan *plan);
void x86_64_call(struct form *f, const struct stub_plan *plan);
void x86_64_time_subroutine(struct form *f, const struct stub_plan *plan);

/* ---- Flags to be cleared (alignment.c) ------------------------------------------------- */

/* Whether every word that the stub reads or writes is aligned, wherever pointers lead. */
bool stub_is_aligned(const struct stub_plan *plan);
/* Placed after the flags are saved, and before they are restored; the rest is out of line. */
void lower_alignment_enter(struct lowering *l, const struct stub_plan *plan);
void lower_alignment_leave(struct lowering *l, const struct stub_plan *plan);

#endif
