/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A function that runs while vector and floating-point registers hold the program's values: the
 * compiler leaves these alone, and adds no sanitizers. It may only call such functions, and no
 * library's: memcpy(3) uses vectors.
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

/* GENERAL_ONLY, and always inlined. */
#define GENERAL_INLINE GENERAL_ONLY static inline __attribute__((always_inline))

/*
 * Without the stack protector, which takes half a nanosecond a call. For functions whose only
 * arrays are their own, with bounds checked elsewhere.
 */
#if __has_attribute(no_stack_protector)
#define UNGUARDED __attribute__((no_stack_protector))
#else
#define UNGUARDED
#endif
