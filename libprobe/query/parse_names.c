/* SPDX-License-Identifier: MIT */
/* Operands that are words, and what arguments point to: arguments, strings, ends of pairs. */
#include <stdio.h>
#include <string.h>

#include "libprobe/base/nearest.h"
#include "libprobe/query/query.h"

static bool take_arg(struct parser *p, uint8_t *ret)
{
	const char *end;

	parser_skip_blanks(p);
	end = argument_parse(p->at, ret);
	if (end)
		p->at = end;
	return end != NULL;
}

/* argN, or what it points to. */
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

/* Of which hit an argument is; of a pair, it has to be said. */
enum which { THIS_HIT, BEGIN, END };

static const char *const which_words[] = {"", "begin", "end"};

/* The word begin or end, if there is one. */
static enum which take_which(struct parser *p)
{
	return parser_take_word(p, which_words[BEGIN]) ? BEGIN
	       : parser_take_word(p, which_words[END]) ? END
						       : THIS_HIT;
}

/* After the word str. */
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

/* A string, of this hit or of the end of a pair. */
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

/* After the word norm. */
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

/* In sym(): an argument of the begin or the end of a pair. */
static struct probe_error *parse_of_pair(struct parser *p, const char *where, enum which which);

/* After the word sym. */
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

struct probe_error *expr_parse_text(struct parser *p, enum arch_expr_kind kind)
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

/* After the word starts_with. */
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

/* After the word begin or end. */
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
	return error ? error : parser_add(p, &node);
}

struct probe_error *expr_parse_dereference(struct parser *p)
{
	struct expr_node node = {.kind = ARCH_EXPR_CAPTURE, .at = p->at};
	struct probe_error *error = parse_arg(p, &node);

	note_place(&p->expr->of_hit, node.at);
	return error ? error : parser_add(p, &node);
}

static struct probe_error *no_name(struct parser *p)
{
	static const char *const names[] = {"tid", "pid", "cpu", "str", "starts_with", "duration",
		"end", "norm", "sym", "comm", "ustack", "probe"};
	struct nearest nearest = {0};
	char typed[40 + 1];

	if (parser_is_word(p->at, "not"))
		return parser_mistake(p, p->at, "there is no 'not': it is !");
	snprintf(typed, sizeof(typed), "%.*s", (int)parser_word_length(p->at), p->at);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		nearest_consider(&nearest, typed, names[i]);
	return expr_error(p->expr, PROBE_ERROR_USAGE, p->at,
		"there is no '%s'%s%s: expected arg0 to arg31, tid, pid, cpu, str() or "
		"starts_with()",
		typed, nearest.name ? ", the nearest is " : "", nearest.name ? nearest.name : "");
}

/* One of the words that are whole keys, if there is one. */
static enum expr_word take_key(struct parser *p)
{
	return parser_take_word(p, "comm")     ? EXPR_COMM
	       : parser_take_word(p, "ustack") ? EXPR_USTACK
	       : parser_take_word(p, "probe")  ? EXPR_PROBE
					       : EXPR_NO_WORD;
}

struct probe_error *expr_parse_name(struct parser *p)
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
	} else if ((node.word = take_key(p))) {
		node.kind = ARCH_EXPR_CONST;
		node.is_string = true;
	} else {
		return no_name(p);
	}
	return parser_add(p, &node);
}
