/* SPDX-License-Identifier: MIT */
/*
 * Stubs of x86-64 that call a function: the function gets the arguments, may change everything that
 * a function may, and the program sees no change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "arch/enter.h"
#include "arch/general.h"
#include "tests/unit/stub/stub_variant.h"
#include "tests/unit/skip.h"

#ifdef __x86_64__

#include <cpuid.h>

enum { DATA = 0x5eed, PC = 0x1234 };

/* The function's arguments, and the state at its call. */
static struct {
	unsigned int calls;
	uint64_t frame[8];
	uint64_t site, stack, flags;
	uint16_t x87_tags;
} called;

/* ---- What a function may change ---------------------------------------------------------- */

static bool has_avx, has_avx512;

static void look_at_processor(void)
{
	unsigned int a, b, c, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	has_avx = (low & 6) == 6;
	__cpuid_count(7, 0, a, b, c, d);
	has_avx512 = (low & 0xe6) == 0xe6 && b & bit_AVX512BW;
}

#define EACH(X)                                                                                    \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define EACH_FURTHER(X)                                                                            \
	X(16)                                                                                      \
	X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define EACH_MASK(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define ONES(n) "pcmpeqd %%xmm" #n ",%%xmm" #n "\n"
#define ONES_YMM(n) "vcmptrueps %%ymm" #n ",%%ymm" #n ",%%ymm" #n "\n"
#define ONES_ZMM(n) "vpternlogd $255,%%zmm" #n ",%%zmm" #n ",%%zmm" #n "\n"
#define ONES_MASK(n) "kxnorq %%k" #n ",%%k" #n ",%%k" #n "\n"

/* Everything at once; the x87 unit is left as required: empty, but with its flags. */
static void change_everything(void)
{
	static const uint32_t mxcsr = 0x7fbf; /* all flags, and rounding to zero */
	uint64_t a = 1, b = 2;

	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
	__asm__ volatile("fldpi; fld1; fdivrp; fstp %st");
	__asm__ volatile(EACH(ONES) : : : "memory");
	if (has_avx)
		__asm__ volatile(EACH(ONES_YMM) : : : "memory");
	if (has_avx512)
		__asm__ volatile(EACH(ONES_ZMM) EACH_FURTHER(ONES_ZMM) EACH_MASK(ONES_MASK)
				 :
				 :
				 : "memory");
	__asm__ volatile("add %1,%0; stc" : "+r"(a) : "r"(b) : "cc");
	__asm__ volatile("mov $-1,%%rcx; mov %%rcx,%%r8; mov %%rcx,%%r9; mov %%rcx,%%r10; "
			 "mov %%rcx,%%r11; mov %%rcx,%%rsi; mov %%rcx,%%rdi; mov %%rcx,%%rdx"
			 :
			 :
			 : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
}

/* What a stub passes. */
struct passed {
	const uint64_t *frame;
	uint64_t site;
};

static void call_any(void *data)
{
	const struct passed *passed = data;
	const uint64_t *frame = passed->frame;
	uint64_t site = passed->site;
	struct {
		uint16_t control, unused1, status, unused2, tags, unused3[9];
	} x87;

	called.calls++;
	memcpy(called.frame, frame, sizeof(called.frame));
	called.site = site;
	called.stack = (uintptr_t)__builtin_frame_address(0);
	__asm__ volatile("pushfq; popq %0" : "=r"(called.flags));
	__asm__ volatile("fnstenv %0; fldenv %0" : "=m"(x87));
	called.x87_tags = x87.tags;
	change_everything();
}

/* Replaces the library's function. */
GENERAL_ONLY void enter_called(const uint64_t *frame, uint64_t site)
{
	struct passed passed = {frame, site};

	enter_saving(call_any, &passed);
}

static struct arch_stub call_stub(
	struct variant *v, const struct arch_capture *captures, uint8_t count)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_CALL);

	stub.actions[0].call.function = (uintptr_t)enter_called;
	stub.actions[0].call.data = DATA;
	stub.actions[0].call.pc = PC;
	stub.captures = captures;
	stub.capture_count = stub.recorded = count;
	memset(&called, 0, sizeof(called));
	stub_host_reset(&v->host);
	return stub;
}

