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

/* ---- Flags to be cleared (alignment.c) ------------------------------------------------- */

#endif
