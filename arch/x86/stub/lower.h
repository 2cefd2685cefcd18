/* SPDX-License-Identifier: MIT */
/*
 * Translates the instructions of arch/stub/form.h (the form) into machine code of x86-64.
 */
#pragma once

#include "arch/stub/plan.h"
#include "arch/x86/emit.h"

/*
 * The stack frame (struct frame) of a running stub. The stub clears the flags that it cannot run
 * with; see "Alignment" in frame.c:
 *
 *	rsp + size	the site's %rsp
 *			red zone, 128 bytes; some words, if hits wait for room (arch/stub/record.c)
 *			%rax; the flags, if they are kept; all of %rflags, if the stub may have
 *			to clear some; the saved registers
 *	rsp		temporaries of 8 bytes
 */
enum {
	GATE_REGISTERS = 8,
	/* Offset from %rsp of %rdi, the third register that a gate's stub saves. */
	GATE_ARGUMENT = 8 * (GATE_TEMPS + GATE_REGISTERS - 3)
};

/* Labels of a stub that clears flags: the code that clears or restores them, and what follows. */
struct alignment {
	int clear, cleared, restore, restored;
};

/* Labels are labels of `e`. Both pointers are borrowed. */
struct lowering {
	struct form form;
	struct emit *e;
	const struct frame *frame; /* where the stub has saved the site's registers */
	/*
	 * The form's register last compared with 0, while the flags hold the result; else
	 * FORM_NONE. tested_wide: all 64 bits of it.
	 */
	int tested;
	bool tested_wide;
	struct alignment alignment;
	/* The offset of a whole stub's jump to the next stub, and whether that is in reach. */
	size_t next_jump;
	bool reaches;
};

void lowering_init(struct lowering *l, struct emit *e, const struct frame *frame);

/* The subroutine plan->time: see struct stub_isa. */
void x86_64_time_subroutine(struct form *f, const struct stub_plan *plan);
