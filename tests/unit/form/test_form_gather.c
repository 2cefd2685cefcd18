/* SPDX-License-Identifier: MIT */
/*
 * Cells and tables of keys, in the machine code of this processor: those that threads share, and,
 * where nothing interrupts a sequence, those of a CPU. What the program sees of whole stubs is
 * tested in tests/unit/stub.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "tests/unit/query/expr_random.h"
#include "tests/unit/form/form_native.h"
#include "tests/unit/skip.h"

enum {
	CPUS = 4,
	SETS = CPUS + 1,
	SHIFT = 20,
	CELL = 64, /* where the cell, or the table, is in each set */
	CELL_BYTES = sizeof(struct probe_cell) + 8 * CELL_BUCKETS,
	ENTRIES = 32,
	ENTRY_CELL = 24,
	ENTRY_BYTES = ENTRY_CELL + CELL_BYTES,
	KEYS = 8, /* the low bits of a value */
	OWNER = 5,
	HITS = 20000,
	/* temporaries */
	VALUE = 0,
	TIME,
	TAG,
	TRIES,
	KEY,
	DOUBLE,
	OUTCOME = DOUBLE + FORM_VECTOR_TEMPS + 1, /* the word that says how a hit has ended */
	TEMPS,
	GATHERED = 1,
	LOST
};
_Static_assert(CELL + (ENTRIES + OWNER + 1) * ENTRY_BYTES <= 1 << SHIFT, "a set has room");

struct stack {
	uint8_t below[16384]; /* for signals */
	uint64_t temps[(TEMPS + 1) & ~1];
} __attribute__((aligned(16)));

/* The thread's area for restartable sequences, as the kernel would have it. */
static __thread struct {
	uint32_t start, cpu;
	uint64_t sequence;
} __attribute__((aligned(32))) area;

struct fixture {
	struct form_native native;
	form_native_function *function;
	struct arch_capture capture;
	struct arch_expr_node value_nodes[1], key_nodes[3];
	struct arch_expr value, key;
	struct arch_stub stub;
	struct stub_plan plan;
	uint8_t *sets;
	atomic_int threads;
};

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	assert_non_null(x);
	form_native_init(&x->native);
	x->sets = aligned_alloc(4096, (size_t)SETS << SHIFT);
	assert_non_null(x->sets);
	x->capture.arg = (struct arch_arg){.kind = ARCH_ARG_REGISTER,
		.size = 8,
		.width = 8,
		.base = form_native_live,
		.index = -1};
	x->value_nodes[0] = (struct arch_expr_node){.kind = ARCH_EXPR_CAPTURE, .wide = true};
	x->key_nodes[0] = x->value_nodes[0];
	x->key_nodes[1] =
		(struct arch_expr_node){.kind = ARCH_EXPR_CONST, .wide = true, .value = KEYS - 1};
	x->key_nodes[2] =
		(struct arch_expr_node){.kind = ARCH_EXPR_AND, .wide = true, .left = 0, .right = 1};
	x->value = (struct arch_expr){x->value_nodes, 1};
	x->key = (struct arch_expr){x->key_nodes, 3};
	x->plan = (struct stub_plan){.stub = &x->stub,
		.actions = {{.action = &x->stub.actions[0],
			.value_temp = VALUE,
			.time_temp = TIME,
			.tag_temp = TAG,
			.tries_temp = TRIES,
			.key_temp = {KEY},
			.double_temp = DOUBLE}},
		.at = x->plan.actions};
	for (int i = 0; i < FRAME_REGISTERS; i++)
		x->plan.frame.saved[i] = -1;
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	form_native_deinit(&x->native);
	free(x->sets);
	free(x);
	return 0;
}

static void write_gather(struct form *f, void *arg)
{
	struct fixture *x = arg;
	struct stub_plan *p = &x->plan;
	struct action_plan *a = p->at;
	int *const labels[] = {&a->done, &a->slow, &a->full, &a->lost, &a->slow_update, &p->hash};
	int end = form_label(f);

	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		*labels[i] = form_label(f);
	p->sequence_count = 0;
	form_gather(f, p);
	form_place(f, a->done);
	form_store_const(f, form_temp(OUTCOME), sizeof(uint64_t), GATHERED);
	form_jump(f, end);
	form_gather_slow(f, p);
	form_place(f, a->lost);
	form_store_const(f, form_temp(OUTCOME), sizeof(uint64_t), LOST);
	form_jump(f, end);
	form_hash_subroutine(f, p);
	for (int i = 0; i < p->sequence_count; i++) {
		form_place(f, p->sequences[i].abort);
		form_place(f, p->sequences[i].descriptor);
	}
	form_place(f, end);
}

/* A stub for all parts of a cell; bits of `variant`: see below. */
enum { RSEQ = 1, SIGNED = 2, KEYED = 4, ATOMICS = 8, DOUBLES = 16, VARIANTS = 32 };

