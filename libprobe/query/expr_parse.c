/* SPDX-License-Identifier: MIT */
/*
 * The grammar of expressions, parsed by precedence climbing: the parser reads an operand, then
 * operators as long as they bind tighter than the one before the operand.
 *
 *	operand   NUMBER | 'CHARACTER' | ARG | tid | pid | cpu | ( expr )
 *	          | duration | WHICH . ARG
 *	          | ! operand | ~ operand | - operand | + operand
 *	          | starts_with ( STRING , "TEXT" )
 *	expr      operand { OPERATOR operand } | STRING == "TEXT" | STRING != "TEXT"
 *	          | operand [not] in ( NUMBER {, NUMBER} )
 *	          | STRING [not] in ( "TEXT" {, "TEXT"} )
 *	          | STRING | norm ( STRING ) | sym ( [ WHICH . ] ARG ) | comm | ustack | probe
 *	STRING    [ WHICH . ] str ( SUM [ , argM ] )	(likewise)
 *	WHICH     begin | end
 *	ARG       argN | * ( TYPE * ) ADDRESS		(query/operand.c)
 *
 * Words are parsed in parse_names.c, lists in parse_lists.c; parser.c has what all three need.
 *
 * Nodes are appended when complete, so operands precede operators, and the last node is what
 * was parsed last. Operators on constants are computed at once, which removes the operands'
 * nodes.
 *
 * The text controls the recursion depth and comes from a command line or a program, so
 * `nesting` limits it.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"

enum { NESTING_MAX = 64, LEVEL_LIST = 7 /* as < and > */ };

static const struct infix {
	char text[3];
	unsigned int level; /* the higher, the tighter */
	enum arch_expr_kind kind;
} infixes[] = {
	/* clang-format off */
	/* An operator that begins with another one comes first. */
	{"||", 1, ARCH_EXPR_EITHER},
	{"&&", 2, ARCH_EXPR_BOTH},
	{"==", 6, ARCH_EXPR_EQ}, {"!=", 6, ARCH_EXPR_NE},
	{"<<", 8, ARCH_EXPR_SHL}, {">>", 8, ARCH_EXPR_SHR},
	{"<=", 7, ARCH_EXPR_LE}, {">=", 7, ARCH_EXPR_GE},
	{"<", 7, ARCH_EXPR_LT}, {">", 7, ARCH_EXPR_GT},
	{"|", 3, ARCH_EXPR_OR},
	{"^", 4, ARCH_EXPR_XOR},
	{"&", 5, ARCH_EXPR_AND},
	{"+", 9, ARCH_EXPR_ADD}, {"-", 9, ARCH_EXPR_SUB},
	{"*", 10, ARCH_EXPR_MUL}, {"/", 10, ARCH_EXPR_DIV}, {"%", 10, ARCH_EXPR_MOD},
	/* clang-format on */
};

static struct probe_error *parse_constant(struct parser *p)
{
	struct expr_node node = {.at = p->at};
	struct probe_error *error;

	error = *p->at == '\'' ? expr_character(p->expr, &p->at, &node)
			       : expr_integer(p->expr, &p->at, &node);
	return error ? error : parser_add(p, &node);
}

static struct probe_error *parse_parentheses(struct parser *p)
{
	struct probe_error *error;

	p->at++;
	error = expr_parse_level(p, 1);
	if (error || parser_take(p, ')'))
		return error;
	return parser_no_operator(p, "expected an operator or ')'");
}

/* C reads two of them as one operator, which does not exist here. */
static struct probe_error *check_doubled(const struct parser *p)
{
	if ((*p->at == '-' || *p->at == '+') && p->at[1] == *p->at)
		return expr_error(p->expr, PROBE_ERROR_USAGE, p->at,
			"there is no operator '%c%c': put a blank between", *p->at, *p->at);
	return NULL;
}

static struct probe_error *parse_operand(struct parser *p);

static struct probe_error *parse_unary(struct parser *p)
{
	const char *where = p->at;
	struct probe_error *error;

	error = check_doubled(p);
	if (error)
		return error;
	p->at++;
	error = parse_operand(p);
	if (error)
		return error;
	switch (*where) {
	case '!':
		return parser_add_unary(p, ARCH_EXPR_NOT, where);
	case '~':
		return parser_add_unary(p, ARCH_EXPR_COMPLEMENT, where);
	case '-':
		return parser_add_unary(p, ARCH_EXPR_NEGATE, where);
	default: /* + does not change a number */
		return parser_last(p)->is_string ? parser_not_compared(p, parser_last(p)) : NULL;
	}
}

static struct probe_error *parse_operand(struct parser *p)
{
	struct probe_error *error;

	parser_skip_blanks(p);
	if (p->nesting > NESTING_MAX)
		return parser_mistake(p, p->at, "more than 64 parentheses and signs are nested");
	p->nesting++;
	if (*p->at == '(')
		error = parse_parentheses(p);
	else if (*p->at && strchr("!~-+", *p->at))
		error = parse_unary(p);
	else if (*p->at == '*')
		error = expr_parse_dereference(p);
	else if (isdigit((unsigned char)*p->at) || *p->at == '\'')
		error = parse_constant(p);
	else if (isalpha((unsigned char)*p->at) || *p->at == '_')
		error = expr_parse_name(p);
	else if (*p->at == '"')
		error = parser_mistake(p, p->at,
			"a text can only follow str(argN) == or !=, or be in starts_with()");
	else
		error = parser_mistake(p, p->at,
			"expected a number, an argument (arg0 to arg31), tid, pid, cpu, '(' or a "
			"sign");
	p->nesting--;
	return error;
}

