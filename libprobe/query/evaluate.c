/* SPDX-License-Identifier: MIT */
/*
 * The values of expressions outside the target: constants, and bound expressions over a record.
 *
 * C's types and operators (C11, 6.3.1.1, 6.3.1.8 and 6.5) on the four integer types, each in 64
 * bits (arch/expr.h). Where C leaves a result undefined, stubs and this file compute the result
 * that arch/expr.h defines. On constants alone, that would hide a mistake ("1 << 40" would be 256),
 * so expr_compute() also says why C has no result.
 *
 * The stubs' code generator shares no code with this file, because tests compare the two.
 */
#include <string.h>

#include "libprobe/query/query.h"

/* ---- Types ----------------------------------------------------------------------------- */

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
	if (left.wide != right.wide) /* a long can hold each unsigned int */
		return left.wide ? left : right;
	left.is_signed &= right.is_signed;
	return left;
}

struct expr_type expr_result_type(enum arch_expr_kind kind, struct expr_type type)
{
	bool is_truth = arch_expr_is_string_test(kind) || kind == ARCH_EXPR_NOT ||
			kind == ARCH_EXPR_IN || kind >= ARCH_EXPR_LT;

	return is_truth ? type_int : type;
}

bool expr_is_signed(const struct arch_expr_node *last)
{
	struct expr_type type = {.wide = last->wide, .is_signed = last->is_signed};

	return expr_result_type(last->kind, type).is_signed;
}

/* ---- Operators ------------------------------------------------------------------------- */

/* The result of a comparison; a NaN is neither less than another number, nor equal, nor greater. */
static bool compare(enum arch_expr_kind kind, bool is_less, bool is_equal, bool is_greater)
{
	switch (kind) {
	case ARCH_EXPR_LT:
		return is_less;
	case ARCH_EXPR_LE:
		return is_less || is_equal;
	case ARCH_EXPR_GT:
		return is_greater;
	case ARCH_EXPR_GE:
		return is_greater || is_equal;
	case ARCH_EXPR_EQ:
		return is_equal;
	default: /* ARCH_EXPR_NE */
		return !is_equal;
	}
}

/* Computes an operator that has a result for all operands. */
static uint64_t compute_total(
	enum arch_expr_kind kind, struct expr_type type, uint64_t left, uint64_t right)
{
	__int128 a = type.is_signed ? (int64_t)left : (__int128)left;
	__int128 b = type.is_signed ? (int64_t)right : (__int128)right;

	switch (kind) {
	case ARCH_EXPR_COMPLEMENT:
		return expr_convert(type, ~left);
	case ARCH_EXPR_NOT:
		return !left;
	case ARCH_EXPR_SHL:
		return expr_convert(type, left << right);
	case ARCH_EXPR_SHR:
		return (uint64_t)(a >> right);
	case ARCH_EXPR_AND:
		return left & right;
	case ARCH_EXPR_OR:
		return left | right;
	case ARCH_EXPR_XOR:
		return left ^ right;
	case ARCH_EXPR_LT:
	case ARCH_EXPR_LE:
	case ARCH_EXPR_GT:
	case ARCH_EXPR_GE:
	case ARCH_EXPR_EQ:
	case ARCH_EXPR_NE:
		return compare(kind, a<b, left == right, a> b);
	case ARCH_EXPR_BOTH:
		return left && right;
	case ARCH_EXPR_EITHER:
		return left || right;
	default: /* ARCH_EXPR_CONVERT */
		return expr_convert(type, left);
	}
}

/* Computes the exact result of arithmetic; the divisor is not 0. */
static __int128 compute_exact(enum arch_expr_kind kind, __int128 a, __int128 b)
{
	switch (kind) {
	case ARCH_EXPR_NEGATE:
		return -a;
	case ARCH_EXPR_ADD:
		return a + b;
	case ARCH_EXPR_SUB:
		return a - b;
	case ARCH_EXPR_MUL:
		/* An unsigned product may need all 128 bits. */
		return (__int128)((unsigned __int128)a * (unsigned __int128)b);
	case ARCH_EXPR_DIV:
		return a / b;
	default:
		return a % b;
	}
}

static bool is_arithmetic(enum arch_expr_kind kind)
{
	return kind == ARCH_EXPR_NEGATE || (kind >= ARCH_EXPR_ADD && kind <= ARCH_EXPR_MOD);
}

