/* SPDX-License-Identifier: MIT */
/* What the generator of stubs must know of an instruction set besides its form. */
#ifndef ARCH_STUB_ISA_H
#define ARCH_STUB_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

struct form;
struct stub_plan;

/* Registers have the numbers that operands have. */
struct stub_isa {
	int8_t stack_pointer, frame_pointer, first_argument;
	/* Operands may name the general registers, and the vector registers, below these. */
	uint8_t registers, vectors;
	uint16_t red_zone; /* bytes below the stack pointer that belong to the program */
	bool has_cpu_hint; /* FORM_CPU needs no restartable sequences */

	/*
	 * Lays out both frames of a plan that has all of its temporaries. They have FORM_VALUE, and
	 * the first `registers` of RIGHT, SCRATCH, SET, FROM, POINTER, NEXT, SPARE and SPARE_2; the
	 * small frame two of these at most, and no temporaries.
	 */
	void (*lay_out)(struct stub_plan *p, int registers);
	/*
	 * Enters a stub with the small frame, goes over to the whole one, and back; and leaves the
	 * stub for the next one. Each makes the form read the site's registers from there; leave
	 * from the whole frame, with which what is out of line runs.
	 */
	void (*enter)(struct form *f, const struct stub_plan *p);
	void (*grow)(struct form *f, const struct stub_plan *p);
	void (*shrink)(struct form *f, const struct stub_plan *p);
	void (*leave)(struct form *f, const struct stub_plan *p);
	/* What these need out of line; NULL: nothing. */
	void (*late)(struct form *f, const struct stub_plan *p);

	/*
	 * What is not written in the form; NULL: there is none, and stubs that need it are refused.
	 * `call` calls a function of the program (call.c), and may change all registers. The
	 * subroutine plan->time: FORM_VALUE = CLOCK_MONOTONIC in nanoseconds, or 0 if a filter
	 * forbids the system call; it changes nothing else.
	 */
	void (*call)(struct form *f, const struct stub_plan *p);
	void (*time_subroutine)(struct form *f, const struct stub_plan *p);
};

#endif
