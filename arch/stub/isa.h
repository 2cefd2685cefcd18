/* SPDX-License-Identifier: MIT */
/* The facts about an instruction set that the generator of stubs uses, besides its back end. */
#ifndef ARCH_STUB_ISA_H
#define ARCH_STUB_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

struct form;
struct stub_plan;

/* Registers have the numbers that arguments of probes use (struct arch_arg). */
struct stub_isa {
	int8_t stack_pointer, frame_pointer, first_argument;
	/* The numbers of registers: arguments may name general and vector registers below these. */
	uint8_t registers, vectors;
	uint16_t red_zone; /* bytes below the stack pointer that the ABI leaves to the program */
	bool has_cpu_hint; /* FORM_CPU works without restartable sequences */

	/*
	 * Lays out both frames of a plan that has all its temporaries. The stub uses VALUE and the
	 * first `registers` of RIGHT, SCRATCH, SET, FROM, POINTER, NEXT, SPARE and SPARE_2. The
	 * small frame saves at most two of these, and has no temporaries.
	 */
	void (*lay_out)(struct stub_plan *p, int registers);
	/*
	 * Enters a stub with the small frame; changes to the whole frame, and back; leaves the stub
	 * for the next one. FORM_ORIGINAL then reads the site's registers from the new frame; after
	 * leave() from the whole frame, which the out-of-line code behind it uses.
	 */
	void (*enter)(struct form *f, const struct stub_plan *p);
	void (*grow)(struct form *f, const struct stub_plan *p);
	void (*shrink)(struct form *f, const struct stub_plan *p);
	void (*leave)(struct form *f, const struct stub_plan *p);
	/* Emits the out-of-line code of these four; NULL if they need none. */
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
