/* SPDX-License-Identifier: MIT */
/* The arguments that a pattern names. */
#ifndef LIBPROBE_QUERY_PATTERN_H
#define LIBPROBE_QUERY_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "libprobe/query/captures.h"
#include "probe/catalogue.h"
#include "probe/pattern.h"

/* Does it name probes, and not match names by wildcards, a regex or a function? */
bool pattern_is_exact(const struct probe_pattern *pattern);

/*
 * Of several patterns that match a probe, the one with the highest value decides which arguments
 * are wanted: one that names it, and of those one that says which.
 */
int pattern_precision(const struct probe_pattern *pattern);

/* The one provider and name that it means, borrowed; false if it leaves either open. */
bool pattern_names(
	const struct probe_pattern *pattern, const char **provider_ret, const char **name_ret);

/* The function of probe_pattern_predicate() and its data, as addresses; 0 and 0: there is none. */
void pattern_predicate(
	const struct probe_pattern *pattern, uint64_t *function_ret, uint64_t *data_ret);

/* Whether it has a list in parentheses; else all arguments are wanted. */
bool pattern_has_captures(const struct probe_pattern *pattern);
/* Whether its list has sym(argN). */
bool pattern_has_symbols(const struct probe_pattern *pattern);
/*
 * What its list asks for of a probe with so many arguments, by whose meaning names in the list are
 * replaced. With absent_ok, a name that the probe does not have is an argument that it does not
 * have. Errors: PROBE_ERROR_USAGE (there is no such name; what it stands for makes no list),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pattern_captures(const struct probe_pattern *pattern,
	const char *provider, const char *name, size_t arg_count, bool absent_ok,
	struct capture captures[CAPTURES_MAX], size_t *count_ret);

/* Its list, in its text, if that has names, and whose they are; else NULL. Borrowed. */
const char *pattern_named_list(
	const struct probe_pattern *pattern, const struct probe_catalogue **catalogue_ret);

/* As probe_pattern_matches(), for any module; true for a pattern with a predicate. */
bool pattern_may_name(const struct probe_pattern *pattern, const char *provider, const char *name);

#endif
