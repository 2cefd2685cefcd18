/* SPDX-License-Identifier: MIT */
/*
 * Patterns: texts by which a user names probes.
 *
 *   PATTERN [ '(' CAPTURE { ',' CAPTURE } ')' ]
 *
 * PATTERN is one of
 *   provider:name          globs (fnmatch(3)) on both sides; `name` alone is `*:name`
 *   path:provider:name     path is a glob on the module's path; without a slash,
 *                          it is compared with the file name only
 *   /regex/                extended regular expression on "provider:name"
 *   sdt_provider:name      perf
 *   usdt:path:provider:name, usdt:path:name   bpftrace
 *   u:path:name, u:path:provider:name         bcc
 *   provider:"name"        a name in double quotes, with any characters: posix_trace:"db:open"
 * `-` in a probe's name is the same as `__` (DTrace).
 * A pattern of functions is one of
 *   fn:FILE:NAME, fn:NAME                 the entry
 *   fn:FILE:NAME:return, fn:NAME:return   the exits, by which the function returns
 *   uprobe:FILE:NAME, uretprobe:FILE:NAME the same, as bpftrace has them
 * FILE is a path, a file name or the name of a library (libc, c); NAME a symbol without parameters
 * (`ns::f` in C++), a glob, or a /regex/. The probes are those of the provider fn:FILE, FILE
 * without
 * `.so` and what follows it.
 *
 * CAPTURE is one of
 *   argN                   the argument; N counts from 0
 *   str(argN)              the NUL-terminated string to which the argument points
 *   str(argN,argM)         a string of at most argM bytes; it may lack a NUL
 *   bytes(argN,argM)       the argM bytes to which the argument points
 *   sym(argN)              the name of the function or data at that address (PROBE_VALUE_TEXT)
 * Without a list, all arguments are captured.
 *
 * Every site of every probe that a pattern matches must have the arguments that the pattern names.
 * Otherwise the function that uses the pattern fails with PROBE_ERROR_USAGE, and the message lists
 * the probe's arguments. In libraries that are opened later, such a probe is refused (struct
 * probe_refusal).
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
 * Parses a pattern whose list may name arguments as the catalogue does:
 * `postgresql:query__start(query)`. The library looks up for each probe which argument the name
 * means, and whether it is a string. The catalogue must outlive the pattern, and may be NULL. The
 * text is copied. Errors: as probe_pattern_parse().
 */
PROBE_MUST_CHECK struct probe_error *probe_pattern_parse_named(
	const char *text, const struct probe_catalogue *catalogue, struct probe_pattern **ret);

/*
 * Makes a pattern that matches the probes for which a function returns true. The function gets the
 * path of the probe's file, and `data`. It is called whenever probes are selected, also when
 * libraries are opened later. The functions of probe/self.h call it in the thread that calls them;
 * the predicate must call no function of probe/self.h. `text` is what messages call the pattern,
 * and is copied. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pattern_predicate(const char *text,
	bool (*predicate)(const char *path, const char *provider, const char *name, void *data),
	void *data, struct probe_pattern **ret);

/*
 * Makes a pattern of functions match their exits as well as their entries, so that it names pairs
 * by itself (PROBE_PAIRING_NAMES). Returns false for a pattern of exits alone or of static probes,
 * which stays as it is.
 */
bool probe_pattern_pair(struct probe_pattern *pattern);

/* Frees a pattern. NULL is allowed. */
void probe_pattern_free(struct probe_pattern *pattern);

/* Returns the text that the pattern was made from. Owned by the pattern. */
const char *probe_pattern_text(const struct probe_pattern *pattern);

/*
 * Makes the text of a pattern that means the same without a catalogue: the names of arguments in
 * its list are replaced. The caller frees *ret. Errors: PROBE_ERROR_USAGE (the pattern has both
 * wildcards and names; a known probe lacks a name, or the known probes have it in different
 * places), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pattern_plain_text(
	const struct probe_pattern *pattern, char **ret);

/*
 * Tells whether a pattern matches a probe of the file at `path`. If that is not known (""), only
 * names are compared: with a function's provider, the name of the file that the pattern gives.
 */
bool probe_pattern_matches(const struct probe_pattern *pattern, const char *path,
	const char *provider, const char *name);

/*
 * Counts the patterns that name start or end events, for patterns that list pairs in their order. A
 * pattern is not counted if it names a probe that only gives its arguments to the start event of
 * another pattern (probe_meaning.takes). Without a catalogue, every pattern is counted.
 */
size_t probe_pattern_paired(const struct probe_pattern *const *patterns, size_t count,
	const struct probe_catalogue *catalogue);

/*
 * Makes the error for a pattern that matches nothing. The message tells the user where (`where`)
 * the library searched, up to three probes of `names` ("provider:name") that are spelled similarly,
 * and the command that lists all probes (`all`).
 */
struct probe_error *probe_pattern_no_match(const struct probe_pattern *pattern, const char *where,
	const char *all, const char *const *names, size_t name_count)
	__attribute__((returns_nonnull, warn_unused_result));

#ifdef __cplusplus
}
#endif
#endif
