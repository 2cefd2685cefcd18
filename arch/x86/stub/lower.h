/* SPDX-License-Identifier: MIT */
/* Machine code of x86-64 for the instructions of arch/stub/form.h. */
#ifndef ARCH_X86_STUB_LOWER_H
#define ARCH_X86_STUB_LOWER_H

#include "arch/stub/form.h"
#include "arch/x86/emit.h"

struct frame;

/* Labels are those of `e`. Both pointers are borrowed. */
struct lowering {
	struct form form;
	struct emit *e;
	const struct frame *frame; /* where the site's registers are */
	/* The flags tell whether this register of the form, or its lower half, is 0; or FORM_NONE
	 */
	int tested;
	bool tested_wide;
	/* Of a whole stub: where it goes to the next one, and whether that is in reach. */
	size_t next_jump;
	bool reaches;
};

/* Where machine code goes: what is not written in the form; and the same, with another frame. */
struct emit *lowering_emit(struct form *f);
struct emit *lowering_set_frame(struct form *f, const struct frame *frame);
void lowering_init(struct lowering *l, struct emit *e, const struct frame *frame);

#endif
