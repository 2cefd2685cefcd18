/* SPDX-License-Identifier: MIT */
/*
 * Expressions as code in the form of stubs: the interpreter of expressions, the machine of the
 * tests and this processor must agree, for random expressions and for each kind of leaf.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "tests/unit/query/expr_interpreter.h"
#include "tests/unit/query/expr_random.h"
#include "tests/unit/form/form_world.h"
#include "tests/unit/skip.h"

enum {
	TEXTS = 3000,
	HITS = 12,
	TEXT_MAX = 400,
	/* Temporaries: what an expression left, whether it was possible, and what it finds. */
	RESULT = 0,
	POSSIBLE,
	TID,
	PID,
	MASK,
	PAIR,
	FIRST = PAIR + 2,
	OTHER_BITS = 0x5a5a5a5a,
	NOT_ITS_OWN = 0x5ca1ab1e
};

/* As the notes of x86-64 name them: registers 7, 13 and 2. Any processor has such numbers. */
static const char *const notes[] = {"8@%rdi -4@%r13d 4@%edx", "-8@%rdi 8@%r13 -4@%edx",
	"-1@%dil 1@%r13b -2@%dx", "4@%edi 4@%r13d -8@%rdx", "2@%di -8@%r13 8@%rdx"};
static const int numbers[] = {7, 13, 2};

struct subject {
	struct form_fixture *fixture;
	struct expr_case expr;
	struct arch_stub stub;
	struct stub_plan plan;
	bool as_filter;
};

/* Leaves 1 or 0 as POSSIBLE, and the value; a filter leaves whether it takes the hit. */
static void write_expr(struct form *f, void *arg)
{
	const struct subject *s = arg;
	int bad = form_label(f), done = form_label(f);

	if (s->as_filter) {
		form_filter(f, &s->plan, &s->expr.bound, bad);
		form_const(f, FORM_VALUE, 1);
	} else {
		form_expr(f, &s->plan, &s->expr.bound, bad);
	}
	form_store(f, FORM_VALUE, form_temp(RESULT));
	form_const(f, FORM_VALUE, 1);
	form_jump(f, done);
	form_place(f, bad);
	form_const(f, FORM_VALUE, 0);
	form_store(f, FORM_VALUE, form_temp(RESULT));
	form_place(f, done);
	form_store(f, FORM_VALUE, form_temp(POSSIBLE));
}

static void subject_init(
	struct subject *s, struct form_fixture *x, const char *args, const char *text)
{
	struct probe_error *error = expr_case_init(&s->expr, args, text);

	if (error)
		fail_msg("%s: %s", text, error->message);
	s->fixture = x;
	s->as_filter = false;
	s->stub = (struct arch_stub){
		.captures = s->expr.layout.captures, .capture_count = s->expr.layout.capture_count};
	s->plan = (struct stub_plan){.stub = &s->stub,
		.tid_temp = TID,
		.pid_temp = PID,
		.mask_temp = MASK,
		.expr_temp = FIRST};
	for (int i = 0; i < s->stub.capture_count; i++)
		s->plan.temp[i] = PAIR;
	assert_true(expr_is_possible(&s->stub, &s->expr.bound));
	assert_true(FIRST + expr_temps(&s->expr.bound) <= WORLD_TEMPS);
}

/* The low bytes of a word, as a stub would record them. */
static uint64_t extended(uint64_t word, uint32_t size, bool is_signed)
{
	unsigned int shift = 64 - 8 * size;

	return is_signed ? (uint64_t)((int64_t)(word << shift) >> shift) : word << shift >> shift;
}

