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
#include "rows.inc"

#ifdef __x86_64__

#define VALUE "8@%rdi"
#define SPUN "8@%rax"
.macro NOP5
	.byte	0x0f, 0x1f, 0x44, 0, 0
.endm
.macro PREPARE_CALL
.endm
.macro CALL_ADD_TEN
	call	add_ten
	mov	%rax, %rax
	ret
.endm

#else /* aarch64 */

#define VALUE "8@x0"
#define SPUN "8@x0"
/* All nops have one length. */
.macro NOP5
	nop
.endm
.macro PREPARE_CALL
	stp	x29, x30, [sp, -16]!
.endm
.macro CALL_ADD_TEN
	bl	add_ten
	ldp	x29, x30, [sp], 16
	ret
.endm

#endif

	.text

.macro FUNCTION name
	.globl	neighbours_\name
	.type	neighbours_\name, %function
	.balign 16
neighbours_\name:
	.cfi_startproc
.endm
.macro END name
	.cfi_endproc
	.size	neighbours_\name, . - neighbours_\name
.endm
.macro LONG name
991:	NOP5
	PROBE_NOTE 991b, neighbours, \name, VALUE
.endm

FUNCTION row
	.irp number, 01, 02, 03, 04, 05, 06, 07, 08, 09, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21
	PROBE_NOP neighbours, row\number, VALUE
	.endr
	ADD_TEN
END row

FUNCTION usdt
	PROBE_NOP neighbours, usdt_first, VALUE
	PROBE_NOP neighbours, usdt_second, VALUE
	NOP5
	ADD_TEN
END usdt

FUNCTION long
	LONG	long_first
	LONG	long_second
	LONG	long_third
	ADD_TEN
END long

FUNCTION folded
992:
	PROBE_NOP neighbours, folded_first, VALUE
	PROBE_NOTE 992b, neighbours, folded_other, VALUE
	PROBE_NOP neighbours, folded_second, VALUE
	ADD_TEN
END folded

FUNCTION entered
	GO_ODD
	PROBE_NOP neighbours, entered_first, VALUE
	PROBE_NOP neighbours, entered_second, VALUE
1:
	PROBE_NOP neighbours, entered_third, VALUE
	PROBE_NOP neighbours, entered_fourth, VALUE
	ADD_TEN
END entered

FUNCTION call
	PREPARE_CALL
	PROBE_NOP neighbours, call_first, VALUE
	PROBE_NOP neighbours, call_second, VALUE
	CALL_ADD_TEN
END call

FUNCTION spin
	SPIN_BEGIN
	PROBE_NOP neighbours, spin_first, SPUN
	PROBE_NOP neighbours, spin_second, SPUN
	SPIN_END
END spin

add_ten:
	.cfi_startproc
	ADD_TEN
	.cfi_endproc
	.size	add_ten, . - add_ten

	.section .note.GNU-stack, "", @progbits
