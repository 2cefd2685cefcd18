/* SPDX-License-Identifier: MIT */
/*
 * Compiles expressions (arch/expr.h).
 *
 * Each node's value is computed in VALUE, extended by its type. If both operands need more than a
 * load, the left one is kept in a temporary. A condition is a jump; its 0 or 1 is computed only if
 * an operator needs it. An early filter uses three registers, because the others are not saved yet.
 */
#include <assert.h>

#include "arch/layout.h"
#include "arch/stub/plan.h"

/* ==== Doubles ================================================================================= */

/*
 * Doubles without floating-point instructions, because the state of the floating-point unit belongs
 * to the program. Comparisons use integers (cell_order_of()), and so does addition.
 *
 * The addition is for instruction sets on which saving a vector register is expensive. On aarch64
 * each write to a vector register clears the bits above 128 that the register has with SVE, and a
 * program may use these bits at any site.
 *
 * IEEE 754 addition: the number with the larger magnitude comes first, so the sum has its sign. The
 * fraction of the smaller number is shifted to the exponent of the larger one. Both fractions have
 * ten bits more than a double; the lowest bit is set if any bit shifted out was not 0. This is
 * enough to round to nearest, ties to even.
 *
 *	right		one number; at last the sum
 *	scratch		the other number
 *	pointer, next	twice the two magnitudes; then the two fractions, with bit 62 as first bit
 *	spare, spare_2	the two exponents; then the sum's exponent, and its sign
 *	from		negative if the signs of the two numbers differ
 */

enum { MORE_BITS = 10, FRACTION_BITS = 52, EXPONENT_MOST = 0x7ff };

/* ---- Comparison ----------------------------------------------------------------- */

/*
 * Converts the float in VALUE to a double; changes RIGHT and SCRATCH. A float has 8 exponent bits
 * (bias 127) and 23 fraction bits, a double 11 (1023) and 52.
 */
static void form_widen(struct form *f)
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

	form_place(f, is_large); /* infinity or NaN */
	form_two_const(f, FORM_SHL, true, FORM_VALUE, 52 - 23);
	form_const(f, FORM_RIGHT, UINT64_C(1792) << 52 /* 2047 - 255 */);
	form_two(f, FORM_ADD, true, FORM_VALUE, FORM_RIGHT);
	form_jump(f, done);

	/* 0, or subnormal: VALUE * 2^-149. The highest set bit is implied in a double. */
	form_place(f, is_small);
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, done);
	form_two(f, FORM_HIGHEST, true, FORM_RIGHT, FORM_VALUE);
	form_one(f, FORM_NEGATE, false, FORM_RIGHT);
	/* RIGHT = the highest set bit's distance from bit 52 */
	form_two_const(f, FORM_ADD, false, FORM_RIGHT, 52);
	form_by_right(f, FORM_SHL, true, false);
	form_one(f, FORM_NEGATE, false, FORM_RIGHT);
	/* the highest set bit adds 1 to the exponent */
	form_two_const(f, FORM_ADD, false, FORM_RIGHT, 52 + 1023 - 149 - 1);
	form_two_const(f, FORM_SHL, true, FORM_RIGHT, 52);
	form_two(f, FORM_ADD, true, FORM_VALUE, FORM_RIGHT);
	form_place(f, done);
	form_two(f, FORM_OR, true, FORM_VALUE, FORM_SCRATCH);
}

void form_order_of_double(struct form *f)
{
	int negative = form_label(f), done = form_label(f);

	form_move(f, FORM_SCRATCH, FORM_RIGHT);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_LT, 0, negative);
	FORM(f, .op = FORM_FLIP, .a = FORM_SCRATCH, .shift = 63);
	form_jump(f, done);
	form_place(f, negative);
	form_one(f, FORM_COMPLEMENT, true, FORM_SCRATCH);
	form_place(f, done);
}

/* ---- The sum ------------------------------------------------------------------- */

/* RIGHT = the number with the larger magnitude, SCRATCH the other; POINTER, NEXT = twice these. */
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

