/* SPDX-License-Identifier: MIT */
/*
 * Spans of time between two events of a record or a stream: the pairs that `--pairs auto` finds by
 * names (X__start and X__done, X__entry and X__return; probectl-trace(1)).
 *
 * Events are added one by one, and memory is limited. The probes are not known in advance, so each
 * event whose name may be a start event is kept until its end event arrives. If no end event
 * arrives, the event was a point.
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

/* Most start events that are kept: for a thread (or for a value that is matched), and in total. */
enum { PROBE_SPANS_OWNER_MAX = 1024, PROBE_SPANS_MAX = 1 << 16 };

struct probe_spans;

/* The start and end events that belong together: they have the same provider and stem. */
struct probe_span_pair {
	const char *provider;
	const char *name; /* the stem without its separator: query of query__start */
	bool ended;	  /* the pair had an end event */
};

/* A span that has begun. Its end event may not have been added yet. */
struct probe_span {
	struct probe_event begin; /* a copy of the start event */
	const struct probe_span_pair *pair;
	/*
	 * The surrounding span: the next older span of the same thread that is not `crossed`. NULL
	 * if no span surrounds this span.
	 */
	struct probe_span *parent;
	bool crossed;	   /* an older span of the same thread ended before this span */
	uint64_t inner_ns; /* total time of ended spans whose parent this span is */
	bool is_cut;	   /* hits were lost while the span was open, so it has no end event */
	void *data;	   /* for the caller's use */
};

enum probe_span_kind {
	PROBE_SPAN_POINT, /* by its name neither a start nor an end event; or a loss */
	PROBE_SPAN_BEGIN, /* kept until its end event arrives */
	PROBE_SPAN_END,
	PROBE_SPAN_UNMATCHED /* an end event without a start event */
};

/* How start and end events are matched. */
struct probe_spans_options {
	/*
	 * If -1, events of one thread are matched. Otherwise, the number of an argument: an end
	 * event ends a start event with the same value of this argument, in any thread of the
	 * process.
	 */
	int match;
	int match_end; /* the number of this argument in end events */
	/*
	 * Called for a start event without an end event: when newer start events need its place,
	 * when hits are lost, and by probe_spans_finish(). If its pair has not `ended`, the event
	 * was a point. May be NULL.
	 */
	void (*unended)(void *data, struct probe_span *span);
	void *data;
	/*
	 * For matching in each thread: an end event belongs to the newest start event that has the
	 * same values in the arguments that both share (probe_meaning.same), if the events have
	 * these arguments. If NULL, an end event belongs to the newest start event. Borrowed.
	 */
	const struct probe_catalogue *catalogue;
	/*
	 * The spans of a thread nest, as calls do: an end event gives up the newer spans of its
	 * thread. `begin` of a span has no arguments, names and stack.
	 */
	bool nested;
};

/*
 * Creates spans without events. If `options` is NULL, events of one thread are matched. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_spans_create(
	const struct probe_spans_options *options, struct probe_spans **ret);
/* Frees spans. NULL is allowed. */
void probe_spans_free(struct probe_spans *spans);

/*
 * Adds the next event, in the order of time. *span_ret is the span that the event starts or ends.
 * For other events, *span_ret is the span around the event if events of one thread are matched, and
 * otherwise NULL. The span is valid until the next call. A loss of hits gives up all open spans,
 * because end events may be missing: those that still come are unmatched. If an event lacks the
 * argument that is matched, a start event is a point, and an end event is unmatched. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_spans_add(struct probe_spans *spans,
	const struct probe_event *event, enum probe_span_kind *ret, struct probe_span **span_ret);

/* Calls `unended` for all remaining start events. Call it after the last event. */
void probe_spans_finish(struct probe_spans *spans);

#ifdef __cplusplus
}
#endif
#endif
