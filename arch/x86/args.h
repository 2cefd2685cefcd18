/* SPDX-License-Identifier: MIT */
/*
 * Argument specifications of x86-64 (AT&T syntax).
 *
 * How operands are represented, beyond what arch/arch.h says:
 *
 *	%eax			REGISTER; base 0, the ISA's number, width 4
 *	%ah			REGISTER; base 0, width 1, shift 8
 *	%xmm3 %ymm3 %zmm3	FP_REGISTER; base 3, width 16, 32, 64
 *	$-5			IMMEDIATE; disp. 64-bit values are taken modulo 2^64
 *	$sym+8			IMMEDIATE; disp + the symbol's address (not its contents)
 *	8(%rax,%rcx,4)		MEMORY; index NONE where there is none; scale is then 1
 *	sym+8(%rip)		MEMORY; base PC, symbol, disp 8
 *	sym+8(%rax)		MEMORY; base 0, symbol, disp 8
 *	sym+8  4660  0x1234	MEMORY; base NONE: an absolute address
 *
 * A register that is wider than the size: its low bytes are the value. One
 * that is narrower: the value is the register's, extended as the size's sign
 * says (<sys/sdt.h>: the size governs, not the name). A size other than
 * 1, 2, 4 and 8 is that of an aggregate.
 *
 * UNKNOWN on purpose: segment overrides (%fs:0, of thread-local variables);
 * 32-bit base or index registers, whose sum wraps at 4 GiB; displacements
 * beyond 32 bits beside a register; N(%rip), since a note has no next
 * instruction to count from; sym@GOTPCREL and its like; differences of
 * symbols; %st, %mm0, %k0, segment and control registers; and Intel syntax.
 */
#ifndef ARCH_X86_ARGS_H
#define ARCH_X86_ARGS_H

#include "arch/arch.h"

/* The operation parse_args of arch/arch.h. */
size_t x86_64_parse_args(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);

#endif
