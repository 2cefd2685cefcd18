/* SPDX-License-Identifier: MIT */
#ifndef ARCH_GENERAL_H
#define ARCH_GENERAL_H

/*
 * GENERAL_ONLY marks a function that runs while vector and floating-point registers hold the
 * program's values: the compiler leaves these registers alone and adds no calls into sanitizers.
 * Such a function may only call functions with the same mark, and no library function: memcpy(3)
 * uses vectors.
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

/* GENERAL_ONLY for a function that is always inlined, whatever the compiler's options. */
#define GENERAL_INLINE GENERAL_ONLY static inline __attribute__((always_inline))

/*
 * UNGUARDED omits the stack protector, which takes half a nanosecond per call. It is for functions
 * whose only array accesses are to their own arrays, with bounds that are checked elsewhere.
 */
#if __has_attribute(no_stack_protector)
#define UNGUARDED __attribute__((no_stack_protector))
#else
#define UNGUARDED
#endif

#endif