const char *expr_compute(enum arch_expr_kind kind, struct expr_type type, uint64_t left,
	uint64_t right, uint64_t *ret)
{
	unsigned int bits = type.wide ? 64 : 32;
	__int128 exact;

	if (is_shift(kind)) {
		*ret = compute_total(kind, type, left, right % bits);
		/* A negative count is a huge unsigned number in this comparison. */
		if (right < bits)
			return NULL;
		return type.wide ? "a number of 64 bits can be shifted by 0 to 63"
				 : "a number of 32 bits can be shifted by 0 to 31 (1l has 64 bits)";
	}
	if (!is_arithmetic(kind)) {
		*ret = compute_total(kind, type, left, right);
		return NULL;
	}
	if ((kind == ARCH_EXPR_DIV || kind == ARCH_EXPR_MOD) && !right)
		return "division by 0";
	exact = type.is_signed ? compute_exact(kind, (int64_t)left, (int64_t)right)
			       : compute_exact(kind, left, right);
	*ret = expr_convert(type, (uint64_t)exact);
	if (!type.is_signed || exact == (int64_t)*ret)
		return NULL;
	return type.wide ? "the result does not fit 64 bits"
			 : "the result does not fit 32 bits (1l has 64 bits)";
}

/* ---- Trees ----------------------------------------------------------------------------- */

static bool string_matches(const struct arch_expr_node *node, const struct expr_string *string)
{
	if (node->kind == ARCH_EXPR_STRING_IS && string->length != node->text_length)
		return false;
	/* An empty string may have NULL as its bytes. */
	return string->length >= node->text_length &&
	       (!node->text_length || memcmp(string->bytes, node->text, node->text_length) == 0);
}

/* Converts a captured double or float to a double, all as bits. */
static uint64_t double_bits(enum arch_expr_kind kind, uint64_t word)
{
	double value;
	float single;

	if (kind == ARCH_EXPR_FLOAT) {
		memcpy(&single, &word, sizeof(single));
		value = single;
	} else {
		memcpy(&value, &word, sizeof(value));
	}
	if (value == 0)
		value = 0;
	memcpy(&word, &value, sizeof(word));
	return word;
}

static uint64_t evaluate_leaf(const struct arch_expr_node *node, const struct expr_input *input)
{
	switch (node->kind) {
	case ARCH_EXPR_CONST:
		return node->value;
	case ARCH_EXPR_CAPTURE:
		return input->words[node->capture];
	case ARCH_EXPR_DOUBLE:
	case ARCH_EXPR_FLOAT:
		return double_bits(node->kind, input->words[node->capture]);
	case ARCH_EXPR_TID:
		return (uint64_t)(int64_t)input->tid;
	case ARCH_EXPR_PID:
		return (uint64_t)(int64_t)input->pid;
	case ARCH_EXPR_DURATION:
		return input->duration;
	case ARCH_EXPR_CPU:
		return (uint64_t)(int64_t)input->cpu;
	default:
		return string_matches(node, &input->strings[node->capture]);
	}
}

static bool evaluate(const struct arch_expr_node *nodes, uint8_t index,
	const struct expr_input *input, uint64_t *ret)
{
	const struct arch_expr_node *node = &nodes[index];
	struct expr_type type = {.wide = node->wide, .is_signed = node->is_signed};
	uint64_t left, right = 0;
	double a, b;

	if (node->kind < ARCH_EXPR_NEGATE) {
		*ret = evaluate_leaf(node, input);
		return true;
	}
	if (!evaluate(nodes, node->left, input, &left))
		return false;
	if (node->kind == ARCH_EXPR_IN) {
		*ret = false;
		for (size_t i = 0; i < node->list_count; i++)
			*ret |= expr_convert(type, node->list[i]) == expr_convert(type, left);
		return true;
	}
	/* Skip an operand that does not decide the result, because it may divide by 0. */
	if ((node->kind == ARCH_EXPR_BOTH && !left) || (node->kind == ARCH_EXPR_EITHER && left)) {
		*ret = left != 0;
		return true;
	}
	if (arch_expr_is_binary(node->kind) && !evaluate(nodes, node->right, input, &right))
		return false;
	if (node->is_double) {
		memcpy(&a, &left, sizeof(a));
		memcpy(&b, &right, sizeof(b));
		*ret = compare(node->kind, a<b, a == b, a> b);
		return true;
	}
	expr_compute(node->kind, type, left, right, ret);
	return right || (node->kind != ARCH_EXPR_DIV && node->kind != ARCH_EXPR_MOD);
}

bool expr_evaluate(const struct arch_expr *expr, const struct expr_input *input, uint64_t *ret)
{
	for (uint8_t i = 0; i < expr->count; i++) {
		const struct arch_expr_node *node = &expr->nodes[i];

		if ((arch_expr_is_capture(node->kind) || arch_expr_is_string_test(node->kind)) &&
			input->unreadable >> node->capture & 1)
			return false;
	}
	return evaluate(expr->nodes, expr->count - 1, input, ret);
}
