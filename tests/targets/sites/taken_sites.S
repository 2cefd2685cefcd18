/* SPDX-License-Identifier: MIT */
/* A site that can only be punned, as in loop_sites.S: a branch enters after its nop. */
#include "../note.h"

	.text
	.globl	taken_pass, taken_at
	.type	taken_pass, @function
taken_pass:
	.cfi_startproc
	mov	%rdi, %rcx
	xor	%eax, %eax
	add	$1, %rcx
	jmp	2f
	.balign 16
1:
taken_at:
	PROBE_NOP taken, site, "8@%rcx"
2:
	.byte	0x48, 0x89, 0xc2	/* mov %rax, %rdx */
	.byte	0x90, 0x48, 0xff, 0xc0	/* nop; inc %rax */
	sub	$1, %rcx
	jnz	1b
	mov	%rdx, %rax
	ret
	.cfi_endproc
	.size	taken_pass, . - taken_pass

	.section .note.GNU-stack, "", @progbits
