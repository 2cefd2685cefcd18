/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/nearest.h"
#include "libprobe/query/query.h"

/* ==== Parser ================================================================================== */

/* ---- Messages -------------------------------------------------------------------------- */

/* Returns the column of a position, in characters, because the text may be UTF-8. */
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
	/* A message has only one line. */
	for (char *c = shown; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	error = probe_error_new(
		code, "%s '%s', column %zu: %s", expr->what, shown, column(expr->text, at), why);
	free(shown);
	free(why);
	return error;
}

static struct probe_error *parser_mistake(const struct parser *p, const char *at, const char *why)
{
	return expr_error(p->expr, PROBE_ERROR_USAGE, at, "%s", why);
}

/* Returns the error for a string where only a number is allowed. */
static struct probe_error *parser_not_compared(
	const struct parser *p, const struct expr_node *string)
{
	if (string->word)
		return parser_mistake(p, string->at, EXPR_ONLY_KEYS);
	return parser_mistake(p, string->at,
		"a string is not a number: expected str(argN) == \"text\", "
		"str(argN) != \"text\" or starts_with(str(argN), \"text\")");
}

size_t expr_members_length(const char *at)
{
	size_t length = 0;

	for (;;) {
		size_t sign = at[length] == '.' ? 1 : strncmp(at + length, "->", 2) == 0 ? 2 : 0;
		size_t word = sign ? expr_word_length(at + length + sign) : 0;

		if (!word || isdigit((unsigned char)at[length + sign]))
			return length;
		length += sign + word;
	}
}

static bool parser_is_word(const char *at, const char *word)
{
	return expr_word_length(at) == strlen(word) && strncmp(at, word, strlen(word)) == 0;
}

/* Returns the error for text after a complete operand; `expected` says what may follow. */
static struct probe_error *parser_no_operator(const struct parser *p, const char *expected)
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

static struct probe_error *parser_add(struct parser *p, const struct expr_node *node)
{
	struct expr *expr = p->expr;

	if (expr->count == ARCH_EXPR_NODES_MAX)
		return parser_mistake(p, node->at, "there are more than 64 operators and operands");
	if (node->depth > ARCH_EXPR_DEPTH_MAX)
		return parser_mistake(p, node->at, "more than 16 operators are nested");
	expr->nodes[expr->count++] = *node;
	return NULL;
}

static struct expr_node *parser_last(const struct parser *p)
{
	return &p->expr->nodes[p->expr->count - 1];
}

static struct probe_error *parser_add_operator(
	struct parser *p, enum arch_expr_kind kind, const char *where, uint8_t left, uint8_t right)
{
	uint8_t a = p->expr->nodes[left].depth, b = p->expr->nodes[right].depth;

	return parser_add(p, &(struct expr_node){.kind = kind,
				     .left = left,
				     .right = right,
				     .depth = (a > b ? a : b) + 1,
				     .at = where});
}

/* Computes an operator on constants. The result replaces their nodes. */
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

/* Adds an operator on the last node. If the node is constant, computes the operator instead. */
static struct probe_error *parser_add_unary(
	struct parser *p, enum arch_expr_kind kind, const char *where)
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

/* ---- Words ----------------------------------------------------------------------------- */

