/* SPDX-License-Identifier: MIT */
/*
 * Spans of time between two events of a record or a stream: the begins and ends that
 * `--pairs auto` finds by their names (X__start and X__done, X__entry and X__return;
 * probectl-trace(1)).
 *
 * It takes event by event, in constant memory. Which probes there are is not known
 * before the last event, so whatever could begin something by its name is kept until
 * its end comes; if there never is one, it was a point.
 */
#ifndef PROBE_SPANS_H
#define PROBE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins that are kept: so many of a thread (or a key), and so many in all. */
enum { PROBE_SPANS_OWNER_MAX = 256, PROBE_SPANS_MAX = 1 << 16 };

struct probe_spans;

/* Which begins and ends belong together: those of one provider and one stem. */
struct probe_span_pair {
	const char *provider;
	const char *name; /* the stem without its separator: query of query__start */
	bool ended;	  /* there has been an end */
};

/* A begin that waits for its end. */
struct probe_span {
	struct probe_event begin; /* a copy */
	const struct probe_span_pair *pair;
	/* The one around it: the next older one of the same thread that is not crossed. */
	struct probe_span *parent; /* or NULL */
	bool crossed;		   /* an older one of the same thread has ended before it */
	uint64_t inner_ns;	   /* what ended ones took of which it was the parent */
	void *data;		   /* the caller's */
};

enum probe_span_kind {
	PROBE_SPAN_POINT, /* by its name, neither begins nor ends anything; or it is a loss */
	PROBE_SPAN_BEGIN, /* it is kept, until its end comes */
	PROBE_SPAN_END,
	PROBE_SPAN_UNMATCHED /* an end without a begin */
};

/* How begins and ends are matched: `match` < 0 within one thread, else by the value ... */
struct probe_spans_options {
	int match;     /* ... of this argument of the begin ... */
	int match_end; /* ... and this one of the end; matched ones may be on any thread */
	/*
	 * A begin without an end: it gave way to newer ones, or probe_spans_finish().
	 * It was a point where its pair was never ended. NULL: nobody asks.
	 */
	void (*unended)(void *data, struct probe_span *span);
	void *data;
};

/* Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_spans_create(
	const struct probe_spans_options *options, struct probe_spans **ret);
/* Forgets all that is kept. NULL is allowed. */
void probe_spans_free(struct probe_spans *spans);

/*
 * Takes the next event. *span_ret is what it began or ended, or else what is around
 * it in its thread, if there is something and spans are of threads; valid until the next call.
 * An end that lacks the argument to be matched by is unmatched, and
 * a begin is then a point. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_spans_add(struct probe_spans *spans,
	const struct probe_event *event, enum probe_span_kind *ret, struct probe_span **span_ret);

/* After the last event: all begins that are left. */
void probe_spans_finish(struct probe_spans *spans);

#ifdef __cplusplus
}
#endif
#endif
