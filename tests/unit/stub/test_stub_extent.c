/* SPDX-License-Identifier: MIT */
/* Stubs of x86-64: bytes whose length is another argument. */
/* Not under ThreadSanitizer: nothing has threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_variant.h"

static struct arch_capture sized(const char *pointer, const char *length, uint16_t max)
{
	struct arch_capture capture = variant_capture(pointer);

	capture.has_length = true;
	capture.length = variant_capture(length).arg;
	capture.bytes_max = max;
	return capture;
}

/* What a record must contain for `length` bytes at `address`, truncated after `max`. */
struct extent {
	uint64_t address, length;
	uint16_t max;
	uint64_t word;
};

static void check(struct variant *v, const struct extent *x)
{
	/* Together with a string and a number, which share its temporaries. */
	struct arch_capture captures[] = {sized("8@%rbx", "8@%r9", x->max),
		variant_capture("8@%r8"), variant_capture("4@%ecx"),
		sized("8@%r8", "8@%r10", x->max)};
	uint32_t length = ring_string_length(x->word), padded = (length + 7) & ~7u;
	const uint64_t *words;
	size_t bytes;

	captures[1].is_string = true;
	v->state.gpr[RBX] = x->address;
	v->state.gpr[R9] = x->length;
	v->state.gpr[R8] = (uintptr_t) "text";
	v->state.gpr[R10] = 4;
	words = variant_record(v, captures, 4, &bytes);
	if (words[0] != x->word)
		fail_msg("%#lx, not %#lx (%lu at %#lx, at most %u)", words[0], x->word, x->length,
			x->address, x->max);
	assert_int_equal(words[1], 4);
	assert_int_equal(words[2], (uint32_t)v->state.gpr[RCX]);
	assert_int_equal(words[3], x->max < 4 ? x->max | TRUNCATED : 4);
	assert_int_equal(bytes, sizeof(struct ring_record) + 4 * 4 +
					((length + 4 + (x->max < 4 ? x->max : 4) + 3) & ~3u));
	if (length > 0)
		assert_memory_equal(words + 4, (void *)(uintptr_t)x->address, length);
	assert_memory_equal((const uint8_t *)(words + 4) + padded, "text", 4);
}

static void check_lengths(struct variant *v)
{
	uint8_t *end = v->pages + 3 * PAGE; /* nothing after it is readable */

	for (int i = 0; i < 3 * PAGE; i++)
		v->pages[i] = (uint8_t)(i * 7 + (i >> 8)); /* zeros among them */
	for (uint32_t length = 0; length < 40; length++) {
		uint64_t at = (uintptr_t)end - length;

		check(v, &(struct extent){at, length, 64, length});
		check(v, &(struct extent){at, length, length, length});
		if (length > 0)
			check(v,
				&(struct extent){at, length, length - 1, (length - 1) | TRUNCATED});
		/* more than there are */
		check(v, &(struct extent){
				 at, length + 1, 64, length ? length | TRUNCATED : UNREADABLE});
	}
}

static void check_pages(struct variant *v)
{
	uint64_t start = (uintptr_t)v->pages;

	for (uint32_t shift = 0; shift < 16; shift++) {
		check(v, &(struct extent){start + PAGE - shift, 20, 64, 20});
		check(v, &(struct extent){start + shift, 2 * PAGE, 16384, 2 * PAGE});
		check(v, &(struct extent){
				 start + shift, 4 * PAGE, 16384, (3 * PAGE - shift) | TRUNCATED});
	}
	check(v, &(struct extent){start, 3 * PAGE, 3 * PAGE, 3 * PAGE});
	check(v, &(struct extent){start, UINT64_MAX, 100, 100 | TRUNCATED});
	check(v, &(struct extent){start, UINT64_C(1) << 63, 100, 100 | TRUNCATED});
	check(v, &(struct extent){start, UINT64_C(1) << 32, 100, 100 | TRUNCATED});
}

static void check_bad_pointers(struct variant *v)
{
	static const uint64_t bad[] = {0, 1, 8, PAGE - 1, NON_CANONICAL, UINT64_MAX, UINT64_MAX - 7,
		UINT64_C(0x7ffffffffffff000), UINT64_C(0xffffffffff600000)};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		check(v, &(struct extent){bad[i], 1, 64, UNREADABLE});
		check(v, &(struct extent){bad[i], 64, 64, UNREADABLE});
		/* None are wanted, so none are missing. */
		check(v, &(struct extent){bad[i], 0, 64, 0});
	}
	variant_set_up_state(v);
}

