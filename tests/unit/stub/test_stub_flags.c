/* SPDX-License-Identifier: MIT */
/*
 * Stubs in a program that has set unusual flags, which must be unchanged afterwards. With the
 * alignment check (EFLAGS.AC), what a stub reads may still be misaligned. Single-stepping
 * (EFLAGS.TF) aborts a restartable sequence at each step; a hit finishes all the same. If the
 * program has disabled the time stamp counter for itself (PR_SET_TSC), stubs made for it do not
 * read it.
 */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_variant.h"
#include "tests/unit/wait.h"

enum { TEXT_BYTES = 29, CELL = 1024, DEPTH = 4 };

/* ---- The alignment check ------------------------------------------------------------------ */

static void check_flag(struct variant *v)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_COUNT);

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

/* Records begin at multiples of four, and their parts anywhere. */
static void check_records(struct variant *v)
{
	static const char *const specs[][3] = {{"8@%rbx", "4@%ecx", "-8@$-5"},
		{"4@%ecx", "8@%rbx", "8f@%xmm3"}, {"1@%cl", "8@%rbx", "2@%cx"},
		{"2@%cx", "1@%cl", "1@%ch"}};
	struct arch_capture captures[3];

	v->state.flags = FLAGS_ALWAYS | FLAG_AC;
	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);

		for (int k = 0; k < 3; k++)
			captures[k] = variant_capture(specs[i][k]);
		stub.captures = captures;
		stub.capture_count = stub.recorded = 3;
		for (uint64_t shift = 0; shift < 16; shift += 4) {
			stub_host_reset(&v->host);
			for (uint32_t k = 0; k < stub_host_ring_count(&v->host); k++)
				stub_host_ring(&v->host, k)->head =
					stub_host_ring(&v->host, k)->tail = shift;
			variant_hit(v, stub_host_emit(&v->host, &stub));
			assert_int_equal(stub_host_lost(&v->host), 0);
		}
	}
}

static void records(void **state)
{
	(void)state;
	variant_each(check_records);
}

/* A filter that runs before anything else is saved. */
static void check_filter(struct variant *v)
{
	static const struct arch_expr_node node = {.kind = ARCH_EXPR_CAPTURE, .wide = true};
	static const struct arch_expr filter = {&node, 1};
	struct arch_capture c = variant_capture("4@3(%rsp)");
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_COUNT);
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

/* Numbers behind pointers, wherever they are, and strings of a stated length. */
static void check_found(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("8@%rbx"), variant_capture("8@%r9"),
		variant_capture("8@%r9"), variant_capture("8@%rbx")};
	uint8_t *at = v->pages + PAGE - 20;

	captures[0].step_count = 2;
	captures[0].steps[0] = (struct arch_step){.offset = 3, .size = 8};
	captures[0].steps[1] = (struct arch_step){.offset = -5, .size = 4, .is_signed = true};
	captures[1].step_count = 1;
	captures[1].steps[0] = (struct arch_step){.size = 2};
	captures[2].is_string = captures[2].has_length = true;
	captures[2].length = variant_capture("4@$9").arg;
	captures[3].step_count = 1;
	captures[3].steps[0] = (struct arch_step){.offset = 3 + 12, .size = 8, .scale = 4};
	captures[3].has_index = true;
	captures[3].index = variant_capture("-4@%ecx").arg;
	v->state.gpr[RCX] = UINT64_C(0x7fffffffd); /* -3, in its lower half */
	v->pages[3 * PAGE - 1] = 'x';
	v->state.flags = FLAGS_ALWAYS | FLAG_AC | FLAGS_ARITHMETIC;
	for (int shift = 0; shift < 32; shift++) {
		uint64_t pointer = (uintptr_t)at + 64 + (unsigned int)shift;
		int32_t number = -7 - shift;
		const uint64_t *words;
		size_t bytes;

		memcpy(at + shift + 3, &pointer, sizeof(pointer));
		memcpy(at + 64 + shift - 5, &number, sizeof(number));
		v->state.gpr[RBX] = (uintptr_t)at + (unsigned int)shift;
		v->state.gpr[R9] = (uintptr_t)v->pages + 3 * PAGE - 1; /* ends beyond it */
		words = variant_record(v, captures, 4, &bytes);
		assert_int_equal(words[0], (uint64_t)(int64_t)number);
		assert_int_equal(words[1], 0);
		assert_int_equal(words[2], 1 | TRUNCATED);
		assert_int_equal(words[3], pointer);
		assert_int_equal(words[4], 0xd); /* the second one could not be read */
	}
	variant_set_up_state(v);
}

