/* SPDX-License-Identifier: MIT */
/* The library that late opens: see late.c. */

#define NOP_1 ".byte 0x90"
#define NOP_5 ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"

/* A site with a chosen nop (note.h describes the layout), without arguments. */
#define LATE_SITE(nop, name)                                                                       \
	__asm__ volatile("990: " nop "\n"                                                          \
			 ".pushsection .note.stapsdt, \"?\", \"note\"\n"                           \
			 ".balign 4\n"                                                             \
			 ".long 992f - 991f, 994f - 993f, 3\n"                                     \
			 "991: .asciz \"stapsdt\"\n"                                               \
			 "992: .balign 4\n"                                                        \
			 "993: .quad 990b, 0, 0\n"                                                 \
			 ".asciz \"late\"\n"                                                       \
			 ".asciz \"" name "\"\n"                                                   \
			 ".asciz \"\"\n"                                                           \
			 "994: .balign 4\n"                                                        \
			 ".popsection" ::                                                          \
				 : "memory")

void late_pass(void);

void late_pass(void)
{
	LATE_SITE(NOP_5, "whole");
	LATE_SITE(NOP_5, "part");
	LATE_SITE(NOP_1, "part");
	LATE_SITE(NOP_1, "none");
}
