/* SPDX-License-Identifier: MIT */
/*
 * Sites with room for a short jump alone. Each function returns its argument plus 10.
 *
 *	uint64_t hops_branch(uint64_t value)	an instruction of two bytes, and a place where a
 *						branch enters
 *	uint64_t hops_twice(uint64_t value)	two of those, near the same padding; it is a jump,
 *						as at libstdcxx:rethrow
 *	uint64_t hops_row(uint64_t value)	two neighbours
 *	uint64_t hops_between(uint64_t value)	one instruction stands between two sites
 *	uint64_t hops_last(uint64_t value)	the jump takes the place of two instructions; a jump of
 *						five bytes would reach into hops_after()
 *	uint64_t hops_none(uint64_t value)	padding that is somebody's
 *	uint64_t hops_spin(const uint32_t *stop)	passes one again and again; returns 0
 */
#include "../note.h"

	.text

.macro FUNCTION name
	.globl	hops_\name
	.type	hops_\name, @function
	.balign 64
hops_\name:
	.cfi_startproc
.endm
.macro END name
	.cfi_endproc
	.size	hops_\name, . - hops_\name
	.nops	20
.endm
/* A branch to the end comes from the start of the function, where %rdi is 0. */
.macro BRANCH name
	PROBE_NOP hops, \name, "8@%rdi"
	.byte	0xeb, 0
.endm

FUNCTION branch
	test	%rdi, %rdi
	je	1f
	PROBE_NOP hops, branch, "8@%rdi"
	test	%edi, %edi
1:
	lea	1(%rdi), %rax
	lea	2(%rax), %rax
	lea	3(%rax), %rax
	lea	4(%rax), %rax
	ret
END branch

FUNCTION twice
	test	%rdi, %rdi
	je	1f
	BRANCH	twice_first
1:
	test	%rdi, %rdi
	je	2f
	BRANCH	twice_second
2:
	lea	10(%rdi), %rax
	ret
END twice

FUNCTION row
	test	%rdi, %rdi
	je	1f
	PROBE_NOP hops, row_first, "8@%rdi"
	BRANCH	row_second
1:
	lea	10(%rdi), %rax
	ret
END row

FUNCTION between
	lea	(%rdi), %rax
	test	%rdi, %rdi
	je	1f
	PROBE_NOP hops, between_first, "8@%rax"
	inc	%rax
	PROBE_NOP hops, between_second, "8@%rax"
	lea	9(%rax), %rax
	ret
1:
	lea	10(%rax), %rax
	ret
END between

FUNCTION last
	lea	10(%rdi), %rax
	PROBE_NOP hops, last, "8@%rdi"
	ret
	.byte	0x66, 0x90
	.cfi_endproc
	.size	hops_last, . - hops_last

	.globl	hops_after
	.type	hops_after, @function
hops_after:
	.cfi_startproc
	push	%rdi
	pop	%rax
	lea	10(%rax), %rax
	ret
END after

/* The padding holds a site, or a branch enters it, or it may be room for live patches. */
	.balign 64
	.zero	128, 0x90
FUNCTION none
	test	%rdi, %rdi
	je	1f
	BRANCH	none
1:
	lea	10(%rdi), %rax
	test	$1, %dil
	je	2f
	ret
	.byte	0x0f, 0x1f, 0x40, 0
2:
	.byte	0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
	ret
	PROBE_NOP hops, dead, "8@%rdi"
	.byte	0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
	.cfi_endproc
	.size	hops_none, . - hops_none
	.zero	128, 0x90

/* Most often it is where the short jump will be. */
FUNCTION spin
	xor	%eax, %eax
	test	%rdi, %rdi
	je	2f
1:
	inc	%rax
	PROBE_NOP hops, spin, "8@%rax"
	pause
2:
	pause
	dec	%rax
	jne	3f
	cmpl	$0, (%rdi)
	je	1b
3:
	ret
END spin

	.section .note.GNU-stack, "", @progbits
