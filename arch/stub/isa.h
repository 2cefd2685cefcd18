/* SPDX-License-Identifier: MIT */
/* What the generator of stubs knows about an instruction set, besides the back end of its form. */
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
	 * Lays out both stack frames of a plan that has all of its temporaries. `registers` is the
	 * number of form registers the stub uses besides VALUE: the first ones of RIGHT, SCRATCH,
	 * SET, FROM, POINTER, NEXT, SPARE and SPARE_2. The small frame saves at most two of these,
	 * and has no temporaries.
	 */
	void (*lay_out)(struct stub_plan *p, int registers);
	/*
	 * enter() enters a stub with the small frame; grow() changes to the whole frame, shrink()
	 * back to the small one; leave() leaves the stub for the next one. After each of them,
	 * FORM_ORIGINAL reads the site's registers from the current frame; after leave() from the
	 * whole one, because the out-of-line code that follows runs with that.
	 */
	void (*enter)(struct form *f, const struct stub_plan *p);
	void (*grow)(struct form *f, const struct stub_plan *p);
	void (*shrink)(struct form *f, const struct stub_plan *p);
	void (*leave)(struct form *f, const struct stub_plan *p);
	/* Emits the out-of-line code that the four functions above need; NULL if they need none. */
	void (*late)(struct form *f, const struct stub_plan *p);

	/*
	 * The parts that are not written in the form. NULL if the instruction set lacks the part; a
	 * stub that needs the part is then refused. call() calls a function of the program
	 * (arch_stub.call); this may change all registers. time_subroutine() emits the subroutine
	 * plan->time: FORM_VALUE = CLOCK_MONOTONIC in nanoseconds, or 0 if a seccomp filter forbids
	 * the system call; it changes no other register.
	 */
	void (*call)(struct form *f, const struct stub_plan *p);
	void (*time_subroutine)(struct form *f, const struct stub_plan *p);
};

#endif