static void check_counts(struct variant *v, uint64_t calls)
{
	uint64_t seen = 0;

	for (uint32_t set = 0; set <= v->host.cpus; set++) {
		const struct probe_slot *slot =
			(const void *)(v->host.slots + ((size_t)set << HOST_SLOTS_SHIFT) +
				       HOST_SLOT_OFFSET);

		seen += slot->seen;
	}
	assert_int_equal(called.calls, calls);
	assert_int_equal(stub_host_hits(&v->host), calls);
	assert_int_equal(seen, calls);
	assert_int_equal(stub_host_lost(&v->host), 0);
}

/* ---- Registers --------------------------------------------------------------------------- */

static void check_registers(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("8@%rdi"), variant_capture("-4@%eax")};
	struct arch_stub stub = call_stub(v, captures, 2);
	const void *entry = stub_host_emit(&v->host, &stub);

	variant_set_up_state(v);
	for (uint64_t i = 0; i < 16; i++) {
		/* Any alignment of the stack, and any flags. */
		v->state.gpr[RSP] = (uintptr_t)v->stack + STACK_BYTES * 3 / 4 - i;
		v->state.flags = FLAGS_ALWAYS | (i & 1 ? FLAGS_ARITHMETIC : 0) |
				 (i & 2 ? FLAG_DIRECTION : 0) | (i % 8 ? 0 : FLAG_AC);
		variant_hit(v, entry);
		assert_int_equal(called.frame[0], v->state.gpr[RDI]);
		assert_int_equal(called.frame[1], (int64_t)(int32_t)v->state.gpr[RAX]);
		assert_int_equal(called.frame[2], UINT64_MAX);
		assert_int_equal(called.site, DATA);
		/* The frame's address, where functions store %rbp, contains the saved %rbp. */
		assert_int_equal(called.stack % 16, 0);
		assert_false(called.flags & (FLAG_DIRECTION | FLAG_AC));
		check_counts(v, i + 1);
	}
}

static void registers_are_kept(void **state)
{
	(void)state;
	variant_each(check_registers);
}

/* ---- Vectors, masks and the x87 unit ------------------------------------------------------- */

struct vectors {
	uint8_t zmm[32][64] __attribute__((aligned(64)));
	uint64_t masks[8];
	uint32_t mxcsr;
	uint8_t x87[108];
};

#define LOAD_XMM(n) "movups 64*" #n "(%1),%%xmm" #n "\n"
#define STORE_XMM(n) "movups %%xmm" #n ",64*" #n "(%2)\n"
#define LOAD_YMM(n) "vmovups 64*" #n "(%1),%%ymm" #n "\n"
#define STORE_YMM(n) "vmovups %%ymm" #n ",64*" #n "(%2)\n"
#define LOAD_ZMM(n) "vmovdqu64 64*" #n "(%1),%%zmm" #n "\n"
#define STORE_ZMM(n) "vmovdqu64 %%zmm" #n ",64*" #n "(%2)\n"
#define LOAD_MASK(n) "kmovq 2048+8*" #n "(%1),%%k" #n "\n"
#define STORE_MASK(n) "kmovq %%k" #n ",2048+8*" #n "(%2)\n"
/* The compiler may use the red zone. */
#define AROUND(load, store)                                                                        \
	__asm__ volatile(                                                                          \
		load "lea -128(%%rsp),%%rsp\ncall *%0\nlea 128(%%rsp),%%rsp\n" store               \
		:                                                                                  \
		: "r"(site), "r"(in), "r"(out)                                                     \
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc")

/* Which registers are in use at the site. */
enum use { USE_XMM, USE_YMM, USE_ZMM, USE_X87, USES };

static void hit_with(
	stub_host_site *site, const struct vectors *in, struct vectors *out, enum use use)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(in->mxcsr));
	if (use == USE_ZMM)
		AROUND(EACH(LOAD_ZMM) EACH_FURTHER(LOAD_ZMM) EACH_MASK(LOAD_MASK),
			EACH(STORE_ZMM) EACH_FURTHER(STORE_ZMM)
				EACH_MASK(STORE_MASK) "vzeroupper\n");
	else if (use == USE_YMM)
		AROUND(EACH(LOAD_YMM), EACH(STORE_YMM) "vzeroupper\n");
	else if (use == USE_X87)
		AROUND("fninit\nfldpi\nfld1\nfldl2e\n" EACH(LOAD_XMM),
			EACH(STORE_XMM) "fsave 2116(%2)\nfninit\n");
	else
		AROUND(EACH(LOAD_XMM), EACH(STORE_XMM));
	__asm__ volatile("stmxcsr %0" : "=m"(out->mxcsr));
}
_Static_assert(offsetof(struct vectors, masks) == 2048, "LOAD_MASK");
_Static_assert(offsetof(struct vectors, x87) == 2116, "fsave");

