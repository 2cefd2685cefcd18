/* SPDX-License-Identifier: MIT */
/*
 * Executes stubs of x86-64: what they write, and that they leave no trace. Every test runs them
 * with and without rseq, with the rings near the code and far from it. test_stub_threads.c
 * tests threads and signals.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "tests/unit/stub/stub_variant.h"

/* ---- Counting, and what a hit preserves --------------------------------------------- */

static void all_flags(struct variant *v, const void *entry)
{
	static const int bits[] = {0x001, 0x004, 0x010, 0x040, 0x080, 0x400, 0x800};

	for (int set = 0; set < 128; set++) {
		v->state.flags = FLAGS_ALWAYS;
		for (int i = 0; i < 7; i++)
			if (set >> i & 1)
				v->state.flags |= bits[i];
		variant_hit(v, entry);
	}
	v->state.flags = FLAGS_ALWAYS;
}

static void check_count(struct variant *v)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_COUNT);
	const void *entry = stub_host_emit(&v->host, &stub);

	all_flags(v, entry);
	assert_int_equal(stub_host_hits(&v->host), 128);
	assert_int_equal(stub_host_lost(&v->host), 0);
	*v->host.guard = 0;
	all_flags(v, entry);
	assert_int_equal(stub_host_hits(&v->host), 128);
}

static void count(void **state)
{
	(void)state;
	variant_each(check_count);
}

/* ---- Values ------------------------------------------------------------------------------ */

/* An argument whose value is computed from the state. */
struct value {
	const char *spec;
	int reg;	/* of the state; -1: `fixed` alone */
	int shift;	/* the value's place in the register */
	uint64_t fixed; /* added, for immediates */
};

/* clang-format off */
static const struct value values[] = {
	{"8@%rax", RAX, 0, 0}, {"-8@%rcx", RCX, 0, 0}, {"8@%rdx", RDX, 0, 0},
	{"8@%rbx", RBX, 0, 0}, {"8@%rsp", RSP, 0, 0}, {"8@%rbp", RBP, 0, 0},
	{"8@%rsi", RSI, 0, 0}, {"8@%rdi", RDI, 0, 0}, {"8@%r8", R8, 0, 0},
	{"8@%r9", R9, 0, 0}, {"8@%r10", R10, 0, 0}, {"8@%r11", R11, 0, 0},
	{"8@%r12", R12, 0, 0}, {"8@%r13", R13, 0, 0}, {"8@%r14", R14, 0, 0},
	{"8@%r15", R15, 0, 0},
	{"4@%eax", RAX, 0, 0}, {"-4@%ecx", RCX, 0, 0}, {"-4@%ebx", RBX, 0, 0},
	{"4@%r12d", R12, 0, 0}, {"-4@%r13d", R13, 0, 0}, {"-4@%r9d", R9, 0, 0},
	{"2@%ax", RAX, 0, 0}, {"-2@%si", RSI, 0, 0}, {"2@%r14w", R14, 0, 0},
	{"-2@%bp", RBP, 0, 0}, {"-2@%r10w", R10, 0, 0},
	{"1@%al", RAX, 0, 0}, {"-1@%al", RAX, 0, 0}, {"1@%bl", RBX, 0, 0},
	{"-1@%bl", RBX, 0, 0}, {"1@%spl", RSP, 0, 0}, {"1@%bpl", RBP, 0, 0},
	{"-1@%sil", RSI, 0, 0}, {"1@%dil", RDI, 0, 0}, {"-1@%r8b", R8, 0, 0},
	{"1@%r15b", R15, 0, 0}, {"-1@%r12b", R12, 0, 0},
	{"1@%ah", RAX, 8, 0}, {"-1@%ah", RAX, 8, 0}, {"1@%bh", RBX, 8, 0},
	{"-1@%ch", RCX, 8, 0}, {"1@%dh", RDX, 8, 0}, {"-1@%bh", RBX, 8, 0},
	{"4@%rax", RAX, 0, 0}, {"-4@%rbp", RBP, 0, 0}, {"4f@%ebx", RBX, 0, 0},
	{"8f@%r11", R11, 0, 0},
	{"8@$0", -1, 0, 0}, {"4@$5", -1, 0, 5}, {"-4@$-5", -1, 0, -5},
	{"4@$-5", -1, 0, 0xfffffffb}, {"-1@$255", -1, 0, -1}, {"1@$-1", -1, 0, 255},
	{"2@$65536", -1, 0, 0}, {"-8@$-9223372036854775808", -1, 0, INT64_MIN},
	{"8@$18446744073709551615", -1, 0, UINT64_MAX},
	{"8@$0x123456789abcdef0", -1, 0, 0x123456789abcdef0},
	{"8@$2147483648", -1, 0, 0x80000000}, {"8@$4294967295", -1, 0, 0xffffffff},
};
/* clang-format on */

