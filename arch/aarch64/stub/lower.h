/* SPDX-License-Identifier: MIT */
/* Machine code of aarch64 for the instructions of arch/stub/form.h. */
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

/* The register that has an address: A64_STEP, or a base that is one. Changes A64_STEP_2. */
int a64_address_of(struct a64 *e, struct form_mem mem);
/* The register that has the operand a, or `value`: A64_STATUS, or the zero register. */
int a64_operand(struct a64 *e, const struct form_insn *insn);
/* COUNT, PUBLISH_ADD, COUNT_SHARED, FETCH_ADD, EXCHANGE and CAS (change.c). */
void a64_lower_change(const struct a64_lowering *l, const struct form_insn *insn);

/* The frame (frame.c): see struct stub_isa. */
void a64_lay_out(struct stub_plan *plan, int registers);
void a64_enter(struct form *f, const struct stub_plan *plan);
void a64_grow(struct form *f, const struct stub_plan *plan);
void a64_shrink(struct form *f, const struct stub_plan *plan);
void a64_leave(struct form *f, const struct stub_plan *plan);

void a64_lowering_init(struct a64_lowering *l, struct a64 *e, const struct frame *frame,
	const struct arch_thread *thread);

#endif
