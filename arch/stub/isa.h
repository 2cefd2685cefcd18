/* SPDX-License-Identifier: MIT */
/* What the generator of stubs must know of an instruction set besides its form. */
#ifndef ARCH_STUB_ISA_H
#define ARCH_STUB_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* Registers have the numbers that operands have. */
struct stub_isa {
	int8_t stack_pointer, frame_pointer, first_argument;
	/* Operands may name the general registers, and the vector registers, below these. */
	uint8_t registers, vectors;
	bool has_cpu_hint; /* FORM_CPU needs no restartable sequences */
	uint16_t red_zone; /* bytes below the stack pointer that belong to the program */
};

#endif