/* Hits once, with these values in the three registers. */
static void try_hit(struct subject *s, form_native_function *function, const char *text,
	const uint64_t values[3], struct expr_input *input)
{
	struct form_fixture *x = s->fixture;
	uint64_t words[ARCH_ARGS_MAX] = {0}, expected = 0;
	bool possible;

	for (int i = 0; i < 3; i++) {
		x->memory.saved[numbers[i]] = values[i];
		if (numbers[i] == form_native_live)
			x->world.live_value = values[i];
	}
	for (int i = 0; i < s->stub.capture_count; i++) {
		const struct arch_arg *arg = &s->stub.captures[i].arg;
		uint64_t value = values[arg->base == 7 ? 0 : arg->base == 13 ? 1 : 2];

		words[i] = extended(value, arg->size, arg->is_signed && !arg->is_float);
	}
	input->words = words;
	input->tid = -3;
	input->pid = 77;
	input->cpu = (int32_t)x->world.cpu;
	x->memory.temps[TID] = UINT64_C(0x12345678fffffffd);
	x->memory.temps[PID] = UINT64_C(0xffffffff0000004d);
	possible = expr_evaluate(&s->expr.bound, input, &expected);
	if (s->as_filter) {
		possible = possible && expected;
		expected = 1;
	}
	for (int i = FIRST + expr_temps(&s->expr.bound); i < WORLD_TEMPS; i++)
		x->memory.temps[i] = NOT_ITS_OWN;
	form_fixture_run(x, function, text);
	/* In a stub, registers of the site are saved behind the temporaries. */
	for (int i = FIRST + expr_temps(&s->expr.bound); i < WORLD_TEMPS; i++)
		if (x->memory.temps[i] != NOT_ITS_OWN)
			fail_msg("%s: changes temporary %d", text, i - FIRST);
	if (x->memory.temps[POSSIBLE] != possible ||
		(possible && x->memory.temps[RESULT] != expected))
		fail_msg("%s of %#lx, %#lx, %#lx: %#lx, expected %#lx (possible: %d)", text,
			values[0], values[1], values[2], x->memory.temps[RESULT], expected,
			possible);
}

/* As a value and as a filter. */
static void try_text(struct form_fixture *x, const char *note, const char *text, int hits,
	uint64_t (*number)(struct form_fixture *x))
{
	for (int as_filter = 0; as_filter < 2; as_filter++) {
		struct subject s;
		form_native_function *function = NULL;

		subject_init(&s, x, note, text);
		s.as_filter = as_filter;
		function = form_fixture_make(x, write_expr, &s);
		for (int i = 0; i < hits; i++)
			try_hit(&s, function, text, (uint64_t[]){number(x), number(x), number(x)},
				&(struct expr_input){0});
		expr_case_deinit(&s.expr);
	}
}

static uint64_t edge(struct form_fixture *x)
{
	return expr_random_edge(&x->random);
}

static void operators(void **state)
{
	static const char *const texts[] = {"arg0", "!arg1", "~arg2", "-arg0", "arg0 + arg1",
		"arg0 - arg1", "arg0 * arg1", "arg0 / arg1", "arg0 % arg1", "arg1 / arg2",
		"arg1 % arg2", "arg0 << arg2", "arg0 >> arg2", "arg1 >> arg2", "arg1 << 3",
		"arg0 & arg1", "arg0 | 0x80", "arg0 ^ arg2", "arg0 < arg1", "arg0 <= arg1",
		"arg1 > arg2", "arg1 >= arg2", "arg0 == arg1", "arg1 != arg2", "arg0 && arg1",
		"arg0 || arg1", "(arg0 + arg1) * (arg1 - arg2)", "arg0 * 7", "arg1 * 0x123456789",
		"arg0 == 0x8000000000000000", "arg0 + 0x123456789abcdef", "arg0 + 4096",
		"arg0 - 0xfff000", "arg1 & 0xff00ff00", "arg1 & 0xff", "arg1 | 0xfffffffe",
		"arg0 in (0, 1, 0x7f, 0x80)", "arg2 in (-1, 0xffffffff)", "tid", "pid", "tid < 0",
		"(pid ^ tid) + arg0", "(arg0 + 1) / pid", "-(arg0 > 5) - -arg1",
		"((arg0 < 7) == (arg1 < 7)) + (arg2 != 5)"};

	for (size_t n = 0; n < sizeof(notes) / sizeof(*notes); n++)
		for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
			try_text(*state, notes[n], texts[i], 60, edge);
}

static void random_expressions(void **state)
{
	struct form_fixture *x = *state;
	int tried = 0;

	for (int i = 0; i < TEXTS; i++) {
		const char *note = notes[i % (int)(sizeof(notes) / sizeof(*notes))];
		char text[TEXT_MAX + 100] = "";
		struct expr_case probe;
		struct probe_error *error;

		expr_random_text(&x->random, text, TEXT_MAX, 4);
		/* A division by a constant zero is rejected, as are too many operators. */
		error = expr_case_init(&probe, note, text);
		if (error) {
			probe_error_free(error);
			continue;
		}
		expr_case_deinit(&probe);
		try_text(x, note, text, HITS, edge);
		tried++;
	}
	assert_true(tried > TEXTS / 2);
}

