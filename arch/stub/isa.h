/* SPDX-License-Identifier: MIT */
/* The facts about an instruction set that the generator of stubs uses, besides its back end. */
#ifndef ARCH_STUB_ISA_H
#define ARCH_STUB_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

struct form;
struct stub_plan;

/* In this struct, registers have the numbers that arguments of probes use (struct arch_arg). */
struct stub_isa {
	int8_t stack_pointer, frame_pointer, first_argument;
	/*
	 * Arguments may name general registers below `registers`, and vector registers below
	 * `vectors`.
	 */
	uint8_t registers, vectors;
	/* bytes below the stack pointer where the ABI lets the program have data */
	uint16_t red_zone;
	bool has_cpu_hint; /* FORM_CPU works without restartable sequences */

	/*
	 * Lays out both frames of a plan, after all temporaries of the plan are allocated. The stub
	 * uses VALUE and the first `registers` of RIGHT, SCRATCH, SET, FROM, POINTER, NEXT, SPARE
	 * and SPARE_2. The small frame saves at most two of these registers, and has no
	 * temporaries.
	 */
	void (*lay_out)(struct stub_plan *p, int registers);
	/*
	 * enter() enters a stub with the small frame. grow() changes to the whole frame, shrink()
	 * back to the small one. leave() leaves the stub for the next one. After each of the first
	 * three, FORM_ORIGINAL reads the site's registers from the new frame. After leave(), it
	 * reads them from the whole frame, which the out-of-line code uses.
	 */
	void (*enter)(struct form *f, const struct stub_plan *p);
	void (*grow)(struct form *f, const struct stub_plan *p);
	void (*shrink)(struct form *f, const struct stub_plan *p);
	void (*leave)(struct form *f, const struct stub_plan *p);
	/*
	 * Emits the out-of-line code of enter(), grow(), shrink() and leave(). NULL if they need
	 * none.
	 */
	void (*late)(struct form *f, const struct stub_plan *p);

	/*
	 * Parts that are not written in the form. If one is NULL, stubs that need it are refused.
	 * call() calls a function of the program (arch_stub.call), which may change all registers.
	 * time_subroutine() emits plan->time: FORM_VALUE = CLOCK_MONOTONIC in nanoseconds, or 0 if
	 * a seccomp filter forbids the system call; it changes no other register.
	 */
	void (*call)(struct form *f, const struct stub_plan *p);
	void (*time_subroutine)(struct form *f, const struct stub_plan *p);
};

#endif
