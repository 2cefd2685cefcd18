/* SPDX-License-Identifier: MIT */
/*
 * Translates the instructions of arch/stub/form.h (the form) into machine code of x86-64. Control
 * flow and operators are in jumps.c, all else is in lower.c.
 */
#ifndef ARCH_X86_STUB_LOWER_H
#define ARCH_X86_STUB_LOWER_H

#include "arch/stub/form.h"
#include "arch/x86/emit.h"

struct frame;

/*
 * Labels of a stub that clears flags (lower.c): code that clears and restores the flags, and where
 * the stub continues after each.
 */
struct alignment {
	int clear, cleared, restore, restored;
};

/* The state of a translation. Labels are those of `e`. Both pointers are borrowed. */
struct lowering {
	struct form form;
	struct emit *e;
	const struct frame *frame; /* where the stub has saved the site's registers */
	/* Form register that the flags compare with 0, whole or lower half; or FORM_NONE. */
	int tested;
	bool tested_wide;
	struct alignment alignment;
	/* For a whole stub: offset of the jump to the next stub, and whether that is in reach. */
	size_t next_jump;
	bool reaches;
};

void lowering_init(struct lowering *l, struct emit *e, const struct frame *frame);

/* ---- Translation by subject: see form_subject() ----------------------------------------- */

void lower_control(const struct lowering *l, const struct form_insn *insn);
void lower_operator(const struct lowering *l, const struct form_insn *insn);

/* ---- Shared functions -------------------------------------------------------------------- */

/* Return the processor's register for a register of the form, and its operand for one in memory. */
int lower_register(int form_register);
struct emit_mem lower_mem(struct form_mem mem);

#endif