static uint64_t extended(uint64_t value, const struct arch_arg *arg)
{
	unsigned int bytes = arg->size < arg->width ? arg->size : arg->width;
	int unused = 64 - 8 * (int)bytes;

	if (arg->is_signed && !arg->is_float)
		return (uint64_t)((int64_t)(value << unused) >> unused);
	return value << unused >> unused;
}

static uint64_t expected(
	const struct value *value, const struct arch_arg *arg, const struct stub_state *state)
{
	if (value->reg < 0)
		return value->fixed;
	return extended(state->gpr[value->reg] >> value->shift, arg);
}

static void check_values(struct variant *v)
{
	enum { ALL = sizeof(values) / sizeof(values[0]) };
	struct arch_capture captures[ARCH_ARGS_MAX];
	size_t bytes;

	for (size_t first = 0; first < ALL; first += ARCH_ARGS_MAX) {
		size_t n = ALL - first < ARCH_ARGS_MAX ? ALL - first : ARCH_ARGS_MAX;
		const uint64_t *words;

		for (size_t i = 0; i < n; i++) {
			captures[i] = variant_capture(values[first + i].spec);
			assert_true(arch_capturable(&arch_x86_64, &captures[i].arg));
			assert_false(arch_capture_checked(&arch_x86_64, &captures[i]));
		}
		words = variant_record(v, captures, n, &bytes);
		for (size_t i = 0; i < n; i++) {
			uint64_t want = expected(&values[first + i], &captures[i].arg, &v->state);

			if (words[i] != want)
				fail_msg("%s: %#lx, not %#lx", values[first + i].spec, words[i],
					want);
		}
	}
}

static void values_of_registers_and_immediates(void **state)
{
	(void)state;
	variant_each(check_values);
}

static void check_vectors(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("4f@%xmm0"), variant_capture("8f@%xmm3"),
		variant_capture("16@%xmm7"), variant_capture("-8f@%xmm12"),
		variant_capture("4f@%xmm15"), variant_capture("16@%xmm9"),
		variant_capture("8@%r9")};
	const uint64_t *words;
	size_t bytes;
	uint64_t want = 0;

	words = variant_record(v, captures, 7, &bytes);
	assert_int_equal(bytes, sizeof(struct ring_record) + 4 * 4 + 3 * 8 + 32);
	memcpy(&want, v->state.xmm[0], 4);
	assert_int_equal(words[0], want);
	assert_memory_equal(&words[1], v->state.xmm[3], 8);
	assert_int_equal(words[2], 16);
	assert_memory_equal(&words[3], v->state.xmm[12], 8);
	memcpy(&want, v->state.xmm[15], 4);
	assert_int_equal(words[4], want);
	assert_int_equal(words[5], 16);
	assert_int_equal(words[6], v->state.gpr[R9]);
	assert_memory_equal(&words[7], v->state.xmm[7], 16);
	assert_memory_equal(&words[9], v->state.xmm[9], 16);
}

