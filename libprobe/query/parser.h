/* SPDX-License-Identifier: MIT */
/* What the files of the parser (parse.c) share: a place in the text, words, and new nodes. */
#ifndef LIBPROBE_QUERY_PARSER_H
#define LIBPROBE_QUERY_PARSER_H

#include "libprobe/query/tree.h"

struct parser {
	struct expr *expr;
	const char *at;
	unsigned int nesting; /* depth of nested operands */
};

/* ---- Messages: the error for what stands at `at` ---------------------------------------- */

PROBE_MUST_CHECK struct probe_error *parser_mistake(
	const struct parser *p, const char *at, const char *why);
/* The string stands where only a number can. */
PROBE_MUST_CHECK struct probe_error *parser_not_compared(
	const struct parser *p, const struct expr_node *string);
/* What follows a whole operand is not what can follow it: `expected`. */
PROBE_MUST_CHECK struct probe_error *parser_no_operator(
	const struct parser *p, const char *expected);

/* ---- Words ----------------------------------------------------------------------------- */

void parser_skip_blanks(struct parser *p);
/* Behind blanks: go past the character, or the whole word, if it is there. */
bool parser_take(struct parser *p, char c);
bool parser_is_word(const char *at, const char *word);
bool parser_take_word(struct parser *p, const char *word);
/* The bytes of the word that begins here, or 0. */
size_t parser_word_length(const char *at);

/* ---- Nodes: appended when complete ------------------------------------------------------- */

/* The last node; there must be one. */
struct expr_node *parser_last(const struct parser *p);
PROBE_MUST_CHECK struct probe_error *parser_add(struct parser *p, const struct expr_node *node);
/* An operator on two nodes, by their indexes. */
PROBE_MUST_CHECK struct probe_error *parser_add_operator(
	struct parser *p, enum arch_expr_kind kind, const char *where, uint8_t left, uint8_t right);
/* An operator on the last node; one on a constant is computed. */
PROBE_MUST_CHECK struct probe_error *parser_add_unary(
	struct parser *p, enum arch_expr_kind kind, const char *where);
/* Also on the node `left` and the last one, which begins at `from`. */
PROBE_MUST_CHECK struct probe_error *parser_add_binary(struct parser *p, enum arch_expr_kind kind,
	const char *where, uint8_t left, const char *from);

/* ---- The grammar ------------------------------------------------------------------------- */

/* An operand, and the following operators of this level or tighter (parse.c). */
PROBE_MUST_CHECK struct probe_error *expr_parse_level(struct parser *p, unsigned int level);
/* An operand that begins with a letter (parse_names.c). */
PROBE_MUST_CHECK struct probe_error *expr_parse_name(struct parser *p);
/* One that begins with '*'. */
PROBE_MUST_CHECK struct probe_error *expr_parse_dereference(struct parser *p);
/* A text to compare the last node, a string, with. */
PROBE_MUST_CHECK struct probe_error *expr_parse_text(struct parser *p, enum arch_expr_kind kind);
/* The word `in`, or the words `not in`, if they come next (parse_lists.c). */
bool expr_take_in(struct parser *p, bool *is_not_ret);
/* What follows them, for the last node. */
PROBE_MUST_CHECK struct probe_error *expr_parse_list(
	struct parser *p, const char *where, bool is_not);

#endif
