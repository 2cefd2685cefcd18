/* SPDX-License-Identifier: MIT */
/*
 * Doubles without the processor's unit for them, whose state is the program's: as whole numbers,
 * they are compared (cell_order_of()); and they are added.
 *
 * The sum is for instruction sets whose vector registers cannot be kept at a low price. On aarch64
 * each write to one clears what SVE has of it above 128 bits, and a program may have numbers there
 * at any site.
 *
 * IEEE 754: the number of the larger magnitude comes first, so the result has its sign; the other
 * one is shifted to its exponent. Both have ten bits more than a double, and the lowest says if any
 * bit below was not 0: enough to round to the nearest, of two to the even one.
 *
 *	right		one, and the sum
 *	scratch		the other one
 *	pointer, next	twice their magnitudes; then their fractions, whose first bit is bit 62
 *	spare, spare_2	their exponents; then that of the sum, and its sign
 *	from		negative: the signs differ
 */
#include "arch/stub/plan.h"

enum { MORE_BITS = 10, FRACTION_BITS = 52, EXPONENT_MOST = 0x7ff };

/* ---- What is compared ----------------------------------------------------------- */

/*
 * A float has 8 bits of exponent, with a bias of 127, and 23 behind them; a double 11, 1023 and 52.
 */
void form_widen(struct form *f)
{
	int is_small = form_label(f), is_large = form_label(f), done = form_label(f);

	form_extend(f, FORM_SCRATCH, FORM_VALUE, sizeof(uint32_t), false);
	form_two_const(f, FORM_SHR, false, FORM_SCRATCH, 31); /* the sign */
	form_two_const(f, FORM_SHL, true, FORM_SCRATCH, 63);
	form_two_const(f, FORM_AND, false, FORM_VALUE, 0x7fffffff);
	form_jump_if_const(f, false, FORM_VALUE, FORM_BELOW, 0x800000, is_small);
	form_jump_if_const(f, false, FORM_VALUE, FORM_NOT_BELOW, 0x7f800000, is_large);
	form_two_const(f, FORM_SHL, true, FORM_VALUE, 52 - 23);
	form_const(f, FORM_RIGHT, UINT64_C(896) << 52 /* 1023 - 127 */);
	form_two(f, FORM_ADD, true, FORM_VALUE, FORM_RIGHT);
	form_jump(f, done);

	form_place(f, is_large); /* infinite, or no number */
	form_two_const(f, FORM_SHL, true, FORM_VALUE, 52 - 23);
	form_const(f, FORM_RIGHT, UINT64_C(1792) << 52 /* 2047 - 255 */);
	form_two(f, FORM_ADD, true, FORM_VALUE, FORM_RIGHT);
	form_jump(f, done);

	form_place(f, is_small); /* 0, or VALUE * 2^-149: its first bit is implied in a double */
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, done);
	form_highest(f, FORM_RIGHT, FORM_VALUE);
	form_one(f, FORM_NEGATE, false, FORM_RIGHT);
	form_two_const(f, FORM_ADD, false, FORM_RIGHT, 52); /* so far is it from its place */
	form_by_right(f, FORM_SHL, true, false);
	form_one(f, FORM_NEGATE, false, FORM_RIGHT);
	/* the first bit adds the 1 */
	form_two_const(f, FORM_ADD, false, FORM_RIGHT, 52 + 1023 - 149 - 1);
	form_two_const(f, FORM_SHL, true, FORM_RIGHT, 52);
	form_two(f, FORM_ADD, true, FORM_VALUE, FORM_RIGHT);
	form_place(f, done);
	form_two(f, FORM_OR, true, FORM_VALUE, FORM_SCRATCH);
}

void form_positive_zero(struct form *f)
{
	int done = form_label(f);

	form_move(f, FORM_SCRATCH, FORM_VALUE);
	form_two_const(f, FORM_SHL, true, FORM_SCRATCH, 1);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_NE, 0, done);
	form_const(f, FORM_VALUE, 0);
	form_place(f, done);
}

void form_order_of_double(struct form *f)
{
	int negative = form_label(f), done = form_label(f);

	form_move(f, FORM_SCRATCH, FORM_RIGHT);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_LT, 0, negative);
	form_flip(f, FORM_SCRATCH, 63);
	form_jump(f, done);
	form_place(f, negative);
	form_one(f, FORM_COMPLEMENT, true, FORM_SCRATCH);
	form_place(f, done);
}

/* ---- The sum ------------------------------------------------------------------- */

