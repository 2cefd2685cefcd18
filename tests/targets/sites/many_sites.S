/* SPDX-License-Identifier: MIT */
/*
 * Ten thousand probes, many:p0 … many:p9999, with one site each, in one function:
 *
 *	uint64_t many_pass(void)	passes all; returns their number
 */
#ifdef __x86_64__
#define VALUE "8@%rax"
#define CLEAR xor %eax, %eax
#define GROW lea 1(%rax), %rax
#else
#define VALUE "8@x0"
#define CLEAR mov x0, 0
#define GROW add x0, x0, 1
#endif

	/* note.h's macros do not work with .altmacro, which the numbering needs. */
	.altmacro
.macro MANY_SITE number
	.balign 8	/* no jump over a site crosses a page */
890:	nop
	GROW
	.pushsection .note.stapsdt, "", "note"
	.balign 4
	.long 892f - 891f, 894f - 893f, 3
891:	.asciz "stapsdt"
892:	.balign 4
893:	.quad 890b, 0, 0
	.asciz "many"
	.asciz "p\number"
	.asciz VALUE
894:	.balign 4
	.popsection
.endm

	.text
	.globl	many_pass
	.type	many_pass, @function
many_pass:
	.cfi_startproc
	CLEAR
	.set	number, 0
	.rept	10000
	MANY_SITE %number
	.set	number, number + 1
	.endr
	ret
	.cfi_endproc
	.size	many_pass, . - many_pass

	.section .note.GNU-stack, "", @progbits
