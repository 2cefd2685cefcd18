/* SPDX-License-Identifier: MIT */
/*
 * Random programs in the form of stubs: the machine of the tests and this processor, for which a
 * back end has translated them, leave the same.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/query/expr_random.h"
#include "tests/unit/form/form_world.h"
#include "tests/unit/skip.h"

enum { PROGRAMS = 4000, STEPS = 60, RUNS = 4, OPEN_MAX = 8, TEMPS = FORM_REGISTERS };

static __thread uint64_t of_thread = UINT64_C(0x8123456789abcdef);

/* A program, that is written the same way each time. */
struct program {
	uint64_t seed;
	struct form_fixture *fixture;
	uint64_t random;
	int open[OPEN_MAX], open_count; /* labels that are still to come */
};

static uint32_t choose(struct program *p, uint32_t count)
{
	return (uint32_t)(expr_random(&p->random) >> 33) % count;
}

static int any_register(struct program *p)
{
	return (int)choose(p, FORM_REGISTERS);
}

static int32_t any_constant(struct program *p)
{
	return (int32_t)expr_random_edge(&p->random);
}

static enum form_when any_comparison(struct program *p)
{
	return (enum form_when)choose(p, FORM_NOT_ABOVE + 1);
}

static uint8_t any_size(struct program *p)
{
	return (uint8_t)(1U << choose(p, 4));
}

/* An address within data: in a register, with an index, or far from it. */
static struct form_mem any_address(struct program *p, struct form *f, int not_this)
{
	const uint64_t *data = p->fixture->memory.data;
	struct form_mem mem = form_at(not_this == FORM_POINTER ? FORM_NEXT : FORM_POINTER, 0);
	uint32_t index = choose(p, WORLD_DATA / 2);
	int32_t away = choose(p, 2) ? 0 : (int32_t)choose(p, 1 << choose(p, 21)) - 777;

	mem.disp = away;
	if (choose(p, 2)) {
		mem.index = not_this == FORM_SCRATCH ? FORM_RIGHT : FORM_SCRATCH;
		mem.scale = any_size(p);
		form_const(f, mem.index, index);
	}
	form_address(f, mem.base, (uintptr_t)data - (uint64_t)(int64_t)away + choose(p, 64));
	return mem;
}

static void original(struct program *p, struct form *f)
{
	static const struct {
		uint8_t bytes, shift;
	} parts[] = {{1, 0}, {1, 8}, {2, 0}, {4, 0}, {8, 0}};
	uint32_t part = choose(p, 5);
	int number = (int)choose(p, 16);
	uint8_t shift;

	if (choose(p, 3) == 0)
		number = choose(p, 2) ? form_native_live : form_native_stack;
	shift = number == form_native_stack ? 0 : parts[part].shift;
	if (choose(p, 2)) {
		FORM(f, .op = FORM_STORE_ORIGINAL, .b = number, .shift = shift,
			.mem = any_address(p, f, FORM_VALUE), .bytes = parts[part].bytes);
		form_const(f, FORM_VALUE, expr_random_edge(&p->random)); /* it may be changed */
		return;
	}
	f->put(f, &(struct form_insn){.op = FORM_ORIGINAL,
			  .a = (int8_t)any_register(p),
			  .b = (int8_t)number,
			  .bytes = parts[part].bytes,
			  .shift = shift,
			  .is_signed = choose(p, 2)});
}

static void store(struct program *p, struct form *f, int a)
{
	struct form_mem mem = any_address(p, f, a);

	switch (choose(p, 4)) {
	case 0:
		form_store(f, a, mem);
		break;
	case 1:
		form_memory(f, FORM_STORE, a, mem, any_size(p));
		break;
	case 2:
		form_store_packed(f, a, mem, any_size(p));
		form_const(f, a, expr_random_edge(&p->random)); /* it may be changed */
		break;
	default:
		form_store_const(f, mem, choose(p, 2) ? 4 : 8, any_constant(p));
		break;
	}
}

