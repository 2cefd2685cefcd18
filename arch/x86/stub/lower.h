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

/*
 * Labels of a stub that clears flags (lower.c): the code that clears the flags and the code that
 * restores them, and where the stub continues after each.
 */
struct alignment {
	int clear, cleared, restore, restored;
};

/* The state of a translation. Labels are labels of `e`. Both pointers are borrowed. */
struct lowering {
	struct form form;
	struct emit *e;
	const struct frame *frame; /* where the stub has saved the site's registers */
	/*
	 * Register of the form that was compared with 0 last, if the flags still hold the result;
	 * else FORM_NONE. tested_wide: all of it was compared, not its lower half.
	 */
	int tested;
	bool tested_wide;
	struct alignment alignment;
	/*
	 * For a whole stub: offset of the jump to the next stub, and whether the next stub is in
	 * reach.
	 */
	size_t next_jump;
	bool reaches;
};

void lowering_init(struct lowering *l, struct emit *e, const struct frame *frame);

/* ---- Translation by subject: see form_subject() ----------------------------------------- */

void lower_control(const struct lowering *l, const struct form_insn *insn);
void lower_operator(const struct lowering *l, const struct form_insn *insn);

/* ---- Shared functions -------------------------------------------------------------------- */

/* Translate a register and a memory operand of the form into those of the processor. */
int lower_register(int form_register);
struct emit_mem lower_mem(struct form_mem mem);

#endif
