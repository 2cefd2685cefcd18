/* SPDX-License-Identifier: MIT */
/*
 * Saves the state that a function may change but a stub does not save: the x87 unit, vector
 * registers, mask registers.
 *
 * The kernel's xsavec and xrstor take 50 and 130 ns on an AMD EPYC with AVX-512. Finding out which
 * state is in use (xgetbv), and saving and restoring that by register, takes 40 ns together. So
 * this code saves register by register, except on processors that cannot tell which state is in
 * use, or that have unknown registers.
 *
 * Other state is left alone: protection keys, which the function may change on purpose, and AMX's
 * tiles (8 KiB), which only functions written for them use.
 *
 * A function starts with an empty x87 stack (System V ABI, AMD64 supplement, 3.2; the stub has
 * cleared the direction flag). Upper halves of vector registers are zeroed, so that code for older
 * registers runs fast (Intel 64 and IA-32 Architectures Optimization Reference Manual, 15.3).
 *
 * Sources: Intel SDM volume 1, 13.1 to 13.8; volume 2, XGETBV, CPUID leaf 0DH.
 */
#include "arch/enter.h"
#include "arch/general.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LEGACY_BYTES = 512,
	HEADER_BYTES = 64,
	STATE_X87 = 1 << 0,
	STATE_SSE = 1 << 1,
	STATE_AVX = 1 << 2,
	STATE_MASKS = 1 << 5,
	STATE_HIGH = 1 << 6,	/* upper halves of zmm0 to zmm15 */
	STATE_FURTHER = 1 << 7, /* zmm16 to zmm31 */
	STATE_AVX512 = STATE_MASKS | STATE_HIGH | STATE_FURTHER,
	STATE_APX = 1 << 19, /* sixteen more general registers */
	STATE_SAVED = STATE_X87 | STATE_SSE | STATE_AVX | STATE_AVX512 | STATE_APX,
	COMPONENTS = 32,
	X87_TOUCHED = 0x387f /* bits of the status word: exceptions, and the top of the stack */
};

/*
 * Offsets in the save area. x87, MXCSR and header are where xsave puts them; xsave never stores the
 * others.
 */
enum { AT_MXCSR = 24, AREA_BYTES = 1408 + 16 * 64 };
#define AT_XMM "160"
#define AT_YMM "576" /* upper halves */
#define AT_MASKS "832"
#define AT_HIGH "896"
#define AT_FURTHER "1408"

/* The state to save; set before the first enter_saving(). */
static struct {
	uint64_t mask;
	uint64_t bytes;
	bool asked, by_register;
} state;

/* Returns the bytes that xsave needs for these components. */
static uint64_t area_bytes(uint64_t mask)
{
	uint64_t end = AREA_BYTES;
	unsigned int size, offset, flags, unused;

	for (unsigned int i = 2; i < COMPONENTS; i++) {
		if (!(mask >> i & 1))
			continue;
		__cpuid_count(0xd, i, size, offset, flags, unused);
		if (offset + size > end)
			end = offset + size;
	}
	return (end + 63) & ~UINT64_C(63);
}

bool enter_init(bool by_register)
{
	unsigned int a, b, c, d, low, high;

	if (state.mask && state.asked == by_register)
		return true;
	state.asked = by_register;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return false;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	__cpuid_count(0xd, 1, a, b, c, d);
	/* Save register by register only if xgetbv can tell which components are in use. */
	by_register = by_register && a >> 2 & 1 && !(low & STATE_APX);
	/*
	 * Mask registers have 64 bits only with AVX-512BW; so require all of AVX-512, or nothing.
	 */
	if (low & STATE_AVX512)
		by_register = by_register && (low & STATE_AVX512) == STATE_AVX512 &&
			      __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX512BW;
	state.bytes = area_bytes(low & STATE_SAVED);
	state.mask = low & STATE_SAVED;
	state.by_register = by_register;
	return true;
}

/* ---- Register by register ------------------------------------------------------------------ */

/* Emits `instruction` for n in [first, first + count): \n is n, %0 the area. */
#define EACH(area, first, count, instruction)                                                      \
	__asm__ volatile(".altmacro\n.macro enter_one n\n" instruction                             \
			 "\n.endm\n.set enter_n," first "\n.rept " count                           \
			 "\nenter_one %%enter_n\n.set enter_n,enter_n+1\n.endr\n"                  \
			 ".purgem enter_one\n.noaltmacro\n"                                        \
			 :                                                                         \
			 : "r"(area)                                                               \
			 : "memory")

