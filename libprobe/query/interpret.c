/* SPDX-License-Identifier: MIT */
/*
 * Evaluates bound expressions outside the target, over what a record holds. It shares no code
 * with the parser or with what generates the stubs' code: tests compare both with it.
 */
#include <string.h>

#include "libprobe/query/query.h"

/* ---- Values ------------------------------------------------------------------------------- */

/* A value of one of the four types; the node says which. */
union number {
	int32_t i;
	uint32_t u;
	int64_t l;
	uint64_t ul;
};

static union number from_word(const struct arch_expr_node *type, uint64_t word)
{
	union number n = {0};

	if (type->wide)
		n.ul = word;
	else
		n.u = (uint32_t)word;
	return n;
}

static uint64_t to_word(const struct arch_expr_node *type, union number n)
{
	if (type->wide)
		return n.ul;
	return type->is_signed ? (uint64_t)(int64_t)n.i : n.u;
}

/* Negative, zero or positive, as a compares to b. */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static bool compare_doubles(enum arch_expr_kind kind, uint64_t left, uint64_t right)
{
	double a, b;

	memcpy(&a, &left, sizeof(a));
	memcpy(&b, &right, sizeof(b));
	switch (kind) {
	case ARCH_EXPR_LT:
		return a < b;
	case ARCH_EXPR_LE:
		return a <= b;
	case ARCH_EXPR_GT:
		return a > b;
	case ARCH_EXPR_GE:
		return a >= b;
	case ARCH_EXPR_EQ:
		return a == b;
	default:
		return a != b;
	}
}

static bool compare(const struct arch_expr_node *node, union number a, union number b)
{
	int order;

	if (node->is_double)
		return compare_doubles(node->kind, a.ul, b.ul);

	if (node->wide)
		order = node->is_signed ? ORDER(a.l, b.l) : ORDER(a.ul, b.ul);
	else
		order = node->is_signed ? ORDER(a.i, b.i) : ORDER(a.u, b.u);
	switch (node->kind) {
	case ARCH_EXPR_LT:
		return order < 0;
	case ARCH_EXPR_LE:
		return order <= 0;
	case ARCH_EXPR_GT:
		return order > 0;
	case ARCH_EXPR_GE:
		return order >= 0;
	case ARCH_EXPR_EQ:
		return order == 0;
	default:
		return order != 0;
	}
}

/* False on division by 0. The smallest number divided by -1 is itself, remainder 0. */
static bool divide(const struct arch_expr_node *node, union number a, union number b, uint64_t *ret)
{
	bool is_mod = node->kind == ARCH_EXPR_MOD;
	bool by_minus_one = node->is_signed && (node->wide ? b.l == -1 : b.i == -1);
	union number zero = {0}, result = {0};

	if (node->wide ? b.ul == 0 : b.u == 0)
		return false;
	if (by_minus_one && is_mod)
		result = zero;
	else if (by_minus_one && node->wide)
		result.ul = 0 - a.ul;
	else if (by_minus_one)
		result.u = 0 - a.u;
	else if (node->wide && node->is_signed)
		result.l = is_mod ? a.l % b.l : a.l / b.l;
	else if (node->wide)
		result.ul = is_mod ? a.ul % b.ul : a.ul / b.ul;
	else if (node->is_signed)
		result.i = is_mod ? a.i % b.i : a.i / b.i;
	else
		result.u = is_mod ? a.u % b.u : a.u / b.u;
	*ret = to_word(node, result);
	return true;
}

static uint64_t shift(const struct arch_expr_node *node, union number a, uint64_t count)
{
	union number result = {0};

	if (node->kind == ARCH_EXPR_SHL && node->wide)
		result.ul = a.ul << count % 64;
	else if (node->kind == ARCH_EXPR_SHL)
		result.u = a.u << count % 32;
	else if (node->wide && node->is_signed)
		result.l = a.l >> count % 64;
	else if (node->wide)
		result.ul = a.ul >> count % 64;
	else if (node->is_signed)
		result.i = a.i >> count % 32;
	else
		result.u = a.u >> count % 32;
	return to_word(node, result);
}

/* Operations whose result does not depend on the sign (two's complement). */
static uint64_t modular(const struct arch_expr_node *node, uint64_t a, uint64_t b)
{
	uint64_t result;

	switch (node->kind) {
	case ARCH_EXPR_NEGATE:
		result = 0 - a;
		break;
	case ARCH_EXPR_COMPLEMENT:
		result = ~a;
		break;
	case ARCH_EXPR_ADD:
		result = a + b;
		break;
	case ARCH_EXPR_SUB:
		result = a - b;
		break;
	case ARCH_EXPR_MUL:
		result = a * b;
		break;
	case ARCH_EXPR_AND:
		result = a & b;
		break;
	case ARCH_EXPR_OR:
		result = a | b;
		break;
	case ARCH_EXPR_XOR:
		result = a ^ b;
		break;
	default: /* ARCH_EXPR_CONVERT */
		result = a;
		break;
	}
	return to_word(node, from_word(node, result));
}

/* ---- Trees -------------------------------------------------------------------------------- */

static bool evaluate(const struct arch_expr_node *nodes, uint8_t index,
	const struct expr_input *input, uint64_t *ret);

static bool string_matches(const struct arch_expr_node *node, const struct expr_string *string)
{
	if (node->kind == ARCH_EXPR_STRING_IS && string->length != node->text_length)
		return false;
	/* An empty string has no bytes. */
	return string->length >= node->text_length &&
	       (!node->text_length || memcmp(string->bytes, node->text, node->text_length) == 0);
}

