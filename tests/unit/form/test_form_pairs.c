/* SPDX-License-Identifier: MIT */
/*
 * Pairs in the machine code of this processor: entries that belong to a thread, also where others
 * may take them when nothing is under way, and entries found by key, which begin in one thread and
 * end in another. What the program sees of whole stubs is tested in tests/unit/stub.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "tests/unit/form/form_native.h"
#include "tests/unit/skip.h"

enum {
	SLOTS_SHIFT = 12,
	ENTRIES = 32,
	DEPTH = 4,
	ENTRY_BYTES = 64,
	PAIR = 3,
	THREADS = 4,
	HITS = 20000,
	HAND_OVERS = 2000,
	/* temporaries */
	VALUE = 0,
	TIME,
	PROCESS,
	DURATION,
	OUTCOME, /* the word that says how a hit has ended */
	TEMPS,
	PASSED = 1,
	LOST,
	UNMATCHED
};
_Static_assert(sizeof(struct probe_flight) + 8 * DEPTH == ENTRY_BYTES, "as the stubs have it");

struct stack {
	uint8_t below[16384]; /* for signals */
	uint64_t temps[(TEMPS + 1) & ~1];
} __attribute__((aligned(16)));

/* What the C library would have of a thread. */
static __thread struct {
	uint32_t start, cpu;
	uint64_t sequence;
	uint32_t tid;
} __attribute__((aligned(32))) area;

struct fixture {
	struct form_native begin_code, end_code;
	form_native_function *begin, *end;
	struct arch_capture capture;
	struct arch_expr_node node;
	struct arch_expr match;
	struct arch_stub stub;
	struct stub_plan plan;
	uint8_t *table;
	uint32_t process, processes;
	/* Between threads: what is under way, or was begun last; and pairs that have passed. */
	atomic_ulong begun, passed;
	atomic_int threads;
};

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	assert_non_null(x);
	form_native_init(&x->begin_code);
	form_native_init(&x->end_code);
	x->table = aligned_alloc(64, ENTRIES * ENTRY_BYTES);
	assert_non_null(x->table);
	x->capture.arg = (struct arch_arg){.kind = ARCH_ARG_REGISTER,
		.size = 8,
		.width = 8,
		.base = form_native_live,
		.index = -1};
	x->node = (struct arch_expr_node){.kind = ARCH_EXPR_CAPTURE, .wide = true};
	x->match = (struct arch_expr){&x->node, 1};
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	form_native_deinit(&x->begin_code);
	form_native_deinit(&x->end_code);
	free(x->table);
	free(x);
	return 0;
}

static void outcome(struct form *f, int label, int32_t which, int end)
{
	form_place(f, label);
	form_store_const(f, form_temp(OUTCOME), sizeof(uint64_t), which);
	form_jump(f, end);
}

static void write_pair(struct form *f, void *arg)
{
	struct fixture *x = arg;
	struct stub_plan *p = &x->plan;
	struct action_plan *a = p->at;
	int *const labels[] = {&a->done, &a->lost, &a->unmatched, &a->gone, &a->slow_flight,
		&a->timed, &a->number, &a->numbered};
	int end = form_label(f);

	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		*labels[i] = form_label(f);
	p->sequence_count = 0;
	if (x->stub.actions[0].kind == ARCH_ACTION_BEGIN)
		form_begin(f, p);
	else
		form_end(f, p);
	outcome(f, a->done, PASSED, end);
	form_flights_slow(f, p);
	outcome(f, a->lost, LOST, end);
	outcome(f, a->unmatched, UNMATCHED, end);
	for (int i = 0; i < p->sequence_count; i++) {
		form_place(f, p->sequences[i].abort);
		form_place(f, p->sequences[i].descriptor);
	}
	form_place(f, end);
}

static form_native_function *make(
	struct fixture *x, struct form_native *code, enum arch_action_kind kind)
{
	x->stub.actions[0].kind = kind;
	x->plan = (struct stub_plan){.stub = &x->stub,
		.actions = {{.action = &x->stub.actions[0],
			.value_temp = VALUE,
			.time_temp = TIME,
			.process_temp = PROCESS,
			.duration_temp = DURATION,
			.has_duration = kind != ARCH_ACTION_BEGIN}},
		.at = x->plan.actions};
	for (int i = 0; i < FRAME_REGISTERS; i++)
		x->plan.frame.saved[i] = -1;
	return form_native_make(code, &x->plan.frame, &x->stub.thread, write_pair, x);
}

/* Stubs of a begin and an end; bits of `variant`. */
enum { RSEQ = 1, KEYED = 2, PROCESSES = 4, ATOMICS = 8, VARIANTS = 16 };

