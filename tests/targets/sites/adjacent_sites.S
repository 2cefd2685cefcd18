/* SPDX-License-Identifier: MIT */
/*
 * Sites closer together than the length of a jump, as inlining makes them: in OpenJDK 17
 * hotspot_jni:GetVersion__entry and __return are one byte apart, in PHP 8.2 two of
 * exception__thrown three.
 *
 *	uint64_t adjacent_pass(uint64_t value)	passes all; returns value + 10
 */
#include "../note.h"

	.text
	.globl	adjacent_pass
	.type	adjacent_pass, @function
adjacent_pass:
	.cfi_startproc
	mov	%rdi, %rax
	PROBE_NOP adjacent, one_first, "8@%rax"
	PROBE_NOP adjacent, one_second, "8@%rax"
	lea	1(%rax), %rax
	lea	1(%rax), %rax

	PROBE_NOP adjacent, three_first, "8@%rax"
	jmp	1f
	PROBE_NOP adjacent, three_second, "8@%rax"
1:
	lea	1(%rax), %rax
	lea	1(%rax), %rax

	PROBE_NOP adjacent, four_first, "8@%rax"
	inc	%rax
	PROBE_NOP adjacent, four_second, "8@%rax"
	lea	1(%rax), %rax

	PROBE_NOP adjacent, row_first, "8@%rax"
	PROBE_NOP adjacent, row_second, "8@%rax"
	PROBE_NOP adjacent, row_third, "8@%rax"
	PROBE_NOP adjacent, row_fourth, "8@%rax"
	lea	1(%rax), %rax
	lea	1(%rax), %rax

	PROBE_NOP adjacent, five_first, "8@%rax"
	lea	1(%rax), %rax
	PROBE_NOP adjacent, five_second, "8@%rax"
	lea	1(%rax), %rax
	ret
	.cfi_endproc
	.size	adjacent_pass, . - adjacent_pass

	.section .note.GNU-stack, "", @progbits
