/* SPDX-License-Identifier: MIT */
/* Facts about an instruction set for the generator of stubs, besides its back end. */
#ifndef ARCH_STUB_ISA_H
#define ARCH_STUB_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

struct form;
struct stub_plan;

/* Registers have the numbers of probes' arguments (struct arch_arg). */
struct stub_isa {
	int8_t stack_pointer, frame_pointer, first_argument;
	/* Arguments may name general and vector registers with numbers below these. */
	uint8_t registers, vectors;
	/* bytes below the stack pointer where the program may have data */
	uint16_t red_zone;
	bool has_cpu_hint; /* FORM_CPU works without restartable sequences */

	/*
	 * Lays out both frames, after all temporaries are allocated. The stub uses VALUE and the
	 * first `registers` of RIGHT, SCRATCH, SET, FROM, POINTER, NEXT, SPARE, SPARE_2. The small
	 * frame saves at most two of them, and has no temporaries.
	 */
	void (*lay_out)(struct stub_plan *p, int registers);
	/*
	 * Enter a stub with the small frame; change to the whole frame; change back; leave for the
	 * next stub. FORM_ORIGINAL then reads the site's registers from the new frame; after
	 * leave(), from the whole one, for out-of-line code.
	 */
	void (*enter)(struct form *f, const struct stub_plan *p);
	void (*grow)(struct form *f, const struct stub_plan *p);
	void (*shrink)(struct form *f, const struct stub_plan *p);
	void (*leave)(struct form *f, const struct stub_plan *p);
	/* Emit the out-of-line code of the functions above; may be NULL. */
	void (*late)(struct form *f, const struct stub_plan *p);

	/*
	 * Emitted by the back end, not in the form. If one is NULL, stubs that need it are refused.
	 * call() calls a function of the program (arch_stub.call), which may change all registers.
	 * time_subroutine() is plan->time: FORM_VALUE = CLOCK_MONOTONIC in ns, 0 if a filter
	 * forbids the call; keeps other registers.
	 */
	void (*call)(struct form *f, const struct stub_plan *p);
	void (*time_subroutine)(struct form *f, const struct stub_plan *p);
};

#endif