/* Adds, often one more or less, or swaps. */
static void change(struct program *p, struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	static const enum form_op adds[] = {
		FORM_COUNT, FORM_COUNT_SHARED, FORM_PUBLISH_ADD, FORM_PUBLISH_ADD_WHOLE};
	enum form_op op = adds[choose(p, 4)];

	switch (choose(p, 4)) {
	case 0:
		form_memory(f, op, a, mem, bytes);
		break;
	case 1:
		form_memory_const(f, op, mem, bytes, any_constant(p));
		break;
	case 2:
		form_memory_const(f, op, mem, bytes, choose(p, 2) ? 1 : -1);
		break;
	default:
		if (a != mem.base)
			form_memory(f, FORM_EXCHANGE, a, mem, bytes);
		break;
	}
}

/* Often with what is there. VALUE is a number of so many bytes. */
static void compare_and_swap(
	struct program *p, struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	int label = form_label(f);

	if (choose(p, 2))
		form_load(f, FORM_VALUE, mem, bytes, false);
	else
		form_extend(f, FORM_VALUE, FORM_VALUE, bytes, false);
	form_cas(f, mem, bytes, a, choose(p, 2) ? FORM_EQ : FORM_NE, label);
	form_one(f, FORM_COMPLEMENT, true, FORM_RIGHT);
	form_place(f, label);
}

/* What threads share is aligned. */
static void shared(struct program *p, struct form *f, int a)
{
	struct form_mem mem = form_at(FORM_NEXT, (int32_t)choose(p, WORLD_DATA) * 8);
	uint8_t bytes = choose(p, 2) ? 4 : 8;

	form_address(f, FORM_NEXT, (uintptr_t)p->fixture->memory.data);
	if (choose(p, 2)) {
		mem.index = FORM_SCRATCH;
		form_const(f, FORM_SCRATCH, 0);
	}
	switch (choose(p, 8)) {
	case 0:
		change(p, f, a, mem, bytes);
		break;
	case 1:
		form_acquire(f, a, mem, bytes);
		break;
	case 2:
		form_memory(f, FORM_PUBLISH, a, mem, bytes);
		break;
	case 3:
		form_memory_const(f, FORM_PUBLISH, mem, bytes, any_constant(p));
		break;
	case 4:
		form_memory(f, FORM_PUBLISH_ADD, a, mem, sizeof(uint64_t));
		break;
	case 5:
		form_memory_const(f, FORM_PUBLISH_ADD, mem, sizeof(uint64_t), any_constant(p));
		break;
	case 6:
		compare_and_swap(p, f, a, mem, bytes);
		break;
	default:
		FORM(f, .op = choose(p, 2) ? FORM_FENCE : FORM_YIELD);
		break;
	}
}

static void memory(struct program *p, struct form *f)
{
	int a = any_register(p);

	switch (choose(p, 9)) {
	case 7:
		FORM(f, .op = FORM_STORE_VECTOR, .b = 0, .mem = any_address(p, f, FORM_NONE));
		break;
	case 0:
		form_load(f, a, any_address(p, f, FORM_NONE), any_size(p), choose(p, 2));
		break;
	case 1:
		store(p, f, a);
		break;
	case 2:
		form_compute(f, a,
			choose(p, 4) ? any_address(p, f, FORM_NONE) : form_at(FORM_THREAD, 0));
		break;
	case 3:
		form_change(f, FORM_COUNT, any_address(p, f, FORM_NONE));
		break;
	case 4:
		shared(p, f, a);
		break;
	case 5:
		form_load(f, a,
			form_at(FORM_THREAD, (int32_t)((intptr_t)&of_thread -
						       (intptr_t)__builtin_thread_pointer())),
			any_size(p), choose(p, 2));
		break;
	case 6:
		form_address(f, FORM_NEXT, (uintptr_t)p->fixture->memory.data);
		form_memory(f, FORM_FETCH_ADD, a == FORM_NEXT ? FORM_VALUE : a,
			form_at(FORM_NEXT, (int32_t)choose(p, 64) * 8), choose(p, 2) ? 4 : 8);
		break;
	default:
		form_load(f, a, form_temp((int)choose(p, TEMPS)), any_size(p), choose(p, 2));
		break;
	}
}

