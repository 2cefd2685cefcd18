/* SPDX-License-Identifier: MIT */
/* The argument specifications of a note. */
#ifndef ARCH_ARG_H
#define ARCH_ARG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One argument of a probe, as the assembler printed it in the note:
 * `N@OP` (SystemTap's "User Space Probe Implementation"; <sys/sdt.h>).
 */
enum arch_arg_kind {
	ARCH_ARG_UNKNOWN,     /* not understood; shown with its spec, read as null */
	ARCH_ARG_IMMEDIATE,   /* the value is `disp` (+ the symbol's address) */
	ARCH_ARG_REGISTER,    /* `base`, from bit `shift`, `width` bytes wide */
	ARCH_ARG_FP_REGISTER, /* `base` counts the vector registers; low `width` bytes */
	ARCH_ARG_MEMORY	      /* [base + index * scale + disp (+ symbol)] */
};

#define ARCH_REG_NONE (-1)
/* The program counter as a base (`sym(%rip)`): only the symbol or `disp` counts then. */
#define ARCH_REG_PC (-2)

struct arch_arg {
	enum arch_arg_kind kind;
	uint32_t size;	    /* bytes of the value: 1, 2, 4, 8; any other number: an aggregate */
	bool is_signed;	    /* a negative size in the note */
	bool is_float;	    /* an `f` after the size */
	bool has_size;	    /* false if the note has none: `size` is then the operand's */
	int8_t base;	    /* a register number of this ISA, or ARCH_REG_NONE, ARCH_REG_PC */
	int8_t index;	    /* likewise, or ARCH_REG_NONE */
	uint8_t scale;	    /* 1, 2, 4 or 8 */
	uint8_t width;	    /* of the named register, in bytes: 1, 2, 4, 8, 16, 32, 64 */
	uint8_t shift;	    /* 8 for %ah, %bh, %ch, %dh; else 0 */
	int64_t disp;	    /* displacement, absolute address or immediate */
	const char *symbol; /* into the note's string, not terminated; NULL if none */
	size_t symbol_length;
	uint8_t symbol_bits; /* not 0: only the low bits of their sum count */
	const char *spec;    /* this argument's own text, into the note's string */
	size_t spec_length;
};

/* Probes have at most 12 arguments in <sys/sdt.h>; libstapsdt and usdt.h allow more. */
enum { ARCH_ARGS_MAX = 32 };

#endif