static bool make(struct fixture *x, int variant)
{
	if (variant & ATOMICS && !form_native_has_atomics())
		return false;
	x->stub = (struct arch_stub){.captures = &x->capture,
		.capture_count = 1,
		.cpus = CPUS,
		.thread = {.has_rseq = variant & RSEQ,
			.has_atomics = variant & ATOMICS,
			.rseq_offset = (int32_t)((uintptr_t)&area -
						 (uintptr_t)__builtin_thread_pointer())},
		.action_count = 1,
		.actions = {{.kind = ARCH_ACTION_GATHER,
			.slots = (uintptr_t)x->sets,
			.slots_shift = SHIFT,
			.gather = {.parts = ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES |
					    ARCH_GATHER_LAST | ARCH_GATHER_BUCKETS,
				.value = &x->value,
				.is_signed = variant & SIGNED && !(variant & DOUBLES),
				.is_double = variant & DOUBLES,
				.cell = CELL,
				.keys = {{.number = &x->key}},
				.key_count = variant & KEYED ? 1 : 0,
				.owner = OWNER,
				.entries = ENTRIES,
				.entry_bytes = ENTRY_BYTES,
				.entry_cell = ENTRY_CELL}}}};
	memset(x->sets, 0, (size_t)SETS << SHIFT);
	x->function =
		form_native_make(&x->native, &x->plan.frame, &x->stub.thread, write_gather, x);
	return true;
}

static uint64_t hit(const struct fixture *x, uint64_t value)
{
	struct stack stack;

	memset(stack.temps, 0xaa, sizeof(stack.temps));
	x->function((uint8_t *)stack.temps, value, 0);
	assert_int_equal(area.sequence, 0);
	return stack.temps[OUTCOME];
}

/* ---- What there should be, and what there is ---------------------------------------------- */

struct totals {
	uint64_t sum, most, least, last, bucketed, entries;
	uint64_t buckets[CELL_BUCKETS];
};

