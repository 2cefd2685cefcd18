/* SPDX-License-Identifier: MIT */
/*
 * Translates the instructions of arch/stub/form.h (the form) into machine code of x86-64. Control
 * flow, operators and operands are in jumps.c, all else is in lower.c.
 */
#ifndef ARCH_X86_STUB_LOWER_H
#define ARCH_X86_STUB_LOWER_H

#include "arch/stub/form.h"
#include "arch/x86/emit.h"

struct frame;

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

/* ---- Translation by subject: see form_subject() ----------------------------------------- */

void lower_control(const struct lowering *l, const struct form_insn *insn);
void lower_operator(const struct lowering *l, const struct form_insn *insn);

/* ---- Shared functions -------------------------------------------------------------------- */

/* Translate a register and a memory operand of the form. */
int lower_register(int form_register);
struct emit_mem lower_mem(struct form_mem mem);

#endif
