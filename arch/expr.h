/* SPDX-License-Identifier: MIT */
/*
 * Expressions that a stub evaluates at each hit: filters, keys and values.
 *
 * The parser (libprobe/query/) has assigned types as C does (C11, 6.3.1 and 6.5). Values have 64
 * bits, extended by their type, so converting one to 64 bits is free.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum arch_expr_kind {
	/* leaves */
	ARCH_EXPR_CONST,   /* `value` */
	ARCH_EXPR_CAPTURE, /* the scalar capture `capture`, as it is recorded */
	/* the capture `capture`, a double or float, as a double's bits; never -0 */
	ARCH_EXPR_DOUBLE,
	ARCH_EXPR_FLOAT,
	ARCH_EXPR_TID, /* thread id in the target's own pid namespace */
	ARCH_EXPR_PID,
	ARCH_EXPR_CPU,
	ARCH_EXPR_DURATION, /* length of a pair that has ended, in nanoseconds */
	/* compare the string capture `capture` with `text`: 0 or 1 */
	ARCH_EXPR_STRING_IS,
	ARCH_EXPR_STRING_BEGINS,
	/* operators on `left` */
	ARCH_EXPR_NEGATE,
	ARCH_EXPR_COMPLEMENT,
	ARCH_EXPR_NOT,	   /* 0 or 1 */
	ARCH_EXPR_CONVERT, /* converts to the node's type */
	ARCH_EXPR_IN,	   /* 1 if `left` is in `list`, else 0; `left` has the node's type */
	/* operators on `left` and `right` */
	ARCH_EXPR_ADD,
	ARCH_EXPR_SUB,
	ARCH_EXPR_MUL,
	ARCH_EXPR_DIV, /* dividing by 0 rejects the hit; INT_MIN / -1 is INT_MIN */
	ARCH_EXPR_MOD,
	ARCH_EXPR_SHL, /* shifts by the right operand modulo the width of the left */
	ARCH_EXPR_SHR,
	ARCH_EXPR_AND,
	ARCH_EXPR_OR,
	ARCH_EXPR_XOR,
	/* comparisons: 0 or 1; operands have the node's type */
	ARCH_EXPR_LT,
	ARCH_EXPR_LE,
	ARCH_EXPR_GT,
	ARCH_EXPR_GE,
	ARCH_EXPR_EQ,
	ARCH_EXPR_NE,
	/* logical: 0 or 1; `right` is evaluated only if need be */
	ARCH_EXPR_BOTH,
	ARCH_EXPR_EITHER
};

enum {
	ARCH_EXPR_NODES_MAX = 64,
	ARCH_EXPR_DEPTH_MAX = 16, /* depth of nested operators */
	ARCH_EXPR_TEXT_MAX = 255, /* bytes of a string literal */
	ARCH_EXPR_LIST_MAX = 64	  /* numbers in a list */
};

/*
 * An operator or operand, computed in the type of `wide` and `is_signed`, to which its operands (a
 * shift's left one) were converted. A result of 0 or 1 has type int.
 */
struct arch_expr_node {
	enum arch_expr_kind kind;
	bool wide; /* true for 64 bits, false for 32 */
	bool is_signed;
	bool is_double; /* a comparison whose operands are the bits of doubles: see C11, F.9.3 */
	uint8_t left, right; /* indices of the operands, lower than the node's own */
	uint8_t capture;     /* index into the stub's captures */
	uint8_t text_length;
	uint64_t value;
	const char *text; /* the string literal, not terminated; borrowed */
	/* list_count numbers, each extended as its type says; borrowed */
	const uint64_t *list;
	uint8_t list_count;
};

/* An expression; the last node is the root. An unreadable argument rejects the hit. */
struct arch_expr {
	const struct arch_expr_node *nodes; /* borrowed */
	uint8_t count;
};

static inline bool arch_expr_is_string_test(enum arch_expr_kind kind)
{
	return kind == ARCH_EXPR_STRING_IS || kind == ARCH_EXPR_STRING_BEGINS;
}

static inline bool arch_expr_is_capture(enum arch_expr_kind kind)
{
	return kind == ARCH_EXPR_CAPTURE || kind == ARCH_EXPR_DOUBLE || kind == ARCH_EXPR_FLOAT;
}

static inline bool arch_expr_is_leaf(enum arch_expr_kind kind)
{
	return kind <= ARCH_EXPR_DURATION;
}

static inline bool arch_expr_is_binary(enum arch_expr_kind kind)
{
	return kind >= ARCH_EXPR_ADD;
}
