/* SPDX-License-Identifier: MIT */
/*
 * Summaries of events (probe/event.h): how many hits there were, when, of which probes, in which
 * threads, with which values, and how long pairs took.
 *
 * A summary is made in one pass, and its memory does not grow with the number of events. Hits
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
 * Options of a summary. Zero is the default of each option. Strings are borrowed only during the
 * call. The catalogue is borrowed as long as the summary exists.
 *
 * A KEY is `argN`, `str(argN)`, `norm(str(argN))`, `sym(argN)`, `tid`, `pid`, `cpu`, `comm` or
 * `probe`. norm() treats texts that differ only in literals as one text. sym() is an address that
 * was recorded with sym(). With a catalogue, a KEY may also be the name of an argument: `NAME`,
 * which is a string or a number, `str(NAME)` or `norm(NAME)`.
 */
struct probe_summary_options {
	/*
	 * KEYs whose values are counted. Without KEYs: strings, and integers with few different
	 * values.
	 */
	const char *const *keys;
	size_t key_count;
	/*
	 * KEY, or KEY:KEY for the start and the end event: an end event ends the start event with
	 * the same value. If NULL, an end event ends the last start event of its thread.
	 */
	const char *match;
	/*
	 * Also report single pairs: the pairs that took longest, and pairs grouped by the values of
	 * `keys`. A key has its value from the start event or, if the start event has none, from
	 * the end event. Without keys, pairs are grouped by their first string.
	 */
	bool pairs;
	/*
	 * Names of arguments, and the arguments that the start and end events of a pair share.
	 * NULL: KEYs have no names of arguments.
	 */
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
 * Checks the keys of the options. If there were hits at all, at least one must have had a value for
 * each key, and the names in a key must be arguments of some probe. With `other`, a summary with
 * the same options, the hits of both summaries count. `other` may be NULL. Errors:
 * PROBE_ERROR_NOT_FOUND (no hit had a value), PROBE_ERROR_USAGE (a name that no probe has),
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
	const char *title; /* source of the events, such as a path; any bytes */
	size_t top;	   /* text and HTML: most rows of each table; 0 for all */
	bool ascii;	   /* text: only ASCII characters */
};

/*
 * Writes the current summary. *ret has *length_ret bytes, followed by a NUL; free it with free().
 * Errors: PROBE_ERROR_USAGE (no such format), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_summary_render(const struct probe_summary *summary,
	enum probe_summary_format format, const struct probe_summary_view *view, char **ret,
	size_t *length_ret);

/*
 * Writes the differences between two summaries with the same options, as text or JSON: rates of
 * probes, rates and times of pairs (with `pairs`, by their values), and rates of values. The
 * largest changes come first. The view of `after` limits the rows. *ret and *length_ret are as in
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
