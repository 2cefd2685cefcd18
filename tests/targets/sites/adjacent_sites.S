/* SPDX-License-Identifier: MIT */
/*
 * Sites closer together than the length of a jump, as inlining makes them: in OpenJDK 17
 * hotspot_jni:GetVersion__entry and __return are one byte apart, in PHP 8.2 two of
 * exception__thrown three.
 *
 *	uint64_t adjacent_pass(uint64_t value)	passes all; returns value + 10
 */
#include "../note.h"

#ifdef __x86_64__
#define VALUE "8@%rax"
#define BEGIN mov %rdi, %rax
#define GROW lea 1(%rax), %rax
#define GROW_SHORT inc %rax
#define JUMP jmp
#else
#define VALUE "8@x0"
#define BEGIN
#define GROW add x0, x0, 1
#define GROW_SHORT GROW
#define JUMP b
#endif

	.text
	.globl	adjacent_pass
	.type	adjacent_pass, @function
adjacent_pass:
	.cfi_startproc
	BEGIN
	PROBE_NOP adjacent, one_first, VALUE
	PROBE_NOP adjacent, one_second, VALUE
	GROW
	GROW

	PROBE_NOP adjacent, three_first, VALUE
	JUMP	1f
	PROBE_NOP adjacent, three_second, VALUE
1:
	GROW
	GROW

	PROBE_NOP adjacent, four_first, VALUE
	GROW_SHORT
	PROBE_NOP adjacent, four_second, VALUE
	GROW

	PROBE_NOP adjacent, row_first, VALUE
	PROBE_NOP adjacent, row_second, VALUE
	PROBE_NOP adjacent, row_third, VALUE
	PROBE_NOP adjacent, row_fourth, VALUE
	GROW
	GROW

	PROBE_NOP adjacent, five_first, VALUE
	GROW
	PROBE_NOP adjacent, five_second, VALUE
	GROW
	ret
	.cfi_endproc
	.size	adjacent_pass, . - adjacent_pass

	.section .note.GNU-stack, "", @progbits