static void divide(struct program *p, struct form *f)
{
	int out = form_label(f);
	bool wide = choose(p, 2);

	form_jump_if_const(f, wide, FORM_RIGHT, FORM_EQ, 0, out);
	form_by_right(f, choose(p, 2) ? FORM_DIV : FORM_MOD, wide, choose(p, 2));
	form_place(f, out);
	form_const(f, FORM_RIGHT, expr_random_edge(&p->random)); /* both may be changed */
	form_const(f, FORM_SCRATCH, expr_random_edge(&p->random));
}

static void operate(struct program *p, struct form *f)
{
	bool wide = choose(p, 2);
	int a = any_register(p), b = any_register(p);

	switch (choose(p, 13)) {
	case 11:
		form_two(f, FORM_SHL, true, a, FORM_RIGHT);
		break;
	case 12:
		form_one(f, FORM_PUSH, true, a);
		form_const(f, a, expr_random_edge(&p->random));
		form_two(f, FORM_ADD, true, a, b);
		form_one(f, FORM_POP, true, b);
		break;
	case 0:
		if (choose(p, 4))
			form_one(f, choose(p, 2) ? FORM_NEGATE : FORM_COMPLEMENT, wide, a);
		else
			form_one(f, choose(p, 2) ? FORM_UNTAG : FORM_UNSIGN, true, a);
		break;
	case 1:
		FORM(f, .op = FORM_FLIP, .a = a, .shift = (uint8_t)choose(p, 64));
		break;
	case 2:
		form_two_const(f, FORM_OR, true, b, 1 << choose(p, 31));
		if (choose(p, 2))
			form_two(f, FORM_HIGHEST, true, a, b);
		else
			form_two(f, FORM_LOWEST, true, a, b);
		break;
	case 3:
		form_two(f, FORM_ADD + choose(p, 6), wide, a, b);
		break;
	case 4:
		form_two_const(f, FORM_ADD + choose(p, 5), wide, a, any_constant(p));
		break;
	case 5:
		form_two_const(f, choose(p, 2) ? FORM_SHL : FORM_SHR, wide, a,
			(int32_t)choose(p, wide ? 64 : 32));
		break;
	case 7:
		form_two_at(f, FORM_ADD + choose(p, 5), a, any_address(p, f, a));
		break;
	case 8:
		form_multiply(f, a, b, any_constant(p));
		break;
	case 9:
		FORM(f, .op = FORM_MUL_HIGH, .wide = true, .shift = (uint8_t)(1 + choose(p, 63)));
		form_const(f, FORM_SCRATCH, expr_random_edge(&p->random)); /* may be changed */
		break;
	case 6:
		form_by_right(f, choose(p, 2) ? FORM_SHL : FORM_SHR, wide, choose(p, 2));
		break;
	default:
		divide(p, f);
		break;
	}
}

/* Often they are: the one byte is there, or a number. */
static void equal_bytes(struct program *p, struct form *f, int a, int label)
{
	enum form_when when = choose(p, 2) ? FORM_EQ : FORM_NE;
	struct form_mem mem = any_address(p, f, a);

	form_extend(f, a, a, 1, false);
	if (choose(p, 2))
		form_memory(f, FORM_STORE, a, mem, 1);
	if (choose(p, 2))
		form_jump_if_at(f, 1, a, when, mem, label);
	else
		form_jump_if_at_const(f, 1, mem, when, (int32_t)choose(p, 256), label);
}