/* Of 16 bytes, the operand has the lower half: the rest is cut. */
static void check_halves(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("16@%rax"), variant_capture("-16@%r15"),
		variant_capture("16@%rsp"), variant_capture("-16@$-5"), variant_capture("8@%r9")};
	const uint64_t half = 8 | TRUNCATED;
	const uint64_t *words;
	size_t bytes;

	words = variant_record(v, captures, 5, &bytes);
	assert_int_equal(bytes, sizeof(struct ring_record) + 4 * 4 + 8 + 4 * 8);
	for (int i = 0; i < 4; i++)
		assert_int_equal(words[i], half);
	assert_int_equal(words[4], v->state.gpr[R9]);
	assert_int_equal(words[5], v->state.gpr[RAX]);
	assert_int_equal(words[6], v->state.gpr[R15]);
	assert_int_equal(words[7], v->state.gpr[RSP]);
	assert_int_equal(words[8], (uint64_t)-5);
}

static void halves_of_registers_and_immediates(void **state)
{
	(void)state;
	variant_each(check_halves);
}

static void values_of_vector_registers(void **state)
{
	(void)state;
	variant_each(check_vectors);
}

/* ---- The layout of a record ------------------------------------------------------------------ */

/* The record of these captures has these bytes after its header. */
static void check_bytes(struct variant *v, const struct arch_capture *captures, size_t count,
	const char *expected, size_t length)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	const struct ring_record *r;
	size_t bytes;

	stub_host_reset(&v->host);
	stub.captures = captures;
	stub.capture_count = stub.recorded = (uint8_t)count;
	variant_hit(v, stub_host_emit(&v->host, &stub));
	r = stub_host_only_record(&v->host, &bytes);
	assert_non_null(r);
	assert_int_equal(bytes, sizeof(*r) + (length + 3) / 4 * 4);
	assert_memory_equal(r + 1, expected, length);
}

static void check_layout(struct variant *v)
{
	struct arch_capture ints[] = {
		variant_capture("-4@%ebx"), variant_capture("4@%ecx"), variant_capture("-4@$-2")};
	struct arch_capture mixed[] = {variant_capture("1@%bl"), variant_capture("8@%rcx"),
		variant_capture("8@%rsi"), variant_capture("-2@(%rdi)"), variant_capture("8@%r8"),
		variant_capture("3@(%rdi)")};

	mixed[2].is_string = mixed[4].is_string = true;
	v->state.gpr[RBX] = UINT64_C(0xffffffff04030201);
	v->state.gpr[RCX] = UINT64_C(0x1817161514131211);
	v->state.gpr[RSI] = (uintptr_t) "five!";
	v->state.gpr[RDI] = (uintptr_t)memcpy(v->pages, "\xfe\xff\x7f", 3);
	v->state.gpr[R8] = (uintptr_t)v->pages + 3 * PAGE; /* not readable */
	check_bytes(v, ints, 3, "\1\2\3\4\x11\x12\x13\x14\xfe\xff\xff\xff", 12);
	check_bytes(v, mixed, 6,
		"\1"
		"\x11\x12\x13\x14\x15\x16\x17\x18"
		"\5\0\0\0"
		"\xfe\xff"
		"\0\0\0\x80"
		"\3\0\0\0"
		"\x3f"
		"five!"
		"\xfe\xff\x7f",
		32);
	variant_set_up_state(v);
}

