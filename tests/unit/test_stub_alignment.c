/* SPDX-License-Identifier: MIT */
/*
 * Stubs in a program that has the processor check alignment (EFLAGS.AC): what a stub reads
 * may lie anywhere, and the program finds the flag as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/stub_variant.h"

enum { TEXT_BYTES = 29 };

/* Is the check there at all? Not in every virtual machine's processor. */
static void check_flag(struct variant *v)
{
	struct arch_stub stub = variant_stub(v, ARCH_STUB_COUNT);

	v->state.flags = FLAGS_ALWAYS | FLAG_AC | FLAGS_ARITHMETIC;
	variant_hit(v, stub_host_emit(&v->host, &stub));
	assert_int_equal(stub_host_hits(&v->host), 1);
	*v->host.guard = 0;
	variant_hit(v, stub_host_emit(&v->host, &stub));
	assert_int_equal(stub_host_hits(&v->host), 1);
	*v->host.guard = 1;
}

static void counts(void **state)
{
	(void)state;
	variant_each(check_flag);
}

/* Each operand at each distance from a word's start. */
static void check_operands(struct variant *v)
{
	static const char *const specs[] = {
		"8@(%rbx)", "-4@(%rbx)", "2@(%rbx)", "1@(%rbx)", "8@3(%rsp)", "-4@5(%rsp)"};
	uint8_t *at = v->pages + 64;

	v->state.flags = FLAGS_ALWAYS | FLAG_AC;
	for (int i = 0; i < TEXT_BYTES; i++)
		at[i] = 0x11 + i;
	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		for (int shift = 0; shift < 8; shift++) {
			struct arch_capture c = variant_capture(specs[i]);
			const uint8_t *from = at + shift;
			uint64_t want = 0;
			size_t bytes;

			v->state.gpr[RBX] = (uintptr_t)from;
			if (c.arg.base == RSP)
				from = (uint8_t *)(uintptr_t)v->state.gpr[RSP] + c.arg.disp;
			memcpy(&want, from, c.arg.size);
			if (c.arg.is_signed)
				want = (uint64_t)(int32_t)want;
			assert_int_equal(variant_record(v, &c, 1, &bytes)[0], want);
		}
	}
}

static void operands(void **state)
{
	(void)state;
	variant_each(check_operands);
}

static void check_bytes(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("8@%rbx"), variant_capture("8@%rbx"),
		variant_capture("24@(%rbx)"), variant_capture("16@%xmm7")};
	char *at = (char *)v->pages + 64;

	v->state.flags = FLAGS_ALWAYS | FLAG_AC;
	captures[0].is_string = true;
	captures[1].has_length = true;
	captures[1].length = variant_capture("4@$23").arg;
	for (int shift = 0; shift < 8; shift++) {
		for (int length = 0; length < TEXT_BYTES; length++) {
			const uint64_t *words;
			size_t bytes;

			memset(at, 'a', TEXT_BYTES + 16);
			at[shift + length] = 0;
			v->state.gpr[RBX] = (uintptr_t)at + shift;
			words = variant_record(v, captures, 4, &bytes);
			assert_int_equal(words[0], length);
			assert_int_equal(words[1], 23);
			assert_int_equal(words[2], 24);
			assert_int_equal(words[3], 16);
			assert_memory_equal(&words[5], at + shift, length);
		}
	}
}

static void strings_and_structures(void **state)
{
	(void)state;
	variant_each(check_bytes);
}

/* A filter that is asked before anything else is saved. */
static void check_filter(struct variant *v)
{
	static const struct arch_expr_node node = {
		ARCH_EXPR_CAPTURE, true, false, 0, 0, 0, 0, 0, 0};
	static const struct arch_expr filter = {&node, 1};
	struct arch_capture c = variant_capture("4@3(%rsp)");
	struct arch_stub stub = variant_stub(v, ARCH_STUB_COUNT);
	uint32_t number;

	stub.captures = &c;
	stub.capture_count = 1;
	stub.filter = &filter;
	stub_host_reset(&v->host);
	v->state.flags = FLAGS_ALWAYS | FLAG_AC | FLAGS_ARITHMETIC;
	for (number = 0; number < 2; number++) {
		memcpy((uint8_t *)(uintptr_t)v->state.gpr[RSP] + 3, &number, sizeof(number));
		variant_hit(v, stub_host_emit(&v->host, &stub));
	}
	assert_int_equal(stub_host_hits(&v->host), 1);
}

static void filters(void **state)
{
	(void)state;
	variant_each(check_filter);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts),
		cmocka_unit_test(operands),
		cmocka_unit_test(strings_and_structures),
		cmocka_unit_test(filters),
	};

#ifndef __x86_64__
	print_message("SKIP: not on x86-64\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
