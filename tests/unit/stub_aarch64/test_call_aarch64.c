/* SPDX-License-Identifier: MIT */
/*
 * Stubs of aarch64 that call a function: it gets the arguments, may change everything that a
 * function may, and the program sees no change; unwinders find the way back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include <cmocka.h>

#include "arch/enter.h"
#include "arch/general.h"
#include "tests/unit/query/expr_random.h"
#include "tests/unit/stub_aarch64/patterns.h"
#include "tests/unit/skip.h"

#ifdef __aarch64__

#include <sys/auxv.h>

enum { STACK_WORDS = 8192, DATA = 0x5eed, ROUNDS = 200, FPSR_BITS = 0x0800009f };
/* Flush to zero, rounding to zero. */
enum { FPCR_BITS = 1 << 24 | 3 << 22 };
#define HAS_SVE (UINT64_C(1) << 22)
#define HAS_SME (UINT64_C(1) << 23)
#define HAS_SME_FA64 (UINT64_C(1) << 30)
#define HAS_MTE (UINT64_C(1) << 18)

struct fixture {
	struct stub_host host;
	uint64_t *stack, random;
};

/* The function's arguments, and the state at its call. */
static struct {
	unsigned int calls;
	uint64_t frame[8];
	uint64_t site, stack, tags, streaming;
	void (*look)(void);
} called;

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	stub_host_init(&x->host, true);
	x->stack = aligned_alloc(16, STACK_WORDS * sizeof(uint64_t));
	x->random = 88172645463325252U;
	memset(&called, 0, sizeof(called));
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	stub_host_deinit(&x->host);
	free(x->stack);
	free(x);
	return 0;
}

/* ---- What a function may change ---------------------------------------------------------- */

static bool has_sve(void)
{
	return getauxval(AT_HWCAP) & HAS_SVE;
}

#define EACH(numbers, instructions) ".irp n," numbers "\n" instructions "\n.endr\n"
#define HALF "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
#define FURTHER "16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
#define GENERAL                                                                                    \
	"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",    \
		"x14", "x15", "x16", "x17", "x18", "x30", "cc", "memory"

/* All but what is the caller's: the low halves of v8 to v15 are put back. */
static void change_everything(void)
{
	uint64_t low[8];

	__asm__ volatile("stp d8, d9, [%0]\nstp d10, d11, [%0, 16]\nstp d12, d13, [%0, 32]\n"
			 "stp d14, d15, [%0, 48]"
			 :
			 : "r"(low)
			 : "memory");
	__asm__ volatile(
		EACH(HALF, "movi v\\n\\().16b, 0xaa") EACH(FURTHER, "movi v\\n\\().16b, 0x55"));
	if (has_sve())
		__asm__ volatile(".arch_extension sve\n" EACH(HALF, "dup z\\n\\().b, #-1") EACH(
			FURTHER, "dup z\\n\\().b, #-2") EACH(HALF, "ptrue p\\n\\().b") "setffr\n");
	__asm__ volatile("ldp d8, d9, [%0]\nldp d10, d11, [%0, 16]\nldp d12, d13, [%0, 32]\n"
			 "ldp d14, d15, [%0, 48]"
			 :
			 : "r"(low));
	__asm__ volatile("msr fpsr, %0" : : "r"((uint64_t)FPSR_BITS));
	__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)FPCR_BITS));
	__asm__ volatile(EACH(HALF, "mov x\\n, -1") "mov x16, -2\nmov x17, -3\nmov x18, -4\n"
						    "mov x30, -5\nadds xzr, x0, x0"
			 :
			 :
			 : GENERAL);
}

/* What a stub passes. */
struct passed {
	const uint64_t *frame;
	uint64_t site;
};