/* Splits twice the magnitude in `fraction` into exponent and fraction. SCRATCH has only bit 62. */
static void take_apart(struct form *f, int exponent, int fraction)
{
	int is_small = form_label(f), done = form_label(f);

	form_move(f, exponent, fraction);
	form_two_const(f, FORM_SHR, true, exponent, FRACTION_BITS + 1);
	form_two_const(f, FORM_SHL, true, fraction, 64 - FRACTION_BITS - 1);
	form_two_const(f, FORM_SHR, true, fraction, 2);
	form_jump_if_const(f, true, exponent, FORM_EQ, 0, is_small);
	form_two(f, FORM_OR, true, fraction, FORM_SCRATCH); /* the implied first bit */
	form_jump(f, done);
	form_place(f, is_small);
	form_const(f, exponent, 1);
	form_place(f, done);
}

/*
 * Shifts the smaller fraction right by the difference of exponents; bits shifted out set its
 * lowest. SPARE_2 = the sum's sign.
 */
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
	form_two(f, FORM_SHR, true, FORM_NEXT, FORM_RIGHT);
	form_one(f, FORM_NEGATE, true, FORM_RIGHT);
	form_two(f, FORM_SHL, true, FORM_SCRATCH, FORM_RIGHT); /* the bits that have left NEXT */
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_EQ, 0, none);
	form_two_const(f, FORM_OR, true, FORM_NEXT, 1);
	form_place(f, none);
	form_jump(f, aligned);
	form_place(f, far);
	form_const(f, FORM_NEXT, 1);
	form_place(f, aligned);
}

/*
 * POINTER -= NEXT, then shifted left until its first bit is bit 62 or the exponent is 1. At 0,
 * jumps to `done` with RIGHT = 0.
 */
static void subtract(struct form *f, int done)
{
	int is_nothing = form_label(f), fits = form_label(f), out = form_label(f);

	form_sub_jump_if(f, true, FORM_POINTER, FORM_EQ, FORM_NEXT, is_nothing);
	form_two(f, FORM_HIGHEST, true, FORM_NEXT, FORM_POINTER);
	form_const(f, FORM_RIGHT, 62);
	form_two(f, FORM_SUB, true, FORM_RIGHT, FORM_NEXT);
	form_jump_if(f, true, FORM_RIGHT, FORM_BELOW, FORM_SPARE, fits);
	form_move(f, FORM_RIGHT, FORM_SPARE);
	form_two_const(f, FORM_SUB, true, FORM_RIGHT, 1);
	form_place(f, fits);
	form_two(f, FORM_SHL, true, FORM_POINTER, FORM_RIGHT);
	form_two(f, FORM_SUB, true, FORM_SPARE, FORM_RIGHT);
	form_jump(f, out);
	form_place(f, is_nothing);
	form_const(f, FORM_RIGHT, 0);
	form_jump(f, done);
	form_place(f, out);
}

/* POINTER += NEXT; shifts right by 1 if it has more than 63 bits. */
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

/* RIGHT = the rounded double. The fraction's implied bit, and a carry, add 1 to the exponent. */
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
	form_place(f, finite); /* a larger value becomes infinity */
	form_two_const(f, FORM_SHR, true, FORM_SPARE_2, 63);
	form_two_const(f, FORM_SHL, true, FORM_SPARE_2, 63);
	form_two(f, FORM_OR, true, FORM_RIGHT, FORM_SPARE_2);
}

void form_add_double_plainly(struct form *f, struct form_mem mem)
{
	int special = form_label(f), done = form_label(f), both = form_label(f);
	int minus = form_label(f), rounded = form_label(f);
	int no_number = form_label(f);

	form_load(f, FORM_SCRATCH, mem, sizeof(uint64_t), false);
	order(f);
	form_const(f, FORM_SPARE, (uint64_t)EXPONENT_MOST << (FRACTION_BITS + 1));
	form_jump_if(f, true, FORM_POINTER, FORM_NOT_BELOW, FORM_SPARE, special);
	form_jump_if_const(f, true, FORM_NEXT, FORM_NE, 0, both);
	form_jump_if_const(f, true, FORM_POINTER, FORM_NE, 0, done);
	/* The sum of zeros is -0 only if both are. */
	form_two(f, FORM_AND, true, FORM_RIGHT, FORM_SCRATCH);
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
	form_jump_if(f, true, FORM_POINTER, FORM_ABOVE, FORM_SPARE, no_number);
	form_jump_if(f, true, FORM_NEXT, FORM_BELOW, FORM_SPARE, done);
	form_jump_if(f, true, FORM_RIGHT, FORM_EQ, FORM_SCRATCH, done);
	form_place(f, no_number);
	form_const(f, FORM_SPARE, UINT64_C(0xfff) << (FRACTION_BITS - 1)); /* a quiet NaN */
	form_two(f, FORM_OR, true, FORM_RIGHT, FORM_SPARE);
	form_jump(f, done);
	form_place(f, done);
}

