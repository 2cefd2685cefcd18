/* SPDX-License-Identifier: MIT */
#ifndef ARCH_X86_STUB_FRAME_H
#define ARCH_X86_STUB_FRAME_H

#include "arch/stub/plan.h"
#include "arch/x86/emit.h"

struct lowering;

/*
 * The stack frame (struct frame) of a running stub. The stub clears the flags that it cannot run
 * with; see "Alignment" in lower.c:
 *
 *	rsp + size	the site's %rsp
 *			red zone, 128 bytes; some words, if hits wait for room (arch/stub/record.c)
 *			%rax; the flags, if they are kept; all of %rflags, if the stub may have
 *			to clear some; the saved registers
 *	rsp		temporaries of 8 bytes
 */
static inline struct emit_mem temp_at(int temp)
{
	return mem_at(RSP, 8 * temp);
}

enum {
	GATE_REGISTERS = 8,
	/* Offset from %rsp of %rdi, the third register that a gate's stub saves. */
	GATE_ARGUMENT = 8 * (GATE_TEMPS + GATE_REGISTERS - 3)
};

#endif