GENERAL_ONLY static inline void store(uint8_t *area, uint64_t used)
{
	EACH(area, "0", "16", "movups %%xmm\\n," AT_XMM "+16*\\n(%0)");
	__asm__ volatile("stmxcsr %0" : "=m"(*(uint32_t *)(area + AT_MXCSR)));
	if (used & STATE_AVX)
		EACH(area, "0", "16", "vextractf128 $1,%%ymm\\n," AT_YMM "+16*\\n(%0)");
	if (used & STATE_HIGH)
		EACH(area, "0", "16", "vextracti64x4 $1,%%zmm\\n," AT_HIGH "+32*\\n(%0)");
	if (used & STATE_FURTHER)
		EACH(area, "16", "16", "vmovdqu64 %%zmm\\n," AT_FURTHER "+64*(\\n-16)(%0)");
	if (used & STATE_MASKS)
		EACH(area, "0", "8", "kmovq %%k\\n," AT_MASKS "+8*\\n(%0)");
}

/* Zeroes the registers that were not in use. */
GENERAL_ONLY static inline void load_avx512(const uint8_t *area, uint64_t used)
{
	if (used & STATE_HIGH)
		EACH(area, "0", "16", "vinserti64x4 $1," AT_HIGH "+32*\\n(%0),%%zmm\\n,%%zmm\\n");
	if (used & STATE_FURTHER)
		EACH(area, "16", "16", "vmovdqu64 " AT_FURTHER "+64*(\\n-16)(%0),%%zmm\\n");
	else
		EACH(area, "16", "16", "vpxorq %%zmm\\n,%%zmm\\n,%%zmm\\n");
	if (used & STATE_MASKS)
		EACH(area, "0", "8", "kmovq " AT_MASKS "+8*\\n(%0),%%k\\n");
	else
		EACH(area, "0", "8", "kxorq %%k\\n,%%k\\n,%%k\\n");
}

GENERAL_ONLY static inline void load(const uint8_t *area, uint64_t used)
{
	uint32_t control, saved = *(const uint32_t *)(area + AT_MXCSR);

	if (state.mask & STATE_AVX)
		__asm__ volatile("vzeroupper");
	EACH(area, "0", "16", "movups " AT_XMM "+16*\\n(%0),%%xmm\\n");
	if (used & STATE_AVX)
		EACH(area, "0", "16", "vinsertf128 $1," AT_YMM "+16*\\n(%0),%%ymm\\n,%%ymm\\n");
	if (state.mask & STATE_AVX512)
		load_avx512(area, used);
	__asm__ volatile("stmxcsr %0" : "=m"(control));
	if (control != saved)
		__asm__ volatile("ldmxcsr %0" : : "m"(saved));
}

/* ---- The context switch's way -------------------------------------------------------------- */

GENERAL_ONLY static inline void save(uint8_t *area, uint64_t mask)
{
	volatile uint64_t *header = (volatile uint64_t *)(area + LEGACY_BYTES);

	/* xsave does not write the whole header, so zero the rest first. */
	for (int i = 0; i < HEADER_BYTES / 8; i++)
		header[i] = 0;
	__asm__ volatile("xsave64 (%0)"
			 :
			 : "r"(area), "a"((uint32_t)mask), "d"((uint32_t)(mask >> 32))
			 : "memory");
}

GENERAL_ONLY static inline void restore(const uint8_t *area, uint64_t mask)
{
	__asm__ volatile("xrstor64 (%0)"
			 :
			 : "r"(area), "a"((uint32_t)mask), "d"((uint32_t)(mask >> 32))
			 : "memory");
}

/* ---- Entering ----------------------------------------------------------------------------- */

/* Returns the components that are not in their initial state. */
GENERAL_ONLY static inline uint64_t in_use(void)
{
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
	return low & state.mask;
}

/* Resets the x87 unit, which was not in use before the call, if the function has used it. */
GENERAL_ONLY static inline void empty_x87(void)
{
	uint16_t status;

	__asm__ volatile("fnstsw %0" : "=a"(status));
	if (status & X87_TOUCHED)
		__asm__ volatile("fninit");
}

/* Uses only general registers: vector registers hold the program's values. */
GENERAL_ONLY __attribute__((noinline)) void enter_saving(void (*function)(void *data), void *data)
{
	uint8_t *area = __builtin_alloca_with_align(state.bytes, 8 * 64);
	uint64_t used = state.by_register ? in_use() : 0;

	/* Always save vectors: code that does not use them is too rare for a path of its own. */
	if (used & STATE_SSE) {
		store(area, used);
		if (used & STATE_X87)
			save(area, STATE_X87);
	} else {
		save(area, state.mask);
	}
	if (state.mask & STATE_AVX)
		__asm__ volatile("vzeroupper");
	if (!(used & STATE_SSE) || used & STATE_X87)
		__asm__ volatile("emms");
	function(data);
	if (!(used & STATE_SSE)) {
		restore(area, state.mask);
	} else {
		load(area, used);
		if (used & STATE_X87)
			restore(area, STATE_X87);
		else
			empty_x87();
	}
}

#endif
