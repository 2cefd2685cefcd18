/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <string.h>

#include "tests/unit/expr_interpreter.h"

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

static bool compare(const struct arch_expr_node *node, union number a, union number b)
{
	int order;

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
	return string->length >= node->text_length &&
	       memcmp(string->bytes, node->text, node->text_length) == 0;
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
	case ARCH_EXPR_TID:
		*ret = (uint64_t)(int64_t)input->tid;
		break;
	case ARCH_EXPR_PID:
		*ret = (uint64_t)(int64_t)input->pid;
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
	} else {
		*ret = modular(node, *ret, 0);
	}
	return true;
}

static bool has_capture(const struct arch_expr_node *node)
{
	return node->kind == ARCH_EXPR_CAPTURE || node->kind == ARCH_EXPR_STRING_IS ||
	       node->kind == ARCH_EXPR_STRING_BEGINS;
}

bool expr_interpret(const struct arch_expr *expr, const struct expr_input *input, uint64_t *ret)
{
	for (uint8_t i = 0; i < expr->count; i++)
		if (has_capture(&expr->nodes[i]) && input->unreadable >> expr->nodes[i].capture & 1)
			return false;
	return evaluate(expr->nodes, expr->count - 1, input, ret);
}

/* ---- Properties of trees ------------------------------------------------------------------ */

static bool is_signed_int(const struct arch_expr_node *node)
{
	return !node->wide && node->is_signed;
}

/* Whether the value of `operand` can be used unchanged as one of the node's type. */
static bool is_converted(const struct arch_expr_node *operand, const struct arch_expr_node *node)
{
	bool is_int = operand->kind == ARCH_EXPR_NOT || operand->kind >= ARCH_EXPR_LT ||
		      operand->kind == ARCH_EXPR_STRING_IS ||
		      operand->kind == ARCH_EXPR_STRING_BEGINS || is_signed_int(operand);

	if (node->wide)
		return is_int || !operand->wide || operand->is_signed || !node->is_signed;
	return is_int ? node->is_signed : !operand->wide && !node->is_signed;
}

static const char *check_operands(
	const struct arch_expr_node *nodes, uint8_t index, uint8_t depths[])
{
	const struct arch_expr_node *node = &nodes[index];
	bool is_binary = node->kind >= ARCH_EXPR_ADD;
	bool is_shift = node->kind == ARCH_EXPR_SHL || node->kind == ARCH_EXPR_SHR;
	bool is_free = node->kind == ARCH_EXPR_CONVERT || node->kind >= ARCH_EXPR_BOTH;

	if (node->left >= index || (is_binary && node->right >= index))
		return "an operand stands behind its operator";
	if (!is_free && !is_converted(&nodes[node->left], node))
		return "the left operand has another type";
	if (is_binary && !is_free && !is_shift && !is_converted(&nodes[node->right], node))
		return "the right operand has another type";
	if (is_binary && nodes[node->left].kind == ARCH_EXPR_CONST &&
		nodes[node->right].kind == ARCH_EXPR_CONST)
		return "constants were left to be computed at each hit";
	depths[index] = depths[node->left] + 1;
	if (is_binary && depths[index] <= depths[node->right])
		depths[index] = depths[node->right] + 1;
	return depths[index] > ARCH_EXPR_DEPTH_MAX ? "it is too deep" : NULL;
}

const char *expr_ill_formed(const struct arch_expr *expr, uint8_t capture_count, uint64_t strings)
{
	uint8_t depths[ARCH_EXPR_NODES_MAX] = {0};
	uint8_t uses[ARCH_EXPR_NODES_MAX] = {0};

	if (!expr->count || expr->count > ARCH_EXPR_NODES_MAX)
		return "the number of nodes is out of range";
	for (uint8_t i = 0; i < expr->count; i++) {
		const struct arch_expr_node *node = &expr->nodes[i];
		const char *why;

		if (has_capture(node) && node->capture >= capture_count)
			return "there is no such capture";
		if (has_capture(node) &&
			(strings >> node->capture & 1) != (node->kind != ARCH_EXPR_CAPTURE))
			return "the capture is of the other kind";
		if (node->kind == ARCH_EXPR_CONST &&
			to_word(node, from_word(node, node->value)) != node->value)
			return "a constant is not held as its type is";
		if (node->kind < ARCH_EXPR_NEGATE)
			continue;
		why = check_operands(expr->nodes, i, depths);
		if (why)
			return why;
		uses[node->left]++;
		if (node->kind >= ARCH_EXPR_ADD)
			uses[node->right]++;
	}
	for (uint8_t i = 0; i < expr->count; i++)
		if (uses[i] != (i < expr->count - 1))
			return "a node is not used once";
	return NULL;
}

/* ---- Cases -------------------------------------------------------------------------------- */

struct probe_error *expr_case_init(struct expr_case *c, const char *args, const char *text)
{
	static const struct probe_session_options options = {.string_bytes = 0};
	static const struct capture none = {0};
	struct probe_error *error;
	uint8_t count;

	*c = (struct expr_case){0};
	record_layout_site_init(&c->site, arch_of_machine(EM_X86_64), &c->module, args);
	record_layout_init(&c->layout, &c->site, &none, 0, &options);
	error = expr_parse("the filter", text, &c->expr);
	if (error)
		return error;
	error = expr_bind(c->expr, &c->layout, &c->site, c->nodes, &count);
	if (error) {
		expr_case_deinit(c);
		return error;
	}
	c->bound = (struct arch_expr){.nodes = c->nodes, .count = count};
	return NULL;
}

void expr_case_deinit(struct expr_case *c)
{
	expr_free(c->expr);
	c->expr = NULL;
}

unsigned int expr_case_arg(const struct expr_case *c, uint8_t capture)
{
	unsigned int arg = 0;

	while (c->site.specs[arg].spec != c->layout.captures[capture].arg.spec)
		arg++;
	return arg;
}

uint64_t expr_case_strings(const struct expr_case *c)
{
	uint64_t strings = 0;

	for (uint8_t i = 0; i < c->layout.capture_count; i++)
		strings |= (uint64_t)c->layout.captures[i].is_string << i;
	return strings;
}
