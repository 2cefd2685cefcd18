/* SPDX-License-Identifier: MIT */
/*
 * Patterns: what a user types to name probes.
 *
 *   PATTERN [ '(' CAPTURE { ',' CAPTURE } ')' ]
 *
 * PATTERN is one of
 *   provider:name          globs (fnmatch(3)) on both sides; `name` alone is `*:name`
 *   path:provider:name     path is a glob on the module's path; one without a
 *                          slash is compared with the file name only
 *   /regex/                extended regular expression on "provider:name"
 *   sdt_provider:name      perf
 *   usdt:path:provider:name, usdt:path:name   bpftrace
 *   u:path:name, u:path:provider:name         bcc
 * `-` in a probe's name is the same as `__` (DTrace).
 *
 * CAPTURE is one of
 *   argN                   the argument; N counts from 0
 *   str(argN)              the NUL-terminated string that it points to
 *   str(argN,argM)         the same, of argM bytes at most: it need not be terminated
 *   bytes(argN,argM)       the argM bytes that it points to
 *   sym(argN)              the name of the function or data at that address (PROBE_VALUE_TEXT)
 * Without a list, all arguments are captured.
 *
 * Every site of every probe that a pattern matches must have the arguments that it names;
 * otherwise, what uses the pattern fails with PROBE_ERROR_USAGE and the list of arguments that
 * there are. In libraries that are opened later, such a probe is refused (struct probe_refusal).
 */
#ifndef PROBE_PATTERN_H
#define PROBE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_pattern;

/*
 * Parses a pattern. The text is copied. Errors: PROBE_ERROR_USAGE (the message has the column of
 * the mistake), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pattern_parse(
	const char *text, struct probe_pattern **ret);

struct probe_catalogue;
/*
 * The same, and the list of arguments may have names of the catalogue, which must outlive the
 * pattern: `postgresql:query__start(query)`. Which argument that is, and whether it is a string,
 * is found for each probe. NULL: no catalogue.
 */
PROBE_MUST_CHECK struct probe_error *probe_pattern_parse_named(
	const char *text, const struct probe_catalogue *catalogue, struct probe_pattern **ret);

/*
 * Makes a pattern that matches the probes for which a function returns true. The function gets
 * the path of the probe's file, and `data`. It is called whenever probes are selected, also when
 * libraries are opened later; by the calls of probe/self.h in the thread that makes them, and it
 * must make none itself. `text` is what messages call the pattern, and is copied. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pattern_predicate(const char *text,
	bool (*predicate)(const char *path, const char *provider, const char *name, void *data),
	void *data, struct probe_pattern **ret);

/* Frees a pattern. NULL is allowed. */
void probe_pattern_free(struct probe_pattern *pattern);

/* Returns the text that the pattern was made from. Owned by the pattern. */
const char *probe_pattern_text(const struct probe_pattern *pattern);

/*
 * Makes the text of a pattern that means the same without a catalogue: the names in its list are
 * replaced. The caller frees *ret. Errors: PROBE_ERROR_USAGE (the pattern has wildcards and names;
 * a probe that is known lacks a name, or all that are known do not have it in the same place),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pattern_plain_text(
	const struct probe_pattern *pattern, char **ret);

/* Tells whether a pattern matches a probe of the file at `path`. */
bool probe_pattern_matches(const struct probe_pattern *pattern, const char *path,
	const char *provider, const char *name);

/*
 * Returns how many of the patterns begin or end pairs, if these are listed in their order: all,
 * except those of probes whose arguments a begin takes that another pattern names
 * (probe_meaning.takes). Without a catalogue, it is all.
 */
size_t probe_pattern_paired(const struct probe_pattern *const *patterns, size_t count,
	const struct probe_catalogue *catalogue);

/*
 * Makes the error for a pattern that matches nothing. The message says where (`where`) was
 * searched, names up to three probes of `names` ("provider:name") that are spelled similarly, and
 * the command that lists all (`all`).
 */
struct probe_error *probe_pattern_no_match(const struct probe_pattern *pattern, const char *where,
	const char *all, const char *const *names, size_t name_count)
	__attribute__((returns_nonnull, warn_unused_result));

#ifdef __cplusplus
}
#endif
#endif
