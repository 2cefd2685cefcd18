/* SPDX-License-Identifier: MIT */
/*
 * Saves the state that a function may change and a stub does not save: vector registers (a function
 * keeps only the low halves of eight), SVE's predicates and FFR, and the control and status of
 * floating point. Vectors are saved whole (AAPCS64, 6.1.2 and 6.1.3), because nothing tells whether
 * the program uses SVE.
 *
 * In streaming mode (FEAT_SME), vectors have another length, and a function must not be called: we
 * leave the mode for the call, which clears the vectors, and enter the mode again. In streaming
 * mode, FFR exists only with FEAT_SME_FA64. The matrix (ZA) and ZT0 are not saved, because only
 * functions written for them use them.
 *
 * Sources: Arm ARM (DDI 0487), B1.4.6 to B1.4.10, C5.2; Linux, arch/arm64/elf_hwcaps.rst.
 */
#include "arch/enter.h"
#include "arch/general.h"

#if defined(__aarch64__)

#include <stdint.h>
#include <sys/auxv.h>

/* From <asm/hwcap.h>; HAS_FPMR is from Linux 6.8. */
#define HAS_SVE (UINT64_C(1) << 22)
#define HAS_SME (UINT64_C(1) << 23)
#define HAS_SME_FA64 (UINT64_C(1) << 30)
#define HAS_FPMR (UINT64_C(1) << 48)

enum { VECTORS = 32, PREDICATE_VECTORS = 3, LOW_BYTES = 16, STREAMING = 1, ALIGN = 16 };

/* The processor's features, set by enter_init(). */
static struct {
	bool has_sve, has_modes, has_full_modes, has_fpmr;
} state;

bool enter_init(bool by_register)
{
	uint64_t first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);

	(void)by_register; /* this architecture has only one way to save the state */
	state.has_sve = first & HAS_SVE;
	state.has_modes = second & HAS_SME;
	state.has_full_modes = second & HAS_SME_FA64;
	state.has_fpmr = second & HAS_FPMR;
	return true;
}

/* ---- Status -------------------------------------------------------------------------------- */

struct status {
	uint64_t control, raised, mode; /* FPCR, FPSR, FPMR */
};

GENERAL_INLINE uint64_t streaming(void)
{
	uint64_t modes = 0;

	if (state.has_modes)
		__asm__ volatile("mrs %0, s3_3_c4_c2_2" : "=r"(modes)); /* svcr */
	return modes & STREAMING;
}

GENERAL_INLINE void leave_streaming(void)
{
	__asm__ volatile(".inst 0xd503427f" : : : "memory"); /* smstop sm */
}

GENERAL_INLINE void enter_streaming(void)
{
	__asm__ volatile(".inst 0xd503437f" : : : "memory"); /* smstart sm */
}

GENERAL_INLINE void store_status(struct status *ret)
{
	ret->mode = 0;
	__asm__ volatile("mrs %0, fpcr" : "=r"(ret->control));
	__asm__ volatile("mrs %0, fpsr" : "=r"(ret->raised));
	if (state.has_fpmr)
		__asm__ volatile("mrs %0, s3_3_c4_c4_2" : "=r"(ret->mode));
}

/* The control register is written only if it has changed, because writing it is slow. */
GENERAL_INLINE void load_status(const struct status *status)
{
	uint64_t control;

	__asm__ volatile("mrs %0, fpcr" : "=r"(control));
	if (control != status->control)
		__asm__ volatile("msr fpcr, %0" : : "r"(status->control));
	__asm__ volatile("msr fpsr, %0" : : "r"(status->raised));
	if (state.has_fpmr)
		__asm__ volatile("msr s3_3_c4_c4_2, %0" : : "r"(status->mode));
}

/* ---- Vectors -------------------------------------------------------------------------------- */

/* Emits `instructions` for each number: \n is the number, %0 the area. */
#define EACH(area, numbers, instructions)                                                          \
	__asm__ volatile(".arch_extension sve\n.irp n," numbers "\n" instructions "\n.endr"        \
			 :                                                                         \
			 : "r"(area)                                                               \
			 : "memory")
#define PREDICATES "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
#define ALL PREDICATES ",16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
/* Operands in the area: predicates and FFR, in the space of three vectors; then the vectors. */
#define PREDICATE "p\\n, [%0, #\\n, mul vl]"
#define VECTOR "z\\n, [%0, #\\n + 3, mul vl]"
#define LOW "q\\n, [%0, #\\n * 16]"

GENERAL_INLINE uint64_t vector_bytes(void)
{
	uint64_t bytes;

	__asm__(".arch_extension sve\nrdvl %0, #1" : "=r"(bytes));
	return bytes;
}

GENERAL_INLINE void store(uint8_t *area, bool has_ffr)
{
	EACH(area, PREDICATES, "str " PREDICATE);
	EACH(area, ALL, "str " VECTOR);
	if (has_ffr)
		__asm__ volatile(".arch_extension sve\nrdffr p0.b\nstr p0, [%0, #16, mul vl]"
				 :
				 : "r"(area)
				 : "memory");
}

GENERAL_INLINE void load(const uint8_t *area, bool has_ffr)
{
	if (has_ffr)
		__asm__ volatile(".arch_extension sve\nldr p0, [%0, #16, mul vl]\nwrffr p0.b"
				 :
				 : "r"(area)
				 : "memory");
	EACH(area, PREDICATES, "ldr " PREDICATE);
	EACH(area, ALL, "ldr " VECTOR);
}

/* ---- Calling -------------------------------------------------------------------------------- */

/* Calls a function on a processor with SVE, or in streaming mode. Uses only saved registers. */
GENERAL_ONLY static void enter_long(
	void (*function)(void *data), void *data, uint64_t bytes, uint64_t is_streaming)
{
	bool has_ffr = is_streaming ? state.has_full_modes : state.has_sve;
	uint8_t *area =
		__builtin_alloca_with_align((VECTORS + PREDICATE_VECTORS) * bytes, 8 * ALIGN);
	struct status status;

	store_status(&status);
	store(area, has_ffr);
	if (is_streaming)
		leave_streaming();
	function(data);
	if (is_streaming)
		enter_streaming();
	load(area, has_ffr);
	load_status(&status);
}

/* Calls a function on a processor without SVE and streaming mode. */
GENERAL_ONLY static void enter_short(void (*function)(void *data), void *data)
{
	uint8_t area[VECTORS * LOW_BYTES] __attribute__((aligned(ALIGN)));
	struct status status;

	store_status(&status);
	EACH(area, ALL, "str " LOW);
	function(data);
	EACH(area, ALL, "ldr " LOW);
	load_status(&status);
}

GENERAL_ONLY __attribute__((noinline)) void enter_saving(void (*function)(void *data), void *data)
{
	uint64_t is_streaming = streaming();

	if (state.has_sve || is_streaming)
		enter_long(function, data, vector_bytes(), is_streaming);
	else
		enter_short(function, data);
}

#endif
