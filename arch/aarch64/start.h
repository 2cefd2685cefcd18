/* SPDX-License-Identifier: MIT */
/*
 * The entry of a program without a C library, and its system calls, which change only x0. The entry
 * is a landing pad, since a loader may jump there indirectly (FEAT_BTI). Sources: Linux,
 * arch/arm64/kernel/entry.S; glibc, sysdeps/aarch64/start.S.
 */
#pragma once

static inline long raw_call(long number, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	return x0;
}

#define ARCH_ENTRY(name, calls)                                                                    \
	__asm__(".globl " #name "\n"                                                               \
		".hidden " #name "\n"                                                              \
		".type " #name ", %function\n" #name ":\n"                                         \
		"	hint 38\n" /* bti jc */                                                    \
		"	mov x29, 0\n"                                                                    \
		"	mov x30, 0\n"                                                                    \
		"	mov x1, x0\n"                                                                    \
		"	mov x0, sp\n"                                                                    \
		"	bl " #calls "\n"                                                           \
		"	brk 0\n")
