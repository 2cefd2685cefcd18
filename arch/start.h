/* SPDX-License-Identifier: MIT */
/*
 * Machine code with which a program starts the controller that changes it, and by which that is
 * entered (libprobe/self/helper). It is compiled for its own machine only:
 *
 *   raw_call()	a system call that does not change errno: -errno if it fails
 *   ARCH_ENTRY	defines a function, hidden from other files, as the entry point of a program. It
 *		calls another one (long *stack, void (*loader_fini)(void)) with what the
 *		kernel has put on the stack, and with the loader's function for the end.
 */
#ifndef ARCH_START_H
#define ARCH_START_H

#if defined(__x86_64__)
#include "arch/x86/start.h"
#elif defined(__aarch64__)
#include "arch/aarch64/start.h"
#else

#include <errno.h>

static inline long raw_call(long number, long a, long b, long c, long d, long e)
{
	(void)number, (void)a, (void)b, (void)c, (void)d, (void)e;
	return -ENOSYS;
}

#define ARCH_ENTRY(name, calls)                                                                    \
	void name(void)                                                                            \
	{                                                                                          \
		__builtin_trap();                                                                  \
	}

#endif

#endif
