/* SPDX-License-Identifier: MIT */
/*
 * Machine code with which a traced program starts the controller that changes this program, and the
 * entry point of that controller (libprobe/self/helper). It is compiled only for its own machine:
 *
 *	raw_call()	makes a system call without changing errno; returns -errno on failure
 *	ARCH_ENTRY	defines a function, hidden from other files, as the entry point of
 *			a program. It calls a given function (long *stack, void
 *			(*loader_fini)(void)) with the stack as the kernel has set it up, and
 *			with the loader's function that must run at exit.
 */
#pragma once

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
