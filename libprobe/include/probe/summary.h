/* SPDX-License-Identifier: MIT */
/*
 * Summaries of events (probe/event.h): how many hits there were, when, of which probes, in which
 * threads, with which values, and how long pairs took.
 *
 * A summary is made in one pass, in memory that does not grow with the number of events. Hits
 * beyond a limit are counted together, and the output says so.
 */
#ifndef PROBE_SUMMARY_H
#define PROBE_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>

#include "catalogue.h"
#include "error.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_summary;

/*
 * A KEY is `argN`, `str(argN)`, `norm(str(argN))`, which makes one of texts that differ only in
 * literals, `sym(argN)`, an address that was recorded so, `tid`, `pid`, `cpu`, `comm` or `probe`.
 * With a catalogue, it may also be the name of an argument: `NAME`, which is a string or a number,
 * `str(NAME)` or `norm(NAME)`. Zero is the default of each option. Strings are borrowed during the
 * call only, the catalogue as long as the summary exists.
 */
struct probe_summary_options {
	/* KEYs whose values are counted; none: strings, and integers with few different values. */
	const char *const *keys;
	size_t key_count;
	/*
	 * KEY, or KEY:KEY for begin and end: an end ends the begin with the same value. NULL: the
	 * last begin of its thread.
	 */
	const char *match;
	/*
	 * Also look at single pairs: by the values that `keys` have at their begins or else at
	 * their ends (without keys, by the first string), and which took longest.
	 */
	bool pairs;
	/* Also for arguments that begins and ends share; NULL: there are no names. */
	const struct probe_catalogue *catalogue;
};

/*
 * Creates a summary without events. `options` may be NULL. Errors: PROBE_ERROR_USAGE (not a KEY),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_summary_create(
	const struct probe_summary_options *options, struct probe_summary **ret);
/* Frees a summary. NULL is allowed. */
void probe_summary_free(struct probe_summary *summary);

/*
 * Adds an event. Pairs are matched correctly only if events are added in the order of time.
 * Errors: PROBE_ERROR_MEMORY; the summary can then only be freed.
 */
PROBE_MUST_CHECK struct probe_error *probe_summary_add(
	struct probe_summary *summary, const struct probe_event *event);

/*
 * Checks that there were hits with a value for each key that was asked for, if there were hits at
 * all, and that its names are arguments of some probe; with `other`, a summary with the same
 * options, for hits of either. `other` may be NULL. Errors:
 * PROBE_ERROR_NOT_FOUND (none had one), PROBE_ERROR_USAGE (a name that no probe has),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_summary_check_keys(
	const struct probe_summary *summary, const struct probe_summary *other);

enum probe_summary_format {
	PROBE_SUMMARY_TEXT,
	PROBE_SUMMARY_JSON, /* one object a line: probectl-report(1) */
	PROBE_SUMMARY_HTML  /* one page, without other files */
};

struct probe_summary_view {
	const char *title; /* what was summarised, such as a path; any bytes */
	size_t top;	   /* text and HTML: rows of each table, at most; 0: all */
	bool ascii;	   /* text: only ASCII characters */
};

/*
 * Writes the summary as it is now. *ret has *length_ret bytes, and a NUL after them; free it with
 * free(). Errors: PROBE_ERROR_USAGE (no such format), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_summary_render(const struct probe_summary *summary,
	enum probe_summary_format format, const struct probe_summary_view *view, char **ret,
	size_t *length_ret);

/*
 * Writes what differs between two summaries with the same options, as text or JSON: rates of
 * probes, rates and times of pairs (with `pairs`, by their values), rates of values; what changed
 * most comes first. The view of `after` limits the rows. *ret and *length_ret are as of
 * probe_summary_render(). Errors: PROBE_ERROR_USAGE (HTML), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_summary_compare(const struct probe_summary *before,
	const struct probe_summary_view *before_view, const struct probe_summary *after,
	const struct probe_summary_view *after_view, enum probe_summary_format format, char **ret,
	size_t *length_ret);

#ifdef __cplusplus
}
#endif
#endif
