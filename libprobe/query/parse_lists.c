/* SPDX-License-Identifier: MIT */
/* Lists that an operand is looked for in: in (1, 3, 5), not in ("a", "b"). */
#include "libprobe/query/query.h"

enum { TEXTS_MAX = 32 };

bool expr_take_in(struct parser *p, bool *is_not_ret)
{
	const char *start = p->at;

	*is_not_ret = parser_take_word(p, "not");
	if (parser_take_word(p, "in"))
		return true;
	p->at = start;
	return false;
}

/* A number of a list; it leaves no node. */
static struct probe_error *parse_number(struct parser *p, struct expr_node *list)
{
	struct expr *expr = p->expr;
	uint8_t count = expr->count;
	struct probe_error *error;
	const char *where;

	parser_skip_blanks(p);
	where = p->at;
	error = expr_parse_level(p, 1);
	if (error)
		return error;
	if (parser_last(p)->kind != ARCH_EXPR_CONST || expr->count != count + 1 ||
		parser_last(p)->type.is_double)
		return parser_mistake(
			p, where, "a list has constant integers, or texts after a string");
	if (list->list_count == ARCH_EXPR_LIST_MAX)
		return parser_mistake(p, where, "there are more than 64 numbers in the list");
	list->type = list->list_count
			     ? expr_operator_type(ARCH_EXPR_EQ, list->type, parser_last(p)->type)
			     : parser_last(p)->type;
	expr->numbers[expr->numbers_length++] = parser_last(p)->value;
	list->list_count++;
	expr->count = count;
	return NULL;
}

/* Of numbers, after the operand and the parenthesis. */
static struct probe_error *parse_numbers(struct parser *p, const char *where)
{
	struct expr_node list = {.kind = ARCH_EXPR_IN,
		.left = p->expr->count - 1,
		.depth = parser_last(p)->depth + 1,
		.list = p->expr->numbers + p->expr->numbers_length,
		.at = where};
	struct probe_error *error;

	do
		error = parse_number(p, &list);
	while (!error && parser_take(p, ','));
	return error ? error : parser_add(p, &list);
}

/* Joins the tests that are the last `count` nodes, evenly: few are nested. */
static struct probe_error *join(struct parser *p, size_t count, const char *where)
{
	uint8_t tests[TEXTS_MAX];
	struct probe_error *error = NULL;

	for (size_t i = 0; i < count; i++)
		tests[i] = (uint8_t)(p->expr->count - count + i);
	for (; count > 1; count = (count + 1) / 2) {
		for (size_t i = 0; i + 1 < count && !error; i += 2) {
			error = parser_add_operator(
				p, ARCH_EXPR_EITHER, where, tests[i], tests[i + 1]);
			tests[i / 2] = p->expr->count - 1;
		}
		if (count % 2)
			tests[count / 2] = tests[count - 1];
	}
	return error;
}

/* Of texts, after the string and the parenthesis. */
static struct probe_error *parse_texts(struct parser *p, const char *where)
{
	struct expr_node string = *parser_last(p);
	struct probe_error *error;
	size_t count = 1;

	error = expr_parse_text(p, ARCH_EXPR_STRING_IS);
	while (!error && parser_take(p, ',')) {
		if (count++ == TEXTS_MAX)
			return parser_mistake(p, p->at, "there are more than 32 texts in the list");
		error = parser_add(p, &string);
		if (!error)
			error = expr_parse_text(p, ARCH_EXPR_STRING_IS);
	}
	return error ? error : join(p, count, where);
}

struct probe_error *expr_parse_list(struct parser *p, const char *where, bool is_not)
{
	struct probe_error *error;

	if (!parser_take(p, '('))
		return parser_mistake(p, p->at, "expected '(' and a list after in");
	error = parser_last(p)->is_string ? parse_texts(p, where) : parse_numbers(p, where);
	if (!error && !parser_take(p, ')'))
		error = parser_no_operator(p, "expected ',' or ')'");
	return error || !is_not ? error : parser_add_unary(p, ARCH_EXPR_NOT, where);
}