static void call_any(void *data)
{
	const struct passed *passed = data;

	called.calls++;
	memcpy(called.frame, passed->frame, sizeof(called.frame));
	called.site = passed->site;
	called.stack = (uintptr_t)__builtin_frame_address(0);
	if (getauxval(AT_HWCAP2) & HAS_MTE)
		__asm__ volatile("mrs %0, s3_3_c4_c2_7" : "=r"(called.tags)); /* tco */
	if (getauxval(AT_HWCAP2) & HAS_SME)
		__asm__ volatile("mrs %0, s3_3_c4_c2_2" : "=r"(called.streaming)); /* svcr */
	if (called.look)
		called.look();
	change_everything();
}

GENERAL_ONLY static void on_call(const uint64_t *frame, uint64_t site)
{
	struct passed passed = {frame, site};

	enter_saving(call_any, &passed);
}

/* Where the functions that this one calls say that the site is. */
static const uint32_t site_code[2] = {0xd503201f, 0xd65f03c0};

static struct arch_stub call_stub(
	struct fixture *x, const struct arch_capture *captures, uint8_t count, bool has_rseq)
{
	struct arch_stub stub = stub_host_stub(&x->host, has_rseq);

	stub.actions[0].kind = ARCH_ACTION_CALL;
	stub.next = (uintptr_t)patterns_next;
	stub.actions[0].call.function = (uintptr_t)on_call;
	stub.actions[0].call.data = DATA;
	stub.actions[0].call.pc = (uintptr_t)site_code;
	stub.captures = captures;
	stub.capture_count = stub.recorded = count;
	return stub;
}

/* ---- Registers --------------------------------------------------------------------------- */

static void fill(struct fixture *x, struct patterns *p)
{
	for (int i = 0; i < 31; i++)
		p->x[i] = expr_random(&x->random);
	p->sp = (uintptr_t)(x->stack + STACK_WORDS * 3 / 4);
	p->nzcv = (expr_random(&x->random) >> 33 & 15) << 28;
	p->streaming = 0;
	p->fpsr = expr_random(&x->random) & FPSR_BITS;
	for (int i = 0; i < 32; i++)
		for (int k = 0; k < 16; k++)
			p->v[i][k] = (uint8_t)(expr_random(&x->random) >> 40);
	for (int i = 0; i < STACK_WORDS; i++)
		x->stack[i] = expr_random(&x->random);
}

/* A hit; checks that it changed nothing that the program can see. */
static void hit(struct fixture *x, const struct patterns *in, const void *entry)
{
	uint64_t above[STACK_WORDS / 4];
	size_t used = x->host.code_used;
	unsigned int calls = called.calls;
	struct patterns out;

	memcpy(above, x->stack + STACK_WORDS * 3 / 4, sizeof(above));
	memset(&out, 0x55, sizeof(out));
	patterns_run(&x->host, in, &out, entry);
	x->host.code_used = used; /* the same again */
	for (int i = 0; i < 31; i++)
		if (out.x[i] != in->x[i])
			fail_msg("x%d: %#lx, was %#lx", i, out.x[i], in->x[i]);
	assert_int_equal(out.sp, in->sp);
	assert_int_equal(out.nzcv, in->nzcv);
	assert_int_equal(out.fpsr, in->fpsr);
	assert_int_equal(out.streaming, in->streaming);
	assert_memory_equal(out.v, in->v, sizeof(out.v));
	assert_memory_equal(x->stack + STACK_WORDS * 3 / 4, above, sizeof(above));
	assert_int_equal(called.calls, calls + 1);
	assert_int_equal(called.site, DATA);
	assert_int_equal(called.stack % 16, 0);
	assert_int_equal(called.tags, 0);
	assert_int_equal(called.streaming, 0);
}

static void check_counts(const struct fixture *x, uint64_t calls)
{
	uint64_t seen = 0;

	for (uint32_t set = 0; set <= x->host.cpus; set++) {
		const struct probe_slot *slot =
			(const void *)(x->host.slots + ((size_t)set << HOST_SLOTS_SHIFT) +
				       HOST_SLOT_OFFSET);

		seen += slot->seen;
	}
	assert_int_equal(called.calls, calls);
	assert_int_equal(stub_host_hits(&x->host), calls);
	assert_int_equal(seen, calls);
}

