/* SPDX-License-Identifier: MIT */
/*
 * Spans of time between two events of a record or a stream: the pairs that `--pairs auto` finds
 * by names (X__start and X__done, X__entry and X__return; probectl-trace(1)).
 *
 * Events are added one by one, and memory is limited. The probes are not known in advance, so
 * each event whose name may be a begin is kept until its end arrives. If there never is one, the
 * event was a point.
 */
#ifndef PROBE_SPANS_H
#define PROBE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "catalogue.h"
#include "error.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many begins are kept: of a thread (or a value that is matched), and in total. */
enum { PROBE_SPANS_OWNER_MAX = 256, PROBE_SPANS_MAX = 1 << 16 };

struct probe_spans;

/* The begins and ends that belong together: those of one provider and one stem. */
struct probe_span_pair {
	const char *provider;
	const char *name; /* the stem without its separator: query of query__start */
	bool ended;	  /* there was an end */
};

/* A begin. */
struct probe_span {
	struct probe_event begin; /* a copy */
	const struct probe_span_pair *pair;
	/* The span around it: the next older one of the same thread that is not crossed. */
	struct probe_span *parent; /* or NULL */
	bool crossed;		   /* an older span of the same thread ended before it */
	uint64_t inner_ns;	   /* the time of ended spans that have it as parent */
	void *data;		   /* the caller's */
};

enum probe_span_kind {
	PROBE_SPAN_POINT, /* neither a begin nor an end, by its name; or a loss */
	PROBE_SPAN_BEGIN, /* kept until its end arrives */
	PROBE_SPAN_END,
	PROBE_SPAN_UNMATCHED /* an end without a begin */
};

/* How begins and ends are matched. */
struct probe_spans_options {
	/*
	 * -1: in each thread. Otherwise, the number of an argument: an end ends a begin with the
	 * same value, in any thread of its process.
	 */
	int match;
	int match_end; /* the number of that argument of the end */
	/*
	 * Called for a begin without an end: when newer begins need its place, and by
	 * probe_spans_finish(). If its pair has not `ended`, it was a point. May be NULL.
	 */
	void (*unended)(void *data, struct probe_span *span);
	void *data;
	/*
	 * In each thread: an end belongs to the newest begin that has the same values of those
	 * arguments that begin and end share (probe_meaning.same), as far as events have them.
	 * Borrowed; NULL: to the newest begin.
	 */
	const struct probe_catalogue *catalogue;
};

/*
 * Creates spans without events. `options` may be NULL: in each thread. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_spans_create(
	const struct probe_spans_options *options, struct probe_spans **ret);
/* Frees spans. NULL is allowed. */
void probe_spans_free(struct probe_spans *spans);

/*
 * Adds the next event, in the order of time. *span_ret is the span that it begins or ends. For
 * other events, if spans are matched in threads, it is the span around the event; otherwise NULL.
 * It is valid until the next call. Without the argument that is matched, a begin is a point, and
 * an end is unmatched. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_spans_add(struct probe_spans *spans,
	const struct probe_event *event, enum probe_span_kind *ret, struct probe_span **span_ret);

/* Calls `unended` for all remaining begins, after the last event. */
void probe_spans_finish(struct probe_spans *spans);

#ifdef __cplusplus
}
#endif
#endif