/* Strings that another argument bounds: up to a NUL, or all of it. */
static void check_string(struct variant *v, const struct extent *x)
{
	struct arch_capture captures[] = {
		sized("8@%rbx", "8@%r9", x->max), sized("8@%r8", "4@%r10d", 64)};
	const uint64_t *words;
	size_t bytes;

	captures[0].is_string = captures[1].is_string = true;
	v->state.gpr[RBX] = x->address;
	v->state.gpr[R9] = x->length;
	v->state.gpr[R8] = (uintptr_t) "text";
	v->state.gpr[R10] = 3;
	words = variant_record(v, captures, 2, &bytes);
	if (words[0] != x->word)
		fail_msg("%#lx, not %#lx (%lu at %#lx, at most %u)", words[0], x->word, x->length,
			x->address, x->max);
	assert_int_equal(words[1], 3);
	if (ring_string_length(x->word))
		assert_memory_equal(
			words + 2, (void *)(uintptr_t)x->address, ring_string_length(x->word));
}

static void check_strings(struct variant *v)
{
	uint8_t *end = v->pages + 3 * PAGE; /* nothing after it is readable */

	for (uint32_t length = 0; length < 24; length++) {
		uint8_t *at = end - length;
		uint64_t address = (uintptr_t)at;

		memset(at, 's', length);
		check_string(v, &(struct extent){address, length, 64, length});
		check_string(v, &(struct extent){address, length, length, length});
		if (length > 1)
			check_string(v, &(struct extent){address, length, length - 1,
						(length - 1) | TRUNCATED});
		/* fewer than there are said to be */
		check_string(v, &(struct extent){address, length + 1, 64,
					length ? length | TRUNCATED : UNREADABLE});
		for (uint32_t nul = 0; nul < length; nul++) {
			at[nul] = 0;
			check_string(v, &(struct extent){address, length, 64, nul});
			check_string(v, &(struct extent){address, UINT64_MAX, 64, nul});
			check_string(v, &(struct extent){address, length, (uint16_t)nul, nul});
			at[nul] = 's';
		}
	}
	for (uint64_t bad = 0; bad < 2 * PAGE; bad += PAGE) {
		check_string(v, &(struct extent){bad & (PAGE - 1), 5, 64, UNREADABLE});
		check_string(v, &(struct extent){bad - 1, 5, 64, UNREADABLE});
		check_string(v, &(struct extent){bad, 0, 64, 0});
	}
	variant_set_up_state(v);
}

/* Lengths of every size and sign, also in memory, which may be unreadable. */
static void check_operands(struct variant *v)
{
	static const struct {
		const char *pointer, *length;
		uint64_t word;
		bool readable;
	} cases[] = {
		{"8@%rdi", "8@%rsi", 5, true},
		{"8@%rdi", "-8@%r12", 0, true}, /* negative */
		{"8@%rdi", "-4@%r12d", 0, true},
		{"8@%rdi", "-2@%r12w", 0, true},
		{"8@%rdi", "-1@%r12b", 0, true},
		{"8@%rdi", "1@%r12b", 64 | TRUNCATED, true},
		{"8@%rdi", "4@%r12d", 64 | TRUNCATED, true},
		{"8@%rdi", "-4@$7", 7, true},
		{"8@%rdi", "-4@$-7", 0, true},
		{"8@%rdi", "8@16(%rsp)", 6, true},
		{"8@%rdi", "4@(%rax)", 9, true},
		{"8@%rdi", "-8@24(%rax)", 0, true},
		{"8@%rdi", "8@(%rdx)", UNREADABLE, false},
		{"8@8(%rax)", "4@(%rax)", 9, true},
		{"8@8(%rsp)", "8@16(%rsp)", 6, true},
		{"8@(%rdx)", "8@%rsi", UNREADABLE, false},
		{"8@%rsp", "8@%rsi", 5, true},
	};
	enum { N = sizeof(cases) / sizeof(cases[0]) };
	struct arch_capture captures[N];
	uint64_t data = (uintptr_t)v->pages + PAGE, mask = 0;
	const uint64_t *words;
	size_t bytes;

	memset(v->pages, 0, 3 * PAGE);
	memset((void *)(uintptr_t)data, 'd', 100);
	v->state.gpr[RDI] = data;
	v->state.gpr[RSI] = 5;
	v->state.gpr[R12] = UINT64_MAX;
	v->state.gpr[RAX] = (uintptr_t)v->pages;
	v->state.gpr[RDX] = (uintptr_t)v->pages + 3 * PAGE;
	((uint64_t *)(void *)v->pages)[0] = 9;
	((uint64_t *)(void *)v->pages)[1] = data;
	((int64_t *)(void *)v->pages)[3] = -2;
	((uint64_t *)(uintptr_t)v->state.gpr[RSP])[1] = data;
	((uint64_t *)(uintptr_t)v->state.gpr[RSP])[2] = 6;
	for (int i = 0; i < N; i++) {
		captures[i] = sized(cases[i].pointer, cases[i].length, 64);
		mask |= (uint64_t)cases[i].readable << i;
	}
	words = variant_record(v, captures, N, &bytes);
	for (int i = 0; i < N; i++)
		if (words[i] != cases[i].word)
			fail_msg("%s, %s: %#lx, not %#lx", cases[i].pointer, cases[i].length,
				words[i], cases[i].word);
	assert_int_equal(words[N], mask);
	variant_set_up_state(v);
}

