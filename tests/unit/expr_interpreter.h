/* SPDX-License-Identifier: MIT */
/*
 * Evaluates expressions according to arch/expr.h, for tests to compare parsers and generated
 * code with. It shares no code with either.
 */
#ifndef TESTS_EXPR_INTERPRETER_H
#define TESTS_EXPR_INTERPRETER_H

#include "arch/expr.h"
#include "libprobe/expr/expr.h"

struct expr_string {
	const char *bytes;
	size_t length;
};

/* A hit. Arrays have an element for each capture of the stub. */
struct expr_input {
	const uint64_t *words;		   /* of scalars, as they are recorded */
	const struct expr_string *strings; /* of strings */
	uint64_t unreadable;		   /* bit i: capture i could not be read */
	int32_t tid, pid, cpu;
};

/* False: the hit is rejected, since something could not be read, or was divided by 0. */
bool expr_interpret(const struct arch_expr *expr, const struct expr_input *input, uint64_t *ret);

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
