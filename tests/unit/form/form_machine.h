/* SPDX-License-Identifier: MIT */
/* The machine of arch/stub/form.h: keeps instructions, and runs them. */
#ifndef TESTS_FORM_MACHINE_H
#define TESTS_FORM_MACHINE_H

#include <stddef.h>

#include "arch/stub/form.h"

struct frame;

enum { MACHINE_INSNS = 16384, MACHINE_LABELS = 4096, MACHINE_DATA = 4096 };

struct form_machine {
	struct form form;
	struct form_insn insns[MACHINE_INSNS];
	size_t count;
	size_t places[MACHINE_LABELS]; /* SIZE_MAX: not yet */
	int labels;
	uint8_t data[MACHINE_DATA]; /* of WORD; a label is also where it is in them */
	size_t data_bytes, data_places[MACHINE_LABELS];
};

/* What a program finds besides memory. */
struct form_world {
	const struct frame *frame; /* its layout */
	uint8_t *memory;	   /* of the frame */
	int live, stack;	   /* the registers that are not saved in it */
	uint64_t live_value;
	uint64_t vector_value; /* of vector register 0 */
	uint32_t cpu;
};

void form_machine_init(struct form_machine *m);
/* Fails the test if the program is no such program. */
void form_machine_run(const struct form_machine *m, const struct form_world *world);

#endif
