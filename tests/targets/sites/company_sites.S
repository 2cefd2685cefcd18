/* SPDX-License-Identifier: MIT */
/*
 * Sites where other tools set breakpoints, with every nop that is used for probes, and with
 * various instructions after it. Each function returns its argument plus 10.
 */
#include "../note.h"

	.text

.macro FUNCTION name
	.globl	company_\name
	.type	company_\name, @function
	.balign 16
company_\name:
	.cfi_startproc
.endm
.macro END name
	.cfi_endproc
	.size	company_\name, . - company_\name
.endm
.macro NOP5
	.byte	0x0f, 0x1f, 0x44, 0, 0
.endm
.macro NOP10
	.byte	0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
.endm

#ifdef __x86_64__

/* <sys/sdt.h>; two instructions are moved. */
FUNCTION one
	PROBE_NOP company, one, "8@%rdi"
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END one

/* One instruction is moved, as long as the jump or longer. */
FUNCTION wide
	PROBE_NOP company, wide, "8@%rdi"
	.byte	0x48, 0x8d, 0x87, 10, 0, 0, 0
	ret
END wide

/* A call is moved. */
FUNCTION call
	mov	%rdi, %rax
	PROBE_NOP company, call, "8@%rdi"
	call	3f
	add	$3, %rax
	ret
END call
3:
	add	$7, %rax
	ret

/* The end of a function, and the padding after it. */
FUNCTION end
	lea	10(%rdi), %rax
	PROBE_NOP company, end, "8@%rdi"
	ret
END end
	.zero	15, 0xcc

/* Neighbours, which share a jump. */
FUNCTION row
	PROBE_NOP company, row_first, "8@%rdi"
	PROBE_NOP company, row_second, "8@%rdi"
	PROBE_NOP company, row_third, "8@%rdi"
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END row

/* Room for a short jump alone: a branch, which is never taken, enters behind it. */
FUNCTION hop
	cmp	$-1, %rdi
	je	1f
	PROBE_NOP company, hop, "8@%rdi"
	test	%edi, %edi
1:
	lea	10(%rdi), %rax
	ret
END hop
	.nops	20

/* A five-byte nop alone. */
FUNCTION five
990:
	NOP5
	PROBE_NOTE 990b, company, five, "8@%rdi"
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END five

/* usdt.h: one byte and five, or ten; the kernel may use either nop. */
FUNCTION both5
	PROBE_NOP company, both5, "8@%rdi"
	NOP5
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END both5

FUNCTION both10
	PROBE_NOP company, both10, "8@%rdi"
	NOP10
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END both10

/* A ten-byte nop alone. */
FUNCTION ten
991:
	NOP10
	PROBE_NOTE 991b, company, ten, "8@%rdi"
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END ten

#else

/* <sys/sdt.h>; an instruction is moved. */
FUNCTION one
	PROBE_NOP company, one, "8@x0"
	add	x0, x0, 1
	add	x0, x0, 9
	ret
END one

/* One that knows its own address is moved. */
FUNCTION wide
	PROBE_NOP company, wide, "8@x0"
	adr	x1, 1f
	ldr	x1, [x1]
	add	x0, x0, x1
	ret
	.balign 8
1:	.quad	10
END wide

/* A call is moved. */
FUNCTION call
	str	x30, [sp, -16]!
	PROBE_NOP company, call, "8@x0"
	bl	3f
	add	x0, x0, 3
	ldr	x30, [sp], 16
	ret
END call
3:
	add	x0, x0, 7
	ret

/* The end of a function. */
FUNCTION end
	add	x0, x0, 10
	PROBE_NOP company, end, "8@x0"
	ret
END end

/* Neighbours. */
FUNCTION row
	PROBE_NOP company, row_first, "8@x0"
	PROBE_NOP company, row_second, "8@x0"
	PROBE_NOP company, row_third, "8@x0"
	add	x0, x0, 10
	ret
END row

/* A branch, never taken, leads to what follows the nop: our jump is over the nop itself. */
FUNCTION entered
	cmn	x0, 1
	b.eq	1f
	PROBE_NOP entered, site, "8@x0"
1:
	add	x0, x0, 10
	ret
END entered

#endif

	.section .note.GNU-stack, "", %progbits
