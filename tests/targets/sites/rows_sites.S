/* SPDX-License-Identifier: MIT */
/*
 * Rows of short nops, each of which is a site. Each function returns its argument plus 10.
 *
 *	uint64_t rows_N(uint64_t value)			N sites: 1, 2, 41, 400
 *	uint64_t rows_branch(uint64_t value)		100; an odd value enters at the 61st
 *	uint64_t rows_hop(uint64_t value)		60, and room for a short jump only
 *
 *	uint64_t rows_spin(const uint32_t *stop)	passes 50 again and again; returns 0
 */
#include "../note.h"
#include "rows.inc"

#ifdef __x86_64__

#define VALUE "8@%rdi"
.macro HOP_BEGIN
	mov	%rdi, %rax
	test	$1, %dil
.endm
.macro HOP_END
	jne	1f
1:
	add	$10, %rax
	ret
	.skip	13, 0xcc
.endm

#else /* aarch64 */

#define VALUE "8@x0"
/* No jump is short. */
.macro HOP_BEGIN
	tst	x0, 1
.endm
.macro HOP_END
	b.ne	1f
1:
	ADD_TEN
.endm

#endif

	.text

.macro FUNCTION name
	.globl	rows_\name
	.type	rows_\name, %function
	.balign 16
rows_\name:
	.cfi_startproc
.endm
.macro END name
	.cfi_endproc
	.size	rows_\name, . - rows_\name
.endm
.macro SITE row, number
	.noaltmacro
	PROBE_NOP rows, r\row\()_\number, VALUE
.endm
/* The sites `first` to `last` of a row; only in the other syntax of macros does % count. */
.macro ROW row, first, last
	.set	number, \first
	.rept	\last - \first + 1
	.altmacro
	SITE	\row, %number
	.set	number, number + 1
	.endr
.endm

	.irp	count, 1, 2, 41, 400
FUNCTION \count
	ROW	\count, 1, \count
	ADD_TEN
END \count
	.endr

FUNCTION branch
	GO_ODD
	ROW	branch, 1, 60
1:
	ROW	branch, 61, 100
	ADD_TEN
END branch

FUNCTION hop
	HOP_BEGIN
	ROW	hop, 1, 60
	HOP_END
END hop

FUNCTION spin
	SPIN_BEGIN
	ROW	spin, 1, 50
	SPIN_END
END spin

	.section .note.GNU-stack, "", @progbits