/* Often what has just been computed is compared with 0. */
static void test(struct program *p, struct form *f)
{
	int a = any_register(p), label = form_label(f);

	form_two_const(f, FORM_ADD + choose(p, 5), choose(p, 2), a, choose(p, 2));
	if (choose(p, 4) == 0)
		form_two_const(f, choose(p, 2) ? FORM_SHL : FORM_SHR, choose(p, 2), a,
			(int32_t)choose(p, 32));
	form_jump_if_const(f, choose(p, 2), choose(p, 8) ? a : any_register(p), any_comparison(p),
		(int32_t)(choose(p, 8) == 0), label);
	p->open[p->open_count++] = label;
}

static void jump(struct program *p, struct form *f)
{
	int label = form_label(f), a = any_register(p), b = any_register(p);
	bool wide = choose(p, 2);

	switch (choose(p, 9)) {
	case 0:
		form_jump(f, label);
		break;
	case 8:
		form_jump_if_bits(f, any_address(p, f, FORM_NONE),
			choose(p, 2) ? 1U << choose(p, 32) : (uint32_t)any_constant(p),
			choose(p, 2) ? FORM_EQ : FORM_NE, label);
		break;
	case 3:
		form_sub_jump_if(f, wide, a, any_comparison(p), b, label);
		break;
	case 4:
		form_sub_jump_if_const(f, wide, a, any_comparison(p), any_constant(p), label);
		break;
	case 5:
		form_jump_if_at(f, wide ? 8 : 4, a, any_comparison(p), any_address(p, f, a), label);
		break;
	case 6:
		form_jump_if_at_const(f, wide ? 8 : 4, any_address(p, f, FORM_NONE),
			any_comparison(p), any_constant(p), label);
		break;
	case 7:
		equal_bytes(p, f, a, label);
		break;
	case 1:
		form_jump_if(f, wide, a, any_comparison(p), b, label);
		break;
	case 2:
		form_jump_if_const(f, wide, a, any_comparison(p), 0, label);
		break;
	default:
		form_jump_if_const(f, wide, a, any_comparison(p), any_constant(p), label);
		break;
	}
	p->open[p->open_count++] = label;
}

/* The processor may change RIGHT, the machine does not. */
static void compare_bytes(struct program *p, struct form *f)
{
	int differ = form_label(f);
	uint64_t edge = expr_random_edge(&p->random);
	uint8_t bytes = choose(p, 2) ? 1 : 8;

	/* Often it is what is there. */
	form_const(f, FORM_VALUE, expr_random_edge(&p->random));
	form_store(f, FORM_VALUE, form_temp(TEMPS));
	if (choose(p, 2)) {
		form_const(f, FORM_VALUE, edge);
		form_store(f, FORM_VALUE, form_temp(TEMPS));
	}
	FORM(f, .op = FORM_JUMP_UNLESS_BYTES, .mem = form_temp(TEMPS), .bytes = bytes,
		.value = bytes == 1 ? (uint8_t)edge : edge, .label = differ);
	form_one(f, FORM_COMPLEMENT, true, FORM_VALUE);
	form_place(f, differ);
	form_const(f, FORM_RIGHT, edge);
}

/* Near the code, or anywhere. */
static void compare_word(struct program *p, struct form *f)
{
	static const uint32_t words[] = {0, 1, 0x10000, 0x80000000};
	uintptr_t word = choose(p, 2) ? (uintptr_t)&words[choose(p, 4)]
				      : (uintptr_t)&p->fixture->words[choose(p, 4)];
	int label = form_label(f), scratch = any_register(p);

	form_jump_if_word(f, scratch, word, choose(p, 2) ? FORM_EQ : FORM_NE, label);
	form_one(f, FORM_COMPLEMENT, true, FORM_VALUE);
	form_place(f, label);
	form_const(f, scratch, word);
}

/* The processor may change other registers than the machine does. */
static void ask(struct program *p, struct form *f)
{
	FORM(f, .op = FORM_KERNEL, .value = choose(p, 2) ? FORM_CALL_GETPID : FORM_CALL_GETTID);
	form_const(f, FORM_RIGHT, 1);
	form_const(f, FORM_SPARE_2, 2);
}

