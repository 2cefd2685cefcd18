/* SPDX-License-Identifier: MIT */
#ifndef ARCH_GENERAL_H
#define ARCH_GENERAL_H

/*
 * For a function that runs while vector and floating-point registers hold the program's values: it
 * is compiled to leave them alone, without calls into sanitizers. It must call only such functions,
 * and none of a library: memcpy(3) uses vectors.
 */
#if defined(__x86_64__) || defined(__aarch64__)
#if defined(__aarch64__) && defined(__clang__)
#define GENERAL_TARGET "no-neon,no-fp-armv8"
#else
#define GENERAL_TARGET "general-regs-only"
#endif
#define GENERAL_ONLY                                                                               \
	__attribute__((target(GENERAL_TARGET), no_instrument_function, no_sanitize("address"),     \
		no_sanitize("undefined"), no_sanitize("thread")))
#else
#define GENERAL_ONLY
#endif

/* The same for a function that becomes a part of its callers, whatever the compiler's options. */
#define GENERAL_INLINE GENERAL_ONLY static inline __attribute__((always_inline))

/*
 * Without a check at its end that its stack was not overrun, which takes half a nanosecond. For a
 * function that writes no array but its own, within bounds that are checked elsewhere.
 */
#if __has_attribute(no_stack_protector)
#define UNGUARDED __attribute__((no_stack_protector))
#else
#define UNGUARDED
#endif

#endif
