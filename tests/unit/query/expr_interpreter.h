/* SPDX-License-Identifier: MIT */
/* Checks of bound expressions, and cases for them; query/evaluate.c evaluates them. */
#ifndef TESTS_EXPR_INTERPRETER_H
#define TESTS_EXPR_INTERPRETER_H

#include "arch/expr.h"
#include "libprobe/query/query.h"

/*
 * NULL, or which promise of arch/expr.h does not hold: order, types, limits. Of
 * the captures, the bits of `strings` are set for those of strings.
 */
const char *expr_ill_formed(const struct arch_expr *expr, uint8_t capture_count, uint64_t strings);

/* An expression, bound to a made-up x86-64 site with the arguments of a note. */
struct expr_case {
	struct expr *expr;
	struct module module;
	struct record_layout_site site;
	struct record_layout layout;
	struct record_layout_kept kept[ARCH_KEPT_MAX]; /* of a begin with the same arguments */
	struct arch_expr_node nodes[ARCH_EXPR_NODES_MAX];
	struct arch_expr bound;
};
PROBE_MUST_CHECK struct probe_error *expr_case_init(
	struct expr_case *c, const char *args, const char *text);
void expr_case_deinit(struct expr_case *c);
/* Which argument a capture is of. */
unsigned int expr_case_arg(const struct expr_case *c, uint8_t capture);
/* Which captures are of strings: bit i for capture i. */
uint64_t expr_case_strings(const struct expr_case *c);

#endif