static void parser_skip_blanks(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

/* Skips blanks and then the character, if it comes next. */
static bool parser_take(struct parser *p, char c)
{
	parser_skip_blanks(p);
	if (*p->at != c)
		return false;
	p->at++;
	return true;
}

size_t expr_word_length(const char *at)
{
	size_t length = 0;

	while (isalnum((unsigned char)at[length]) || at[length] == '_')
		length++;
	return length;
}

/* Skips blanks and then the word, if that whole word comes next. */
static bool parser_take_word(struct parser *p, const char *word)
{
	parser_skip_blanks(p);
	if (!parser_is_word(p->at, word))
		return false;
	p->at += strlen(word);
	return true;
}

/* ==== Names =================================================================================== */

/* Operands that begin with a letter, and data that arguments point to. */

static bool take_arg(struct parser *p, uint8_t *ret)
{
	const char *end;

	parser_skip_blanks(p);
	end = argument_parse(p->at, ret);
	if (end)
		p->at = end;
	return end != NULL;
}

/* Parses argN, or the data it points to. */
static struct probe_error *parse_arg(struct parser *p, struct expr_node *node)
{
	struct capture operand = {0};
	const char *expected;

	parser_skip_blanks(p);
	expected = node->is_string ? operand_parse_address(&p->at, &operand)
				   : operand_parse(&p->at, &operand);
	if (expected)
		return parser_mistake(p, p->at, expected);
	node->arg = operand.arg;
	node->step_count = operand.step_count;
	node->has_index = operand.has_index;
	node->index = operand.index;
	memcpy(node->steps, operand.steps, sizeof(node->steps));
	return NULL;
}

static void note_place(const char **place, const char *at)
{
	if (!*place)
		*place = at;
}

/* The hit that an argument belongs to. In expressions on pairs, `begin` or `end` must be given. */
enum which { THIS_HIT, BEGIN, END };

static const char *const which_words[] = {"", "begin", "end"};

/* Parses `begin` or `end`, if it comes next. */
static enum which take_which(struct parser *p)
{
	return parser_take_word(p, which_words[BEGIN]) ? BEGIN
	       : parser_take_word(p, which_words[END]) ? END
						       : THIS_HIT;
}

/* Parses a string, after the word str. */
static struct probe_error *parse_str(struct parser *p, const char *where, enum which which)
{
	struct expr_node node = {.kind = ARCH_EXPR_CAPTURE,
		.is_string = true,
		.of_begin = which == BEGIN,
		.at = where};
	struct probe_error *error;
	const char *argument;
	enum which inside;

	note_place(which != THIS_HIT ? &p->expr->of_pair : &p->expr->of_hit, where);
	if (!parser_take(p, '('))
		return parser_mistake(p, p->at, "expected '(' after str");
	parser_skip_blanks(p);
	argument = p->at;
	inside = take_which(p);
	if (inside != THIS_HIT)
		return expr_error(p->expr, PROBE_ERROR_USAGE, argument,
			"a string of the %s is %s.str(argN)", which_words[inside],
			which_words[inside]);
	error = parse_arg(p, &node);
	if (error)
		return error;
	node.has_length = parser_take(p, ',');
	if (node.has_length && !take_arg(p, &node.length))
		return parser_mistake(p, p->at, "expected arg0 to arg31, the length");
	if (!parser_take(p, ')'))
		return parser_mistake(p, p->at, "expected ')' after the argument");
	return parser_add(p, &node);
}

/* Parses a string of this hit, or of a pair's start or end event. */
static struct probe_error *parse_string(struct parser *p)
{
	const char *where;
	enum which which;

	parser_skip_blanks(p);
	where = p->at;
	which = take_which(p);
	if ((which != THIS_HIT && !parser_take(p, '.')) || !parser_take_word(p, "str"))
		return parser_mistake(p, p->at, "expected str(argN)");
	return parse_str(p, where, which);
}

/* Parses the rest of norm(...), after the word norm. */
static struct probe_error *parse_norm(struct parser *p, const char *where)
{
	struct probe_error *error;

	if (!parser_take(p, '('))
		return parser_mistake(p, p->at, "expected '(' after norm");
	error = parse_string(p);
	if (error)
		return error;
	parser_last(p)->is_norm = true;
	parser_last(p)->at = where;
	return parser_take(p, ')') ? NULL
				   : parser_mistake(p, p->at, "expected ')' after the string");
}

static struct probe_error *parse_of_pair(struct parser *p, const char *where, enum which which);

/* Parses the rest of sym(...), after the word sym. */
static struct probe_error *parse_sym(struct parser *p, const char *where)
{
	static const char whole[] = "sym() is a whole key: it has no operators";
	struct expr_node node = {.kind = ARCH_EXPR_CAPTURE, .at = where};
	struct probe_error *error;
	enum which which;

	if (p->nesting > 1 || p->expr->count)
		return parser_mistake(p, where, whole);
	if (!parser_take(p, '('))
		return parser_mistake(p, p->at, "expected '(' after sym");
	parser_skip_blanks(p);
	node.at = p->at;
	which = take_which(p);
	if (which == THIS_HIT)
		note_place(&p->expr->of_hit, where);
	error = which != THIS_HIT ? parse_of_pair(p, where, which) : parse_arg(p, &node);
	if (!error && which == THIS_HIT)
		error = parser_add(p, &node);
	if (error)
		return error;
	if (parser_last(p)->is_string)
		return parser_mistake(p, node.at, "a string has no name, expected arg0 to arg31");
	parser_last(p)->is_symbol = true;
	if (!parser_take(p, ')'))
		return parser_mistake(p, p->at, "expected ')' after the argument");
	parser_skip_blanks(p);
	return *p->at ? parser_mistake(p, p->at, whole) : NULL;
}

/* Parses the text with which the last node, a string, is compared. */
static struct probe_error *expr_parse_text(struct parser *p, enum arch_expr_kind kind)
{
	struct expr_node *string = parser_last(p);

	if (string->is_norm)
		return parser_mistake(p, string->at, "norm() is a key, and compared with nothing");
	if (string->word)
		return parser_mistake(p, string->at, EXPR_ONLY_KEYS);
	parser_skip_blanks(p);
	if (*p->at != '"')
		return parser_mistake(p, p->at, "expected a text in double quotes");
	string->kind = kind;
	string->is_string = false;
	return expr_text(p->expr, &p->at, string);
}

/* Parses the rest of starts_with(...), after the word starts_with. */
static struct probe_error *parse_starts_with(struct parser *p)
{
	struct probe_error *error;

	if (!parser_take(p, '('))
		return parser_mistake(p, p->at, "expected '(' after starts_with");
	error = parse_string(p);
	if (error)
		return error;
	if (!parser_take(p, ','))
		return parser_mistake(p, p->at, "expected ',' and a text in double quotes");
	error = expr_parse_text(p, ARCH_EXPR_STRING_BEGINS);
	if (error)
		return error;
	if (!parser_take(p, ')'))
		return parser_mistake(p, p->at, "expected ')' after the text");
	return NULL;
}

/* Parses the rest of begin.ARG or end.ARG, after the word begin or end. */
static struct probe_error *parse_of_pair(struct parser *p, const char *where, enum which which)
{
	struct expr_node node = {
		.kind = ARCH_EXPR_CAPTURE, .of_begin = which == BEGIN, .at = where};
	struct probe_error *error;

	if (!parser_take(p, '.'))
		return expr_error(p->expr, PROBE_ERROR_USAGE, p->at, "expected '.' after %s",
			which_words[which]);
	if (parser_take_word(p, "str"))
		return parse_str(p, where, which);
	note_place(&p->expr->of_pair, where);
	if (*p->at != '*' && !take_arg(p, &node.arg))
		return parser_mistake(p, p->at, "expected arg0 to arg31, or str(argN)");
	error = *p->at == '*' ? parse_arg(p, &node) : NULL;
	return error ?: parser_add(p, &node);
}

static struct probe_error *no_name(struct parser *p)
{
	static const char *const names[] = {"tid", "pid", "cpu", "str", "starts_with", "duration",
		"end", "norm", "sym", "comm", "ustack", "probe"};
	struct nearest nearest = {0};
	char typed[40 + 1];

	if (parser_is_word(p->at, "not"))
		return parser_mistake(p, p->at, "there is no 'not': it is !");
	snprintf(typed, sizeof(typed), "%.*s", (int)expr_word_length(p->at), p->at);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		nearest_consider(&nearest, typed, names[i]);
	return expr_error(p->expr, PROBE_ERROR_USAGE, p->at,
		"there is no '%s'%s%s: expected arg0 to arg31, tid, pid, cpu, str() or "
		"starts_with()",
		typed, nearest.name ? ", the nearest is " : "", nearest.name ? nearest.name : "");
}

/* Parses an operand that begins with a letter. */
static struct probe_error *expr_parse_name(struct parser *p)
{
	struct expr_node node = {.at = p->at};
	enum which which = take_which(p);

	if (which != THIS_HIT)
		return parse_of_pair(p, node.at, which);
	if (take_arg(p, &node.arg)) {
		node.kind = ARCH_EXPR_CAPTURE;
		note_place(&p->expr->of_hit, node.at);
	} else if (parser_take_word(p, "duration")) {
		node.kind = ARCH_EXPR_DURATION;
		note_place(&p->expr->of_pair, node.at);
	} else if (parser_take_word(p, "tid")) {
		node.kind = ARCH_EXPR_TID;
	} else if (parser_take_word(p, "pid")) {
		node.kind = ARCH_EXPR_PID;
	} else if (parser_take_word(p, "cpu")) {
		node.kind = ARCH_EXPR_CPU;
	} else if (parser_take_word(p, "str")) {
		return parse_str(p, node.at, THIS_HIT);
	} else if (parser_take_word(p, "starts_with")) {
		return parse_starts_with(p);
	} else if (parser_take_word(p, "norm")) {
		return parse_norm(p, node.at);
	} else if (parser_take_word(p, "sym")) {
		return parse_sym(p, node.at);
	} else if (parser_take_word(p, "comm")) {
		node.word = EXPR_COMM; /* a whole key, like the next two */
	} else if (parser_take_word(p, "ustack")) {
		node.word = EXPR_USTACK;
	} else if (parser_take_word(p, "probe")) {
		node.word = EXPR_PROBE;
	} else {
		return no_name(p);
	}
	if (node.word) {
		node.kind = ARCH_EXPR_CONST;
		node.is_string = true;
	}
	return parser_add(p, &node);
}

/* ==== Lists =================================================================================== */

/* Lists: in (1, 3, 5), not in ("a", "b"). */

enum { TEXTS_MAX = 32 };

static struct probe_error *expr_parse_level(struct parser *p, unsigned int level);

/* Parses a number in a list, without adding a node. */
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

/* Joins the last `count` comparisons by ||, as a balanced tree, which is not deep. */
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

/* Parses the texts of a list, after the string and the opening parenthesis. */
static struct probe_error *parse_texts(struct parser *p, const char *where)
{
	struct expr_node string = *parser_last(p);
	struct probe_error *error;
	size_t count = 1;

	error = expr_parse_text(p, ARCH_EXPR_STRING_IS);
	while (!error && parser_take(p, ',')) {
		if (count++ == TEXTS_MAX)
			return parser_mistake(p, p->at, "there are more than 32 texts in the list");
		error = parser_add(p, &string) ?: expr_parse_text(p, ARCH_EXPR_STRING_IS);
	}
	return error ?: join(p, count, where);
}

/* Parses the list after `in` or `not in`, for the last node. */
static struct probe_error *expr_parse_list(struct parser *p, const char *where, bool is_not)
{
	struct probe_error *error;

	if (!parser_take(p, '('))
		return parser_mistake(p, p->at, "expected '(' and a list after in");
	if (parser_last(p)->is_string) {
		error = parse_texts(p, where);
	} else {
		struct expr_node list = {.kind = ARCH_EXPR_IN,
			.left = p->expr->count - 1,
			.depth = parser_last(p)->depth + 1,
			.list = p->expr->numbers + p->expr->numbers_length,
			.at = where};

		do
			error = parse_number(p, &list);
		while (!error && parser_take(p, ','));
		error = error ?: parser_add(p, &list);
	}
	if (!error && !parser_take(p, ')'))
		error = parser_no_operator(p, "expected ',' or ')'");
	return error || !is_not ? error : parser_add_unary(p, ARCH_EXPR_NOT, where);
}

/* ==== Expressions ============================================================================= */

/*
 * The grammar of expressions. They are parsed by precedence climbing: the parser reads an operand,
 * and then operators, as long as these bind tighter than the operator before the operand.
 *
 *   operand   NUMBER | 'CHARACTER' | ARG | tid | pid | cpu | ( expr )
 *             | duration | WHICH . ARG
 *             | ! operand | ~ operand | - operand | + operand | ( TYPE ) operand
 *             | starts_with ( STRING , "TEXT" )
 *   expr      operand { OPERATOR operand } | STRING == "TEXT" | STRING != "TEXT"
 *             | operand [not] in ( NUMBER {, NUMBER} )
 *             | STRING [not] in ( "TEXT" {, "TEXT"} )
 *             | STRING | norm ( STRING ) | sym ( [ WHICH . ] ARG ) | comm | ustack | probe
 *   STRING    [ WHICH . ] str ( SUM [ , argM ] )  (SUM: query/operand.c)
 *   WHICH     begin | end
 *   ARG       argN | * ( TYPE * ) ADDRESS         (ADDRESS: query/operand.c)
 *
 * A node is appended when it is complete. So operands precede their operator, and the last node is
 * the one that was parsed last. Operators on constants are computed at once; the result replaces
 * the nodes of the operands.
 *
 * The text comes from a command line or a program. It determines how deeply the parser recurses, so
 * `nesting` limits this depth.
 */

/* precedence of lists, the same as that of < and > */
enum { NESTING_MAX = 64, LEVEL_LIST = 7 };

static const struct infix {
	char text[3];
	unsigned int level; /* a higher level binds tighter */
	enum arch_expr_kind kind;
} infixes[] = {
	/* clang-format off */
	/* If an operator begins with another one (`<=` with `<`), the longer one comes first. */
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

/* C reads `++` and `--` as one operator, which this language does not have. */
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
	struct probe_error *error = check_doubled(p);

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
	default: /* unary + does not change a number */
		return parser_last(p)->is_string ? parser_not_compared(p, parser_last(p)) : NULL;
	}
}

