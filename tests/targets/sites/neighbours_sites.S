/* SPDX-License-Identifier: MIT */
/*
 * Sites whose nops follow each other. Each function returns its argument plus 10.
 *
 *	uint64_t neighbours_row(uint64_t value)		21 nops of one byte
 *	uint64_t neighbours_usdt(uint64_t value)	<sys/sdt.h>'s nop, then both of usdt.h
 *	uint64_t neighbours_long(uint64_t value)	three nops of five bytes
 *	uint64_t neighbours_folded(uint64_t value)	two nops; the first is of two probes
 *	uint64_t neighbours_entered(uint64_t value)	four; an odd value enters at the third
 *	uint64_t neighbours_call(uint64_t value)	two, and a call behind them
 *
 *	uint64_t neighbours_spin(const uint32_t *stop)	passes two again and again; returns 0. It
 *							is most often where the jump will be
 */
#include "../note.h"

	.text

.macro FUNCTION name
	.globl	neighbours_\name
	.type	neighbours_\name, @function
	.balign 16
neighbours_\name:
	.cfi_startproc
.endm
.macro END name
	.cfi_endproc
	.size	neighbours_\name, . - neighbours_\name
.endm
.macro NOP5
	.byte	0x0f, 0x1f, 0x44, 0, 0
.endm
.macro LONG name
991:	NOP5
	PROBE_NOTE 991b, neighbours, \name, "8@%rdi"
.endm

FUNCTION row
	.irp number, 01, 02, 03, 04, 05, 06, 07, 08, 09, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21
	PROBE_NOP neighbours, row\number, "8@%rdi"
	.endr
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END row

FUNCTION usdt
	PROBE_NOP neighbours, usdt_first, "8@%rdi"
	PROBE_NOP neighbours, usdt_second, "8@%rdi"
	NOP5
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END usdt

FUNCTION long
	LONG	long_first
	LONG	long_second
	LONG	long_third
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END long

FUNCTION folded
992:
	PROBE_NOP neighbours, folded_first, "8@%rdi"
	PROBE_NOTE 992b, neighbours, folded_other, "8@%rdi"
	PROBE_NOP neighbours, folded_second, "8@%rdi"
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END folded

FUNCTION entered
	test	$1, %dil
	jne	1f
	PROBE_NOP neighbours, entered_first, "8@%rdi"
	PROBE_NOP neighbours, entered_second, "8@%rdi"
1:
	PROBE_NOP neighbours, entered_third, "8@%rdi"
	PROBE_NOP neighbours, entered_fourth, "8@%rdi"
	lea	1(%rdi), %rax
	lea	9(%rax), %rax
	ret
END entered

FUNCTION call
	PROBE_NOP neighbours, call_first, "8@%rdi"
	PROBE_NOP neighbours, call_second, "8@%rdi"
	call	add_ten
	mov	%rax, %rax
	ret
END call

FUNCTION spin
	xor	%eax, %eax
1:
	inc	%rax
	PROBE_NOP neighbours, spin_first, "8@%rax"
	PROBE_NOP neighbours, spin_second, "8@%rax"
	pause
	pause
	pause
	dec	%rax
	jne	2f
	cmpl	$0, (%rdi)
	je	1b
2:
	ret
END spin

add_ten:
	.cfi_startproc
	lea	10(%rdi), %rax
	ret
	.cfi_endproc
	.size	add_ten, . - add_ten

	.section .note.GNU-stack, "", @progbits
