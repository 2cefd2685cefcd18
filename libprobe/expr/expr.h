/* SPDX-License-Identifier: MIT */
/*
 * What a user types for filters, keys and values.
 *
 *   expr      C's operators on integers, with C's precedence, but no assignment,
 *             no comma, no ?:, no casts:  ( ) ! ~ - + * / % << >> < <= > >= == !=
 *             & ^ | && ||
 *   operands  decimal, hexadecimal (0x), octal (0) and character ('a') constants,
 *             with suffixes u, l, ul; arg0 ... arg31; tid, pid, cpu
 *   strings   str(argN) == "text", str(argN) != "text", starts_with(str(argN), "text")
 *             with C's escapes; there alone
 *
 * Types are C's on x86-64 Linux: an argument has the type that its note
 * declares, int8_t to uint64_t; tid, pid and cpu are int. Arguments with a
 * fraction, and aggregates, are errors.
 *
 * A text is parsed once, and bound to each site, since every site has its
 * arguments elsewhere and may declare other types.
 */
#ifndef LIBPROBE_EXPR_EXPR_H
#define LIBPROBE_EXPR_EXPR_H

#include "arch/expr.h"
#include "libprobe/expr/record_layout.h"
#include "probe/error.h"

struct expr;

/*
 * Parses. `what` names it in messages ("the filter"). Errors: PROBE_ERROR_USAGE,
 * with the column (from 1), the text, and what was expected there.
 */
PROBE_MUST_CHECK struct probe_error *expr_parse(
	const char *what, const char *text, struct expr **ret);
void expr_free(struct expr *expr);

/* Is the whole text one string, str(argN)? Then *arg_ret is N; it cannot be bound. */
bool expr_is_string(const struct expr *expr, unsigned int *arg_ret);

/*
 * Binds to a site: makes the captures that it needs in the site's layout (see
 * record_layout_capture()) and the typed tree, into nodes[ARCH_EXPR_NODES_MAX], which
 * refer to the expr's texts. Errors, which do not name the probe:
 * PROBE_ERROR_USAGE (no such argument, one that is no integer, too many
 * operators), PROBE_ERROR_UNSUPPORTED (one that cannot be captured).
 */
PROBE_MUST_CHECK struct probe_error *expr_bind(const struct expr *expr,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret);

/* Is the value of a bound tree, of which this is the last node, of a signed type? */
bool expr_is_signed(const struct arch_expr_node *last);

#endif