/* Parses what follows (TYPE), an argument. */
static struct probe_error *parse_cast(struct parser *p, signed char cast)
{
	const char *where = p->at;
	uint8_t count = p->expr->count;
	struct probe_error *error = parse_operand(p);
	struct expr_node *node = error ? NULL : parser_last(p);

	if (error)
		return error;
	if (p->expr->count != count + 1 || node->kind != ARCH_EXPR_CAPTURE || node->is_string ||
		node->step_count || node->is_symbol || node->cast)
		return parser_mistake(p, where, "expected arg0 to arg31 after the type");
	node->cast = cast;
	return NULL;
}

static struct probe_error *parse_operand(struct parser *p)
{
	struct expr_node node = {.at = p->at};
	struct probe_error *error;
	signed char cast;

	parser_skip_blanks(p);
	if (p->nesting > NESTING_MAX)
		return parser_mistake(p, p->at, "more than 64 parentheses and signs are nested");
	p->nesting++;
	node.at = p->at;
	cast = operand_parse_cast(&p->at);
	if (cast) {
		error = parse_cast(p, cast);
	} else if (*p->at == '(') {
		p->at++;
		error = expr_parse_level(p, 1);
		if (!error && !parser_take(p, ')'))
			error = parser_no_operator(p, "expected an operator or ')'");
	} else if (*p->at && strchr("!~-+", *p->at))
		error = parse_unary(p);
	else if (*p->at == '*') {
		node.kind = ARCH_EXPR_CAPTURE;
		error = parse_arg(p, &node);
		note_place(&p->expr->of_hit, node.at);
		error = error ?: parser_add(p, &node);
	} else if (isdigit((unsigned char)*p->at) || *p->at == '\'') {
		error = *p->at == '\'' ? expr_character(p->expr, &p->at, &node)
				       : expr_integer(p->expr, &p->at, &node);
		error = error ?: parser_add(p, &node);
	} else if (isalpha((unsigned char)*p->at) || *p->at == '_')
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

/* Parses an operand, and operators of this level or tighter ones. */
static struct probe_error *expr_parse_level(struct parser *p, unsigned int level)
{
	struct probe_error *error = parse_operand(p);
	const struct infix *op;