static bool make_pair(struct fixture *x, int variant)
{
	uintptr_t here = (uintptr_t)__builtin_thread_pointer();

	if (variant & ATOMICS && !form_native_has_atomics())
		return false;
	memset(x->table, 0, ENTRIES * ENTRY_BYTES);
	x->process = x->processes = 0;
	x->stub = (struct arch_stub){.captures = &x->capture,
		.capture_count = 1,
		.thread = {.has_tp = true,
			.has_tid = true,
			.tid_offset = (int32_t)((uintptr_t)&area.tid - here),
			.has_rseq = variant & RSEQ,
			.rseq_offset = (int32_t)((uintptr_t)&area - here),
			.has_atomics = variant & ATOMICS},
		.action_count = 1,
		.actions = {
			{.flights = {.table = (uintptr_t)x->table,
				 .entries = ENTRIES,
				 .depth = DEPTH,
				 .pair = PAIR,
				 .match = variant & KEYED ? &x->match : NULL,
				 .process = variant & PROCESSES ? (uintptr_t)&x->process : 0,
				 .processes = variant & PROCESSES ? (uintptr_t)&x->processes : 0,
				 .scale = UINT64_C(3) << 32}}}};
	x->begin = make(x, &x->begin_code, ARCH_ACTION_BEGIN);
	x->end = make(x, &x->end_code, ARCH_ACTION_GATHER);
	return true;
}

static struct probe_flight *entry(const struct fixture *x, int i)
{
	return (struct probe_flight *)(x->table + (size_t)i * ENTRY_BYTES);
}

/* How many entries are in use, of which nothing is left to do if `idle`. */
static int used(const struct fixture *x, bool idle)
{
	int count = 0;

	for (int i = 0; i < ENTRIES; i++) {
		if (entry(x, i)->state == FLIGHT_FREE)
			continue;
		assert_int_equal(entry(x, i)->state, FLIGHT_PAIR + PAIR);
		if (idle)
			assert_int_equal(entry(x, i)->depth, 0);
		count++;
	}
	return count;
}

static uint64_t hit(form_native_function *function, uint64_t key, struct stack *stack)
{
	memset(stack->temps, 0xaa, sizeof(stack->temps));
	function((uint8_t *)stack->temps, key, 0);
	assert_int_equal(area.sequence, 0);
	return stack->temps[OUTCOME];
}

static uint64_t begin(const struct fixture *x, uint64_t key)
{
	struct stack stack;

	return hit(x->begin, key, &stack);
}

/* A pair that has passed has a duration of its ticks, three times. */
static uint64_t end(const struct fixture *x, uint64_t key)
{
	struct stack stack;
	uint64_t ended = hit(x->end, key, &stack);

	if (ended == PASSED) {
		assert_int_equal(stack.temps[DURATION], 3 * stack.temps[VALUE]);
		assert_true(stack.temps[VALUE] < stack.temps[TIME]);
	}
	return ended;
}

/* ---- One thread ------------------------------------------------------------------------- */

static void nested(void **state)
{
	struct fixture *x = *state;

	area.tid = 100;
	for (int variant = 0; variant < VARIANTS; variant++) {
		if (!make_pair(x, variant))
			continue;
		assert_int_equal(end(x, 7), UNMATCHED);
		for (int round = 0; round < 3; round++) {
			for (int i = 0; i < 3; i++)
				assert_int_equal(begin(x, 7), PASSED);
			assert_int_equal(used(x, false), 1);
			for (int i = 0; i < 3; i++)
				assert_int_equal(end(x, 7), PASSED);
			assert_int_equal(end(x, 7), UNMATCHED);
			assert_int_equal(used(x, true), variant & KEYED ? 0 : 1);
		}
		/* Begins that never end give way to newer ones. */
		for (int i = 0; i < DEPTH + 1; i++)
			assert_int_equal(begin(x, 7), PASSED);
		for (int i = 0; i < DEPTH; i++)
			assert_int_equal(end(x, 7), PASSED);
		assert_int_equal(end(x, 7), UNMATCHED);
		assert_int_equal(x->processes, variant & PROCESSES ? 1 : 0);
	}
}

/* Many keys at once: some are away from their places, and all are found until the table is full. */
static void many_keys(void **state)
{
	struct fixture *x = *state;

	for (int variant = KEYED; variant < VARIANTS; variant++) {
		uint64_t passed = 0;

		if (!(variant & KEYED) || !make_pair(x, variant))
			continue;
		for (uint64_t key = 1; key <= ENTRIES + 1; key++)
			passed |= (uint64_t)(begin(x, key) == PASSED) << key;
		assert_in_range(__builtin_popcountll(passed), ENTRIES / 2, ENTRIES);
		for (uint64_t key = ENTRIES + 1; key > 0; key--)
			assert_int_equal(end(x, key), passed >> key & 1 ? PASSED : UNMATCHED);
		assert_int_equal(used(x, true), 0);
		for (int i = 0; i < ENTRIES; i++)
			assert_int_equal(entry(x, i)->away, 0);
	}
}

