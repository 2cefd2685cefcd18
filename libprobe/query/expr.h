/* SPDX-License-Identifier: MIT */
/*
 * The language of filters, keys and values.
 *
 *   expr      C's operators on integers, with C's precedence, but no assignment,
 *             no comma, no ?:, no casts:  ( ) ! ~ - + * / % << >> < <= > >= == !=
 *             & ^ | && ||
 *   lists     in (1, 3, 5), not in (1, 3, 5), and of strings, in ("a", "b")
 *   operands  decimal, hexadecimal (0x), octal (0) and character ('a') constants,
 *             with suffixes u, l, ul, or units ns, us, ms, s; doubles (1.5, 2e3);
 *             arg0 ... arg31, or numbers that they point to; tid, pid, cpu;
 *             of pairs, duration, begin.argN, end.argN
 *   strings   str(argN) == "text", str(argN) != "text", starts_with(str(argN), "text")
 *             with C's escapes, and in no other operation; str(argN, argM) has argM bytes
 *             at most; norm(str(argN)) is a whole key, and nothing else, and so are
 *             sym(argN), the name of an address, and comm, ustack and probe
 *
 * Types are C's on x86-64 Linux: an argument has the type that its note declares, int8_t to
 * uint64_t; tid, pid and cpu are int. Floating-point arguments can only be compared, or be a whole
 * key or value. Aggregates are errors.
 *
 * A text is parsed once, and bound to each site, because sites may have their arguments
 * elsewhere and declare other types.
 */
#ifndef LIBPROBE_QUERY_EXPR_H
#define LIBPROBE_QUERY_EXPR_H

#include "arch/expr.h"
#include "libprobe/query/record_layout.h"
#include "libprobe/base/error.h"

struct expr;

/*
 * Parses. `what` names the text in messages ("the filter"). Errors: PROBE_ERROR_USAGE, with the
 * column (from 1), the text, and what was expected there.
 */
PROBE_MUST_CHECK struct probe_error *expr_parse(
	const char *what, const char *text, struct expr **ret);
void expr_free(struct expr *expr);

/*
 * Whether the whole text is one string, perhaps of the begin of a pair. Then *ret says which, and
 * it cannot be bound.
 */
bool expr_is_string(const struct expr *expr, struct capture *ret);

/* Whether that string is to be brought into its normal form (norm.h) when it is read. */
bool expr_is_norm(const struct expr *expr);

/* Whether the whole text is sym(argN): a number, but read as the name of an address. */
bool expr_is_symbol(const struct expr *expr);
/* The error for such an expression that is no key. */
PROBE_MUST_CHECK struct probe_error *expr_no_symbol(const struct expr *expr);
/* Words that are whole keys. */
enum expr_word {
	EXPR_NO_WORD,
	EXPR_COMM,   /* the name of the thread */
	EXPR_USTACK, /* its call stack */
	EXPR_PROBE   /* the probe */
};

/* The word that the whole text is; it cannot be bound. */
enum expr_word expr_word(const struct expr *expr);

/*
 * Whether it is about a pair that has ended: it names `duration`, `begin.` or `end.`, and is then
 * bound to the end's sites.
 */
bool expr_is_of_pair(const struct expr *expr);
/* The error for such an expression without a pair. */
PROBE_MUST_CHECK struct probe_error *expr_no_pair(const struct expr *expr);

/*
 * Puts what the expression asks of the begin into kept[], behind the *count that are there, each
 * once. A string that is a key by itself has at most `string_bytes`. Returns false if that would
 * be more than ARCH_KEPT_MAX.
 */
bool expr_ask_begin(const struct expr *expr, uint16_t string_bytes, struct record_layout_kept *kept,
	uint8_t *count);
/* Can a site of a begin give what the expression asks of the begin? Errors: as expr_bind(). */
PROBE_MUST_CHECK struct probe_error *expr_check_begin(
	const struct expr *expr, const struct record_layout_site *site);

/*
 * Whether the whole text is one argument, argN, and that is a double or a float at this site: then
 * expr_bind_double() binds it, and nothing else can.
 */
bool expr_is_double(const struct expr *expr, const struct record_layout_site *site);
/* As expr_bind(). The value is the bits of a double. */
PROBE_MUST_CHECK struct probe_error *expr_bind_double(const struct expr *expr,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret);

/* Can a site give the string that the whole text is? Errors: as expr_bind(). */
PROBE_MUST_CHECK struct probe_error *expr_check_string(
	const struct expr *expr, const struct record_layout_site *site);

/*
 * Binds to a site: adds the captures that it needs to the site's layout (see
 * record_layout_capture()) and puts the typed tree into nodes[ARCH_EXPR_NODES_MAX], which refer
 * to the expr's texts. Errors, which do not name the probe: PROBE_ERROR_USAGE (no such
 * argument, not an integer, too many operators), PROBE_ERROR_UNSUPPORTED (it cannot be
 * captured).
 */
PROBE_MUST_CHECK struct probe_error *expr_bind(const struct expr *expr,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret);

/* Whether the value of a bound tree, whose last node this is, has a signed type. */
bool expr_is_signed(const struct arch_expr_node *last);

#endif