	while (!error) {
		uint8_t left = p->expr->count - 1;
		const char *where, *from;
		const struct infix *end = infixes + sizeof(infixes) / sizeof(infixes[0]);
		struct expr_node *last = parser_last(p);

		parser_skip_blanks(p);
		where = p->at;
		if (level <= LEVEL_LIST) {
			bool is_not = parser_take_word(p, "not");

			if (parser_take_word(p, "in")) {
				error = expr_parse_list(p, where, is_not);
				continue;
			}
			p->at = where;
		}
		for (op = infixes; op < end && strncmp(where, op->text, strlen(op->text)) != 0;)
			op++;
		if (op == end || op->level < level)
			return NULL;
		error = check_doubled(p);
		if (error)
			return error;
		if (last->word)
			return parser_mistake(p, last->at, EXPR_ONLY_KEYS);
		p->at += strlen(op->text);
		if (last->is_string) {
			if (op->kind != ARCH_EXPR_EQ && op->kind != ARCH_EXPR_NE)
				return parser_mistake(
					p, where, "expected '==' or '!=' after a string");
			error = expr_parse_text(p, ARCH_EXPR_STRING_IS);
			if (!error && op->kind == ARCH_EXPR_NE)
				error = parser_add_unary(p, ARCH_EXPR_NOT, where);
			continue;
		}
		parser_skip_blanks(p);
		from = p->at;
		error = expr_parse_level(p, op->level + 1);
		if (error)
			return error;
		last = parser_last(p);
		if (last->is_string)
			return parser_not_compared(p, last);
		if ((op->kind == ARCH_EXPR_DIV || op->kind == ARCH_EXPR_MOD) &&
			last->kind == ARCH_EXPR_CONST && !last->value)
			return parser_mistake(p, from, "division by 0");
		if (p->expr->nodes[left].kind == ARCH_EXPR_CONST && last->kind == ARCH_EXPR_CONST)
			error = fold(p, op->kind, where, &p->expr->nodes[left], last);
		else
			error = parser_add_operator(p, op->kind, where, left, p->expr->count - 1);
	}
	return error;
}

/* ---- The whole expression -------------------------------------------------------------- */

struct probe_error *expr_parse(const char *what, const char *text, struct expr **ret)
{
	struct expr *expr = calloc(1, sizeof(*expr));
	struct parser p = {.expr = expr};
	struct probe_error *error;

	*ret = NULL;
	if (!expr)
		return probe_error_no_memory();
	expr->what = strdup(what);
	expr->text = strdup(text);
	/* Enough room: an escape sequence is never shorter than the bytes it stands for. */
	expr->literals = malloc(strlen(text) + 1);
	expr->numbers = calloc(strlen(text) + 1, sizeof(*expr->numbers));
	p.at = expr->text;
	error = expr->what && expr->text && expr->literals && expr->numbers
			? expr_parse_level(&p, 1)
			: probe_error_no_memory();
	if (!error) {
		parser_skip_blanks(&p);
		if (*p.at)
			error = parser_no_operator(&p, "expected an operator or the end");
		else if (expr->of_pair && expr->of_hit)
			error = parser_mistake(&p, expr->of_hit,
				"beside duration, begin. and end., say of which of them the "
				"argument is: begin.argN or end.argN");
	}
	if (error)
		expr_free(expr);
	else
		*ret = expr;
	return error;
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
		.cast = node->cast,
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
