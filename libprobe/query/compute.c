/* SPDX-License-Identifier: MIT */
/*
 * C's types and constants: integer promotions, the usual arithmetic conversions (C11, 6.3.1.1
 * and 6.3.1.8) and operators on constants.
 *
 * Where C leaves a result undefined, a stub yields what arch/expr.h says. Between constants
 * that would only hide a mistake ("1 << 40" is 256), so it is an error.
 */
#include <string.h>

#include "libprobe/query/query.h"

static const struct expr_type type_int = {.wide = false, .is_signed = true};

uint64_t expr_convert(struct expr_type type, uint64_t value)
{
	if (type.wide)
		return value;
	return type.is_signed ? (uint64_t)(int64_t)(int32_t)value : (uint32_t)value;
}

static bool is_shift(enum arch_expr_kind kind)
{
	return kind == ARCH_EXPR_SHL || kind == ARCH_EXPR_SHR;
}

bool expr_compares(enum arch_expr_kind kind)
{
	return kind >= ARCH_EXPR_LT && kind <= ARCH_EXPR_NE;
}

uint64_t expr_double_of(struct expr_type type, uint64_t value)
{
	double number;
	uint64_t bits;

	if (type.is_double)
		memcpy(&number, &value, sizeof(number));
	else
		number = type.is_signed ? (double)(int64_t)value : (double)value;
	number = number == 0 ? 0 : number;
	memcpy(&bits, &number, sizeof(bits));
	return bits;
}

bool expr_converts(enum arch_expr_kind kind)
{
	return !is_shift(kind) && kind != ARCH_EXPR_BOTH && kind != ARCH_EXPR_EITHER;
}

struct expr_type expr_operator_type(
	enum arch_expr_kind kind, struct expr_type left, struct expr_type right)
{
	if (kind == ARCH_EXPR_BOTH || kind == ARCH_EXPR_EITHER)
		return type_int;
	if (left.is_double || right.is_double)
		return expr_double;
	if (is_shift(kind))
		return left;
	if (left.wide != right.wide) /* long holds every unsigned int */
		return left.wide ? left : right;
	left.is_signed &= right.is_signed;
	return left;
}

struct expr_type expr_result_type(enum arch_expr_kind kind, struct expr_type type)
{
	switch (kind) {
	case ARCH_EXPR_STRING_IS:
	case ARCH_EXPR_STRING_BEGINS:
	case ARCH_EXPR_NOT:
	case ARCH_EXPR_IN:
	case ARCH_EXPR_LT:
	case ARCH_EXPR_LE:
	case ARCH_EXPR_GT:
	case ARCH_EXPR_GE:
	case ARCH_EXPR_EQ:
	case ARCH_EXPR_NE:
	case ARCH_EXPR_BOTH:
	case ARCH_EXPR_EITHER:
		return type_int;
	default:
		return type;
	}
}

static const char *compute_signed(
	enum arch_expr_kind kind, struct expr_type type, int64_t a, int64_t b, int64_t *ret)
{
	bool overflows = false;

	switch (kind) {
	case ARCH_EXPR_NEGATE:
		overflows = __builtin_sub_overflow(INT64_C(0), a, ret);
		break;
	case ARCH_EXPR_ADD:
		overflows = __builtin_add_overflow(a, b, ret);
		break;
	case ARCH_EXPR_SUB:
		overflows = __builtin_sub_overflow(a, b, ret);
		break;
	case ARCH_EXPR_MUL:
		overflows = __builtin_mul_overflow(a, b, ret);
		break;
	case ARCH_EXPR_DIV:
		overflows = b == -1 && a == INT64_MIN;
		*ret = overflows ? a : a / b;
		break;
	default:
		*ret = b == -1 ? 0 : a % b;
		break;
	}
	overflows |= (uint64_t)*ret != expr_convert(type, (uint64_t)*ret);
	if (overflows)
		return type.wide ? "the result does not fit 64 bits"
				 : "the result does not fit 32 bits (1l has 64 bits)";
	return NULL;
}

static uint64_t compute_unsigned(enum arch_expr_kind kind, uint64_t a, uint64_t b)
{
	switch (kind) {
	case ARCH_EXPR_NEGATE:
		return -a;
	case ARCH_EXPR_ADD:
		return a + b;
	case ARCH_EXPR_SUB:
		return a - b;
	case ARCH_EXPR_MUL:
		return a * b;
	case ARCH_EXPR_DIV:
		return a / b;
	default:
		return a % b;
	}
}

static const char *compute_arithmetic(
	enum arch_expr_kind kind, struct expr_type type, uint64_t a, uint64_t b, uint64_t *ret)
{
	const char *why;
	int64_t result;

	if ((kind == ARCH_EXPR_DIV || kind == ARCH_EXPR_MOD) && !b)
		return "division by 0";
	if (!type.is_signed) {
		*ret = expr_convert(type, compute_unsigned(kind, a, b));
		return NULL;
	}
	why = compute_signed(kind, type, (int64_t)a, (int64_t)b, &result);
	*ret = (uint64_t)result;
	return why;
}

static bool is_less(struct expr_type type, uint64_t a, uint64_t b)
{
	return type.is_signed ? (int64_t)a < (int64_t)b : a < b;
}

const char *expr_compute(enum arch_expr_kind kind, struct expr_type type, uint64_t left,
	uint64_t right, uint64_t *ret)
{
	if (is_shift(kind) && right >= (type.wide ? 64 : 32)) /* negative ones, too */
		return type.wide ? "a number of 64 bits can be shifted by 0 to 63"
				 : "a number of 32 bits can be shifted by 0 to 31 (1l has 64 bits)";
	switch (kind) {
	case ARCH_EXPR_COMPLEMENT:
		*ret = expr_convert(type, ~left);
		return NULL;
	case ARCH_EXPR_NOT:
		*ret = !left;
		return NULL;
	case ARCH_EXPR_SHL:
		*ret = expr_convert(type, left << right);
		return NULL;
	case ARCH_EXPR_SHR:
		*ret = type.is_signed ? (uint64_t)((int64_t)left >> right) : left >> right;
		return NULL;
	case ARCH_EXPR_AND:
		*ret = left & right;
		return NULL;
	case ARCH_EXPR_OR:
		*ret = left | right;
		return NULL;
	case ARCH_EXPR_XOR:
		*ret = left ^ right;
		return NULL;
	case ARCH_EXPR_LT:
		*ret = is_less(type, left, right);
		return NULL;
	case ARCH_EXPR_LE:
		*ret = !is_less(type, right, left);
		return NULL;
	case ARCH_EXPR_GT:
		*ret = is_less(type, right, left);
		return NULL;
	case ARCH_EXPR_GE:
		*ret = !is_less(type, left, right);
		return NULL;
	case ARCH_EXPR_EQ:
		*ret = left == right;
		return NULL;
	case ARCH_EXPR_NE:
		*ret = left != right;
		return NULL;
	case ARCH_EXPR_BOTH:
		*ret = left && right;
		return NULL;
	case ARCH_EXPR_EITHER:
		*ret = left || right;
		return NULL;
	default:
		return compute_arithmetic(kind, type, left, right, ret);
	}
}