/* Bytes in the module's constants need no system call; everything else does. */
static void check_safe_range(struct variant *v)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	struct arch_capture captures[] = {sized("8@%rdi", "8@%rcx", 256),
		sized("8@%rsi", "8@%rcx", 256), sized("8@%rdx", "8@%rcx", 256),
		sized("8@%r12", "8@%rcx", 256)};
	const struct ring_record *r;
	const uint64_t *words;
	size_t bytes;

	stub_host_reset(&v->host);
	stub.safe.pages[0] = (struct arch_extent){(uintptr_t)v->pages, PAGE};
	stub.safe.pages[1] = (struct arch_extent){(uintptr_t)v->pages + PAGE, PAGE};
	stub.safe.count = 2;
	stub.may_call_kernel = false;
	stub.captures = captures;
	stub.capture_count = stub.recorded = 4;
	memset(v->pages, 'z', 2 * PAGE);
	v->state.gpr[RCX] = 100;
	v->state.gpr[RDI] = (uintptr_t)v->pages;
	v->state.gpr[RSI] = (uintptr_t)v->pages + PAGE;
	v->state.gpr[RDX] = (uintptr_t)v->pages + 2 * PAGE - 99;
	v->state.gpr[R12] = UINT64_MAX; /* its bytes would end in the first page, by wrapping */
	variant_hit(v, stub_host_emit(&v->host, &stub));
	r = stub_host_only_record(&v->host, &bytes);
	words = stub_host_open_record(captures, 4, r, bytes);
	assert_int_equal(words[0], 100);
	assert_int_equal(words[1], 100);
	assert_int_equal(words[2], 99 | TRUNCATED);
	assert_int_equal(words[3], UNREADABLE);
	variant_set_up_state(v);
}

static void every_length(void **state)
{
	(void)state;
	variant_each(check_lengths);
}

static void across_pages(void **state)
{
	(void)state;
	variant_each(check_pages);
}

static void bad_pointers(void **state)
{
	(void)state;
	variant_each(check_bad_pointers);
}

static void every_operand(void **state)
{
	(void)state;
	variant_each(check_operands);
}

static void bounded_strings(void **state)
{
	(void)state;
	variant_each(check_strings);
}

static void safe_range(void **state)
{
	(void)state;
	variant_each(check_safe_range);
}

static void check_impossible(struct variant *v)
{
	static const char *const cases[][2] = {
		{"8@%rdi", "8@%xmm0"}, {"8@%xmm0", "8@%rdi"}, {"8@%rdi", "16@(%rdi)"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct arch_capture capture = sized(cases[i][0], cases[i][1], 8);
		struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
		static uint8_t code[ARCH_STUB_MAX];
		struct arch_stub_code ret;

		stub.captures = &capture;
		stub.capture_count = stub.recorded = 1;
		assert_int_equal(
			arch_make_stub(&arch_x86_64, &stub, stub.next, code, sizeof(code), &ret),
			ARCH_STUB_UNSUPPORTED);
	}
}

/* Vector registers hold no pointers and no lengths, nor do 16-byte arguments. */
static void impossible(void **state)
{
	(void)state;
	variant_each(check_impossible);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length),
		cmocka_unit_test(across_pages),
		cmocka_unit_test(bad_pointers),
		cmocka_unit_test(every_operand),
		cmocka_unit_test(bounded_strings),
		cmocka_unit_test(safe_range),
		cmocka_unit_test(impossible),
	};

#ifndef __x86_64__
	return stub_harness_lacks();
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
