/* SPDX-License-Identifier: MIT */
/* Source: System V ABI, AMD64 supplement, "Process Initialization", "Linux Conventions". */
#pragma once

static inline long raw_call(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
}

#define ARCH_ENTRY(name, calls)                                                                    \
	__asm__(".globl " #name "\n"                                                               \
		".hidden " #name "\n"                                                              \
		".type " #name ", @function\n" #name ":\n"                                         \
		"	xorl %ebp, %ebp\n"                                                               \
		"	movq %rsp, %rdi\n"                                                               \
		"	movq %rdx, %rsi\n"                                                               \
		"	andq $-16, %rsp\n"                                                               \
		"	call " #calls "\n"                                                         \
		"	hlt\n")
