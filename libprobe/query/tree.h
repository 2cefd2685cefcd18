/* SPDX-License-Identifier: MIT */
/* A parsed expression, and C's arithmetic on it. Shared by the files of expr/. */
#ifndef LIBPROBE_QUERY_TREE_H
#define LIBPROBE_QUERY_TREE_H

#include <stddef.h>

#include "libprobe/query/expr.h"

/*
 * int, unsigned int, long or unsigned long: what C's promotions leave; or double, which has 64 bits
 * and can only be compared, or be a whole key or value.
 */
struct expr_type {
	bool wide, is_signed, is_double;
};

static const struct expr_type expr_double = {.wide = true, .is_double = true};

/* What is said of words that are whole keys, elsewhere. */
#define EXPR_ONLY_KEYS "comm, ustack and probe are whole keys (-k), and no part of an expression"

/* A node before the types of arguments are known. Operands precede their operator. */
struct expr_node {
	enum arch_expr_kind kind; /* an argument is ARCH_EXPR_CAPTURE */
	bool is_string;		  /* of an argument: str(argN), not compared with anything yet */
	bool is_norm;		  /* and norm(str(argN)), which is compared with nothing */
	bool is_symbol;		  /* of an argument: sym(argN), which is the whole expression */
	enum expr_word word;	  /* a word that is a whole key; is_string is set, too */
	bool of_begin;		  /* of an argument: begin.argN, begin.str(argN) */
	uint8_t left, right;
	uint8_t arg;
	struct arch_step steps[ARCH_STEPS_MAX]; /* from the argument to what is wanted */
	uint8_t step_count;
	bool has_index;	 /* of steps: items are counted by... */
	uint8_t index;	 /* ...this argument */
	bool has_length; /* of a string: it ends at the latest behind as many bytes as... */
	uint8_t length;	 /* ...this argument says */
	uint8_t depth;
	uint8_t text_length;
	struct expr_type type; /* of a constant; what the numbers of a list have in common */
	uint64_t value;	       /* of a constant, held as described in arch/expr.h */
	const char *text;      /* in expr->literals */
	const uint64_t *list;  /* in expr->numbers */
	uint8_t list_count;
	const char *at; /* in expr->text, for messages */
};

struct expr {
	char *what, *text;
	char *literals; /* the concatenated bytes of all texts */
	size_t literals_length;
	uint64_t *numbers; /* those of all lists */
	size_t numbers_length;
	struct expr_node nodes[ARCH_EXPR_NODES_MAX]; /* the last one is the root */
	uint8_t count;
	const char *of_pair; /* where it first names what only a pair has; or NULL */
	const char *of_hit;  /* where it first names an argument without saying of which end */
};

/* "WHAT 'TEXT', column N: ...", for `at` in expr->text. */
struct probe_error *expr_error(const struct expr *expr, enum probe_error_code code, const char *at,
	const char *format, ...) __attribute__((format(printf, 4, 5), warn_unused_result));

/* What a node has of the site's arguments: str(argN), str(argN, argM) or argN. */
struct capture expr_operand(const struct expr_node *node);

/* ---- Constants (literal.c): parse at *at and advance it --------------------------------- */

/* *at points to a digit. Sets the node's type and value, which may be the bits of a double. */
PROBE_MUST_CHECK struct probe_error *expr_integer(
	const struct expr *expr, const char **at, struct expr_node *node);
/* *at points to the opening quote. */
PROBE_MUST_CHECK struct probe_error *expr_character(
	const struct expr *expr, const char **at, struct expr_node *node);
/* Also; adds the bytes to expr->literals. Sets the node's text and its length. */
PROBE_MUST_CHECK struct probe_error *expr_text(
	struct expr *expr, const char **at, struct expr_node *node);

/* ---- Arithmetic (compute.c) ------------------------------------------------------------ */

/* `value`, converted to the type. */
uint64_t expr_convert(struct expr_type type, uint64_t value);
/* The type in which an operator is computed, given those of its operands. */
struct expr_type expr_operator_type(
	enum arch_expr_kind kind, struct expr_type left, struct expr_type right);
/* The type of the result of a node that is computed in `type`. */
struct expr_type expr_result_type(enum arch_expr_kind kind, struct expr_type type);
/* Whether it is one of < <= > >= == !=. */
bool expr_compares(enum arch_expr_kind kind);
/* The bits of a constant as a double; never of -0. */
uint64_t expr_double_of(struct expr_type type, uint64_t value);
/* Whether both operands are converted to the type in which the operator is computed. */
bool expr_converts(enum arch_expr_kind kind);
/* Computes an operator on converted constants. Returns NULL, or why there is no result. */
const char *expr_compute(enum arch_expr_kind kind, struct expr_type type, uint64_t left,
	uint64_t right, uint64_t *ret);

#endif
