/* SPDX-License-Identifier: MIT */
/*
 * Sites with less room after the nop than a jump needs, and no unused bytes near by. A branch leads
 * to each nop, so nothing can be moved before it. The bytes behind the nop would be the distance of
 * a pun that leads into the program. Each function returns its argument plus 10; an argument of 0
 * is no hit. On aarch64 the nop itself is as long as a jump.
 *
 *	uint64_t tight_twin(uint64_t value)	something enters right after the nop
 *	uint64_t tight_call(uint64_t value)	the same; a call follows, in what moves
 *	uint64_t tight_part(uint64_t value)	something enters three bytes after the nop
 *	uint64_t tight_page(uint64_t value)	a page ends one byte after the nop
 */
#include "../note.h"

	.text

#ifdef __x86_64__

.macro FUNCTION name
	.globl	tight_\name
	.type	tight_\name, @function
tight_\name:
	.cfi_startproc
.endm
/* Returns, beyond the reach of a short jump, so that there is no padding near by. */
.macro END name
	ret
	.skip	160, 0xc3
	.cfi_endproc
	.size	tight_\name, . - tight_\name
.endm

	.skip	160, 0xc3
FUNCTION twin
	mov	%rdi, %rax
	test	%rdi, %rdi
	je	2f
	test	$1, %dil
	je	1f
1:	PROBE_NOP tight, twin, "8@%rax"
2:
	.byte	0x05, 0, 0, 0, 0	/* add $0, %eax */
	lea	10(%rax), %rax
END twin

FUNCTION call
	push	%rdi
	test	%rdi, %rdi
	je	2f
	test	$1, %dil
	je	1f
1:	PROBE_NOP tight, call, "8@%rdi"
2:
	call	3f
	pop	%rdx
	add	%rdx, %rax
	ret
3:
	mov	$10, %eax
END call

FUNCTION part
	mov	%rdi, %rax
	test	%rdi, %rdi
	je	2f
	test	$1, %dil
	je	1f
1:	PROBE_NOP tight, part, "8@%rax"
	cmp	$-1, %eax
2:
	inc	%edx
	lea	10(%rdi), %rax
END part

	.balign	4096, 0xc3
	.skip	4096 - 2 - 14, 0xc3
FUNCTION page
	mov	%rdi, %rax
	test	%rdi, %rdi
	je	2f
	test	$1, %dil
	je	1f
1:	PROBE_NOP tight, page, "8@%rax"
	.byte	0xb8, 0, 0, 0, 0xc3	/* mov $0xc3000000, %eax: from its second byte, a distance */
2:
	lea	10(%rdi), %rax
END page

#else /* aarch64 */

/* A branch leads to the nop, another right behind it. */
.macro FUNCTION name
	.globl	tight_\name
	.type	tight_\name, %function
tight_\name:
	.cfi_startproc
	cbz	x0, 2f
	tbz	x0, 0, 1f
1:	PROBE_NOP tight, \name, "8@x0"
2:
	add	x0, x0, 10
	ret
	.cfi_endproc
	.size	tight_\name, . - tight_\name
.endm

FUNCTION twin
FUNCTION call
FUNCTION part
FUNCTION page

#endif

	.section .note.GNU-stack, "", @progbits
