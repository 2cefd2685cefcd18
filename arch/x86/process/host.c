/* SPDX-License-Identifier: MIT */
/* Instructions that a controller executes itself. */
#include "arch/x86/process/process.h"

#if defined(__x86_64__)

#include <x86intrin.h>

uint64_t x86_64_counter(void)
{
	return __rdtsc();
}

void x86_64_trap(void)
{
	__asm__ volatile("int3" ::: "memory");
}

#endif
