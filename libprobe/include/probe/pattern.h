/* SPDX-License-Identifier: MIT */
/*
 * What a user types to name probes.
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
 * Without a list, all arguments are taken.
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
 * Parses a pattern; the text is copied.
 * Errors: PROBE_ERROR_USAGE, with the column of the mistake.
 */
PROBE_MUST_CHECK struct probe_error *probe_pattern_parse(
	const char *text, struct probe_pattern **ret);

/*
 * Makes a pattern that asks a function. `text` is what messages call it, and is copied. The
 * function tells whether a probe of the module at `path` is meant; it is called whenever probes are
 * selected: also for libraries that are opened later. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pattern_predicate(const char *text,
	bool (*predicate)(const char *path, const char *provider, const char *name, void *data),
	void *data, struct probe_pattern **ret);

/* Frees a pattern. NULL is allowed. */
void probe_pattern_free(struct probe_pattern *pattern);

/* The text as it was given; owned by the pattern. */
const char *probe_pattern_text(const struct probe_pattern *pattern);

/* Tells whether a probe of the module at `path` matches. */
bool probe_pattern_matches(const struct probe_pattern *pattern, const char *path,
	const char *provider, const char *name);

/*
 * Makes the error for a pattern that matched nothing: names up to three of the
 * nearest "provider:name" (by edit distance) among `names`. `all` is the command that shows
 * all there are.
 */
struct probe_error *probe_pattern_no_match(const struct probe_pattern *pattern, const char *where,
	const char *all, const char *const *names, size_t name_count)
	__attribute__((returns_nonnull, warn_unused_result));

#ifdef __cplusplus
}
#endif
#endif