static struct arch_capture of_register(int reg, uint8_t width)
{
	return (struct arch_capture){.arg = {.kind = ARCH_ARG_REGISTER,
					     .size = width,
					     .width = width,
					     .is_signed = width == 4,
					     .base = (int8_t)reg,
					     .index = ARCH_REG_NONE}};
}

static void registers_are_kept(void **state)
{
	struct fixture *x = *state;
	struct arch_capture captures[] = {
		of_register(0, 8), of_register(17, 4), of_register(30, 8), of_register(31, 8)};
	uint64_t calls = 0;

	for (int way = 0; way < 2; way++) {
		struct arch_stub stub = call_stub(x, captures, 4, way);
		const void *entry = stub_host_emit(&x->host, &stub);

		for (int i = 0; i < ROUNDS; i++) {
			struct patterns in;

			fill(x, &in);
			in.streaming = x->host.thread.has_modes && i & 1;
			in.fpsr = in.streaming ? FPSR_BITS : in.fpsr;
			hit(x, &in, entry);
			assert_int_equal(called.frame[0], in.x[0]);
			assert_int_equal(called.frame[1], (int64_t)(int32_t)in.x[17]);
			assert_int_equal(called.frame[2], in.x[30]);
			assert_int_equal(called.frame[3], in.sp);
			assert_int_equal(called.frame[4], UINT64_MAX);
			check_counts(x, ++calls);
		}
	}
}

/* ---- Vectors in all sizes, predicates, and what rules floating point ----------------------- */

enum { VECTOR_MAX = 256 };

struct vectors {
	uint8_t z[32 * VECTOR_MAX], p[17 * VECTOR_MAX / 8]; /* FFR is behind the predicates */
	uint64_t fpcr, fpsr;
};

static uint64_t vector_bytes(void)
{
	uint64_t bytes;

	__asm__(".arch_extension sve\nrdvl %0, #1" : "=r"(bytes));
	return bytes;
}

static uint64_t streaming_bytes(void)
{
	uint64_t bytes;

	__asm__(".inst 0x04bf5820\nmov %0, x0" : "=r"(bytes) : : "x0"); /* rdsvl x0, 1 */
	return bytes;
}

/* In which mode, and whether FFR is there. */
struct mode {
	uint64_t is_streaming, has_ffr;
};

/* What the code below has in x20 to x25, and further words of it. */
struct job {
	void *from, *to, *from_p, *to_p;
	uint64_t is_streaming, has_ffr;
	uint64_t fpcr, fpsr;
	stub_host_site *site;
	uint64_t low[8];
};
_Static_assert(offsetof(struct job, fpcr) == 48 && offsetof(struct job, site) == 64 &&
		       offsetof(struct job, low) == 72,
	"as the code below has it");

