/* SPDX-License-Identifier: MIT */
/*
 * Calls from a stub into a function of the program (ARCH_ACTION_CALL). The functions here save the
 * state that the called function may change but the stub does not save. They run in the program
 * itself, so each implementation is compiled only for its own machine.
 */
#pragma once

#include <stdbool.h>

#if defined(__x86_64__) || defined(__aarch64__)

/*
 * Finds out which state to save, and how. Without `by_register`, all at once by one instruction,
 * maybe slower, for tests. Returns false if the processor cannot.
 */
bool enter_init(bool by_register);

/*
 * Saves vector and floating-point state around `function`, any function, which starts as the ABI
 * promises. The caller is what a stub calls, and must be GENERAL_ONLY (arch/general.h).
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