static void layout_of_a_record(void **state)
{
	(void)state;
	variant_each(check_layout);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* The target of a memory operand, and so what must be read. */
struct memory_case {
	const char *spec;
	int base, index;   /* registers set for it, or -1 */
	int64_t base_add;  /* the base holds the address + this */
	uint64_t index_is; /* the index's value */
};

/* clang-format off */
static const struct memory_case memories[] = {
	{"8@(%rax)", RAX, -1, 0, 0}, {"-4@8(%rcx)", RCX, -1, -8, 0},
	{"4@-16(%rdx)", RDX, -1, 16, 0}, {"2@4096(%rbx)", RBX, -1, -4096, 0},
	{"-2@(%rbp)", RBP, -1, 0, 0}, {"1@-1(%rsi)", RSI, -1, 1, 0},
	{"-1@127(%rdi)", RDI, -1, -127, 0}, {"8@128(%r8)", R8, -1, -128, 0},
	{"8@(%r9)", R9, -1, 0, 0}, {"4@(%r10)", R10, -1, 0, 0},
	{"4@4(%r11)", R11, -1, -4, 0}, {"8@(%r12)", R12, -1, 0, 0},
	{"-8@(%r13)", R13, -1, 0, 0}, {"8@2147483647(%r14)", R14, -1, -2147483647, 0},
	{"8@-2147483648(%r15)", R15, -1, 2147483648, 0},
	{"4@(%rax,%rcx,4)", RAX, RCX, -4 * 3, 3}, {"8@8(%rcx,%rax,8)", RCX, RAX, -8 - 8 * 5, 5},
	{"8@(%r12,%r13)", R12, R13, -100, 100}, {"1@(%rbx,%rdx,2)", RBX, RDX, 2, UINT64_MAX},
	{"8f@(%r8,%r9,1)", R8, R9, -7, 7}, {"4@16(%rbp,%r10,4)", RBP, R10, -16 - 40, 10},
	{"8@(%rdi,%rdi)", RDI, -1, 0, 0},
};
/* clang-format on */

static void check_memory_case(struct variant *v, const struct memory_case *m)
{
	struct arch_capture captures[2] = {variant_capture(m->spec), variant_capture("8@%rdx")};
	uint64_t address = (uintptr_t)v->pages + 2 * PAGE + 24, value = 0;
	const uint64_t *words;
	size_t bytes;

	if (m->base == RDI && strstr(m->spec, "%rdi,%rdi"))
		v->state.gpr[RDI] = address / 2;
	else
		v->state.gpr[m->base] = address + m->base_add;
	if (m->index >= 0)
		v->state.gpr[m->index] = m->index_is;
	memset(v->pages, 0x5a, 3 * PAGE);
	memcpy((void *)(uintptr_t)address, "\x81\x92\xa3\xb4\xc5\xd6\xe7\xf8", 8);
	assert_true(arch_capture_checked(&arch_x86_64, &captures[0]));
	words = variant_record(v, captures, 2, &bytes);
	memcpy(&value, (void *)(uintptr_t)address, 8);
	captures[0].arg.width = 8;
	assert_int_equal(words[0], extended(value, &captures[0].arg));
	assert_int_equal(words[1], v->state.gpr[RDX]);
	assert_int_equal(words[2], 3); /* both were readable */
	variant_set_up_state(v);
}

static void check_memory(struct variant *v)
{
	for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++)
		check_memory_case(v, &memories[i]);
}

static void memory_by_pointer(void **state)
{
	(void)state;
	variant_each(check_memory);
}

/* The stack and static storage are read without a check, and without a mask. */
static void check_safe_memory(struct variant *v)
{
	static const int64_t constant = INT64_C(-0x1122334455667788);
	struct arch_capture captures[] = {variant_capture("8@(%rsp)"),
		variant_capture("-4@-8(%rsp)"), variant_capture("1@200(%rsp)"),
		variant_capture("8@constant(%rip)"), variant_capture("-4@constant+4(%rip)"),
		variant_capture("2@constant")};
	const uint8_t *sp = (const uint8_t *)(uintptr_t)v->state.gpr[RSP];
	const uint64_t *words;
	int32_t below, above;
	size_t bytes;

	memcpy(&below, sp - 8, 4);
	memcpy(&above, (const uint8_t *)&constant + 4, 4);
	for (int i = 3; i < 6; i++) {
		assert_false(arch_capturable(&arch_x86_64, &captures[i].arg));
		captures[i].arg.disp += (intptr_t)&constant;
		captures[i].arg.symbol = NULL;
		captures[i].is_static = true;
	}
	for (int i = 0; i < 6; i++)
		assert_false(arch_capture_checked(&arch_x86_64, &captures[i]));
	words = variant_record(v, captures, 6, &bytes);
	assert_int_equal(bytes, sizeof(struct ring_record) + 28); /* 27 of them */
	assert_memory_equal(&words[0], sp, 8);
	assert_int_equal(words[1], (int64_t)below);
	assert_int_equal(words[2], sp[200]);
	assert_int_equal(words[3], constant);
	assert_int_equal(words[4], (int64_t)above);
	assert_int_equal(words[5], (uint16_t)constant);
}

static void memory_without_check(void **state)
{
	(void)state;
	variant_each(check_safe_memory);
}