/* ==== Expressions ============================================================================= */

struct context {
	struct form *f;
	const struct stub_plan *plan;
	const struct arch_expr_node *nodes;
	int temps; /* temporaries in use */
	int bad;   /* where to jump if the expression cannot be computed */
};

/* ---- Kinds of nodes ------------------------------------------------------------ */

/* Returns true if the value is a 0 or 1 that a jump decides. */
static bool is_condition(const struct arch_expr_node *n)
{
	return arch_expr_is_string_test(n->kind) || n->kind == ARCH_EXPR_NOT ||
	       n->kind == ARCH_EXPR_IN || n->kind >= ARCH_EXPR_LT;
}

static bool is_small_constant(const struct arch_expr_node *n)
{
	return n->kind == ARCH_EXPR_CONST && (int64_t)n->value == (int32_t)n->value;
}

/* ---- Values -------------------------------------------------------------------- */

/* Extends the low 32 bits of VALUE by the node's type. */
static void extend(struct context *c, const struct arch_expr_node *type)
{
	if (!type->wide)
		form_extend(c->f, FORM_VALUE, FORM_VALUE, sizeof(uint32_t), type->is_signed);
}

/* a = a leaf's value; changes SCRATCH, and RIGHT for a double. */
static void leaf(struct context *c, int a, const struct arch_expr_node *n)
{
	const struct arch_stub *s = c->plan->stub;
	int done = form_label(c->f);

	switch (n->kind) {
	case ARCH_EXPR_CONST:
		form_const(c->f, a, n->value);
		break;
	case ARCH_EXPR_CAPTURE:
		form_captured(c->f, a, c->plan, n->capture);
		break;
	case ARCH_EXPR_DOUBLE:
	case ARCH_EXPR_FLOAT:
		assert(a == FORM_VALUE);
		form_captured(c->f, a, c->plan, n->capture);
		if (n->kind == ARCH_EXPR_FLOAT)
			form_widen(c->f);
		/* Replace -0 by 0, because as an integer it is less. */
		form_move(c->f, FORM_SCRATCH, FORM_VALUE);
		form_two_const(c->f, FORM_SHL, true, FORM_SCRATCH, 1);
		form_jump_if_const(c->f, true, FORM_SCRATCH, FORM_NE, 0, done);
		form_const(c->f, FORM_VALUE, 0);
		form_place(c->f, done);
		break;
	case ARCH_EXPR_TID:
		form_load(c->f, a,
			s->thread.has_tid ? form_at(FORM_THREAD, s->thread.tid_offset)
					  : form_temp(c->plan->tid_temp),
			sizeof(uint32_t), true);
		break;
	case ARCH_EXPR_PID:
		if (s->pid)
			form_const(c->f, a, s->pid);
		else
			form_load(c->f, a, form_temp(c->plan->pid_temp), sizeof(uint32_t), true);
		break;
	case ARCH_EXPR_DURATION:
		form_load(c->f, a, form_temp(c->plan->at->duration_temp), sizeof(uint64_t), false);
		break;
	default:
		if (c->plan->kernel_cpu)
			form_load(c->f, a, form_temp(c->plan->cpu_temp), sizeof(uint32_t), false);
		else
			FORM(c->f, .op = FORM_CPU, .a = a);
		break;
	}
}

static void value_of(struct context *c, int node);

