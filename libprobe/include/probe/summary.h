/* SPDX-License-Identifier: MIT */
/*
 * A summary of events (probe/event.h): how many hits there were, when, of which
 * probes, in which threads, with which values, and how long pairs of them took.
 *
 * It is made in one pass, in memory that does not grow with the number of events.
 * What there is no room for is counted all the same, and said.
 */
#ifndef PROBE_SUMMARY_H
#define PROBE_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_summary;

/*
 * A KEY is `argN`, `str(argN)`, `tid`, `pid`, `cpu` or `comm`. Strings are borrowed
 * during the call only.
 */
struct probe_summary_options {
	/* Whose values are counted; none: strings, and integers of which there are few. */
	const char *const *keys;
	size_t key_count;
	/*
	 * KEY or KEY:KEY. An end belongs to the begin with the same value, the second
	 * one being the end's; NULL: to the last begin of its thread.
	 */
	const char *match;
};

/*
 * Makes a summary of no events; `options` may be NULL.
 * Errors: PROBE_ERROR_USAGE (not a KEY), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_summary_create(
	const struct probe_summary_options *options, struct probe_summary **ret);
/* Gives a summary back. NULL is allowed. */
void probe_summary_free(struct probe_summary *summary);

/*
 * Adds an event. They should come in order of time: rates do not depend on it,
 * but pairs do. Errors: PROBE_ERROR_MEMORY; the summary can then only be freed.
 */
PROBE_MUST_CHECK struct probe_error *probe_summary_add(
	struct probe_summary *summary, const struct probe_event *event);

enum probe_summary_format {
	PROBE_SUMMARY_TEXT,
	PROBE_SUMMARY_JSON, /* one object a line; docs: probectl-report(1) */
	PROBE_SUMMARY_HTML  /* one page that needs no other file */
};

struct probe_summary_view {
	const char *title; /* what was summarised: a path; any bytes */
	size_t top;	   /* text and HTML: so many rows of a table at most; 0: all */
	bool ascii;	   /* text: no other characters */
};

/*
 * Writes the summary as it is now. *ret is to be freed with free(); it is
 * terminated, too. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_summary_render(const struct probe_summary *summary,
	enum probe_summary_format format, const struct probe_summary_view *view, char **ret,
	size_t *length_ret);

#ifdef __cplusplus
}
#endif
#endif