/* Everything is set, the site is passed, everything is read. */
static void hit_with(
	stub_host_site *site, const struct mode *mode, struct vectors *in, struct vectors *out)
{
	struct job job = {in->z, out->z, in->p, out->p, mode->is_streaming, mode->has_ffr, in->fpcr,
		in->fpsr, site, {0}};
	register struct job *x19 __asm__("x19") = &job;

	__asm__ volatile(
		".arch_extension sve\n"
		"stp d8, d9, [x19, 72]\nstp d10, d11, [x19, 88]\n"
		"stp d12, d13, [x19, 104]\nstp d14, d15, [x19, 120]\n"
		"ldp x20, x21, [x19]\nldp x22, x23, [x19, 16]\nldp x24, x25, [x19, 32]\n"
		"cbz x24, 1f\n.inst 0xd503437f\n1:\n" /* smstart sm */
		"ldp x0, x1, [x19, 48]\nmsr fpcr, x0\nmsr fpsr, x1\n"
		"cbz x25, 1f\nldr p0, [x22, #16, mul vl]\nwrffr p0.b\n1:\n" EACH(
			HALF, "ldr p\\n, [x22, #\\n, mul vl]") EACH(HALF "," FURTHER,
			"ldr z\\n, [x20, #\\n, mul vl]") "ldr x0, [x19, 64]\nblr x0\n" EACH(HALF
			"," FURTHER,
			"str z\\n, [x21, #\\n, mul vl]")
			EACH(HALF, "str p\\n, [x23, #\\n, mul vl]") "cbz x25, 1f\nrdffr p0.b\nstr "
								    "p0, [x23, "
								    "#16, mul vl]\n1:\n"
								    "mrs x0, fpcr\nmrs x1, "
								    "fpsr\nstp x0, x1, "
								    "[x19, 48]\nmsr fpcr, xzr\n"
								    "cbz x24, 1f\n.inst "
								    "0xd503427f\n1:\n" /* smstop
											  sm
											*/
								    "ldp d8, d9, [x19, 72]\nldp "
								    "d10, d11, "
								    "[x19, 88]\n"
								    "ldp d12, d13, [x19, 104]\nldp "
								    "d14, d15, "
								    "[x19, 120]\n"
		:
		: "r"(x19)
		: GENERAL, "x20", "x21", "x22", "x23", "x24", "x25");
	out->fpcr = job.fpcr;
	out->fpsr = job.fpsr;
}

/* FFR is a run of ones from the first element on, as instructions leave it. */
static void fill_vectors(struct fixture *x, struct vectors *v, uint64_t bytes)
{
	uint64_t ones = (expr_random(&x->random) >> 33) % (bytes + 1);

	memset(v, 0, sizeof(*v));
	for (size_t i = 0; i < sizeof(v->z); i++)
		v->z[i] = (uint8_t)(expr_random(&x->random) >> 40);
	for (size_t i = 0; i < 16 * bytes / 8; i++)
		v->p[i] = (uint8_t)(expr_random(&x->random) >> 40);
	for (size_t i = 0; i < bytes; i++)
		if (i < ones)
			v->p[16 * bytes / 8 + i / 8] |= (uint8_t)(1 << i % 8);
	v->fpcr = expr_random(&x->random) >> 40 & 1 ? FPCR_BITS : 0;
	v->fpsr = expr_random(&x->random) & FPSR_BITS;
}

static void check_vectors(struct fixture *x, stub_host_site *site, const struct mode *mode)
{
	static struct vectors in, out;
	uint64_t bytes = mode->is_streaming ? streaming_bytes() : vector_bytes();

	for (int i = 0; i < ROUNDS; i++) {
		fill_vectors(x, &in, bytes);
		in.fpsr = mode->is_streaming ? FPSR_BITS : in.fpsr;
		memset(&out, 0, sizeof(out));
		hit_with(site, mode, &in, &out);
		assert_memory_equal(out.z, in.z, 32 * bytes);
		assert_memory_equal(out.p, in.p, 16 * bytes / 8);
		if (mode->has_ffr)
			assert_memory_equal(
				out.p + 16 * bytes / 8, in.p + 16 * bytes / 8, bytes / 8);
		assert_int_equal(out.fpcr, in.fpcr);
		assert_int_equal(out.fpsr, in.fpsr);
		assert_int_equal(called.streaming, 0);
	}
}

static void vectors_are_kept(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = call_stub(x, NULL, 0, false);
	stub_host_site *site = stub_host_emit_site(&x->host, &stub);
	struct mode mode = {0, true};

	if (!has_sve())
		skip_because("this processor has no SVE");
	check_vectors(x, site, &mode);
	check_counts(x, ROUNDS);
}

