/* SPDX-License-Identifier: MIT */
/* The library that late opens: see late.c. */

#ifdef __x86_64__
#define ROOM ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" /* a nop as long as a jump */
#define NO_ROOM ".byte 0x90"
#else
#define ROOM "nop\n mov x9, x9"
#define NO_ROOM "nop\n hint #34" /* bti c, which cannot be moved */
#endif

/* A site with chosen instructions (note.h describes the layout), without arguments. */
#define LATE_SITE(code, name)                                                                      \
	__asm__ volatile("990: " code "\n"                                                         \
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
	LATE_SITE(ROOM, "whole");
	LATE_SITE(ROOM, "part");
	LATE_SITE(NO_ROOM, "part");
	LATE_SITE(NO_ROOM, "none");
}