static void values(struct program *p, struct form *f)
{
	int a = any_register(p), b = any_register(p);

	switch (choose(p, 5)) {
	case 0:
		form_const(f, a, expr_random_edge(&p->random));
		break;
	case 1:
		form_address(f, a, (uintptr_t)p->fixture + expr_random_edge(&p->random));
		break;
	case 2:
		form_extend(f, a, b, any_size(p), choose(p, 2));
		break;
	case 3:
		f->put(f,
			&(struct form_insn){
				.op = FORM_VECTOR, .a = (int8_t)a, .bytes = choose(p, 2) ? 4 : 8});
		break;
	default:
		original(p, f);
		break;
	}
}

static void place_one(struct program *p, struct form *f)
{
	uint32_t which = choose(p, (uint32_t)p->open_count);
	int label = p->open[which];

	p->open[which] = p->open[--p->open_count];
	form_place(f, label);
}

static void write_program(struct form *f, void *arg)
{
	struct program *p = arg;

	p->random = p->seed;
	p->open_count = 0;
	for (int i = 0; i < FORM_REGISTERS; i++)
		form_load(f, i, form_temp(i), sizeof(uint64_t), false);
	for (int i = 0; i < STEPS; i++) {
		if (p->open_count == OPEN_MAX || (p->open_count && choose(p, 6) == 0))
			place_one(p, f);
		switch (choose(p, 9)) {
		case 7:
			compare_word(p, f);
			break;
		case 8:
			ask(p, f);
			break;
		case 0:
			if (choose(p, 2))
				jump(p, f);
			else
				test(p, f);
			break;
		case 1:
			compare_bytes(p, f);
			break;
		case 2:
			memory(p, f);
			break;
		case 3:
			values(p, f);
			break;
		default:
			operate(p, f);
			break;
		}
	}
	while (p->open_count)
		place_one(p, f);
	for (int i = 0; i < FORM_REGISTERS; i++)
		form_store(f, i, form_temp(i));
}

static void random_programs(void **state)
{
	struct form_fixture *x = *state;

	for (int n = 0; n < PROGRAMS; n++) {
		struct program program = {.fixture = x, .seed = expr_random(&x->random) | 1};
		form_native_function *function = NULL;
		char text[64];

		snprintf(text, sizeof(text), "program %d, seed %#lx", n, program.seed);
		for (int i = 0; i < WORLD_TEMPS; i++)
			x->memory.temps[i] = expr_random_edge(&x->random);
		x->thread.has_atomics = n % 2 && form_native_has_atomics();
		function = form_fixture_make(x, write_program, &program);
		for (int run = 0; run < RUNS; run++) {
			for (int i = 0; i < WORLD_TEMPS; i++)
				x->memory.temps[i] = expr_random_edge(&x->random);
			for (int i = 0; i < WORLD_SAVED; i++)
				x->memory.saved[i] = expr_random(&x->random);
			for (int i = 0; i < WORLD_DATA; i++)
				x->memory.data[i] = expr_random(&x->random);
			x->world.live_value = expr_random(&x->random);
			x->world.vector_value = expr_random(&x->random);
			form_fixture_run(x, function, text);
		}
	}
}

/*
 * The first temporary is counted down, by a subroutine that asks another one, until its low byte is
 * 0, 1 or the fourth one; the second one has what is left, and the third one how often the answer
 * was no.
 */
