/* SPDX-License-Identifier: MIT */
/*
 * Machine code of x86-64 for the instructions of arch/stub/form.h. Each subject of them has a file:
 * jumps.c, values.c, memory.c, change.c, kernel.c, double.c, operators.c.
 */
#ifndef ARCH_X86_STUB_LOWER_H
#define ARCH_X86_STUB_LOWER_H

#include "arch/stub/form.h"
#include "arch/x86/emit.h"

struct frame;

/* Labels of a stub that clears flags (alignment.c): if they are set; and after that. */
struct alignment {
	int clear, cleared, restore, restored;
};

/* Labels are those of `e`. Both pointers are borrowed. */
struct lowering {
	struct form form;
	struct emit *e;
	const struct frame *frame; /* where the site's registers are */
	/* The flags tell whether this register of the form, or its lower half, is 0; or FORM_NONE
	 */
	int tested;
	bool tested_wide;
	struct alignment alignment;
	/* Of a whole stub: where it goes to the next one, and whether that is in reach. */
	size_t next_jump;
	bool reaches;
};

void lowering_init(struct lowering *l, struct emit *e, const struct frame *frame);

/* ---- Instructions of each subject: see form_subject() ----------------------------------- */

void lower_control(const struct lowering *l, const struct form_insn *insn);
void lower_operator(const struct lowering *l, const struct form_insn *insn);

/* ---- What these share -------------------------------------------------------------------- */

/* The processor's register that is one of the form; and an operand in memory. */
int lower_register(int form_register);
struct emit_mem lower_mem(struct form_mem mem);

#endif
