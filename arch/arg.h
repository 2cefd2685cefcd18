/* SPDX-License-Identifier: MIT */
/* The arguments of a probe, by its note. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The form of an argument, in the note as `N@OP`: a size in bytes, and an operand as assembly
 * (SystemTap's "User Space Probe Implementation"; <sys/sdt.h>).
 */
enum arch_arg_kind {
	ARCH_ARG_UNKNOWN,     /* not understood: shown as text, and read as null */
	ARCH_ARG_IMMEDIATE,   /* the value is `disp` (plus the symbol's address) */
	ARCH_ARG_REGISTER,    /* `width` bytes of register `base`, from bit `shift` on */
	ARCH_ARG_FP_REGISTER, /* the low `width` bytes of vector register number `base` */
	ARCH_ARG_MEMORY,      /* the memory at base + index * scale + disp (+ symbol) */
	ARCH_ARG_ADDRESS      /* that address itself; in no note */
};

#define ARCH_REG_NONE (-1)
/*
 * The program counter as a base (`sym(%rip)`): the address is the symbol's or, once that is
 * resolved, `disp`.
 */
#define ARCH_REG_PC (-2)

struct arch_arg {
	enum arch_arg_kind kind;
	/* bytes of the value: 1, 2, 4, 8; others mean an aggregate */
	uint32_t size;
	bool is_signed; /* the size in the note is negative */
	bool is_float;	/* the size in the note ends in `f` */
	bool has_size;	/* the note has a size; if not, `size` is that of the operand */
	int8_t base;	/* register number on this ISA, ARCH_REG_NONE or ARCH_REG_PC */
	int8_t index;	/* register number on this ISA, or ARCH_REG_NONE */
	uint8_t scale;	/* factor of the index: 1, 2, 4 or 8 */
	uint8_t width;	/* size of the named register in bytes: 1, 2, 4, 8, 16, 32, 64 */
	/* first bit in the register: 8 for %ah, %bh, %ch, %dh; else 0 */
	uint8_t shift;
	int64_t disp;	    /* displacement, absolute address or immediate */
	const char *symbol; /* points into the note's string, not terminated; NULL if absent */
	size_t symbol_length;
	/* if not 0, the argument is only this number of low bits of symbol + disp */
	uint8_t symbol_bits;
	const char *spec; /* text of this argument; points into the note's string */
	size_t spec_length;
};

/* <sys/sdt.h> allows 12 for a probe; libstapsdt and usdt.h more. */
enum { ARCH_ARGS_MAX = 32 };
