/* SPDX-License-Identifier: MIT */
/*
 * Loops around sites that compilers do not generate.
 *
 *	uint64_t loop_X(uint64_t hits, const char *text)
 *
 * Each passes its site `hits` times with three arguments: the hits still to come, the hits so
 * far, and `hits` itself.
 */
#include "../note.h"

#ifdef __x86_64__
	.text

/* usdt.h: a one-byte nop, followed by one of ten bytes. */
	.globl	loop_nop10
	.type	loop_nop10, @function
loop_nop10:
	.cfi_startproc
	mov	%rdi, %rcx
	xor	%eax, %eax
	test	%rcx, %rcx
	jz	2f
	.balign 16
1:
	PROBE_NOP loop, nop10, "8@%rcx 8@%rax 8@%rdi"
	.byte	0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
	add	$1, %rax
	sub	$1, %rcx
	jnz	1b
2:
	ret
	.cfi_endproc
	.size	loop_nop10, . - loop_nop10

/* A five-byte nop at the site, which the kernel's uprobes optimise since 6.18. */
	.globl	loop_nop5
	.type	loop_nop5, @function
loop_nop5:
	.cfi_startproc
	mov	%rdi, %rcx
	xor	%eax, %eax
	test	%rcx, %rcx
	jz	2f
	.balign 64
1:
	.byte	0x0f, 0x1f, 0x44, 0, 0
	PROBE_NOTE 1b, loop, nop5, "8@%rcx 8@%rax 8@%rdi"
	add	$1, %rax
	sub	$1, %rcx
	jnz	1b
2:
	ret
	.cfi_endproc
	.size	loop_nop5, . - loop_nop5

/*
 * A site that can only be punned: the loop is entered after the nop, so the instructions there
 * cannot move. With `e9` for the nop, the following bytes 48 89 c2 90 make a jump by
 * 0x90c28948, 1.7 GiB down: always free below a position-independent program, while the heap
 * may be anywhere above it. Below a position-dependent program there is no room, so its bytes
 * name an address 1.1 GiB up.
 */
#ifdef LOOP_NOPIE
#define PUN_LAST 0x3e	/* a prefix, %ds, which means nothing to inc */
#else
#define PUN_LAST 0x90
#endif
	.globl	loop_pun
	.type	loop_pun, @function
loop_pun:
	.cfi_startproc
	mov	%rdi, %rcx
	xor	%eax, %eax
	add	$1, %rcx
	jmp	2f
	.balign 16
1:
	PROBE_NOP loop, pun, "8@%rcx 8@%rax 8@%rdi"
2:
	.byte	0x48, 0x89, 0xc2	/* mov %rax, %rdx */
	.byte	PUN_LAST, 0x48, 0xff, 0xc0	/* inc %rax */
	sub	$1, %rcx
	jnz	1b
	mov	%rdx, %rax
	ret
	.cfi_endproc
	.size	loop_pun, . - loop_pun

#else /* aarch64 */
	.text

/* The loop is entered after the nop, so the jump is over the nop itself. */
	.globl	loop_entered
	.type	loop_entered, @function
loop_entered:
	.cfi_startproc
	add	x1, x0, 1
	mov	x2, -1
	b	2f
	.balign 16
1:
	PROBE_NOP loop, entered, "8@x1 8@x2 8@x0"
2:
	add	x2, x2, 1
	sub	x1, x1, 1
	cbnz	x1, 1b
	mov	x0, x2
	ret
	.cfi_endproc
	.size	loop_entered, . - loop_entered
#endif

	.section .note.GNU-stack, "", @progbits
