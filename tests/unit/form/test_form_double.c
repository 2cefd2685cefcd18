/* SPDX-License-Identifier: MIT */
/*
 * The sum of two doubles in the form of stubs, by whatever a back end makes of it and with whole
 * numbers only, is that of the compiler: for all kinds of doubles and rules of rounding.
 */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/query/expr_random.h"
#include "tests/unit/form/form_world.h"
#include "tests/unit/skip.h"

enum { PAIRS = 400000, LEFT = 0, OTHER, SUM, PLAIN_SUM, VALUE, SET, VECTOR, KEPT };

static const uint64_t value_before = UINT64_C(0x1122334455667788), set_before = 77;

/* Stores RIGHT, any NaN as the same one. */
static void store_sum(struct form *f, int temp)
{
	int number = form_label(f);

	form_move(f, FORM_SCRATCH, FORM_RIGHT);
	form_two_const(f, FORM_SHL, true, FORM_SCRATCH, 1);
	form_const(f, FORM_POINTER, UINT64_C(0x7ff) << 53);
	form_jump_if(f, true, FORM_SCRATCH, FORM_NOT_ABOVE, FORM_POINTER, number);
	form_const(f, FORM_RIGHT, UINT64_C(0xfff) << 51);
	form_place(f, number);
	form_store(f, FORM_RIGHT, form_temp(temp));
}

static void write_sums(struct form *f, void *arg)
{
	(void)arg;
	form_const(f, FORM_VALUE, value_before);
	form_const(f, FORM_SET, set_before);
	form_load(f, FORM_RIGHT, form_temp(LEFT), sizeof(uint64_t), false);
	FORM(f, .op = FORM_KEEP_VECTOR, .value = (uint64_t)(KEPT));
	FORM(f, .op = FORM_ADD_DOUBLE, .mem = form_temp(OTHER), .value = (uint64_t)(KEPT));
	FORM(f, .op = FORM_RESTORE_VECTOR, .value = (uint64_t)(KEPT));
	store_sum(f, SUM);
	form_load(f, FORM_RIGHT, form_temp(LEFT), sizeof(uint64_t), false);
	form_add_double_plainly(f, form_temp(OTHER));
	store_sum(f, PLAIN_SUM);
	form_store(f, FORM_VALUE, form_temp(VALUE));
	form_store(f, FORM_SET, form_temp(SET));
	f->put(f,
		&(struct form_insn){.op = FORM_VECTOR, .a = FORM_VALUE, .bytes = sizeof(uint64_t)});
	form_store(f, FORM_VALUE, form_temp(VECTOR));
	for (int i = 0; i < FORM_VECTOR_TEMPS; i++)
		form_store_const(f, form_temp(KEPT + i), sizeof(uint64_t), 0);
}

static double double_of(uint64_t bits)
{
	double number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

/* Often close to the first one, or an edge: 0, the smallest, the largest, infinite. */
static uint64_t any_double(uint64_t *random, uint64_t near)
{
	static const uint64_t edges[] = {0, 1, UINT64_C(1) << 52, (UINT64_C(1) << 52) - 1,
		UINT64_C(0x7fefffffffffffff), UINT64_C(0x7ff) << 52, UINT64_C(0x7ff4) << 48};
	uint64_t bits = expr_random(random), choice = expr_random(random) >> 40;
	uint64_t sign = bits & UINT64_C(1) << 63;

	switch (choice % 8) {
	case 0:
		return edges[(choice >> 8) % 7] | sign;
	case 1: /* a small one, without an exponent */
		return (bits & UINT64_C(0x801fffffffffffff));
	case 2: /* few bits */
		return bits & UINT64_C(0xffff) << 48;
	case 3:
		return near ^ sign ^ (choice >> 8 & 3);
	case 4:
	case 5:
	case 6: /* an exponent like that of the other one */
		bits &= UINT64_C(0x800fffffffffffff);
		return bits + (near & UINT64_C(0x7ff) << 52) +
		       ((uint64_t)((choice >> 8 & 127)) << 52) % (UINT64_C(0x200) << 52);
	default:
		return bits;
	}
}

static uint64_t expected_sum(uint64_t left, uint64_t right)
{
	volatile double a = double_of(left), b = double_of(right);
	double sum = a + b;
	uint64_t bits;

	memcpy(&bits, &sum, sizeof(bits));
	return isnan(sum) ? UINT64_C(0xfff) << 51 : bits;
}

static void sums(void **state)
{
	static const int roundings[] = {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO};
	struct form_fixture *x = *state;
	form_native_function *function = form_fixture_make(x, write_sums, NULL);
	uint64_t *temps = x->memory.temps;

	for (int n = 0; n < PAIRS; n++) {
		uint64_t left = any_double(&x->random, 0);
		uint64_t right = any_double(&x->random, left);
		uint64_t expected = expected_sum(left, right);

		temps[LEFT] = left;
		temps[OTHER] = right;
		x->world.vector_value = right ^ left;
		if (n % 16) {
			fesetround(roundings[n % 3]);
			function((uint8_t *)temps, 0, double_of(x->world.vector_value));
			fesetround(FE_TONEAREST);
		} else {
			form_fixture_run(x, function, "sum");
		}
		if (temps[SUM] != expected || temps[PLAIN_SUM] != expected)
			fail_msg("%a + %a: %#lx and %#lx, not %#lx", double_of(left),
				double_of(right), temps[SUM], temps[PLAIN_SUM], expected);
		assert_int_equal(temps[VALUE], value_before);
		assert_int_equal(temps[SET], set_before);
		assert_int_equal(temps[VECTOR], x->world.vector_value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sums, form_fixture_setup, form_fixture_teardown),
	};

	if (!form_native_is_possible())
		return skip_all("there is no back end for this processor");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