static void check_bad_pointers(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("8@(%rax)"), variant_capture("4@(%rbp)"),
		variant_capture("-8@8(%rcx)"), variant_capture("8@(%rdx)"),
		variant_capture("4@(%rsi)"), variant_capture("8@4660"), variant_capture("4@(%r8)"),
		variant_capture("1@(%r9,%r10,8)"), variant_capture("8@2147483647(%rsp)"),
		variant_capture("8@(%r11)"), variant_capture("24@(%r11)"),
		variant_capture("8@-8(%rax)"), variant_capture("8@(%r13)"),
		variant_capture("8@%rax")};
	enum { N = sizeof(captures) / sizeof(captures[0]) };
	uint64_t bad = (uintptr_t)v->pages + 3 * PAGE, want = 0;
	const uint64_t *words;
	size_t bytes;

	v->state.gpr[RAX] = 0;
	v->state.gpr[RBP] = 1;
	v->state.gpr[RCX] = bad - 8;
	v->state.gpr[RDX] = NON_CANONICAL;
	v->state.gpr[RSI] = UINT64_MAX;
	v->state.gpr[R8] = PAGE - 1;
	v->state.gpr[R9] = bad;
	v->state.gpr[R10] = 3;
	v->state.gpr[R11] = bad - 4; /* begins in a page that can be read */
	v->state.gpr[R13] = bad - 8; /* the only readable one */
	memcpy((void *)(uintptr_t)(bad - 8), "\1\2\3\4\5\6\7\1", 8);
	words = variant_record(v, captures, N, &bytes);
	for (int i = 0; i < N - 2; i++)
		assert_int_equal(words[i], i == 10 ? UNREADABLE : 0);
	assert_int_equal(words[N - 2], 0x0107060504030201);
	assert_int_equal(words[N - 1], v->state.gpr[RAX]);
	want = UINT64_C(3) << (N - 2);
	assert_int_equal(words[N], want);
	variant_set_up_state(v);
}

static void bad_pointers(void **state)
{
	(void)state;
	variant_each(check_bad_pointers);
}

/* Without the kernel's help, only pointers into the stack are followed. */
static void check_no_kernel(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("8@(%rbx)"),
		variant_capture("8@-16(%rbp)"), variant_capture("8@%rbx"),
		variant_capture("8@%rbp")};
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	const struct ring_record *r;
	const uint64_t *words;
	size_t bytes;

	captures[2].is_string = captures[3].is_string = true;
	strcpy((char *)v->pages, "heap");
	v->state.gpr[RBX] = (uintptr_t)v->pages;
	v->state.gpr[RBP] = v->state.gpr[RSP] + 32;
	strcpy((char *)(uintptr_t)v->state.gpr[RBP], "stack");
	stub_host_reset(&v->host);
	stub.captures = captures;
	stub.capture_count = stub.recorded = 4;
	stub.may_call_kernel = false;
	variant_hit(v, stub_host_emit(&v->host, &stub));
	r = stub_host_only_record(&v->host, &bytes);
	assert_non_null(r);
	words = stub_host_open_record(captures, 4, r, bytes);
	assert_int_equal(words[0], 0);
	assert_memory_equal(&words[1], (void *)(uintptr_t)(v->state.gpr[RBP] - 16), 8);
	assert_int_equal(words[2], UNREADABLE);
	assert_int_equal(words[3], 5);
	assert_int_equal(words[4], 0xe);
	assert_memory_equal(&words[5], "stack", 5);
	variant_set_up_state(v);
}

static void pointers_without_system_calls(void **state)
{
	(void)state;
	variant_each(check_no_kernel);
}

/* If the C library does not reveal its place, the kernel is asked; otherwise it is unknown. */
static void check_thread_id(struct variant *v)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	size_t bytes;

	stub.thread.has_tid = false;
	for (int i = 0; i < 2; i++) {
		stub_host_reset(&v->host);
		stub.may_call_kernel = i == 0;
		variant_hit(v, stub_host_emit(&v->host, &stub));
		assert_int_equal(stub_host_only_record(&v->host, &bytes)->tid, i ? 0 : gettid());
		assert_int_equal(bytes, sizeof(struct ring_record));
	}
}

