/* SPDX-License-Identifier: MIT */
/*
 * Sites that compete for memory or addresses.
 *
 *	uint64_t crowded_folded(uint64_t value)	returns value + 10
 *	uint64_t crowded_edgeN(uint64_t value)	the same; its site is N bytes before a page's end
 *	uint64_t crowded_near(uint64_t value)	the same; on x86-64
 *
 * With `e9` for its nop, the bytes 8d 87 N 0 after it make a jump by N * 64 KiB + 0x878d: right
 * after the program, where the nearest usable memory is.
 */
#include "../note.h"
#include "rows.inc"

	.text

#ifdef __x86_64__

#define VALUE "8@%rdi"

.macro NEAR number
	PROBE_NOP crowded, near\number, "8@%rdi"
	.byte	0x8d, 0x87, \number, 0, 0, 0	/* lea number(%rdi), %eax */
	mov	%eax, %edi
.endm

	.globl	crowded_near
	.type	crowded_near, @function
crowded_near:
	.cfi_startproc
	NEAR 1
	NEAR 2
	NEAR 3
	NEAR 4
	ret
	.cfi_endproc
	.size	crowded_near, . - crowded_near

#else /* aarch64 */

#define VALUE "8@x0"

#endif

/* The result of a linker that folds identical functions; and one of another probe. */
	.globl	crowded_folded
	.type	crowded_folded, %function
crowded_folded:
	.cfi_startproc
890:
	nop
	PROBE_NOTE 890b, crowded, folded, VALUE, crowded_semaphore
	PROBE_NOTE 890b, crowded, folded, VALUE, crowded_semaphore
	PROBE_NOTE 890b, crowded, another, VALUE
	PROBE_NOTE 890b, crowded, folded, VALUE, crowded_other_semaphore
	ADD_TEN
	.cfi_endproc
	.size	crowded_folded, . - crowded_folded

.macro EDGE before
	.balign	4096, 0xcc
	.zero	4096 - \before, 0xcc
	.globl	crowded_edge\before
	.type	crowded_edge\before, %function
crowded_edge\before:
	.cfi_startproc
	PROBE_NOP crowded, edge\before, VALUE
	ADD_TEN
	.cfi_endproc
	.size	crowded_edge\before, . - crowded_edge\before
.endm
	EDGE 4
#ifdef __x86_64__
	EDGE 1
	EDGE 2
	EDGE 3
	EDGE 5
	EDGE 6
#else
	EDGE 8
#endif

	.section .probes, "aw"
	.balign	2
crowded_semaphore:
	.short	0
crowded_other_semaphore:
	.short	0

	.section .note.GNU-stack, "", @progbits
