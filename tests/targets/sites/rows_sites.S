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

	.text

.macro FUNCTION name
	.globl	rows_\name
	.type	rows_\name, @function
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
	PROBE_NOP rows, r\row\()_\number, "8@%rdi"
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
.macro ADD_TEN
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
.endm

	.irp	count, 1, 2, 41, 400
FUNCTION \count
	ROW	\count, 1, \count
	ADD_TEN
END \count
	.endr

FUNCTION branch
	test	$1, %dil
	jne	1f
	ROW	branch, 1, 60
1:
	ROW	branch, 61, 100
	ADD_TEN
END branch

FUNCTION hop
	mov	%rdi, %rax
	test	$1, %dil
	ROW	hop, 1, 60
	jne	1f
1:
	add	$10, %rax
	ret
	.skip	13, 0xcc
END hop

FUNCTION spin
	xor	%eax, %eax
1:
	inc	%rax
	ROW	spin, 1, 50
	pause
	pause
	pause
	dec	%rax
	jne	2f
	cmpl	$0, (%rdi)
	je	1b
2:
	ret
END spin

	.section .note.GNU-stack, "", @progbits