static void streaming_vectors_are_kept(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = call_stub(x, NULL, 0, false);
	stub_host_site *site = stub_host_emit_site(&x->host, &stub);
	struct mode mode = {1, getauxval(AT_HWCAP2) & HAS_SME_FA64};

	if (!x->host.thread.has_modes)
		skip_because("this processor has no SME");
	check_vectors(x, site, &mode);
	check_counts(x, ROUNDS);
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static void arguments_are_handed_over(void **state)
{
	struct fixture *x = *state;
	struct arch_capture captures[] = {of_register(1, 8), of_register(2, 8), of_register(3, 8)};
	char *text = strdup("handed over");
	uint64_t word = 4711;
	struct patterns in;
	struct arch_stub stub;

	captures[0].arg.kind = captures[2].arg.kind = ARCH_ARG_MEMORY;
	captures[1].is_string = true;
	captures[1].bytes_max = 64;
	stub = call_stub(x, captures, 3, true);
	fill(x, &in);
	in.x[1] = (uintptr_t)&word;
	in.x[2] = (uintptr_t)text;
	in.x[3] = 16; /* not mapped */
	hit(x, &in, stub_host_emit(&x->host, &stub));
	assert_int_equal(called.frame[0], 4711);
	assert_int_equal(called.frame[1], strlen(text));
	assert_int_equal(called.frame[3] & 5, 1);
	assert_int_equal(called.frame[4 + 1], (uintptr_t)text);
	check_counts(x, 1);
	free(text);
}

/* ---- Unwinding ----------------------------------------------------------------------------- */

extern void __register_frame(void *section);
extern void __deregister_frame(void *section);

static struct {
	uint64_t x[31], sp;
	int frames;
} found;

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *data)
{
	(void)data;
	if (_Unwind_GetIP(context) != (uintptr_t)site_code)
		return _URC_NO_REASON;
	found.frames++;
	for (int i = 0; i < 31; i++)
		found.x[i] = _Unwind_GetGR(context, i);
	found.sp = _Unwind_GetCFA(context);
	return _URC_NORMAL_STOP;
}

static void look_back(void)
{
	_Unwind_Backtrace(on_frame, NULL);
}

static void unwinders_find_the_site(void **state)
{
	struct fixture *x = *state;
	struct arch_capture captures[] = {of_register(5, 8), of_register(6, 8)};
	uint8_t section[256];

	for (uint8_t count = 0; count <= 2; count++) {
		struct arch_stub stub = call_stub(x, captures, count, true);
		uint8_t *entry = stub_host_emit(&x->host, &stub);
		struct arch_extent extent = {
			(uintptr_t)entry, (uint64_t)(x->host.code + x->host.code_used - entry)};
		struct patterns in;

		assert_true(arch_call_unwind(&arch_aarch64, &extent, 1, section, sizeof(section)) <=
			    sizeof(section));
		__register_frame(section);
		called.look = look_back;
		memset(&found, 0, sizeof(found));
		fill(x, &in);
		hit(x, &in, entry);
		__deregister_frame(section);
		assert_int_equal(found.frames, 1);
		assert_int_equal(found.sp, in.sp);
		for (int i = 0; i < 31; i++)
			if (found.x[i] != in.x[i])
				fail_msg("x%d: %#lx, is %#lx", i, found.x[i], in.x[i]);
	}
}

/* Who has no rules follows the frame records: the site comes after the stub. */
static void records_lead_to_the_site(void)
{
	const uint64_t *record = __builtin_frame_address(0);

	memset(&found, 0, sizeof(found));
	for (int i = 0; i < 12 && !found.frames; i++, record = (const uint64_t *)record[0]) {
		found.frames = record[1] == (uintptr_t)site_code;
		found.x[29] = record[0];
	}
}

static void frame_records_are_linked(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = call_stub(x, NULL, 0, true);
	struct patterns in;

	called.look = records_lead_to_the_site;
	fill(x, &in);
	hit(x, &in, stub_host_emit(&x->host, &stub));
	assert_int_equal(found.frames, 1);
	assert_int_equal(found.x[29], in.x[29]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(registers_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(vectors_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(streaming_vectors_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(arguments_are_handed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(unwinders_find_the_site, setup, teardown),
		cmocka_unit_test_setup_teardown(frame_records_are_linked, setup, teardown),
	};

	assert_true(enter_init(true));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return skip_all("these stubs only run on aarch64; those of x86-64 are test_stub_call's");
}

#endif
