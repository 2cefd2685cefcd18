/* SPDX-License-Identifier: MIT */
/*
 * void kept_run(const struct kept *in, struct kept *out, uint64_t passes, uint64_t has_sve): loads all
 * registers, passes two probes so often, and stores them; see kept.c. x28 counts down. The first
 * probe has its jump behind the nop, the second over it, as a branch leads behind it.
 */
#include "../note.h"

#ifdef __aarch64__
	.arch	armv8-a+sve
	.text

	.set	NZCV, 248
	.set	FPCR, 256
	.set	FPSR, 264
	.set	FFR, 272
	.set	P, 304
	.set	V, 816
	.set	OUT, 96
	.set	SVE, 104

/* clang-format off */
	.globl	kept_run
	.type	kept_run, %function
kept_run:
	sub	sp, sp, 192
	stp	x19, x20, [sp]
	stp	x21, x22, [sp, 16]
	stp	x23, x24, [sp, 32]
	stp	x25, x26, [sp, 48]
	stp	x27, x28, [sp, 64]
	stp	x29, x30, [sp, 80]
	stp	x1, x3, [sp, OUT]
	stp	d8, d9, [sp, 112]
	stp	d10, d11, [sp, 128]
	stp	d12, d13, [sp, 144]
	stp	d14, d15, [sp, 160]
	mov	x28, x2
	add	x4, x0, V
	cbz	x3, 1f
	add	x5, x0, FFR
	ldr	p0, [x5]
	wrffr	p0.b
	add	x5, x0, P
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	ldr	p\n, [x5, \n, mul vl]
	.endr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, \
		16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	ldr	z\n, [x4, \n, mul vl]
	.endr
	b	2f
1:
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, \
		16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	ldr	q\n, [x4, 16 * \n]
	.endr
2:
	ldr	x4, [x0, FPCR]
	msr	fpcr, x4
	ldr	x4, [x0, FPSR]
	msr	fpsr, x4
	ldr	x4, [x0, NZCV]
	msr	nzcv, x4
	.irp	n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, \
		21, 22, 23, 24, 25, 26, 27, 29, 30, 0
	ldr	x\n, [x0, 8 * \n]
	.endr
3:
	PROBE_NOP kept, behind, "8@x0 8@x1 8@x30 -4@w17 8@x29"
	sub	x28, x28, 1
	cbz	x28, 4f
	PROBE_NOP kept, over, "8@x0 8@x1 8@x30 -4@w17 8@x29"
4:
	cbnz	x28, 3b
	stp	x0, x1, [sp, -16]!
	ldr	x0, [sp, 16 + OUT]
	.irp	n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, \
		21, 22, 23, 24, 25, 26, 27, 28, 29, 30
	str	x\n, [x0, 8 * \n]
	.endr
	mrs	x4, nzcv
	str	x4, [x0, NZCV]
	ldp	x1, x2, [sp], 16
	stp	x1, x2, [x0]
	mrs	x4, fpcr
	str	x4, [x0, FPCR]
	mrs	x4, fpsr
	str	x4, [x0, FPSR]
	msr	fpcr, xzr
	add	x4, x0, V
	ldr	x3, [sp, SVE]
	cbz	x3, 5f
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, \
		16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	str	z\n, [x4, \n, mul vl]
	.endr
	add	x5, x0, P
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	str	p\n, [x5, \n, mul vl]
	.endr
	rdffr	p0.b
	add	x5, x0, FFR
	str	p0, [x5]
	b	6f
5:
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, \
		16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	str	q\n, [x4, 16 * \n]
	.endr
6:
	ldp	x19, x20, [sp]
	ldp	x21, x22, [sp, 16]
	ldp	x23, x24, [sp, 32]
	ldp	x25, x26, [sp, 48]
	ldp	x27, x28, [sp, 64]
	ldp	x29, x30, [sp, 80]
	ldp	d8, d9, [sp, 112]
	ldp	d10, d11, [sp, 128]
	ldp	d12, d13, [sp, 144]
	ldp	d14, d15, [sp, 160]
	add	sp, sp, 192
	ret
	.size	kept_run, . - kept_run

/* A handler's own use of all that SVE has: void kept_spoil(void). */
	.globl	kept_spoil
	.type	kept_spoil, %function
kept_spoil:
	setffr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	pfalse	p\n\().b
	.endr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	dup	z\n\().b, -1
	.endr
	ret
	.size	kept_spoil, . - kept_spoil
/* clang-format on */
#endif

	.section .note.GNU-stack, "", %progbits