/* A thread that is gone has left a begin to the one that has its thread pointer now. */
static void disowned(void **state)
{
	struct fixture *x = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		if (variant & KEYED || !make_pair(x, variant))
			continue;
		area.tid = 100;
		assert_int_equal(begin(x, 0), PASSED);
		area.tid = 101;
		assert_int_equal(end(x, 0), UNMATCHED);
		assert_int_equal(begin(x, 0), PASSED);
		assert_int_equal(end(x, 0), PASSED);
		assert_int_equal(end(x, 0), UNMATCHED);
	}
}

/* ---- Many threads --------------------------------------------------------------------------- */

/* What a thread has begun, it ends. */
static void *pair_often(void *arg)
{
	struct fixture *x = arg;
	uint64_t number = (uint64_t)atomic_fetch_add(&x->threads, 1);

	area.tid = (uint32_t)(1000 + number);
	for (int i = 0; i < HITS; i++) {
		assert_int_equal(begin(x, number), PASSED);
		if (i % 3 == 0) {
			assert_int_equal(begin(x, number), PASSED);
			assert_int_equal(end(x, number), PASSED);
		}
		assert_int_equal(end(x, number), PASSED);
	}
	assert_int_equal(end(x, number), UNMATCHED);
	return NULL;
}

static void run(struct fixture *x, void *(*work)(void *arg))
{
	pthread_t threads[THREADS];

	x->threads = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, x), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void crowds(void **state)
{
	struct fixture *x = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		if (!make_pair(x, variant))
			continue;
		run(x, pair_often);
		used(x, true);
		for (int i = 0; i < ENTRIES; i++)
			if (variant & KEYED)
				assert_int_equal(entry(x, i)->away, 0);
	}
}

/*
 * No entry is free, and only one is idle: threads take it from each other. A hit is lost, or its
 * pair is one thread's alone.
 */
static void *take_turns(void *arg)
{
	struct fixture *x = arg;
	uint64_t number = (uint64_t)atomic_fetch_add(&x->threads, 1);

	area.tid = (uint32_t)(1000 + number);
	for (int i = 0; i < HITS; i++) {
		uint64_t begun = begin(x, 0);

		assert_in_range(begun, PASSED, LOST);
		if (begun == PASSED) /* else the entry is another thread's by now */
			assert_int_equal(atomic_fetch_add(&x->begun, 1), 0);
		if (i % 64 == 0)
			sched_yield();
		if (begun == PASSED)
			atomic_fetch_sub(&x->begun, 1);
		assert_int_equal(end(x, 0), begun == PASSED ? PASSED : UNMATCHED);
		atomic_fetch_add(&x->passed, begun == PASSED);
	}
	return NULL;
}

static void idle_entries(void **state)
{
	struct fixture *x = *state;

	for (int variant = PROCESSES; variant < VARIANTS; variant++) {
		if (!(variant & PROCESSES) || variant & KEYED || !make_pair(x, variant))
			continue;
		/* All look at all entries, as if these were the whole table. */
		x->stub.actions[0].flights.entries = 8;
		x->begin = make(x, &x->begin_code, ARCH_ACTION_BEGIN);
		x->end = make(x, &x->end_code, ARCH_ACTION_GATHER);
		for (int i = 0; i < 8; i++) {
			entry(x, i)->state = FLIGHT_PAIR + PAIR + 1;
			entry(x, i)->depth = i != 5;
		}
		x->begun = x->passed = 0;
		run(x, take_turns);
		assert_int_not_equal(x->passed, 0);
	}
}

/* One after the other: what one thread has begun, another one ends. */
static void *hand_over(void *arg)
{
	struct fixture *x = arg;
	uint64_t number = (uint64_t)atomic_fetch_add(&x->threads, 1);

	for (uint64_t turn = number; turn < HAND_OVERS; turn += THREADS) {
		while (atomic_load_explicit(&x->begun, memory_order_acquire) != turn)
			sched_yield();
		if (turn)
			assert_int_equal(end(x, turn), PASSED);
		assert_int_equal(begin(x, turn + 1), PASSED);
		atomic_store_explicit(&x->begun, turn + 1, memory_order_release);
	}
	return NULL;
}

static void between_threads(void **state)
{
	struct fixture *x = *state;

	for (int variant = KEYED; variant < VARIANTS; variant++) {
		if (!(variant & KEYED) || !make_pair(x, variant))
			continue;
		x->begun = 0;
		run(x, hand_over);
		assert_int_equal(used(x, false), 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nested, setup, teardown),
		cmocka_unit_test_setup_teardown(many_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(disowned, setup, teardown),
		cmocka_unit_test_setup_teardown(crowds, setup, teardown),
		cmocka_unit_test_setup_teardown(idle_entries, setup, teardown),
		cmocka_unit_test_setup_teardown(between_threads, setup, teardown),
	};

	if (!form_native_is_possible())
		return skip_all("there is no back end for this processor");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
