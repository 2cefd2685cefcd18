/* SPDX-License-Identifier: MIT */
/*
 * Gathering doubles and floats: what cells hold, and that the program's own vector registers and
 * rules for rounding are as before, in one thread and in many under a storm of signals.
 */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "probe/hit.h"
#include "tests/unit/stub/stub_gathering.h"

enum { ALL = ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_LAST | ARCH_GATHER_BUCKETS };

static const struct arch_expr_node double_node = {.kind = ARCH_EXPR_DOUBLE, .wide = true};
static const struct arch_expr_node float_node = {.kind = ARCH_EXPR_FLOAT, .wide = true};
static const struct arch_expr doubles = {&double_node, 1}, floats = {&float_node, 1};

static void make_site(struct gathering *c, bool rseq, unsigned int parts, bool is_float)
{
	struct arch_stub stub = gathering_stub(c, rseq, parts);

	stub.actions[0].gather.value = is_float ? &floats : &doubles;
	stub.actions[0].gather.is_double = true;
	stub_host_reset(&c->host);
	c->site = stub_host_emit_site(&c->host, &stub);
}

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static double double_of(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Of all CPUs; here the test is on one. */
static double sum_of(const struct gathering *c)
{
	double sum = 0;

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		sum += double_of(((const struct probe_cell *)gathering_set(c, set))->sum);
	return sum;
}

static void one_bucket(const struct totals *t, double value)
{
	const struct probe_row row = {.is_float = true, .unit = 1};
	double low, high;
	size_t index = 0;

	assert_int_equal(t->bucketed, 1);
	while (!t->buckets[index])
		index++;
	probe_row_bucket(&row, index, &low, &high);
	assert_true(
		(value >= low && value < high) || (index == CELL_NEGATIVE - 1 && !(value < low)));
	if (index > 0 && index < CELL_NEGATIVE - 1)
		assert_true(high - low <= value / 32);
}

static const double values[] = {0, -0.0, 148.5, -148.5, 0.1, 1, 31, 1e-9, 0x1p-24, 0x1p36,
	0x1.fffffffffffffp35, 0x1.fffffffffffffp-25, 1e300, -1e300, DBL_MIN, DBL_TRUE_MIN,
	-DBL_TRUE_MIN, INFINITY, -INFINITY, NAN};

static void one_value(void **state)
{
	struct gathering *c = *state;

	for (size_t i = 0; i < 2 * sizeof(values) / sizeof(values[0]); i++) {
		double value = values[i / 2], wanted = value == 0 ? 0 : value;
		struct totals t;

		make_site(c, i % 2, ALL, false);
		c->site(bits_of(value), 0, 0);
		t = gathering_totals(c);
		assert_int_equal(t.last, bits_of(wanted));
		assert_int_equal(cell_bits_of(t.most), bits_of(wanted));
		assert_int_equal(cell_bits_of(~t.least), bits_of(wanted));
		if (isnan(value)) {
			assert_true(isnan(sum_of(c)));
			assert_int_equal(t.buckets[CELL_NEGATIVE - 1], 1);
			continue;
		}
		assert_int_equal(bits_of(sum_of(c)), bits_of(wanted));
		one_bucket(&t, value);
	}
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *state ^ *state >> 29;
}

/* As the processor converts them. */
static void all_floats(void **state)
{
	static const uint32_t some[] = {0, 1, 2, 0x7fffff, 0x800000, 0x800001, 0x3f800000,
		0x7f7fffff, 0x7f800000, 0x43148000};
	struct gathering *c = *state;
	uint64_t random = 7;

	make_site(c, true, ARCH_GATHER_LAST, true);
	for (size_t i = 0; i < 20000; i++) {
		uint32_t bits = i < 20 ? some[i / 2] | (uint32_t)(i % 2) << 31
				       : (uint32_t)next_random(&random);
		double wanted;
		float value;

		memcpy(&value, &bits, sizeof(value));
		wanted = value == 0 ? 0 : (double)value;
		/* Whatever the upper half of the register holds. */
		c->site(bits | next_random(&random) << 32, 0, 0);
		if (isnan(value))
			continue;
		for (uint32_t set = 0; set <= c->host.cpus; set++) {
			struct probe_cell *cell = (struct probe_cell *)gathering_set(c, set);

			if (cell->last_time)
				assert_int_equal(cell->last, bits_of(wanted));
			cell->last_time = 0;
		}
	}
}

static void order_of_doubles(void **state)
{
	uint64_t random = 11;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t a = next_random(&random), b = next_random(&random);

		assert_int_equal(cell_bits_of(cell_order_of(a)), a);
		if (double_of(a) < double_of(b))
			assert_true(cell_order_of(a) < cell_order_of(b));
	}
}

/* ---- What the program has set ---------------------------------------------------------------- */

#ifdef __x86_64__

