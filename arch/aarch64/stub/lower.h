/* SPDX-License-Identifier: MIT */
/* The back end of the form (arch/stub/form.h) for aarch64. */
#pragma once

#include "arch/aarch64/emit.h"
#include "arch/stub/form.h"

struct arch_thread;
struct frame;
struct stub_plan;

/*
 * Registers beside the form's. A64_STATUS, A64_STEP and A64_STEP_2 hold intermediate values,
 * A64_NESTED the return address of a subroutine that calls another. Subroutines also change the
 * link register.
 */
enum { A64_STATUS = 8, A64_NESTED = 12, A64_STEP = 16, A64_STEP_2 = 17 };

int a64_register(int form_register);

/* Labels are labels of `e`. All pointers are borrowed. */
struct a64_lowering {
	struct form form;
	struct a64 *e;
	const struct frame *frame; /* says where the site's registers are saved */
	const struct arch_thread *thread;
	/* The offset of a whole stub's jump to the next stub, and whether that is in reach. */
	size_t next_jump;
	bool reaches;
};

/* ---- Functions that the subjects share --------------------------------------------------- */

/* rd = rn + disp; rn may be sp. Changes A64_STEP and A64_STEP_2. */
void a64_add_disp(struct a64 *e, int rd, int rn, int64_t disp);
/* rt = `bytes` bytes at `mem`. Changes A64_STEP and A64_STEP_2. */
void a64_lower_load(struct a64 *e, int rt, struct form_mem mem, unsigned int bytes, bool is_signed);

/* The subroutine plan->time: see struct stub_isa. */
void a64_time_subroutine(struct form *f, const struct stub_plan *plan);

void a64_lowering_init(struct a64_lowering *l, struct a64 *e, const struct frame *frame,
	const struct arch_thread *thread);
