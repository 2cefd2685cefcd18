/* SPDX-License-Identifier: MIT */
/*
 * void preserve_hit(void): loads struct preserve_state `preserve_before` into the machine,
 * passes the site preserve:hit, and stores the machine state into `preserve_after`. preserve.c
 * defines the layout.
 *
 * Between the site and the stores no instruction may change what is compared. On x86-64 they are
 * moves relative to the program counter, and the flags come last, after the red zone (pushf writes
 * there); on aarch64 the first is relative to the stack pointer, and the others to its register.
 */
#include "../note.h"

#ifdef __x86_64__

#define GPR(n)	((n) * 8)
#define FLAGS	(15 * 8)
#define ZONE	(16 * 8)
#define XMM(n)	(32 * 8 + (n) * 16)

	.text
	.globl	preserve_hit
	.type	preserve_hit, @function
preserve_hit:
	.cfi_startproc
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, preserve_rsp(%rip)

	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	preserve_before+XMM(\n)(%rip), %xmm\n
	.endr
	pushq	preserve_before+FLAGS(%rip)
	popfq
	.irp	n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
	mov	preserve_before+ZONE+8*\n-8(%rip), %rax
	mov	%rax, -8*\n(%rsp)
	.endr
	mov	preserve_before+GPR(0)(%rip), %rax
	mov	preserve_before+GPR(1)(%rip), %rbx
	mov	preserve_before+GPR(2)(%rip), %rcx
	mov	preserve_before+GPR(3)(%rip), %rdx
	mov	preserve_before+GPR(4)(%rip), %rsi
	mov	preserve_before+GPR(5)(%rip), %rdi
	mov	preserve_before+GPR(6)(%rip), %rbp
	mov	preserve_before+GPR(7)(%rip), %r8
	mov	preserve_before+GPR(8)(%rip), %r9
	mov	preserve_before+GPR(9)(%rip), %r10
	mov	preserve_before+GPR(10)(%rip), %r11
	mov	preserve_before+GPR(11)(%rip), %r12
	mov	preserve_before+GPR(12)(%rip), %r13
	mov	preserve_before+GPR(13)(%rip), %r14
	mov	preserve_before+GPR(14)(%rip), %r15

	PROBE_NOP preserve, hit, "8@%rax 4@%ebx -1@%r9b 8@-8(%rsp) 8f@%xmm3 8@preserve_text(%rip)"

	/* With these bytes after it, the site can also be punned: see loop_sites.S. */
	.byte	0x48, 0x89, 0xc0, 0x90	/* mov %rax, %rax; nop */
	mov	%rax, preserve_after+GPR(0)(%rip)
	mov	%rbx, preserve_after+GPR(1)(%rip)
	mov	%rcx, preserve_after+GPR(2)(%rip)
	mov	%rdx, preserve_after+GPR(3)(%rip)
	mov	%rsi, preserve_after+GPR(4)(%rip)
	mov	%rdi, preserve_after+GPR(5)(%rip)
	mov	%rbp, preserve_after+GPR(6)(%rip)
	mov	%r8, preserve_after+GPR(7)(%rip)
	mov	%r9, preserve_after+GPR(8)(%rip)
	mov	%r10, preserve_after+GPR(9)(%rip)
	mov	%r11, preserve_after+GPR(10)(%rip)
	mov	%r12, preserve_after+GPR(11)(%rip)
	mov	%r13, preserve_after+GPR(12)(%rip)
	mov	%r14, preserve_after+GPR(13)(%rip)
	mov	%r15, preserve_after+GPR(14)(%rip)
	.irp	n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
	mov	-8*\n(%rsp), %rax
	mov	%rax, preserve_after+ZONE+8*\n-8(%rip)
	.endr
	pushfq
	popq	preserve_after+FLAGS(%rip)
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	%xmm\n, preserve_after+XMM(\n)(%rip)
	.endr

	cld
	mov	preserve_rsp(%rip), %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
	.cfi_endproc
	.size	preserve_hit, . - preserve_hit

	.local	preserve_rsp
	.comm	preserve_rsp, 8, 8
#else /* aarch64 */

#define GPR(n)	((n) * 8)
#define FLAGS	(31 * 8)
#define FPSR	(32 * 8)
#define V(n)	(34 * 8 + (n) * 16)

	.text
	.globl	preserve_hit
	.type	preserve_hit, %function
preserve_hit:
	.cfi_startproc
	stp	x29, x30, [sp, -160]!
	stp	x19, x20, [sp, 16]
	stp	x21, x22, [sp, 32]
	stp	x23, x24, [sp, 48]
	stp	x25, x26, [sp, 64]
	stp	x27, x28, [sp, 80]
	stp	d8, d9, [sp, 96]
	stp	d10, d11, [sp, 112]
	stp	d12, d13, [sp, 128]
	stp	d14, d15, [sp, 144]
	sub	sp, sp, 32

	adrp	x9, preserve_text
	ldr	x9, [x9, :lo12:preserve_text]
	stp	x9, xzr, [sp]
	adrp	x9, preserve_before
	add	x9, x9, :lo12:preserve_before
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	ldr	q\n, [x9, V(\n)]
	.endr
	.irp	n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	ldr	q\n, [x9, V(\n)]
	.endr
	ldp	x0, x1, [x9, FLAGS]
	msr	nzcv, x0
	msr	fpsr, x1
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19
	ldr	x\n, [x9, GPR(\n)]
	.endr
	.irp	n, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 9
	ldr	x\n, [x9, GPR(\n)]
	.endr

	PROBE_NOP preserve, hit, "8@x0 4@w1 -1@w9 8@[sp, 8] 8f@d3 8@[sp]"

	str	x0, [sp, 16]
	adrp	x0, preserve_after
	add	x0, x0, :lo12:preserve_after
	.irp	n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	str	x\n, [x0, GPR(\n)]
	.endr
	.irp	n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
	str	x\n, [x0, GPR(\n)]
	.endr
	ldr	x1, [sp, 16]
	str	x1, [x0, GPR(0)]
	mrs	x1, nzcv
	mrs	x2, fpsr
	stp	x1, x2, [x0, FLAGS]
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	str	q\n, [x0, V(\n)]
	.endr
	.irp	n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	str	q\n, [x0, V(\n)]
	.endr

	add	sp, sp, 32
	ldp	x19, x20, [sp, 16]
	ldp	x21, x22, [sp, 32]
	ldp	x23, x24, [sp, 48]
	ldp	x25, x26, [sp, 64]
	ldp	x27, x28, [sp, 80]
	ldp	d8, d9, [sp, 96]
	ldp	d10, d11, [sp, 112]
	ldp	d12, d13, [sp, 128]
	ldp	d14, d15, [sp, 144]
	ldp	x29, x30, [sp], 160
	ret
	.cfi_endproc
	.size	preserve_hit, . - preserve_hit

#endif

	.section .note.GNU-stack, "", @progbits