/* The bits of a double, whose bits, or those of a float, were captured. */
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

static void evaluate_leaf(
	const struct arch_expr_node *node, const struct expr_input *input, uint64_t *ret)
{
	switch (node->kind) {
	case ARCH_EXPR_CONST:
		*ret = node->value;
		break;
	case ARCH_EXPR_CAPTURE:
		*ret = input->words[node->capture];
		break;
	case ARCH_EXPR_DOUBLE:
	case ARCH_EXPR_FLOAT:
		*ret = double_bits(node->kind, input->words[node->capture]);
		break;
	case ARCH_EXPR_TID:
		*ret = (uint64_t)(int64_t)input->tid;
		break;
	case ARCH_EXPR_PID:
		*ret = (uint64_t)(int64_t)input->pid;
		break;
	case ARCH_EXPR_DURATION:
		*ret = input->duration;
		break;
	case ARCH_EXPR_CPU:
		*ret = (uint64_t)(int64_t)input->cpu;
		break;
	default:
		*ret = string_matches(node, &input->strings[node->capture]);
		break;
	}
}

static bool evaluate_binary(const struct arch_expr_node *nodes, uint8_t index,
	const struct expr_input *input, uint64_t *ret)
{
	const struct arch_expr_node *node = &nodes[index];
	union number a, b;
	uint64_t left, right;

	if (!evaluate(nodes, node->left, input, &left) ||
		!evaluate(nodes, node->right, input, &right))
		return false;
	a = from_word(node, left);
	b = from_word(node, right);
	if (node->kind == ARCH_EXPR_DIV || node->kind == ARCH_EXPR_MOD)
		return divide(node, a, b, ret);
	if (node->kind == ARCH_EXPR_SHL || node->kind == ARCH_EXPR_SHR)
		*ret = shift(node, a, right);
	else if (node->kind >= ARCH_EXPR_LT && node->kind <= ARCH_EXPR_NE)
		*ret = compare(node, a, b);
	else
		*ret = modular(node, left, right);
	return true;
}

static bool is_listed(const struct arch_expr_node *node, uint64_t value)
{
	for (size_t i = 0; i < node->list_count; i++) {
		union number a = from_word(node, value), b = from_word(node, node->list[i]);

		if (node->wide ? a.ul == b.ul : a.u == b.u)
			return true;
	}
	return false;
}

static bool evaluate(const struct arch_expr_node *nodes, uint8_t index,
	const struct expr_input *input, uint64_t *ret)
{
	const struct arch_expr_node *node = &nodes[index];

	if (node->kind < ARCH_EXPR_NEGATE) {
		evaluate_leaf(node, input, ret);
		return true;
	}
	if (node->kind >= ARCH_EXPR_ADD && node->kind <= ARCH_EXPR_NE)
		return evaluate_binary(nodes, index, input, ret);
	if (!evaluate(nodes, node->left, input, ret))
		return false;
	if (node->kind == ARCH_EXPR_BOTH || node->kind == ARCH_EXPR_EITHER) {
		if ((*ret != 0) == (node->kind == ARCH_EXPR_BOTH) &&
			!evaluate(nodes, node->right, input, ret))
			return false;
		*ret = *ret != 0;
	} else if (node->kind == ARCH_EXPR_NOT) {
		*ret = *ret == 0;
	} else if (node->kind == ARCH_EXPR_IN) {
		*ret = is_listed(node, *ret);
	} else {
		*ret = modular(node, *ret, 0);
	}
	return true;
}

static bool has_capture(const struct arch_expr_node *node)
{
	return node->kind == ARCH_EXPR_CAPTURE || node->kind == ARCH_EXPR_DOUBLE ||
	       node->kind == ARCH_EXPR_FLOAT || node->kind == ARCH_EXPR_STRING_IS ||
	       node->kind == ARCH_EXPR_STRING_BEGINS;
}

bool expr_interpret(const struct arch_expr *expr, const struct expr_input *input, uint64_t *ret)
{
	for (uint8_t i = 0; i < expr->count; i++)
		if (has_capture(&expr->nodes[i]) && input->unreadable >> expr->nodes[i].capture & 1)
			return false;
	return evaluate(expr->nodes, expr->count - 1, input, ret);
}

struct probe_value expr_record_value(const struct arch_expr *expr,
	const struct record_layout *layout, const uint8_t *record, int32_t tid, int32_t pid,
	int32_t cpu)
{
	const struct arch_expr_node *last = &expr->nodes[expr->count - 1];
	struct record_layout_captured captured[ARCH_ARGS_MAX];
	struct expr_string strings[ARCH_ARGS_MAX] = {0};
	uint64_t words[ARCH_ARGS_MAX] = {0}, value;
	struct expr_input input = {
		.words = words, .strings = strings, .tid = tid, .pid = pid, .cpu = cpu};

	record_layout_captures(layout, record, captured);
	for (size_t i = 0; i < layout->recorded; i++) {
		words[i] = captured[i].word;
		strings[i] =
			(struct expr_string){(const char *)captured[i].bytes, captured[i].length};
		input.unreadable |= (uint64_t)captured[i].is_null << i;
	}
	if (!expr_interpret(expr, &input, &value))
		return (struct probe_value){.kind = PROBE_VALUE_NULL};
	return (struct probe_value){
		.kind = expr_is_signed(last) ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED,
		.u = value};
}