static void write_subroutines(struct form *f, void *arg)
{
	int countdown = form_label(f), is_small = form_label(f), next = form_label(f);
	int no = form_label(f), yes = form_label(f), done = form_label(f);

	(void)arg;
	form_load(f, FORM_VALUE, form_temp(0), sizeof(uint64_t), false);
	FORM(f, .op = FORM_CALL_NEST, .label = countdown);
	form_store(f, FORM_VALUE, form_temp(1));
	form_jump(f, done);

	form_place(f, countdown);
	FORM(f, .op = FORM_NEST);
	form_const(f, FORM_RIGHT, 0);
	form_store(f, FORM_RIGHT, form_at(FORM_CALLER, 2 * 8));
	form_compute(f, FORM_SET, form_at(FORM_CALLER, 3 * 8));
	form_place(f, next);
	form_move(f, FORM_FROM, FORM_VALUE);
	FORM(f, .op = FORM_ASK, .label = is_small, .no = no);
	FORM(f, .op = FORM_RETURN_NESTED);
	form_place(f, no);
	form_change(f, FORM_COUNT, form_at(FORM_CALLER, 2 * 8));
	form_two_const(f, FORM_SUB, true, FORM_VALUE, 1);
	form_jump(f, next);

	form_place(f, is_small);
	form_two_const(f, FORM_AND, true, FORM_FROM, 0xff);
	FORM(f, .op = FORM_YES_IF, .wide = true, .a = FORM_FROM, .is_constant = true,
		.value = (uint64_t)(0));
	form_const(f, FORM_RIGHT, 1);
	form_jump_if(f, true, FORM_FROM, FORM_EQ, FORM_RIGHT, yes);
	form_const(f, FORM_RIGHT, 512);
	f->put(f, &(struct form_insn){
			  .op = FORM_YES_IF, .wide = true, .a = FORM_FROM, .b = FORM_RIGHT});
	FORM(f, .op = FORM_YES_IF, .wide = true, .a = FORM_FROM, .is_memory = true,
		.mem = form_at(FORM_SET, 0), .bytes = sizeof(uint64_t));
	FORM(f, .op = FORM_NO);
	form_place(f, yes);
	FORM(f, .op = FORM_YES);
	form_place(f, done);
}

static void subroutines(void **state)
{
	enum { LAST = 77 };
	struct form_fixture *x = *state;
	form_native_function *function = form_fixture_make(x, write_subroutines, NULL);

	for (uint64_t n = 0; n < 600; n++) {
		uint64_t low = n & 0xff, last = low >= LAST ? LAST : low ? 1 : 0;

		x->memory.temps[0] = n;
		x->memory.temps[3] = LAST;
		form_fixture_run(x, function, "subroutines");
		assert_int_equal(x->memory.temps[1], n - low + last);
		assert_int_equal(x->memory.temps[2], low - last);
	}
}

/* Leaves where its labels are, the time, and the start of the words at the third. */
static void write_labels(struct form *f, void *arg)
{
	int first = form_label(f), second = form_label(f), words = form_label(f);
	int end = form_label(f);

	(void)arg;
	form_place(f, first);
	FORM(f, .op = FORM_LABEL, .a = FORM_VALUE, .label = first);
	FORM(f, .op = FORM_LABEL, .a = FORM_RIGHT, .label = second);
	form_store(f, FORM_VALUE, form_temp(0));
	form_store(f, FORM_RIGHT, form_temp(1));
	FORM(f, .op = FORM_TIME);
	form_store(f, FORM_VALUE, form_temp(2));
	FORM(f, .op = FORM_STORE_TIME, .mem = form_temp(3));
	FORM(f, .op = FORM_LABEL, .a = FORM_VALUE, .label = words);
	form_store(f, FORM_VALUE, form_temp(4));
	form_place(f, second);
	form_jump(f, end);
	FORM(f, .op = FORM_ALIGN, .value = 32);
	form_place(f, words);
	form_word(f, 4, 0x12345678);
	form_word(f, 4, 0xfedcba98);
	form_word(f, 8, UINT64_C(0x123456789abcdef0));
	FORM(f, .op = FORM_LABEL_WORD, .label = second, .from = FORM_NONE);
	FORM(f, .op = FORM_LABEL_WORD, .label = second, .from = first);
	form_place(f, end);
}