static const uint64_t modes[] = {
	_MM_ROUND_NEAREST, _MM_ROUND_DOWN, _MM_ROUND_UP, _MM_ROUND_TOWARD_ZERO};
/* No exception is masked, and none has happened. */
static const uint64_t always = _MM_FLUSH_ZERO_ON;

static uint64_t get_state(void)
{
	return _mm_getcsr();
}

static void set_state(uint64_t state)
{
	_mm_setcsr((unsigned int)state);
}

/* A hit while a vector register holds `mine`, which holds `left` afterwards. */
static void hit_with_vector(stub_host_site *site, uint64_t bits, const char *mine, char *left)
{
	__asm__ volatile(
		"movdqu (%[mine]), %%xmm0\n\t"
		"xor %%esi, %%esi\n\t"
		"xor %%edx, %%edx\n\t"
		"call *%[site]\n\t"
		"movdqu %%xmm0, (%[left])"
		:
		: [left] "b"(left), [mine] "r"(mine), [site] "r"(site), "D"(bits)
		: "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "cc", "memory");
}

#else /* aarch64: the rules of fpcr, and in the upper half what fpsr says has happened */

static const uint64_t modes[] = {0, 2 << 22, 1 << 22, 3 << 22};
static const uint64_t always = 1 << 24; /* flush to zero */

static uint64_t get_state(void)
{
	uint64_t rules, happened;

	__asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(rules), "=r"(happened));
	return happened << 32 | rules;
}

static void set_state(uint64_t state)
{
	__asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
			 :
			 : "r"(state & UINT32_MAX), "r"(state >> 32)
			 : "memory");
}

static void hit_with_vector(stub_host_site *site, uint64_t bits, const char *mine, char *left)
{
	register uint64_t first __asm__("x0") = bits;

	__asm__ volatile("ldr q0, [%[mine]]\n\t"
			 "mov x1, xzr\n\t"
			 "mov x2, xzr\n\t"
			 "blr %[site]\n\t"
			 "str q0, [%[left]]"
			 : "+r"(first)
			 : [left] "r"(left), [mine] "r"(mine), [site] "r"(site)
			 : "x1", "x2", "x30", "v0", "cc", "memory");
}

#endif

/* Sums are rounded to the nearest, and no exception is raised, whatever the program has set. */
static void state_of_the_program(void **state)
{
	static const char mine[] = "in the register";
	struct gathering *c = *state;
	uint64_t before = get_state();

	for (int rseq = 0; rseq < 2; rseq++) {
		for (size_t i = 0; i < 4; i++) {
			uint64_t ours = modes[i] | always, after;
			double wanted = 0;

			make_site(c, rseq, ALL, false);
			for (int k = 0; k < 3; k++) {
				double value = k < 2 ? 0.1 : DBL_TRUE_MIN;
				char left[sizeof(mine)];

				wanted += value;
				set_state(ours);
				hit_with_vector(c->site, bits_of(value), mine, left);
				after = get_state();
				set_state(before);
				assert_int_equal(after, ours);
				assert_memory_equal(mine, left, sizeof(mine));
			}
			assert_int_equal(bits_of(sum_of(c)), bits_of(wanted));
		}
	}
}

/* ---- In many threads ------------------------------------------------------------------------- */

/* Adds halves, which are exact in any order; the caller's own doubles must not change. */
static void hit_half(void *data, uint64_t number)
{
	struct gathering *c = data;
	double own = (double)number * 1.25 + 3;

	c->site(bits_of((double)(number % 1000) + 0.5), number % 10, 0);
#ifdef __x86_64__
	__asm__ volatile("" : "+x"(own));
#else
	__asm__ volatile("" : "+w"(own));
#endif
	if (own != (double)number * 1.25 + 3)
		abort();
}

static double sum_below(uint64_t hits)
{
	double sum = 0;

	for (uint64_t i = 0; i < hits; i++)
		sum += (double)(i % 1000) + 0.5;
	return sum;
}

static void by_many(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct totals t;

		make_site(c, rseq, ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_BUCKETS,
			false);
		gathering_run(c, hit_half, GATHERING_HITS, true);
		t = gathering_totals(c);
		assert_int_equal(
			t.bucketed, (uint64_t)GATHERING_THREADS * GATHERING_HITS + c->signals);
		assert_true(sum_of(c) ==
			    GATHERING_THREADS * sum_below(GATHERING_HITS) + sum_below(c->signals));
		assert_true(double_of(cell_bits_of(t.most)) == 999.5);
		assert_true(double_of(cell_bits_of(~t.least)) == 0.5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_value, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(all_floats, gathering_setup, gathering_teardown),
		cmocka_unit_test(order_of_doubles),
		cmocka_unit_test_setup_teardown(
			state_of_the_program, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(by_many, gathering_setup, gathering_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