/* VALUE = a node's left operand, RIGHT = its right one. */
static void operands(struct context *c, const struct arch_expr_node *n)
{
	const struct arch_expr_node *left = &c->nodes[n->left], *right = &c->nodes[n->right];

	if (arch_expr_is_leaf(right->kind)) {
		value_of(c, n->left);
		leaf(c, FORM_RIGHT, right);
	} else if (arch_expr_is_leaf(left->kind)) {
		value_of(c, n->right);
		form_move(c->f, FORM_RIGHT, FORM_VALUE);
		leaf(c, FORM_VALUE, left);
	} else {
		struct form_mem temp;

		/* Compute the left operand before taking a temporary: expr_temps() counts so. */
		value_of(c, n->left);
		temp = form_temp(c->plan->expr_temp + c->temps++);
		form_store(c->f, FORM_VALUE, temp);
		value_of(c, n->right);
		form_move(c->f, FORM_RIGHT, FORM_VALUE);
		form_load(c->f, FORM_VALUE, temp, sizeof(uint64_t), false);
		c->temps--;
	}
}

static void compute(struct context *c, const struct arch_expr_node *n)
{
	static const enum form_op ops[] = {
		[ARCH_EXPR_ADD] = FORM_ADD,
		[ARCH_EXPR_SUB] = FORM_SUB,
		[ARCH_EXPR_MUL] = FORM_MUL,
		[ARCH_EXPR_DIV] = FORM_DIV,
		[ARCH_EXPR_MOD] = FORM_MOD,
		[ARCH_EXPR_SHL] = FORM_SHL,
		[ARCH_EXPR_SHR] = FORM_SHR,
		[ARCH_EXPR_AND] = FORM_AND,
		[ARCH_EXPR_OR] = FORM_OR,
		[ARCH_EXPR_XOR] = FORM_XOR,
	};
	const struct arch_expr_node *right = &c->nodes[n->right];
	enum form_op op = ops[n->kind];

	switch (n->kind) {
	case ARCH_EXPR_DIV:
	case ARCH_EXPR_MOD:
		operands(c, n);
		form_jump_if_const(c->f, n->wide, FORM_RIGHT, FORM_EQ, 0, c->bad);
		form_by_right(c->f, op, n->wide, n->is_signed);
		break;
	case ARCH_EXPR_SHL:
	case ARCH_EXPR_SHR:
		operands(c, n);
		form_by_right(c->f, op, n->wide, n->is_signed);
		break;
	case ARCH_EXPR_MUL:
		operands(c, n);
		form_two(c->f, op, n->wide, FORM_VALUE, FORM_RIGHT);
		break;
	default:
		if (is_small_constant(right)) {
			value_of(c, n->left);
			form_two_const(c->f, op, n->wide, FORM_VALUE, (int32_t)right->value);
		} else {
			operands(c, n);
			form_two(c->f, op, n->wide, FORM_VALUE, FORM_RIGHT);
		}
		break;
	}
	extend(c, n);
}

static void jump_if(struct context *c, int node, bool when, int label);

static void value_of(struct context *c, int node)
{
	const struct arch_expr_node *n = &c->nodes[node];

	if (arch_expr_is_leaf(n->kind)) {
		leaf(c, FORM_VALUE, n);
	} else if (is_condition(n)) {
		int is_false = form_label(c->f), done = form_label(c->f);

		jump_if(c, node, false, is_false);
		form_const(c->f, FORM_VALUE, 1);
		form_jump(c->f, done);
		form_place(c->f, is_false);
		form_const(c->f, FORM_VALUE, 0);
		form_place(c->f, done);
	} else if (arch_expr_is_binary(n->kind)) {
		compute(c, n);
	} else {
		value_of(c, n->left);
		if (n->kind != ARCH_EXPR_CONVERT)
			form_one(c->f, n->kind == ARCH_EXPR_NEGATE ? FORM_NEGATE : FORM_COMPLEMENT,
				n->wide, FORM_VALUE);
		extend(c, n);
	}
}

/* ---- Conditions ------------------------------------------------------------------ */

