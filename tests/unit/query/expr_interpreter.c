/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <string.h>

#include "tests/unit/query/expr_interpreter.h"

/* ---- Properties of trees ------------------------------------------------------------------ */

static bool is_double(const struct arch_expr_node *node)
{
	return node->kind == ARCH_EXPR_DOUBLE || node->kind == ARCH_EXPR_FLOAT;
}

static bool is_string_test(const struct arch_expr_node *node)
{
	return node->kind == ARCH_EXPR_STRING_IS || node->kind == ARCH_EXPR_STRING_BEGINS;
}

static bool has_capture(const struct arch_expr_node *node)
{
	return node->kind == ARCH_EXPR_CAPTURE || is_double(node) || is_string_test(node);
}

/* Is a constant of 32 bits extended as its type says? */
static bool is_held(const struct arch_expr_node *node)
{
	if (node->wide)
		return true;
	return node->value ==
	       (node->is_signed ? (uint64_t)(int64_t)(int32_t)node->value : (uint32_t)node->value);
}

static bool is_signed_int(const struct arch_expr_node *node)
{
	return !node->wide && node->is_signed;
}

/* Whether the value of `operand` can be used unchanged as one of the node's type. */
static bool is_converted(const struct arch_expr_node *operand, const struct arch_expr_node *node)
{
	bool is_int = operand->kind == ARCH_EXPR_NOT || operand->kind == ARCH_EXPR_IN ||
		      operand->kind >= ARCH_EXPR_LT || is_string_test(operand) ||
		      is_signed_int(operand);

	if (node->is_double || is_double(operand))
		return node->is_double && (is_double(operand) || operand->kind == ARCH_EXPR_CONST);
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
		if (has_capture(node) && (strings >> node->capture & 1) != is_string_test(node))
			return "the capture is of the other kind";
		if (node->kind == ARCH_EXPR_CONST && !is_held(node))
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

static void keep_begin(struct expr_case *c)
{
	(void)expr_ask_begin(c->expr, 0, c->kept, &c->site.kept_count);
	c->site.kept = c->kept;
	for (uint8_t i = 0; i < c->site.kept_count; i++) {
		const struct arch_arg *spec = &c->site.specs[c->kept[i].what.arg];

		c->kept[i].offset = (uint16_t)(8 * (i + 1));
		c->kept[i].is_unsigned = spec->size == 8 && !spec->is_signed;
	}
}

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
	keep_begin(c);
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

	for (uint8_t i = 0; i < c->site.kept_count; i++)
		if (c->kept[i].offset == c->layout.captures[capture].begun)
			return c->kept[i].what.arg;
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
