/* SPDX-License-Identifier: MIT */
/*
 * Probe notes written by hand, for code and operands that <sys/sdt.h> never makes the compiler
 * choose.
 *
 * The note's layout (SystemTap, "User Space Probe Implementation"): a name size, a description
 * size and the type 3; the name "stapsdt"; then the site, the base for prelink and the
 * semaphore, eight bytes each, and three strings: provider, name, arguments.
 *
 * PROBE_NOTE describes the site at the label `site`; PROBE_NOP makes both.
 */
#ifndef TESTS_NOTE_H
#define TESTS_NOTE_H

#ifdef __ASSEMBLER__

/* clang-format off */
.macro PROBE_NOTE site, provider, name, args, semaphore=0
	.pushsection .note.stapsdt, "?", "note"
	.balign 4
	.long 892f - 891f, 894f - 893f, 3
891:	.asciz "stapsdt"
892:	.balign 4
893:	.quad \site
	.quad _.stapsdt.base
	.quad \semaphore
	.asciz "\provider"
	.asciz "\name"
	.asciz "\args"
894:	.balign 4
	.popsection
	.ifndef _.stapsdt.base
	.pushsection .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
	.weak _.stapsdt.base
	.hidden _.stapsdt.base
_.stapsdt.base:
	.space 1
	.size _.stapsdt.base, 1
	.popsection
	.endif
.endm

.macro PROBE_NOP provider, name, args, semaphore=0
890:	nop
	PROBE_NOTE 890b, \provider, \name, "\args", \semaphore
.endm
/* clang-format on */

#endif
#endif