static double double_of(uint64_t bits)
{
	double number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

static uint64_t added(uint64_t a, uint64_t b, bool is_double)
{
	double sum = double_of(a) + double_of(b);
	uint64_t bits;

	memcpy(&bits, &sum, sizeof(bits));
	return is_double ? bits : a + b;
}

static size_t bucket_of(const struct arch_gather *g, uint64_t value)
{
	unsigned int shift = 63 - (unsigned int)__builtin_clzll(value | 32) - CELL_SUB_BITS;
	uint64_t bits = value >> CELL_DOUBLE_SHIFT;

	if ((g->is_signed || g->is_double) && value >> 63)
		return CELL_NEGATIVE;
	if (!g->is_double)
		return 32 * shift + (value >> shift);
	if (bits < CELL_DOUBLE_FIRST)
		return 0;
	bits -= CELL_DOUBLE_FIRST;
	return bits < CELL_NEGATIVE - 1 ? bits : CELL_NEGATIVE - 1;
}

static void expect(struct totals *t, const struct arch_gather *g, uint64_t value)
{
	uint64_t order = g->is_double	? cell_order_of(value)
			 : g->is_signed ? value + CELL_BIAS
					: value;

	t->sum = added(t->sum, value, g->is_double);
	t->most = order > t->most ? order : t->most;
	t->least = ~order > t->least ? ~order : t->least;
	t->last = value;
	t->bucketed++;
	t->buckets[bucket_of(g, value)]++;
}

static void add_cell(struct totals *t, const struct arch_gather *g, const struct probe_cell *cell)
{
	assert_int_equal(cell->count, 0);
	t->sum = added(t->sum, cell->sum, g->is_double);
	t->most = cell->most > t->most ? cell->most : t->most;
	t->least = cell->least > t->least ? cell->least : t->least;
	t->last = cell->last_time ? cell->last : t->last;
	for (int i = 0; i < CELL_BUCKETS; i++) {
		t->buckets[i] += cell->buckets[i];
		t->bucketed += cell->buckets[i];
	}
}

/* Of one key, or of all without keys. Each tag has its key. */
static struct totals gathered(const struct fixture *x, uint64_t key)
{
	const struct arch_gather *g = &x->stub.actions[0].gather;
	struct totals t = {0};

	for (size_t set = 0; set < SETS; set++) {
		const uint8_t *at = x->sets + (set << SHIFT) + CELL;

		if (!g->key_count)
			add_cell(&t, g, (const struct probe_cell *)at);
		for (int i = 0; g->key_count && i < ENTRIES; i++, at += ENTRY_BYTES) {
			const uint64_t *words = (const uint64_t *)at;

			if (!words[0])
				continue;
			assert_true(words[0] & 1);
			assert_int_equal(words[1], OWNER);
			assert_in_range(words[2], 0, KEYS - 1);
			t.entries++;
			if (words[2] == key)
				add_cell(&t, g, (const struct probe_cell *)(at + ENTRY_CELL));
		}
	}
	return t;
}

static bool is_clean(const struct fixture *x, size_t set)
{
	const uint8_t *at = x->sets + (set << SHIFT);

	return !at[0] && !memcmp(at, at + 1, (1 << SHIFT) - 1);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

/* One thread: each value gets where it belongs, and into the set of its CPU. */
static void values(void **state)
{
	struct fixture *x = *state;
	uint64_t random = 88172645463325252U;

	area.cpu = 2;
	for (int variant = 0; variant < VARIANTS; variant++) {
		struct totals expected[KEYS] = {0};
		size_t set = variant & RSEQ ? 2 : CPUS;

		if (!make(x, variant))
			continue;
		for (int i = 0; i < HITS / 10; i++) {
			uint64_t value = expr_random_edge(&random);

			/* Sums of doubles are compared bit by bit. */
			if (variant & DOUBLES && (value << 1) >> 53 == 0x7ff)
				value &= UINT64_MAX >> 2;
			expect(&expected[variant & KEYED ? value % KEYS : 0],
				&x->stub.actions[0].gather, value);
			assert_int_equal(hit(x, value), GATHERED);
		}
		for (size_t i = 0; i < SETS; i++)
			assert_int_equal(is_clean(x, i), i != set);
		for (uint64_t key = 0; key < (variant & KEYED ? KEYS : 1); key++) {
			struct totals t = gathered(x, key);

			t.entries = 0;
			assert_memory_equal(&t, &expected[key], sizeof(t));
		}
	}
}

static void *hit_often(void *arg)
{
	struct fixture *x = arg;
	uint64_t number = (uint64_t)atomic_fetch_add(&x->threads, 1);

	area.cpu = (uint32_t)number;
	for (uint64_t i = 0; i < HITS; i++) {
		/* Doubles whose sum does not depend on their order. */
		double real = (double)(i * CPUS + number);
		uint64_t value = i * CPUS + number;

		if (x->stub.actions[0].gather.is_double)
			memcpy(&value, &real, sizeof(value));
		assert_int_equal(hit(x, value), GATHERED);
	}
	return NULL;
}

/* Many threads at once, each on a CPU of its own, or all on what they share: nothing is lost. */
static void crowds(void **state)
{
	struct fixture *x = *state;
	uint64_t count = HITS * CPUS, sum = count * (count - 1) / 2;

	for (int variant = 0; variant < VARIANTS; variant++) {
		struct totals all = {0};
		pthread_t threads[CPUS];

		if (variant & SIGNED || !make(x, variant))
			continue;
		x->threads = 0;
		for (int i = 0; i < CPUS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, hit_often, x), 0);
		for (int i = 0; i < CPUS; i++)
			pthread_join(threads[i], NULL);
		for (uint64_t key = 0; key < (variant & KEYED ? KEYS : 1); key++) {
			struct totals t = gathered(x, key);

			all.sum = added(all.sum, t.sum, variant & DOUBLES);
			all.bucketed += t.bucketed;
			all.most = t.most > all.most ? t.most : all.most;
		}
		assert_int_equal(all.bucketed, count);
		assert_int_equal(variant & DOUBLES ? (uint64_t)double_of(all.sum) : all.sum, sum);
		if (!(variant & DOUBLES))
			assert_int_equal(all.most, count - 1);
	}
}

/* A table that is full: the hit is added to the cell behind it, and the table is as it was. */
static void full_table(void **state)
{
	struct fixture *x = *state;

	area.cpu = 1;
	for (int variant = KEYED; variant <= (KEYED | RSEQ); variant++) {
		struct totals others = {0};
		uint8_t *table;

		assert_true(make(x, variant));
		table = x->sets + ((size_t)(variant & RSEQ ? 1 : CPUS) << SHIFT) + CELL;
		assert_int_equal(hit(x, 3), GATHERED);
		for (int i = 0; i < ENTRIES; i++)
			if (!*(uint64_t *)(table + (size_t)i * ENTRY_BYTES))
				*(uint64_t *)(table + (size_t)i * ENTRY_BYTES) = 1;
		assert_int_equal(hit(x, 4), GATHERED);
		assert_int_equal(hit(x, 5 + KEYS), GATHERED);
		assert_int_equal(hit(x, 3 + KEYS), GATHERED);
		add_cell(&others, &x->stub.actions[0].gather,
			(const struct probe_cell *)(table +
						    (size_t)(ENTRIES + OWNER) * ENTRY_BYTES +
						    ENTRY_CELL));
		assert_int_equal(others.bucketed, 2);
		for (int i = 0; i < ENTRIES; i++)
			assert_true(*(uint64_t *)(table + (size_t)i * ENTRY_BYTES));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(values, setup, teardown),
		cmocka_unit_test_setup_teardown(crowds, setup, teardown),
		cmocka_unit_test_setup_teardown(full_table, setup, teardown),
	};

	if (!form_native_is_possible())
		return skip_all("there is no back end for this processor");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
