/* SPDX-License-Identifier: MIT */
/*
 * Sites with a branch to the instruction after the nop, as in `if (enabled) PROBE()`: a jump fits
 * only before them. Each function returns its argument plus 10.
 *
 *	uint64_t heads_odd(uint64_t value)	passed with odd arguments; they are the argument
 *						plus 11
 *	uint64_t heads_branch(uint64_t value)	the branch that skips it is replaced, too
 *	uint64_t heads_entered(uint64_t value)	a branch leads to the nop as well
 *	uint64_t heads_first(uint64_t value)	only the first instruction of the function would do
 *	uint64_t heads_spin(const uint32_t *stop)	passes one again and again; returns 0
 */
#include "../note.h"

	.text

.macro FUNCTION name
	.globl	heads_\name
	.type	heads_\name, @function
	.balign 64
heads_\name:
	.cfi_startproc
.endm
/* These four bytes would be the distance of a pun, which would lead into the program: 195. */
.macro END name
1:
	ret
	.byte	0, 0, 0
	.cfi_endproc
	.size	heads_\name, . - heads_\name
.endm

FUNCTION odd
	lea	10(%rdi), %rax
	test	$1, %dil
	je	1f
	lea	(%rax), %rcx
	lea	1(%rcx), %rdx
	PROBE_NOP heads, odd, "8@%rdx"
END odd

FUNCTION branch
	lea	10(%rdi), %rax
	test	%rdi, %rdi
	je	1f
	PROBE_NOP heads, branch, "8@%rax"
END branch

FUNCTION entered
	lea	10(%rdi), %rax
	test	%rdi, %rdi
	je	1f
	test	$1, %dil
	je	2f
	lea	(%rax), %rcx
	lea	1(%rcx), %rdx
2:
	PROBE_NOP heads, entered, "8@%rax"
END entered

FUNCTION first
	mov	$10, %rax
	jmp	3f
	.cfi_endproc
	.size	heads_first, . - heads_first
	.balign 64
heads_first_part:
	.type	heads_first_part, @function
	.cfi_startproc
3:
	lea	10(%rdi), %rax
	je	1f
	PROBE_NOP heads, first, "8@%rax"
1:
	ret
	.byte	0, 0, 0
	.cfi_endproc
	.size	heads_first_part, . - heads_first_part

FUNCTION spin
	xor	%eax, %eax
2:
	xor	%eax, %eax
	test	%eax, %eax
	jne	1f
	lea	(%rax), %rcx
	lea	1(%rcx), %rdx
	PROBE_NOP heads, spin, "8@%rdx"
1:
	cmp	$1, %rdx
	jne	4f
	cmpl	$0, (%rdi)
	je	2b
	ret
4:
	inc	%rax
	ret
	.cfi_endproc
	.size	heads_spin, . - heads_spin
	.section .note.GNU-stack, "", @progbits