/* Only the processor has addresses of code, and a time. */
static void labels(void **state)
{
	struct form_fixture *x = *state;
	form_native_function *function =
		form_native_make(&x->native, &x->frame, &x->thread, write_labels, NULL);
	uint64_t start = (uintptr_t)x->native.code, end = start + x->native.used;
	uint64_t *temps = x->memory.temps, words[4];

	function((uint8_t *)temps, 0, 0);
	assert_in_range(temps[0], start, end - 1);
	assert_in_range(temps[1], temps[0] + 8, end - 1);
	assert_true(temps[2] > 0 && temps[3] >= temps[2]);
	assert_in_range(temps[4], temps[1], end - sizeof(words));
	assert_int_equal(temps[4] % 32, 0);
	memcpy(words, (const void *)(uintptr_t)temps[4], sizeof(words));
	assert_int_equal(words[0], UINT64_C(0xfedcba9812345678));
	assert_int_equal(words[1], UINT64_C(0x123456789abcdef0));
	assert_int_equal(words[2], temps[1]);
	assert_int_equal(words[3], temps[1] - temps[0]);
}

/* ---- Threads that change the same words ---------------------------------------------- */

enum { THREADS = 4, CHANGES = 20000 };

struct crowd {
	form_native_function *function;
	uint64_t words[3];
	uint64_t swapped[THREADS]; /* what each has got */
	atomic_int next;
};

/* Adds to two words, in the ways there are, and exchanges its own number for that in a third. */
static void write_changes(struct form *f, void *arg)
{
	int again = form_label(f);

	(void)arg;
	f->put(f, &(struct form_insn){.op = FORM_ORIGINAL,
			  .a = FORM_POINTER,
			  .b = (int8_t)form_native_live,
			  .bytes = sizeof(uint64_t)});
	form_memory_const(f, FORM_COUNT_SHARED, form_at(FORM_POINTER, 0), 4, 3);
	form_place(f, again);
	form_load(f, FORM_VALUE, form_at(FORM_POINTER, 8), sizeof(uint64_t), false);
	form_compute(f, FORM_NEXT, form_at(FORM_VALUE, 5));
	form_cas(f, form_at(FORM_POINTER, 8), sizeof(uint64_t), FORM_NEXT, FORM_NE, again);
	form_load(f, FORM_NEXT, form_temp(0), sizeof(uint64_t), false);
	form_memory(f, FORM_EXCHANGE, FORM_NEXT, form_at(FORM_POINTER, 16), sizeof(uint64_t));
	form_store(f, FORM_NEXT, form_temp(0));
}

static void *change_words(void *arg)
{
	struct form_memory memory = {0};
	struct crowd *crowd = arg;
	int number = atomic_fetch_add(&crowd->next, 1);

	memory.temps[0] = (uint64_t)number + 1;
	for (int i = 0; i < CHANGES; i++)
		crowd->function((uint8_t *)memory.temps, (uintptr_t)crowd->words, 0);
	crowd->swapped[number] = memory.temps[0];
	return NULL;
}

/* Nothing that a thread adds is lost, and of what they exchange nothing. */
static void threads(void **state)
{
	struct form_fixture *x = *state;

	for (int atomics = 0; atomics <= form_native_has_atomics(); atomics++) {
		struct crowd crowd = {.next = 0};
		pthread_t ids[THREADS];
		uint64_t sum;

		x->thread.has_atomics = atomics;
		crowd.function =
			form_native_make(&x->native, &x->frame, &x->thread, write_changes, NULL);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&ids[i], NULL, change_words, &crowd), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(ids[i], NULL);
		assert_int_equal(crowd.words[0], 3 * THREADS * CHANGES);
		assert_int_equal(crowd.words[1], 5 * THREADS * CHANGES);
		sum = crowd.words[2];
		for (int i = 0; i < THREADS; i++)
			sum += crowd.swapped[i];
		assert_int_equal(sum, THREADS * (THREADS + 1) / 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			random_programs, form_fixture_setup, form_fixture_teardown),
		cmocka_unit_test_setup_teardown(
			subroutines, form_fixture_setup, form_fixture_teardown),
		cmocka_unit_test_setup_teardown(labels, form_fixture_setup, form_fixture_teardown),
		cmocka_unit_test_setup_teardown(threads, form_fixture_setup, form_fixture_teardown),
	};

	if (!form_native_is_possible())
		return skip_all("there is no back end for this processor");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