static void string_test(struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	int pair = c->plan->temp[n->capture], end = form_label(c->f);
	int differ = when ? end : label;
	size_t at = 0;

	form_load(c->f, FORM_VALUE, form_temp(pair + 1), sizeof(uint32_t), false);
	/* A truncated string's word has a flag, so it equals no complete string. */
	if (n->kind == ARCH_EXPR_STRING_BEGINS)
		form_two_const(c->f, FORM_AND, false, FORM_VALUE, RING_STRING_LENGTH);
	form_jump_if_const(c->f, false, FORM_VALUE,
		n->kind == ARCH_EXPR_STRING_IS ? FORM_NE : FORM_BELOW, n->text_length, differ);
	form_load(c->f, FORM_VALUE, form_temp(pair), sizeof(uint64_t), false);
	for (; n->text_length - at >= 8; at += 8) {
		uint64_t word = 0;

		for (int k = 7; k >= 0; k--)
			word = word << 8 | (uint8_t)n->text[at + k];
		FORM(c->f, .op = FORM_JUMP_UNLESS_BYTES, .mem = form_at(FORM_VALUE, (int32_t)at),
			.bytes = 8, .value = word, .label = differ);
	}
	for (; at < n->text_length; at++)
		FORM(c->f, .op = FORM_JUMP_UNLESS_BYTES, .mem = form_at(FORM_VALUE, (int32_t)at),
			.bytes = 1, .value = (uint8_t)n->text[at], .label = differ);
	if (when)
		form_jump(c->f, label);
	form_place(c->f, end);
}

/* Jumps to `label` if the list contains the operand or, if `when` is false, if it does not. */
static void list_test(struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	int end = form_label(c->f), found = when ? label : end;

	value_of(c, n->left);
	for (int i = 0; i < n->list_count; i++) {
		int64_t number = (int64_t)n->list[i];

		if (!n->wide || number == (int32_t)number) {
			form_jump_if_const(
				c->f, n->wide, FORM_VALUE, FORM_EQ, (int32_t)number, found);
		} else {
			form_const(c->f, FORM_RIGHT, n->list[i]);
			form_jump_if(c->f, true, FORM_VALUE, FORM_EQ, FORM_RIGHT, found);
		}
	}
	if (!when)
		form_jump(c->f, label);
	form_place(c->f, end);
}

static enum form_when condition(const struct arch_expr_node *n)
{
	switch (n->kind) {
	case ARCH_EXPR_LT:
		return n->is_signed ? FORM_LT : FORM_BELOW;
	case ARCH_EXPR_LE:
		return n->is_signed ? FORM_LE : FORM_NOT_ABOVE;
	case ARCH_EXPR_GT:
		return n->is_signed ? FORM_GT : FORM_ABOVE;
	case ARCH_EXPR_GE:
		return n->is_signed ? FORM_GE : FORM_NOT_BELOW;
	case ARCH_EXPR_EQ:
		return FORM_EQ;
	default:
		return FORM_NE;
	}
}

/* SCRATCH = a number that sorts like a node's double. Jumps to `unordered` for NaN. */
static void order_of(struct context *c, int node, int unordered)
{
	value_of(c, node);
	form_move(c->f, FORM_RIGHT, FORM_VALUE);
	/* RIGHT = twice the magnitude */
	form_two_const(c->f, FORM_SHL, true, FORM_RIGHT, 1);
	form_const(c->f, FORM_SCRATCH, UINT64_C(0x7ff) << 53 /* twice the bits of infinity */);
	form_jump_if(c->f, true, FORM_RIGHT, FORM_ABOVE, FORM_SCRATCH, unordered);
	form_move(c->f, FORM_RIGHT, FORM_VALUE);
	form_order_of_double(c->f);
}

static void double_comparison(
	struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	const struct arch_expr_node *right = &c->nodes[n->right];
	struct form_mem temp = form_temp(c->plan->expr_temp + c->temps);
	int end = form_label(c->f), left = FORM_SCRATCH, other = FORM_RIGHT;
	int unordered = (n->kind == ARCH_EXPR_NE) == when ? label : end;

	order_of(c, n->left, unordered);
	if (right->kind == ARCH_EXPR_CONST) {
		form_const(c->f, FORM_RIGHT, cell_order_of(right->value));
	} else {
		form_store(c->f, FORM_SCRATCH, temp);
		order_of(c, n->right, unordered);
		form_load(c->f, FORM_VALUE, temp, sizeof(uint64_t), false);
		left = FORM_VALUE;
		other = FORM_SCRATCH;
	}
	form_jump_if(c->f, true, left, condition(n) ^ !when, other, label);
	form_place(c->f, end);
}

