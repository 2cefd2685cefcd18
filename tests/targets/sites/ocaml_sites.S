/* SPDX-License-Identifier: MIT */
/*
 * Sites as OCaml makes them: a one-byte nop, then `3d imm32`, a comparison with %eax whose
 * operand is the displacement of a handler. Replacing 3d at site + 1 by e8 makes it a call of
 * that handler, which may save no more than what is used behind the site: not the arguments. The
 * instructions before a site load those. The semaphore is two u16: SystemTap's count at +0,
 * OCaml's at +2; only the provider `ocaml` itself counts at +0.
 *
 *	provider	probe	   functions
 *	ocaml		plain	   ocaml_plain
 *	ocaml.1		dotted	   ocaml_dotted
 *	ocaml_1		first	   ocaml_first (two sites)
 *	ocaml_2		second	   ocaml_second
 *	ocaml_2		only	   none: the note's site is 0, and it names a semaphore
 *	ocaml_1		loop	   ocaml_loop: a branch leads to the site
 *	ocaml_1		next	   ocaml_loop: its site is right behind the toggle of loop
 */
#include "../note.h"

	.text

.macro OCAML_SITE provider, name, handler, semaphore
880:	nop
	.byte	0x3d
	.long	\handler - . - 4
	PROBE_NOTE 880b, \provider, \name, "8@%rsi 8@%rdx", \semaphore
.endm

.macro OCAML_FUNCTION function, provider, name, handler, semaphore
	.globl	\function
	.type	\function, @function
\function:
	.cfi_startproc
	lea	ocaml_tens(%rip), %rdx
	mov	(%rdx), %rdx
	lea	(%rdi,%rdi), %rsi
	OCAML_SITE \provider, \name, \handler, \semaphore
	lea	1(%rdi), %rax
	ret
	.cfi_endproc
	.size	\function, . - \function
.endm

/* The handler counts. */
.macro OCAML_HANDLER handler, index
	.type	\handler, @function
\handler:
	.cfi_startproc
	incq	ocaml_hits+8*\index(%rip)
	mov	$-1, %rsi
	mov	%rsi, %rdx
	ret
	.cfi_endproc
	.size	\handler, . - \handler
.endm

	OCAML_HANDLER handle_plain, 0
	OCAML_HANDLER handle_dotted, 1
	OCAML_HANDLER handle_first, 2
	OCAML_HANDLER handle_second, 3
	OCAML_HANDLER handle_loop, 4
	OCAML_HANDLER handle_next, 5

	OCAML_FUNCTION ocaml_plain, ocaml, plain, handle_plain, ocaml_semaphores
	OCAML_FUNCTION ocaml_dotted, ocaml.1, dotted, handle_dotted, ocaml_semaphores+4
	OCAML_FUNCTION ocaml_second, ocaml_2, second, handle_second, ocaml_semaphores+12

	.globl	ocaml_first
	.type	ocaml_first, @function
ocaml_first:
	.cfi_startproc
	cmp	$3, %rdi
	lea	2(%rdi), %rsi
	jb	1f
	mov	%rsi, %rdx
	OCAML_SITE ocaml_1, first, handle_first, ocaml_semaphores+8
1:	mov	%rdi, %rdx
	lea	3(%rdi), %rsi
	OCAML_SITE ocaml_1, first, handle_first, ocaml_semaphores+8
	lea	1(%rdi), %rax
	ret
	.cfi_endproc
	.size	ocaml_first, . - ocaml_first

	.globl	ocaml_loop
	.type	ocaml_loop, @function
ocaml_loop:
	.cfi_startproc
	lea	ocaml_tens(%rip), %rdx
	mov	%rdi, %rsi
2:	OCAML_SITE ocaml_1, loop, handle_loop, ocaml_semaphores+20
	OCAML_SITE ocaml_1, next, handle_next, ocaml_semaphores+24
	dec	%rdi
	jns	2b
	mov	%rdi, %rax
	ret
	.cfi_endproc
	.size	ocaml_loop, . - ocaml_loop

	PROBE_NOTE 0, ocaml_2, only, "", ocaml_semaphores+16

	.section .probes, "aw", @progbits
	.globl	ocaml_semaphores
	.type	ocaml_semaphores, @object
	.balign	4
ocaml_semaphores:
	.zero	28
	.size	ocaml_semaphores, 28

	.section .rodata
	.balign	8
ocaml_tens:
	.quad	10

	.bss
	.globl	ocaml_hits
	.type	ocaml_hits, @object
	.balign	8
ocaml_hits:
	.zero	48
	.size	ocaml_hits, 48

	.section .note.GNU-stack, "", @progbits
