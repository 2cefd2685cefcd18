/* SPDX-License-Identifier: MIT */
/*
 * Argument specifications of aarch64.
 *
 * The table shows how struct arch_arg (arch/arg.h) represents each operand:
 *
 *	x0 ... x30, fp, lr, ip0, ip1	REGISTER; base 0 to 30, width 8
 *	w0 ... w30			REGISTER; width 4
 *	sp, wsp				REGISTER; base 31, width 8 or 4
 *	xzr, wzr			IMMEDIATE 0; size 8 or 4 if the note states none
 *	b1 h1 s1 d1 q1 v1		FP_REGISTER; base 1, width 1, 2, 4, 8, 16, 16
 *	5, #-5				IMMEDIATE; 64-bit values are taken modulo 2^64
 *	sym+8				IMMEDIATE; disp + the symbol's address (not its contents)
 *	[x0] [sp, 60] [x0, #-16]	MEMORY; index NONE, scale 1
 *	[x1, x2] [x1, x2, lsl 3]	MEMORY; scale 1 or 8
 *	[x0, #:lo12:sym+8]		MEMORY; symbol_bits 12: x0 holds the page from adrp
 *
 * These operands are UNKNOWN on purpose: local labels, which are in no symbol table; index
 * registers extended from 32 bits (uxtw, sxtw); write-back; shifts above 3; x31; vector elements.
 *
 * gcc prints `[x0, #:lo12:.LANCHOR0]` for a static variable, unless it runs with
 * -fno-section-anchors. The adrp before the site tells the page. But nothing in the file tells
 * which variable of that page the label stands for.
 */
#ifndef ARCH_AARCH64_ARGS_H
#define ARCH_AARCH64_ARGS_H

#include "arch/arch.h"

/* Implements parse_args of arch/arch.h. */
size_t aarch64_parse_args(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);

#endif