/* The larger one is in RIGHT, twice its magnitude in POINTER; the other's in NEXT. */
static void order(struct form *f)
{
	int ordered = form_label(f);

	form_move(f, FORM_POINTER, FORM_RIGHT);
	form_two_const(f, FORM_SHL, true, FORM_POINTER, 1);
	form_move(f, FORM_NEXT, FORM_SCRATCH);
	form_two_const(f, FORM_SHL, true, FORM_NEXT, 1);
	form_jump_if(f, true, FORM_POINTER, FORM_NOT_BELOW, FORM_NEXT, ordered);
	form_move(f, FORM_FROM, FORM_RIGHT);
	form_move(f, FORM_RIGHT, FORM_SCRATCH);
	form_move(f, FORM_SCRATCH, FORM_FROM);
	form_move(f, FORM_FROM, FORM_POINTER);
	form_move(f, FORM_POINTER, FORM_NEXT);
	form_move(f, FORM_NEXT, FORM_FROM);
	form_place(f, ordered);
}

/* The larger one is infinite or no number; SPARE is twice the infinite one. */
static void add_special(struct form *f, int done)
{
	int no_number = form_label(f);

	form_jump_if(f, true, FORM_POINTER, FORM_ABOVE, FORM_SPARE, no_number);
	form_jump_if(f, true, FORM_NEXT, FORM_BELOW, FORM_SPARE, done);
	form_jump_if(f, true, FORM_RIGHT, FORM_EQ, FORM_SCRATCH, done);
	form_place(f, no_number);
	form_const(f, FORM_SPARE, UINT64_C(0xfff) << (FRACTION_BITS - 1)); /* a quiet one */
	form_two(f, FORM_OR, true, FORM_RIGHT, FORM_SPARE);
	form_jump(f, done);
}

/* `exponent` and `fraction` of a number, from twice its magnitude in `fraction`; SCRATCH: bit 62.
 */
static void take_apart(struct form *f, int exponent, int fraction)
{
	int is_small = form_label(f), done = form_label(f);

	form_move(f, exponent, fraction);
	form_two_const(f, FORM_SHR, true, exponent, FRACTION_BITS + 1);
	form_two_const(f, FORM_SHL, true, fraction, 64 - FRACTION_BITS - 1);
	form_two_const(f, FORM_SHR, true, fraction, 2);
	form_jump_if_const(f, true, exponent, FORM_EQ, 0, is_small);
	form_two(f, FORM_OR, true, fraction, FORM_SCRATCH); /* the bit that is implied */
	form_jump(f, done);
	form_place(f, is_small);
	form_const(f, exponent, 1);
	form_place(f, done);
}

/* Shifts the smaller one by the difference of exponents, and notes if it had bits below. */
static void align(struct form *f)
{
	int none = form_label(f), far = form_label(f), aligned = form_label(f);

	form_move(f, FORM_SCRATCH, FORM_SPARE);
	form_two(f, FORM_SUB, true, FORM_SCRATCH, FORM_SPARE_2);
	form_move(f, FORM_SPARE_2, FORM_RIGHT);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_EQ, 0, aligned);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_ABOVE, 62, far);
	form_move(f, FORM_RIGHT, FORM_SCRATCH);
	form_move(f, FORM_SCRATCH, FORM_NEXT);
	form_shift_by_right(f, FORM_SHR, FORM_NEXT);
	form_one(f, FORM_NEGATE, true, FORM_RIGHT);
	form_shift_by_right(f, FORM_SHL, FORM_SCRATCH); /* what has left NEXT */
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_EQ, 0, none);
	form_two_const(f, FORM_OR, true, FORM_NEXT, 1);
	form_place(f, none);
	form_jump(f, aligned);
	form_place(f, far);
	form_const(f, FORM_NEXT, 1);
	form_place(f, aligned);
}

/* POINTER -= NEXT, with its first bit at bit 62 again, if the exponent allows for that. */
static void subtract(struct form *f, int done)
{
	int is_nothing = form_label(f), fits = form_label(f), out = form_label(f);

	form_sub_jump_if(f, true, FORM_POINTER, FORM_EQ, FORM_NEXT, is_nothing);
	form_highest(f, FORM_NEXT, FORM_POINTER);
	form_const(f, FORM_RIGHT, 62);
	form_two(f, FORM_SUB, true, FORM_RIGHT, FORM_NEXT);
	form_jump_if(f, true, FORM_RIGHT, FORM_BELOW, FORM_SPARE, fits);
	form_move(f, FORM_RIGHT, FORM_SPARE);
	form_two_const(f, FORM_SUB, true, FORM_RIGHT, 1);
	form_place(f, fits);
	form_shift_by_right(f, FORM_SHL, FORM_POINTER);
	form_two(f, FORM_SUB, true, FORM_SPARE, FORM_RIGHT);
	form_jump(f, out);
	form_place(f, is_nothing);
	form_const(f, FORM_RIGHT, 0);
	form_jump(f, done);
	form_place(f, out);
}