static void found_numbers(void **state)
{
	(void)state;
	variant_each(check_found);
}

/* Comparisons of doubles, before anything else is saved and after it. */
static void check_doubles(struct variant *v)
{
	static const struct arch_expr_node nodes[] = {
		{.kind = ARCH_EXPR_FLOAT, .wide = true, .capture = 0},
		{.kind = ARCH_EXPR_CONST, .wide = true, .value = UINT64_C(0x3ff8) << 48 /* 1.5 */},
		{.kind = ARCH_EXPR_GT, .wide = true, .is_double = true, .left = 0, .right = 1},
		{.kind = ARCH_EXPR_DOUBLE, .wide = true, .capture = 1},
		{.kind = ARCH_EXPR_NE, .wide = true, .is_double = true, .left = 0, .right = 3},
		{.kind = ARCH_EXPR_BOTH, .wide = true, .left = 2, .right = 4}};
	struct arch_expr filter = {nodes, 3};
	struct arch_capture captures[] = {variant_capture("4f@%r9d"), variant_capture("8f@%rdx")};
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_COUNT);

	stub.captures = captures;
	stub.capture_count = 2;
	stub.filter = &filter;
	v->state.flags = FLAGS_ALWAYS | FLAGS_ARITHMETIC;
	v->state.gpr[RDX] = UINT64_C(0x4004) << 48; /* 2.5 */
	for (filter.count = 3; filter.count <= 6; filter.count += 3) {
		stub_host_reset(&v->host);
		for (uint64_t single = 0x3fc00000; single <= 0x40200000; single += 0x100000) {
			v->state.gpr[R9] = single; /* 1.5 to 2.5 */
			variant_hit(v, stub_host_emit(&v->host, &stub));
		}
		assert_int_equal(stub_host_hits(&v->host), filter.count == 3 ? 6 : 5);
	}
	variant_set_up_state(v);
}

static void doubles(void **state)
{
	(void)state;
	variant_each(check_doubles);
}

/* ---- The trap flag ------------------------------------------------------------------------ */

static volatile sig_atomic_t steps;

static void on_step(int signal)
{
	(void)signal;
	steps = steps + 1;
}

static void step(struct variant *v, const struct arch_stub *stub)
{
	const void *entry = stub_host_emit(&v->host, stub);

	steps = 0;
	v->state.flags = FLAGS_ALWAYS | FLAG_TRAP;
	variant_hit(v, entry);
	assert_true(steps > 10);
}

static void check_steps(struct variant *v)
{
	static const struct arch_expr_node node = {
		.kind = ARCH_EXPR_CONST, .wide = true, .value = 7};
	static const struct arch_expr seven = {&node, 1};
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_COUNT);
	uint64_t count = 0;
	size_t bytes;

	stub.every = 2;
	step(v, &stub);
	step(v, &stub);
	assert_int_equal(stub_host_hits(&v->host), 1);
	stub = variant_stub(v, ARCH_ACTION_RECORD);
	step(v, &stub);
	assert_non_null(stub_host_only_record(&v->host, &bytes));
	stub = variant_stub(v, ARCH_ACTION_GATHER);
	stub.actions[0].gather = (struct arch_gather){
		.parts = ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES, .value = &seven, .cell = CELL};
	step(v, &stub);
	stub.actions[0].gather.value = NULL;
	stub.actions[0].flights = (struct arch_flights){
		.table = (uintptr_t)v->pages, .entries = 4, .depth = DEPTH, .pair = 1};
	stub.actions[0].kind = ARCH_ACTION_BEGIN;
	step(v, &stub);
	stub.actions[0].kind = ARCH_ACTION_GATHER;
	step(v, &stub);
	for (uint32_t set = 0; set <= v->host.cpus; set++)
		count += ((const struct probe_cell *)(v->host.slots +
						      ((size_t)set << HOST_SLOTS_SHIFT) + CELL))
				 ->count;
	assert_int_equal(count, 2);
	assert_int_equal(stub_host_lost(&v->host), 0);
}