static void comparison(struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	const struct arch_expr_node *right = &c->nodes[n->right];
	enum form_when holds = condition(n) ^ !when;

	if (n->is_double) {
		double_comparison(c, n, when, label);
	} else if (is_small_constant(right)) {
		value_of(c, n->left);
		form_jump_if_const(c->f, n->wide, FORM_VALUE, holds, (int32_t)right->value, label);
	} else {
		operands(c, n);
		form_jump_if(c->f, n->wide, FORM_VALUE, holds, FORM_RIGHT, label);
	}
}

/* Jumps to `label` if the node's truth value equals `when`. */
static void jump_if(struct context *c, int node, bool when, int label)
{
	const struct arch_expr_node *n = &c->nodes[node];
	/* the operand's value that alone decides the result */
	bool decided = n->kind == ARCH_EXPR_EITHER;

	if (arch_expr_is_string_test(n->kind)) {
		string_test(c, n, when, label);
	} else if (n->kind == ARCH_EXPR_IN) {
		list_test(c, n, when, label);
	} else if (n->kind == ARCH_EXPR_NOT) {
		jump_if(c, n->left, !when, label);
	} else if (n->kind == ARCH_EXPR_BOTH || n->kind == ARCH_EXPR_EITHER) {
		int end = form_label(c->f);

		jump_if(c, n->left, decided, when == decided ? label : end);
		jump_if(c, n->right, when, label);
		form_place(c->f, end);
	} else if (is_condition(n)) {
		comparison(c, n, when, label);
	} else {
		value_of(c, node);
		form_jump_if_const(c->f, true, FORM_VALUE, when ? FORM_NE : FORM_EQ, 0, label);
	}
}

/* ---- Whole expressions ------------------------------------------------------------- */

/* VALUE is a string's word: jumps to `bad` if no byte was readable. */
static void need_word(struct context *c)
{
	_Static_assert(RING_STRING_NULL_BIT == 31, "as a number, it is negative");
	form_jump_if_const(c->f, false, FORM_VALUE, FORM_LT, 0, c->bad);
}

/* Jumps to `bad` if a capture of the expression is unreadable. */
static void need_captures(struct context *c, const struct arch_expr *expr)
{
	const struct stub_plan *p = c->plan;
	uint32_t used = expr_captures(expr), checked = used & p->checked;

	for (int i = 0; i < p->stub->capture_count; i++) {
		const struct arch_capture *capture = &p->stub->captures[i];

		if (!(used >> i & 1))
			continue;
		if (capture->is_string) {
			form_load(c->f, FORM_VALUE, form_temp(p->temp[i] + 1), sizeof(uint32_t),
				false);
			need_word(c);
		} else if (capture->begun) {
			form_load(c->f, FORM_VALUE, form_temp(p->at->kept_temp), sizeof(uint64_t),
				false);
			form_load(c->f, FORM_VALUE, form_at(FORM_VALUE, capture->begun),
				sizeof(uint32_t), false);
			need_word(c);
		}
	}
	if (!checked)
		return;
	form_load(c->f, FORM_VALUE, form_temp(p->mask_temp), sizeof(uint32_t), false);
	form_two_const(c->f, FORM_AND, false, FORM_VALUE, (int32_t)checked);
	form_jump_if_const(c->f, false, FORM_VALUE, FORM_NE, (int32_t)checked, c->bad);
}

void form_expr(struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int bad)
{
	struct context c = {f, plan, expr->nodes, 0, bad};

	need_captures(&c, expr);
	value_of(&c, expr->count - 1);
}

void form_filter(
	struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int reject)
{
	struct context c = {f, plan, expr->nodes, 0, reject};

	need_captures(&c, expr);
	jump_if(&c, expr->count - 1, false, reject);
}
