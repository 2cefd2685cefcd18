/* SPDX-License-Identifier: MIT */
/*
 * The second file of semaphores.c: the same as SEMAPHORES_DEFINE(semaphores_b, 2), with a
 * semaphore of its own, because its symbol is local, and with room for a jump after the nops
 * (see target_room_behind()). Also the probe stuck:site, which must be refused: nothing but a
 * return follows the nop, too little is before it, and as a jump its bytes point into the program.
 * On aarch64 there is no nop at all.
 */
#include "../note.h"

	.text
#ifdef __x86_64__
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
	inc	%rax
	nopl	0(%rax)
	ret
1:
	neg	%edi
	PROBE_NOP demo, event, "-4@%edi -4@$2", demo_event_semaphore
	inc	%rax
	nopl	0(%rax)
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

	.globl	semaphores_stuck
	.type	semaphores_stuck, @function
semaphores_stuck:
	.cfi_startproc
	mov	$1, %eax
	test	%edi, %edi
	jz	1f
	PROBE_NOP stuck, site, "-4@%edi", stuck_site_semaphore
1:
	ret
	.byte	0, 0, 0
	.cfi_endproc
	.size	semaphores_stuck, . - semaphores_stuck

	.globl	semaphores_stuck_semaphore
	.type	semaphores_stuck_semaphore, @function
semaphores_stuck_semaphore:
	.cfi_startproc
	movzwl	stuck_site_semaphore(%rip), %eax
	ret
	.cfi_endproc
	.size	semaphores_stuck_semaphore, . - semaphores_stuck_semaphore
#else
/* w0 = a semaphore */
.macro LOAD semaphore
	adrp	x1, \semaphore
	ldrh	w0, [x1, :lo12:\semaphore]
.endm

	.globl	semaphores_b
	.type	semaphores_b, @function
semaphores_b:
	.cfi_startproc
	mov	w2, w0
	LOAD	demo_event_semaphore
	cbz	w0, 2f
	tbz	w2, 0, 1f
	PROBE_NOP demo, event, "-4@w2 -4@2", demo_event_semaphore
	mov	w0, 1
	ret
1:
	neg	w2, w2
	PROBE_NOP demo, event, "-4@w2 -4@2", demo_event_semaphore
	mov	w0, 1
2:
	ret
	.cfi_endproc
	.size	semaphores_b, . - semaphores_b

	.globl	semaphores_b_semaphore
	.type	semaphores_b_semaphore, @function
semaphores_b_semaphore:
	.cfi_startproc
	LOAD	demo_event_semaphore
	ret
	.cfi_endproc
	.size	semaphores_b_semaphore, . - semaphores_b_semaphore

	.globl	semaphores_stuck
	.type	semaphores_stuck, @function
semaphores_stuck:
	.cfi_startproc
	mov	w2, w0
	mov	w0, 1
890:	ret
	PROBE_NOTE 890b, stuck, site, "-4@w2", stuck_site_semaphore
	.cfi_endproc
	.size	semaphores_stuck, . - semaphores_stuck

	.globl	semaphores_stuck_semaphore
	.type	semaphores_stuck_semaphore, @function
semaphores_stuck_semaphore:
	.cfi_startproc
	LOAD	stuck_site_semaphore
	ret
	.cfi_endproc
	.size	semaphores_stuck_semaphore, . - semaphores_stuck_semaphore
#endif

	.section .probes, "aw", @progbits
	.type	stuck_site_semaphore, @object
	.balign	2
stuck_site_semaphore:
	.zero	2
	.size	stuck_site_semaphore, 2
	.type	demo_event_semaphore, @object
	.balign	2
demo_event_semaphore:
	.zero	2
	.size	demo_event_semaphore, 2

	.section .note.GNU-stack, "", @progbits