/* POINTER += NEXT, in 63 bits. */
static void add(struct form *f)
{
	int fits = form_label(f);

	form_two(f, FORM_ADD, true, FORM_POINTER, FORM_NEXT);
	form_jump_if_const(f, true, FORM_POINTER, FORM_GE, 0, fits);
	form_move(f, FORM_NEXT, FORM_POINTER);
	form_two_const(f, FORM_AND, true, FORM_NEXT, 1);
	form_two_const(f, FORM_SHR, true, FORM_POINTER, 1);
	form_two(f, FORM_OR, true, FORM_POINTER, FORM_NEXT);
	form_two_const(f, FORM_ADD, true, FORM_SPARE, 1);
	form_place(f, fits);
}

/* RIGHT = the double. Its implied bit adds 1 to the exponent, and so does a carry. */
static void put_together(struct form *f)
{
	int finite = form_label(f);

	form_move(f, FORM_NEXT, FORM_POINTER);
	form_two_const(f, FORM_SHR, true, FORM_NEXT, MORE_BITS);
	form_two_const(f, FORM_AND, true, FORM_NEXT, 1);
	form_two(f, FORM_ADD, true, FORM_POINTER, FORM_NEXT);
	form_two_const(f, FORM_ADD, true, FORM_POINTER, (1 << (MORE_BITS - 1)) - 1);
	form_two_const(f, FORM_SHR, true, FORM_POINTER, MORE_BITS);
	form_two_const(f, FORM_SUB, true, FORM_SPARE, 1);
	form_two_const(f, FORM_SHL, true, FORM_SPARE, FRACTION_BITS);
	form_two(f, FORM_ADD, true, FORM_POINTER, FORM_SPARE);
	form_const(f, FORM_RIGHT, (uint64_t)EXPONENT_MOST << FRACTION_BITS);
	form_jump_if(f, true, FORM_RIGHT, FORM_BELOW, FORM_POINTER, finite);
	form_move(f, FORM_RIGHT, FORM_POINTER);
	form_place(f, finite); /* or no more than infinite */
	form_two_const(f, FORM_SHR, true, FORM_SPARE_2, 63);
	form_two_const(f, FORM_SHL, true, FORM_SPARE_2, 63);
	form_two(f, FORM_OR, true, FORM_RIGHT, FORM_SPARE_2);
}

void form_add_double_plainly(struct form *f, struct form_mem mem)
{
	int special = form_label(f), done = form_label(f), both = form_label(f);
	int minus = form_label(f), rounded = form_label(f);

	form_load(f, FORM_SCRATCH, mem, sizeof(uint64_t), false);
	order(f);
	form_const(f, FORM_SPARE, (uint64_t)EXPONENT_MOST << (FRACTION_BITS + 1));
	form_jump_if(f, true, FORM_POINTER, FORM_NOT_BELOW, FORM_SPARE, special);
	form_jump_if_const(f, true, FORM_NEXT, FORM_NE, 0, both);
	form_jump_if_const(f, true, FORM_POINTER, FORM_NE, 0, done);
	form_two(f, FORM_AND, true, FORM_RIGHT, FORM_SCRATCH); /* -0 only of two */
	form_jump(f, done);

	form_place(f, both);
	form_move(f, FORM_FROM, FORM_RIGHT);
	form_two(f, FORM_XOR, true, FORM_FROM, FORM_SCRATCH);
	form_const(f, FORM_SCRATCH, UINT64_C(1) << 62);
	take_apart(f, FORM_SPARE, FORM_POINTER);
	take_apart(f, FORM_SPARE_2, FORM_NEXT);
	align(f);
	form_jump_if_const(f, true, FORM_FROM, FORM_LT, 0, minus);
	add(f);
	form_jump(f, rounded);
	form_place(f, minus);
	subtract(f, done);
	form_place(f, rounded);
	put_together(f);
	form_jump(f, done);

	form_place(f, special);
	add_special(f, done);
	form_place(f, done);
}
