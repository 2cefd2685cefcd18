/* SPDX-License-Identifier: MIT */
/*
 * Between a stub and a function of the program (ARCH_STUB_CALL): saves everything that a function
 * may change but a stub does not save. Executed in the program itself, so each is compiled for its
 * own machine only.
 */
#ifndef ARCH_ENTER_H
#define ARCH_ENTER_H

#include <stdbool.h>

#if defined(__x86_64__) || defined(__aarch64__)

/*
 * Finds out what to save, and how. Without `by_register` it uses the processor's way for all of it
 * even if there is a faster one; for tests. False: this processor cannot do it.
 */
bool enter_init(bool by_register);

/*
 * For the function that a stub calls, which is GENERAL_ONLY (arch/general.h): saves vector and
 * floating-point state, calls a function, which may be any, in the state in which functions begin,
 * and restores.
 */
void enter_saving(void (*function)(void *data), void *data);

#else

static inline bool enter_init(bool by_register)
{
	(void)by_register;
	return false;
}

/* Never called. */
static inline void enter_saving(void (*function)(void *data), void *data)
{
	function(data);
}

#endif

#endif