/* ---- Operators ------------------------------------------------------------------------- */

static const struct infix *infix_at(const char *at)
{
	for (size_t i = 0; i < sizeof(infixes) / sizeof(infixes[0]); i++)
		if (strncmp(at, infixes[i].text, strlen(infixes[i].text)) == 0)
			return &infixes[i];
	return NULL;
}

/* After a string and an operator. */
static struct probe_error *parse_comparison(
	struct parser *p, const struct infix *op, const char *where)
{
	struct probe_error *error;

	if (op->kind != ARCH_EXPR_EQ && op->kind != ARCH_EXPR_NE)
		return parser_mistake(p, where, "expected '==' or '!=' after a string");
	error = expr_parse_text(p, ARCH_EXPR_STRING_IS);
	if (error || op->kind == ARCH_EXPR_EQ)
		return error;
	return parser_add_unary(p, ARCH_EXPR_NOT, where);
}

struct probe_error *expr_parse_level(struct parser *p, unsigned int level)
{
	struct probe_error *error = parse_operand(p);
	const struct infix *op;

	while (!error) {
		uint8_t left = p->expr->count - 1;
		const char *where, *from;
		bool is_not;

		parser_skip_blanks(p);
		where = p->at;
		if (level <= LEVEL_LIST && expr_take_in(p, &is_not)) {
			error = expr_parse_list(p, where, is_not);
			continue;
		}
		op = infix_at(where);
		if (!op || op->level < level)
			return NULL;
		error = check_doubled(p);
		if (error)
			return error;
		if (parser_last(p)->word)
			return parser_mistake(p, parser_last(p)->at, EXPR_ONLY_KEYS);
		p->at += strlen(op->text);
		if (parser_last(p)->is_string) {
			error = parse_comparison(p, op, where);
			continue;
		}
		parser_skip_blanks(p);
		from = p->at;
		error = expr_parse_level(p, op->level + 1);
		if (!error)
			error = parser_add_binary(p, op->kind, where, left, from);
	}
	return error;
}

/* ---- The whole ------------------------------------------------------------------------- */

static struct probe_error *parse(struct expr *expr)
{
	struct parser p = {.expr = expr, .at = expr->text};
	struct probe_error *error = expr_parse_level(&p, 1);

	if (error)
		return error;
	parser_skip_blanks(&p);
	if (*p.at)
		return parser_no_operator(&p, "expected an operator or the end");
	if (!expr->of_pair || !expr->of_hit)
		return NULL;
	return parser_mistake(&p, expr->of_hit,
		"beside duration, begin. and end., say of which of them the argument is: "
		"begin.argN or end.argN");
}

struct probe_error *expr_parse(const char *what, const char *text, struct expr **ret)
{
	struct expr *expr = calloc(1, sizeof(*expr));
	struct probe_error *error;

	*ret = NULL;
	if (!expr)
		return probe_error_no_memory();
	expr->what = strdup(what);
	expr->text = strdup(text);
	expr->literals = malloc(strlen(text) + 1); /* no escape is longer than its result */
	expr->numbers = calloc(strlen(text) + 1, sizeof(*expr->numbers));
	error = expr->what && expr->text && expr->literals && expr->numbers
			? parse(expr)
			: probe_error_no_memory();
	if (error) {
		expr_free(expr);
		return error;
	}
	*ret = expr;
	return NULL;
}

void expr_free(struct expr *expr)
{
	if (!expr)
		return;
	free(expr->numbers);
	free(expr->literals);
	free(expr->text);
	free(expr->what);
	free(expr);
}

bool expr_is_of_pair(const struct expr *expr)
{
	return expr->of_pair != NULL;
}

struct probe_error *expr_no_pair(const struct expr *expr)
{
	return expr_error(expr, PROBE_ERROR_USAGE, expr->of_pair,
		"only the filters and keys of pairs know their duration, begin and end: -t span, "
		"-t latency, -t transaction");
}

struct capture expr_operand(const struct expr_node *node)
{
	struct capture operand = {.arg = node->arg,
		.step_count = node->step_count,
		.has_index = node->has_index,
		.index = node->index,
		.is_string = node->is_string || node->text,
		.has_length = node->has_length,
		.length = node->length,
		.of_begin = node->of_begin};

	memcpy(operand.steps, node->steps, sizeof(operand.steps));
	return operand;
}

bool expr_is_norm(const struct expr *expr)
{
	return expr->nodes[expr->count - 1].is_norm;
}

bool expr_is_symbol(const struct expr *expr)
{
	return expr->nodes[expr->count - 1].is_symbol;
}

struct probe_error *expr_no_symbol(const struct expr *expr)
{
	return expr_error(expr, PROBE_ERROR_USAGE, expr->text,
		"sym() is for keys and for what a PROBE shows: names are looked up when hits are "
		"read; here argN is the address");
}

enum expr_word expr_word(const struct expr *expr)
{
	return expr->nodes[expr->count - 1].word;
}

bool expr_is_string(const struct expr *expr, struct capture *ret)
{
	const struct expr_node *whole = &expr->nodes[expr->count - 1];

	if (!whole->is_string)
		return false;
	*ret = expr_operand(whole);
	return true;
}
