/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"

/* ---- Messages -------------------------------------------------------------------------- */

/* Columns count characters, not bytes: texts may contain UTF-8. */
static size_t column(const char *text, const char *at)
{
	size_t count = 1;

	while (text++ < at)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

struct probe_error *expr_error(const struct expr *expr, enum probe_error_code code, const char *at,
	const char *format, ...)
{
	char *why, *shown = strdup(expr->text);
	struct probe_error *error;
	va_list ap;
	int length;

	va_start(ap, format);
	length = vasprintf(&why, format, ap);
	va_end(ap);
	if (length < 0 || !shown) {
		if (length >= 0)
			free(why);
		free(shown);
		return probe_error_no_memory();
	}
	for (char *c = shown; *c; c++) /* a message is one line */
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	error = probe_error_new(
		code, "%s '%s', column %zu: %s", expr->what, shown, column(expr->text, at), why);
	free(shown);
	free(why);
	return error;
}

struct probe_error *parser_mistake(const struct parser *p, const char *at, const char *why)
{
	return expr_error(p->expr, PROBE_ERROR_USAGE, at, "%s", why);
}

struct probe_error *parser_not_compared(const struct parser *p, const struct expr_node *string)
{
	if (string->word)
		return parser_mistake(p, string->at, EXPR_ONLY_KEYS);
	return parser_mistake(p, string->at,
		"a string is not a number: expected str(argN) == \"text\", "
		"str(argN) != \"text\" or starts_with(str(argN), \"text\")");
}

struct probe_error *parser_no_operator(const struct parser *p, const char *expected)
{
	const char *at = p->at;

	if (*at == '=')
		expected = "expected an operator; '==' compares";
	else if (parser_is_word(at, "and"))
		expected = "expected an operator; 'and' is &&";
	else if (parser_is_word(at, "or"))
		expected = "expected an operator; 'or' is ||";
	return parser_mistake(p, at, expected);
}

/* ---- Nodes ----------------------------------------------------------------------------- */

struct probe_error *parser_add(struct parser *p, const struct expr_node *node)
{
	struct expr *expr = p->expr;

	if (expr->count == ARCH_EXPR_NODES_MAX)
		return parser_mistake(p, node->at, "there are more than 64 operators and operands");
	if (node->depth > ARCH_EXPR_DEPTH_MAX)
		return parser_mistake(p, node->at, "more than 16 operators are nested");
	expr->nodes[expr->count++] = *node;
	return NULL;
}

struct expr_node *parser_last(const struct parser *p)
{
	return &p->expr->nodes[p->expr->count - 1];
}

struct probe_error *parser_add_operator(
	struct parser *p, enum arch_expr_kind kind, const char *where, uint8_t left, uint8_t right)
{
	uint8_t a = p->expr->nodes[left].depth, b = p->expr->nodes[right].depth;

	return parser_add(p, &(struct expr_node){.kind = kind,
				     .left = left,
				     .right = right,
				     .depth = (a > b ? a : b) + 1,
				     .at = where});
}

/* Replaces constant operands by the result of an operator. */
static struct probe_error *fold(struct parser *p, enum arch_expr_kind kind, const char *where,
	struct expr_node *left, const struct expr_node *right)
{
	struct expr_type type = expr_operator_type(kind, left->type, right->type);
	uint64_t a = left->value, b = right->value;
	const char *why;

	if (left->type.is_double && kind == ARCH_EXPR_NEGATE) {
		left->value ^= UINT64_C(1) << 63;
		return NULL;
	}
	if (left->type.is_double || right->type.is_double)
		return parser_mistake(
			p, where, "a number with a point can only be compared with an argument");
	if (expr_converts(kind)) {
		a = expr_convert(type, a);
		b = expr_convert(type, b);
	}
	why = expr_compute(kind, type, a, b, &left->value);
	if (why)
		return parser_mistake(p, where, why);
	left->type = expr_result_type(kind, type);
	p->expr->count = (uint8_t)(left - p->expr->nodes + 1);
	return NULL;
}

struct probe_error *parser_add_unary(struct parser *p, enum arch_expr_kind kind, const char *where)
{
	struct expr_node *operand = parser_last(p);

	if (operand->is_string)
		return parser_not_compared(p, operand);
	if (operand->kind == ARCH_EXPR_CONST) {
		operand->at = where;
		return fold(p, kind, where, operand, operand);
	}
	return parser_add(p, &(struct expr_node){.kind = kind,
				     .left = p->expr->count - 1,
				     .depth = operand->depth + 1,
				     .at = where});
}

struct probe_error *parser_add_binary(struct parser *p, enum arch_expr_kind kind, const char *where,
	uint8_t left_index, const char *from)
{
	struct expr_node *left = &p->expr->nodes[left_index], *right = parser_last(p);

	if (right->is_string) /* parse_comparison() handles a string on the left */
		return parser_not_compared(p, right);
	if ((kind == ARCH_EXPR_DIV || kind == ARCH_EXPR_MOD) && right->kind == ARCH_EXPR_CONST &&
		!right->value)
		return parser_mistake(p, from, "division by 0");
	if (left->kind == ARCH_EXPR_CONST && right->kind == ARCH_EXPR_CONST)
		return fold(p, kind, where, left, right);
	return parser_add_operator(p, kind, where, left_index, p->expr->count - 1);
}

/* ---- Words ----------------------------------------------------------------------------- */

void parser_skip_blanks(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

bool parser_take(struct parser *p, char c)
{
	parser_skip_blanks(p);
	if (*p->at != c)
		return false;
	p->at++;
	return true;
}

size_t parser_word_length(const char *at)
{
	size_t length = 0;

	while (isalnum((unsigned char)at[length]) || at[length] == '_')
		length++;
	return length;
}

bool parser_is_word(const char *at, const char *word)
{
	return parser_word_length(at) == strlen(word) && strncmp(at, word, strlen(word)) == 0;
}

bool parser_take_word(struct parser *p, const char *word)
{
	parser_skip_blanks(p);
	if (!parser_is_word(p->at, word))
		return false;
	p->at += strlen(word);
	return true;
}
