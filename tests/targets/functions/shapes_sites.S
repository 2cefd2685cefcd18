/* SPDX-License-Identifier: MIT */
/* The functions of shapes.c: each returns a + 2 * b + 7, unless it says what else. */
	.text

	.macro	begin name
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	.endm

	.macro	end name
	.cfi_endproc
	.size	\name, . - \name
	.endm

#ifdef __aarch64__
	.arch	armv8.3-a

	.macro	add_all
	add	x0, x0, x1, lsl 1
	add	x0, x0, 7
	.endm

	.macro	push
	stp	x29, x30, [sp, -16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov	x29, sp
	.endm

	.macro	pop
	ldp	x29, x30, [sp], 16
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	.endm

	begin	leaf
	add_all
	ret
	end	leaf

	begin	landing
	bti	c
	add_all
	ret
	end	landing

	/* The return address is signed, with one key and the other. */
	begin	sign_a
	paciasp
	.cfi_window_save
	push
	bl	leaf
	pop
	autiasp
	.cfi_window_save
	ret
	end	sign_a

	begin	sign_b
	.cfi_b_key_frame
	pacibsp
	.cfi_window_save
	push
	tbz	w0, 0, 1f
	bl	leaf
	pop
	retab
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
1:	bl	leaf
	pop
	autibsp
	.cfi_window_save
	ret
	end	sign_b

	begin	frame
	push
	bl	leaf
	pop
	ret
	end	frame

	/* Tail calls: behind a frame, without one, as all there is, and by an address. */
	begin	tail
	paciasp
	.cfi_window_save
	push
	nop
	pop
	autiasp
	.cfi_window_save
	b	leaf
	end	tail

	begin	landing_tail
	bti	c
	b	leaf
	end	landing_tail

	begin	only_tail
	b	leaf
	end	only_tail

	begin	far_tail
	adrp	x16, leaf
	add	x16, x16, :lo12:leaf
	br	x16
	end	far_tail

	/* The second instruction depends on its address. */
	begin	by_adr
	mov	x9, x0
	adr	x10, seven
	ldr	x10, [x10]
	add	x0, x9, x1, lsl 1
	add	x0, x0, x10
	ret
	end	by_adr

	begin	by_adrp
	mov	x9, x0
	adrp	x10, far_seven
	ldr	x10, [x10, :lo12:far_seven]
	add	x0, x9, x1, lsl 1
	add	x0, x0, x10
	ret
	end	by_adrp

	begin	by_literal
	mov	x9, x0
	ldr	x10, seven
	add	x0, x9, x1, lsl 1
	add	x0, x0, x10
	ret
	end	by_literal

	begin	by_vector
	mov	x9, x0
	ldr	d0, seven
	fmov	x10, d0
	add	x0, x9, x1, lsl 1
	add	x0, x0, x10
	ret
	end	by_vector

	begin	by_tbz
	mov	x9, x0
	tbz	w0, 0, 1f
	add_all
	ret
1:	add	x0, x1, x9
	add	x0, x0, x1
	add	x0, x0, 7
	ret
	end	by_tbz

	begin	by_condition
	cmp	x0, 5
	b.lo	1f
	add_all
	ret
1:	add	x0, x0, 7
	add	x0, x0, x1, lsl 1
	ret
	end	by_condition

	begin	by_call
	mov	x9, x30
	bl	leaf
	mov	x30, x9
	ret
	end	by_call

	/* The first instruction is a branch, or depends on its address, or loses an argument. */
	begin	first_cbz
	cbz	x0, 1f
	add_all
	ret
1:	lsl	x0, x1, 1
	add	x0, x0, 7
	ret
	end	first_cbz

	begin	first_adr
	adr	x10, seven
	ldr	x10, [x10]
	add	x0, x0, x1, lsl 1
	add	x0, x0, x10
	ret
	end	first_adr

	begin	overwrites
	lsl	x1, x1, 1
	add	x0, x0, x1
	add	x0, x0, 7
	ret
	end	overwrites

	/* A switch statement, as compilers write it. */
	begin	chooses
	and	x9, x0, 1
	adr	x10, table
	ldrb	w11, [x10, x9]
	adr	x10, 1f
	add	x10, x10, w11, sxtb 2
	br	x10
1:	add_all
	ret
2:	add	x0, x0, 7
	add	x0, x0, x1, lsl 1
	ret
table:	.byte	(1b - 1b) / 4, (2b - 1b) / 4
	.p2align 2
	end	chooses

	/* A loop leads to the first instruction, x1 times. */
	begin	loops
	add	x0, x0, 2
	sub	x1, x1, 1
	cbnz	x1, loops
	add	x0, x0, 7
	ret
	end	loops

	/* A conditional jump leaves it. */
	begin	leaves
	tbz	w0, 0, leaf
	add_all
	ret
	end	leaves

	/* Returns x0. */
	begin	empty
	ret
	end	empty

	/* Returns 0. */
	begin	zero
	mov	x0, 0
	ret
	end	zero

	/* Returns the process's number. */
	begin	system_call
	mov	x8, 172
	svc	0
	ret
	end	system_call

	/* Returns the sum. */
	begin	ten
	push
	ldp	x9, x10, [sp, 16]
	add	x0, x0, x1
	add	x2, x2, x3
	add	x4, x4, x5
	add	x6, x6, x7
	add	x0, x0, x2
	add	x4, x4, x6
	add	x0, x0, x4
	add	x9, x9, x10
	add	x0, x0, x9
	pop
	ret
	end	ten

	begin	floating
	sub	sp, sp, 16
	.cfi_def_cfa_offset 16
	fadd	d0, d0, d1
	add	sp, sp, 16
	.cfi_def_cfa_offset 0
	ret
	end	floating

	.p2align 3
seven:	.quad	7
	.section .rodata
	.p2align 3
far_seven:
	.quad	7
#else
	/* See above. */
	begin	leaf
	mov	%rdi, %rax
	lea	(%rax, %rsi, 2), %rax
	add	$7, %rax
	ret
	end	leaf

	begin	only_tail
	jmp	leaf
	end	only_tail

	begin	loops
	add	$2, %rdi
	sub	$1, %rsi
	jne	loops
	lea	7(%rdi), %rax
	ret
	end	loops

	/* A jump at the entry covers the exit: at its first byte, or later. */
	begin	getter
	lea	7(%rdi, %rsi, 2), %rax
	ret
	end	getter

	begin	adds
	lea	(%rdi, %rsi, 2), %rax
	add	$7, %rax
	ret
	end	adds

	begin	swaps
	lea	7(%rdi, %rsi, 2), %rax
	xchg	%rax, %rdx
	xchg	%rdx, %rax
	ret
	end	swaps

	begin	calls
	sub	$8, %rsp
	.cfi_def_cfa_offset 16
	call	getter_copy
	add	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	end	calls

	begin	getter_copy
	endbr64
	lea	7(%rdi, %rsi, 2), %rax
	ret
	end	getter_copy

	begin	far_jump
	mov	%rax, %rax
	.byte	0xe9
	.long	getter_copy - . - 4
	end	far_jump

	begin	near_jump
	mov	%rax, %rax
	.byte	0xeb, getter_copy - . - 1
	end	near_jump
	.p2align 4
#endif
	.section .note.GNU-stack, "", %progbits