/* The bits of a double or a float, of any kind. */
static uint64_t floating(struct form_fixture *x)
{
	static const double edges[] = {0.0, -0.0, 1.5, -1.5, 0.1, 2, -3, 1e300, -1e300, 1e-310,
		-1e-310, 1e-40, 4503599627370497.5, INFINITY, -INFINITY, NAN};
	double value = edges[expr_random(&x->random) % (sizeof(edges) / sizeof(*edges))];
	float single = (float)value;
	uint64_t bits = expr_random(&x->random);
	uint32_t half;

	memcpy(&half, &single, sizeof(half));
	switch (bits % 5) {
	case 0:
		return bits;
	case 1:
		return bits & 0x807fffff; /* small as a float */
	case 2:
		return half;
	default:
		memcpy(&bits, &value, sizeof(bits));
		return bits;
	}
}

static void doubles(void **state)
{
	static const char *const texts[] = {"arg0 < arg1", "arg1 <= arg2", "arg0 > 1.5",
		"!(arg1 >= -1.5)", "arg2 == arg0", "arg1 != 0", "arg0 < 0x10u",
		"arg1 < 1e-40 || arg1 > arg0", "(arg0 == arg2) == !(arg1 < 2)"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		try_text(*state, "8f@%rdi 4f@%r13d -8f@%rdx", texts[i], 600, floating);
}

/* A string is a pair of temporaries: where it is, and its length with flags. */
static void strings(void **state)
{
	static const char *const texts[] = {"str(arg0) == \"SELECT name\"", "str(arg0) == \"\"",
		"str(arg0) != \"SELECT nam\"", "!(str(arg0) == \"SELECT\")"};
	static const struct expr_string given[] = {{"SELECT name", 11}, {"SELECT", 6},
		{"SELECT namo", 11}, {"", 0}, {"XELECT name", 11}, {"SELECT nam", 10}};
	struct form_fixture *x = *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct subject s;
		form_native_function *function;

		subject_init(&s, x, "8@%rdi 8@%r13 8@%rdx", texts[i]);
		s.as_filter = i % 2;
		function = form_fixture_make(x, write_expr, &s);
		for (size_t k = 0; k < sizeof(given) / sizeof(*given); k++) {
			x->memory.temps[PAIR] = (uintptr_t)given[k].bytes;
			x->memory.temps[PAIR + 1] = given[k].length;
			try_hit(&s, function, texts[i], (uint64_t[3]){1},
				&(struct expr_input){.strings = &given[k]});
		}
		x->memory.temps[PAIR + 1] = UINT64_C(1) << RING_STRING_NULL_BIT;
		try_hit(&s, function, texts[i], (uint64_t[3]){1},
			&(struct expr_input){.strings = &given[0], .unreadable = 1});
		expr_case_deinit(&s.expr);
	}
}

/* A value that was read through a pointer is in a temporary, if its bit in the mask is set. */
static void checked(void **state)
{
	struct form_fixture *x = *state;
	struct subject s;
	form_native_function *function;

	subject_init(&s, x, "8@%rdi 8@%r13 8@%rdx", "arg0 + 1 > arg1");
	s.plan.checked = 1;
	function = form_fixture_make(x, write_expr, &s);
	for (int i = 0; i < 200; i++) {
		uint64_t value = edge(x), readable = (uint64_t)i % 2;

		x->memory.temps[PAIR] = value;
		x->memory.temps[MASK] = OTHER_BITS << 1 | readable;
		try_hit(&s, function, "checked", (uint64_t[]){value, edge(x), 0},
			&(struct expr_input){.unreadable = !readable});
	}
	expr_case_deinit(&s.expr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			operators, form_fixture_setup, form_fixture_teardown),
		cmocka_unit_test_setup_teardown(
			random_expressions, form_fixture_setup, form_fixture_teardown),
		cmocka_unit_test_setup_teardown(doubles, form_fixture_setup, form_fixture_teardown),
		cmocka_unit_test_setup_teardown(strings, form_fixture_setup, form_fixture_teardown),
		cmocka_unit_test_setup_teardown(checked, form_fixture_setup, form_fixture_teardown),
	};

	if (!form_native_is_possible())
		return skip_all("there is no back end for this processor");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