static void steps_come_to_an_end(void **state)
{
	static uint8_t memory[1 << 16];
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
	struct sigaction act = {.sa_handler = on_step, .sa_flags = SA_ONSTACK};

	(void)state;
	assert_int_equal(sigaltstack(&stack, NULL), 0);
	assert_int_equal(sigaction(SIGTRAP, &act, NULL), 0);
	alarm(test_seconds());
	variant_each(check_steps);
	alarm(0);
}

/* ---- The time stamp counter --------------------------------------------------------------- */

static uint64_t kernel_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A hit in a thread that may not read the counter. */
static void hit_sealed(struct variant *v, const struct arch_stub *stub)
{
	const void *entry = stub_host_emit(&v->host, stub);

	assert_int_equal(prctl(PR_SET_TSC, PR_TSC_SIGSEGV), 0);
	variant_hit(v, entry);
	assert_int_equal(prctl(PR_SET_TSC, PR_TSC_ENABLE), 0);
}

static void check_sealed(struct variant *v)
{
	struct arch_capture c = variant_capture("8@%rdi");
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	uint64_t before = kernel_ns(), time;
	const struct probe_cell *cell;
	size_t bytes;

	stub.thread.no_counter = stub.may_ask_time = true;
	if (stub.thread.has_rseq) { /* no call in a sequence */
		assert_int_equal(arch_make_stub(&arch_x86_64, &stub, 4096, v->pages, PAGE,
					 &(struct arch_stub_code){0}),
			ARCH_STUB_UNSUPPORTED);
		return;
	}
	stub.captures = &c;
	stub.capture_count = stub.recorded = 1;
	hit_sealed(v, &stub);
	time = stub_host_only_record(&v->host, &bytes)->time;
	assert_true(time >= before && time <= kernel_ns());
	stub.actions[0].kind = ARCH_ACTION_BEGIN;
	stub.actions[0].flights = (struct arch_flights){
		.table = (uintptr_t)v->pages, .entries = 4, .depth = DEPTH, .pair = 1};
	hit_sealed(v, &stub);
	usleep(1000);
	stub.actions[0].kind = ARCH_ACTION_GATHER;
	stub.actions[0].gather =
		(struct arch_gather){.parts = ARCH_GATHER_SUM | ARCH_GATHER_LAST, .cell = CELL};
	hit_sealed(v, &stub);
	cell = (const void *)(v->host.slots + ((size_t)v->host.cpus << HOST_SLOTS_SHIFT) + CELL);
	assert_int_equal(cell->count, 1);
	assert_true(cell->sum >= 1000000 && cell->sum < kernel_ns() - before);
	assert_true(cell->last_time > time && cell->last_time <= kernel_ns());
}

static void times_without_the_counter(void **state)
{
	(void)state;
	variant_each(check_sealed);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts),
		cmocka_unit_test(operands),
		cmocka_unit_test(strings_and_structures),
		cmocka_unit_test(records),
		cmocka_unit_test(filters),
		cmocka_unit_test(found_numbers),
		cmocka_unit_test(doubles),
		cmocka_unit_test(steps_come_to_an_end),
		cmocka_unit_test(times_without_the_counter),
	};

#ifndef __x86_64__
	return stub_harness_lacks();
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
