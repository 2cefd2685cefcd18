/* SPDX-License-Identifier: MIT */
/*
 * The floating-point state in a signal frame is an XSAVE area. The kernel looks for a magic word
 * after it, and restores only the SSE state if there is none, or if the area is larger than this
 * thread's. ptrace(2) reads the state of every feature of the processor. The tiles of AMX are left
 * out if they are in their initial state: most threads have not requested them, and
 * rt_sigreturn(2) resets features that the frame lacks to that state.
 *
 * Sources: arch/x86/kernel/fpu/{signal,xstate}.c of Linux; Intel SDM 1, 13.2 (CPUID leaf 0DH).
 */
#include "arch/x86/process/process.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <string.h>

#include "arch/x86/process/frame.h"

enum {
	LEAST = 576,  /* the FXSAVE part and the header */
	HEADER = 512, /* offset of XSTATE_BV: the features that are not in their initial state */
	TILES = 18,   /* the one feature that a thread must request */
	FEATURES = 63
};
#define TILES_BIT (UINT64_C(1) << TILES)

/* The size of an XSAVE area with these features, in the standard (not compacted) form. */
static size_t bytes_of(uint64_t features)
{
	size_t bytes = LEAST;

	for (unsigned int i = 2; i < FEATURES; i++) {
		unsigned int size, offset, c, d;

		if (!(features >> i & 1))
			continue;
		__cpuid_count(0x0d, i, size, offset, c, d);
		if (offset && (size_t)offset + size > bytes) /* offset 0: only the kernel uses it */
			bytes = (size_t)offset + size;
	}
	return bytes;
}

/* The state of threads without tiles. */
void x86_64_measure_state(struct arch_state *ret)
{
	unsigned int a, b, c = 0, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	ret->features = ((uint64_t)high << 32 | low) & ~TILES_BIT;
	ret->bytes = bytes_of(ret->features);
}

/* Makes the area acceptable to rt_sigreturn (check_xstate_in_sigframe()). */
static void fill(uint8_t *state, uint64_t features, uint32_t size)
{
	static const uint32_t magic2 = X86_64_STATE_MAGIC2;
	const struct {
		uint32_t magic1, extended_size;
		uint64_t features;
		uint32_t size, padding[7];
	} software = {X86_64_STATE_MAGIC1, size + (uint32_t)sizeof(magic2), features, size, {0}};

	memcpy(state + X86_64_STATE_SOFTWARE, &software, sizeof(software));
	memcpy(state + size, &magic2, sizeof(magic2));
}

size_t x86_64_make_state(uint8_t *state, size_t size, const struct arch_state *usual)
{
	uint64_t features, in_use;
	size_t needed;

	/* ptrace stores the processor's features in the first eight software bytes. */
	memcpy(&features, state + X86_64_STATE_SOFTWARE, sizeof(features));
	memcpy(&in_use, state + HEADER, sizeof(in_use));
	features &= in_use | ~TILES_BIT;
	needed = usual->bytes && features == usual->features ? usual->bytes : bytes_of(features);
	if (needed > size || needed > ARCH_STATE_MAX)
		return 0;
	fill(state, features, (uint32_t)needed);
	return needed + sizeof(X86_64_STATE_MAGIC2);
}

#endif
