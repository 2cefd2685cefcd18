/* SPDX-License-Identifier: MIT */
/*
 * Machine code of aarch64 for the instructions of arch/stub/form.h. Each subject of them has a
 * file: jumps.c, values.c, memory.c, change.c, kernel.c, operators.c.
 */
#ifndef ARCH_AARCH64_STUB_LOWER_H
#define ARCH_AARCH64_STUB_LOWER_H

#include "arch/aarch64/emit.h"
#include "arch/stub/form.h"

struct arch_thread;
struct frame;
struct stub_plan;

/*
 * Registers besides those of the form: for what takes more than one step; and where a subroutine
 * that calls others returns to. Subroutines also change the link register.
 */
enum { A64_STATUS = 8, A64_NESTED = 12, A64_STEP = 16, A64_STEP_2 = 17 };

/* The processor's register that is one of the form. */
int a64_register(int form_register);

/* Labels are those of `e`. All pointers are borrowed. */
struct a64_lowering {
	struct form form;
	struct a64 *e;
	const struct frame *frame; /* where the site's registers are */
	const struct arch_thread *thread;
	/* Of a whole stub: where it goes to the next one, and whether that is in reach. */
	size_t next_jump;
	bool reaches;
};

/* ---- Instructions of each subject: see form_subject() ----------------------------------- */

void a64_lower_control(const struct a64_lowering *l, const struct form_insn *insn);

/* ---- What these share -------------------------------------------------------------------- */

/* rd = rn + disp; rn may be the stack pointer. Changes A64_STEP_2, and A64_STEP. */
void a64_add_disp(struct a64 *e, int rd, int rn, int64_t disp);
/* rt = `bytes` bytes at `mem`; and back. Change A64_STEP and A64_STEP_2. */
void a64_lower_load(struct a64 *e, int rt, struct form_mem mem, unsigned int bytes, bool is_signed);

/* plan->time: see struct stub_isa. */
void a64_time_subroutine(struct form *f, const struct stub_plan *plan);

void a64_lowering_init(struct a64_lowering *l, struct a64 *e, const struct frame *frame,
	const struct arch_thread *thread);

#endif
