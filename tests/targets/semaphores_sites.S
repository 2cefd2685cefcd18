/* SPDX-License-Identifier: MIT */
/*
 * The second file of semaphores.c: the same as SEMAPHORES_DEFINE(semaphores_b, 2)
 * makes, with a semaphore of its own, because its symbol is local.
 */
#include "note.h"

	.text
	.globl	semaphores_b
	.type	semaphores_b, @function
semaphores_b:
	.cfi_startproc
	xor	%eax, %eax
	cmpw	$0, demo_event_semaphore(%rip)
	je	2f
	test	$1, %dil
	je	1f
	PROBE_NOP demo, event, "-4@%edi -4@$2", demo_event_semaphore
	mov	$1, %eax
	ret
1:
	neg	%edi
	PROBE_NOP demo, event, "-4@%edi -4@$2", demo_event_semaphore
	mov	$1, %eax
2:
	ret
	.cfi_endproc
	.size	semaphores_b, . - semaphores_b

	.globl	semaphores_b_semaphore
	.type	semaphores_b_semaphore, @function
semaphores_b_semaphore:
	.cfi_startproc
	movzwl	demo_event_semaphore(%rip), %eax
	ret
	.cfi_endproc
	.size	semaphores_b_semaphore, . - semaphores_b_semaphore

	.section .probes, "aw", @progbits
	.type	demo_event_semaphore, @object
	.balign	2
demo_event_semaphore:
	.zero	2
	.size	demo_event_semaphore, 2

	.section .note.GNU-stack, "", @progbits