/* If children are followed, a record says whether a child made it. */
static void check_child(struct variant *v)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	uint32_t *own = (uint32_t *)v->pages;
	size_t bytes;

	stub.own = (uintptr_t)own;
	for (*own = 0; *own < 2; ++*own) {
		stub_host_reset(&v->host);
		variant_hit(v, stub_host_emit(&v->host, &stub));
		assert_int_equal(stub_host_only_record(&v->host, &bytes)->tid,
			(uint32_t)gettid() | (*own ? 0 : RING_TID_CHILD));
	}
}

static void children_are_told(void **state)
{
	(void)state;
	variant_each(check_child);
}

static void thread_id_without_the_library(void **state)
{
	(void)state;
	variant_each(check_thread_id);
}

/* A child that does not count: nothing is written. */
static void check_guard(struct variant *v)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	size_t bytes;

	stub_host_reset(&v->host);
	*v->host.guard = 0;
	all_flags(v, stub_host_emit(&v->host, &stub));
	assert_null(stub_host_only_record(&v->host, &bytes));
	assert_int_equal(stub_host_lost(&v->host), 0);
}

static void no_records_behind_the_guard(void **state)
{
	(void)state;
	variant_each(check_guard);
}

/* ---- Impossible requests --------------------------------------------------------------------- */

static void what_cannot_be_captured(void **state)
{
	static const char *const specs[] = {"3@%eax", "12@%r8", "16@%eax", "32@%r8", "16@$sym",
		"8@$sym", "8@$sym+4", "8@sym(%rip)", "8@sym+8(%rax)", "16@%xmm31", "32@%ymm7",
		"2@%xmm0", "10f@%xmm0", "8@%fs:0", "3@$5", "5000@(%rax)"};

	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct arch_capture c = variant_capture(specs[i]);

		if (arch_capturable(&arch_x86_64, &c.arg))
			fail_msg("%s", specs[i]);
	}
}

static void refusals(void **state)
{
	struct arch_capture captures[2] = {
		variant_capture("8@sym(%rip)"), variant_capture("16@%xmm1")};
	struct arch_stub_code code;
	static uint8_t out[ARCH_STUB_MAX];
	struct variant v;
	struct arch_stub stub;

	(void)state;
	variant_init(&v, false, false);
	stub = variant_stub(&v, ARCH_ACTION_RECORD);
	stub.captures = captures;
	stub.capture_count = stub.recorded = 1;
	assert_int_equal(arch_make_stub(&arch_x86_64, &stub, stub.next, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
	captures[1].is_string = true;
	stub.captures = captures + 1;
	assert_int_equal(arch_make_stub(&arch_x86_64, &stub, stub.next, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
	stub.capture_count = stub.recorded = 0;
	assert_int_equal(
		arch_make_stub(&arch_x86_64, &stub, stub.next, out, 64, &code), ARCH_STUB_NO_ROOM);
	assert_int_equal(arch_make_stub(&arch_x86_64, &stub, stub.next + (UINT64_C(1) << 32), out,
				 sizeof(out), &code),
		ARCH_STUB_OUT_OF_REACH);
	stub.actions[0].record.ring_bytes = 48000;
	assert_int_equal(arch_make_stub(&arch_x86_64, &stub, stub.next, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
	variant_deinit(&v);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(count),
		cmocka_unit_test(values_of_registers_and_immediates),
		cmocka_unit_test(values_of_vector_registers),
		cmocka_unit_test(layout_of_a_record),
		cmocka_unit_test(halves_of_registers_and_immediates),
		cmocka_unit_test(memory_by_pointer),
		cmocka_unit_test(memory_without_check),
		cmocka_unit_test(bad_pointers),
		cmocka_unit_test(pointers_without_system_calls),
		cmocka_unit_test(thread_id_without_the_library),
		cmocka_unit_test(children_are_told),
		cmocka_unit_test(no_records_behind_the_guard),
		cmocka_unit_test(what_cannot_be_captured),
		cmocka_unit_test(refusals),
	};

#ifndef __x86_64__
	return stub_harness_lacks();
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
