/* SPDX-License-Identifier: MIT */
/* Arguments by the names that the catalogue has for them. */
#ifndef LIBPROBE_QUERY_MEANING_H
#define LIBPROBE_QUERY_MEANING_H

#include "libprobe/base/error.h"
#include "libprobe/query/pattern.h"
#include "probe/catalogue.h"

/*
 * The list of arguments that a pattern without one stands for, if the meaning of the probe is
 * known: strings as strings, without the arguments that are only their lengths. Returns their
 * number.
 */
size_t meaning_captures(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX]);
/* The same for programs to read: all arguments as numbers, and the texts of strings beside them. */
size_t meaning_captures_all(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX]);

/*
 * What is compared at a hit of this meaning to tell whose begin an end belongs to, as the meaning
 * of the begin says, in its order. Returns how many; 0 unless the hit has all of it.
 */
size_t meaning_same(const struct probe_meaning *begin, const struct probe_meaning *meaning,
	struct capture captures[PROBE_SAME_MAX]);

/* Whether a text, an expression or a list of arguments, has words that can only be names. */
bool meaning_names_used(const char *text);
/* Whether one of them is of the begin of a pair (begin.NAME). */
bool meaning_begin_used(const char *text);

/*
 * Replaces such words by what they stand for: an argument's by argN, str(argN), str(argN,argM) or
 * bytes(argN,argM); in str() and bytes() by argN; a word for a number by the number. `what` names
 * the text in messages, `meaning` is NULL if nothing is known of the probe, and so is `begin`,
 * which names after `begin.` are of. A name that the probe does not have becomes `absent`, or is an
 * error if that is NULL; the begin must have its names. The caller frees *ret. Errors:
 * PROBE_ERROR_USAGE (there is no such name), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *meaning_replace(const char *what, const char *text,
	const struct probe_meaning *meaning, const struct probe_meaning *begin, const char *absent,
	char **ret);

#endif
