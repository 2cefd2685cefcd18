/* SPDX-License-Identifier: MIT */
/*
 * Argument specifications of x86-64 (AT&T syntax).
 *
 * How operands are represented (see also struct arch_arg):
 *
 *	%eax			REGISTER; base 0, the ISA's number, width 4
 *	%ah			REGISTER; base 0, width 1, shift 8
 *	%xmm3 %ymm3 %zmm3	FP_REGISTER; base 3, width 16, 32, 64
 *	$-5			IMMEDIATE; disp. 64-bit values are taken modulo 2^64
 *	$sym+8			IMMEDIATE; disp + the symbol's address (not its contents)
 *	8(%rax,%rcx,4)		MEMORY; without an index: index NONE, scale 1
 *	sym+8(%rip)		MEMORY; base PC, symbol, disp 8
 *	sym+8(%rax)		MEMORY; base 0, symbol, disp 8
 *	sym+8  4660  0x1234	MEMORY; base NONE: an absolute address
 *
 * If a register is wider than the argument's size, the value is the register's low bytes. If the
 * register is narrower, it is extended as the sign of the size says (<sys/sdt.h>: the size governs,
 * not the register's name). A size other than 1, 2, 4 and 8 is that of an aggregate.
 *
 * These are deliberately UNKNOWN: segment overrides (%fs:0, of thread-local variables); 32-bit base
 * or index registers, whose sum wraps at 4 GiB; displacements beyond 32 bits with a register;
 * N(%rip), because a note has no next instruction to count from; sym@GOTPCREL and similar;
 * differences of symbols; %st, %mm0, %k0, segment and control registers; and Intel syntax.
 */
#ifndef ARCH_X86_ARGS_H
#define ARCH_X86_ARGS_H

#include "arch/arch.h"

/* Implements parse_args of arch/arch.h. */
size_t x86_64_parse_args(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);

#endif