static void check_vectors_in(struct variant *v, enum use use)
{
	static const uint32_t mxcsr = 0x1f80;
	static const size_t bytes[] = {16, 32, 64, 16};
	struct arch_stub stub = call_stub(v, NULL, 0);
	stub_host_site *site = stub_host_emit_site(&v->host, &stub);
	struct vectors in = {.mxcsr = 0x3fa0}, out = {0}, bare = {0};

	if ((use == USE_YMM && !has_avx) || (use == USE_ZMM && !has_avx512))
		return;
	for (size_t i = 0; i < sizeof(in.zmm); i++)
		in.zmm[i / 64][i % 64] = (uint8_t)(i * 7 + (i >> 8));
	for (int i = 0; i < 8; i++)
		in.masks[i] = UINT64_C(0x0123456789abcdef) << i;
	*v->host.guard = 0;
	hit_with(site, &in, &bare, use); /* without a call, for comparison */
	*v->host.guard = 1;
	hit_with(site, &in, &out, use);
	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
	check_counts(v, 1);
	assert_int_equal(called.x87_tags, 0xffff);
	for (int i = 0; i < (use == USE_ZMM ? 32 : 16); i++)
		assert_memory_equal(out.zmm[i], in.zmm[i], bytes[use]);
	if (use == USE_ZMM)
		assert_memory_equal(out.masks, in.masks, sizeof(in.masks));
	assert_int_equal(out.mxcsr, in.mxcsr);
	/* In between: the address of its last instruction, which some processors do not save. */
	assert_memory_equal(out.x87, bare.x87, 12);
	assert_memory_equal(out.x87 + 28, bare.x87 + 28, sizeof(bare.x87) - 28);
}

static void check_vectors(struct variant *v)
{
	for (int use = 0; use < USES; use++)
		check_vectors_in(v, use);
}

static void vectors_are_kept(void **state)
{
	(void)state;
	variant_each(check_vectors);
}

/* The path for processors that cannot tell what is in use. */
static void all_are_kept_together(void **state)
{
	(void)state;
	assert_true(enter_init(false));
	variant_each(check_registers);
	variant_each(check_vectors);
	assert_true(enter_init(true));
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static void check_arguments(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("8@(%rsi)"), variant_capture("8@%rdx"),
		variant_capture("8@(%rcx)")};
	struct arch_stub stub;
	uint64_t *readable = (uint64_t *)v->pages;

	captures[1].is_string = true;
	stub = call_stub(v, captures, 3);
	variant_set_up_state(v);
	*readable = 4711;
	strcpy((char *)v->pages + 64, "handed over");
	v->state.gpr[RSI] = (uintptr_t)readable;
	v->state.gpr[RDX] = (uintptr_t)v->pages + 64;
	v->state.gpr[RCX] = NON_CANONICAL;
	variant_hit(v, stub_host_emit(&v->host, &stub));
	assert_int_equal(called.frame[0], 4711);
	assert_int_equal(called.frame[1], strlen("handed over"));
	assert_int_equal(called.frame[3] & 5, 1); /* unreadable ones are marked */
	assert_int_equal(called.frame[4 + 1], (uintptr_t)v->pages + 64);
	check_counts(v, 1);
}

static void arguments_are_handed_over(void **state)
{
	(void)state;
	variant_each(check_arguments);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_are_kept),
		cmocka_unit_test(vectors_are_kept),
		cmocka_unit_test(all_are_kept_together),
		cmocka_unit_test(arguments_are_handed_over),
	};

	if (!enter_init(true))
		return skip_all("calls that save everything need XSAVE");
	look_at_processor();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return skip_all("these stubs only run on x86-64; those of aarch64 are test_call_aarch64's");
}

#endif
