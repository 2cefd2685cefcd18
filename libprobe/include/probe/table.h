/* SPDX-License-Identifier: MIT */
/* Tables of gathered rows (struct probe_row). Rows of sessions are merged by probe and key. */
#ifndef PROBE_TABLE_H
#define PROBE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A row of a table. Strings, keys and buckets are owned by the table. */
struct probe_table_row {
	const char *provider, *name;
	const char *begin_provider, *begin_name; /* start event of a pair; otherwise NULL */
	struct probe_row row;			 /* `probe` and `begin` are unused */
	uint64_t unmatched;			 /* end events without a start event; 0 with keys */
	double first; /* for a counter: its value at the start of the table's time */
	struct probe_coverage coverage; /* including start events, for a pair */
};

struct probe_table;

/* Creates an empty table for rows with `key_count` keys. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_table_create(size_t key_count, struct probe_table **ret);
/* Frees a table. NULL is allowed. */
void probe_table_free(struct probe_table *table);

/*
 * Limits the number of rows with keys that probe_table_add_table() adds; 0 for no limit. Once the
 * table has this many rows, only keys that it already has get more hits. Hits of other keys are
 * added to a row of their probe whose keys are PROBE_VALUE_OTHER, so no hit is lost.
 */
void probe_table_limit(struct probe_table *table, size_t rows_max);

/*
 * Adds the rows that a session has gathered so far; for a PROBE_SESSION_COUNT, its counts.
 * `options` are the options of the session. Rows with the same names and keys become one row.
 * Errors: those of probe_session_rows(); the table can then only be freed.
 */
PROBE_MUST_CHECK struct probe_error *probe_table_add(struct probe_table *table,
	struct probe_session *session, const struct probe_session_options *options);

/*
 * Adds the rows of the table `other`, which must have the same number of keys. `other` is not
 * changed. The sessions whose rows it has need not exist any more. Errors: PROBE_ERROR_MEMORY; the
 * table can then only be freed.
 */
PROBE_MUST_CHECK struct probe_error *probe_table_add_table(
	struct probe_table *table, const struct probe_table *other);

/*
 * Makes a table of the hits that are new since an earlier table: the differences of counts, sums
 * and buckets. If `earlier` is NULL, everything is new. An extreme is exact if a new hit has
 * changed it. Otherwise it is the bound of a bucket, or PROBE_VALUE_NULL without buckets. Rows
 * without a new hit are left out. If a row of `earlier` no longer exists, its hits are expected in
 * the row of PROBE_VALUE_OTHER (probe_table_limit()), and are not new there. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_table_since(const struct probe_table *table,
	const struct probe_table *earlier, struct probe_table **ret);

/* The figure by which rows are sorted, highest first; equal rows are sorted by names and keys. */
enum probe_order {
	PROBE_ORDER_COUNT,
	PROBE_ORDER_SUM,
	PROBE_ORDER_MIN,
	PROBE_ORDER_MAX,
	PROBE_ORDER_AVERAGE,
	PROBE_ORDER_LAST
};
/* Sorts the rows. */
void probe_table_sort(struct probe_table *table, enum probe_order order);

/* Returns the rows. Owned by the table, and valid until it changes. */
const struct probe_table_row *probe_table_rows(const struct probe_table *table, size_t *count_ret);

/*
 * Return the number of lost hits, and the number of end events without a start event, over all
 * probes. Rows with keys do not have these numbers.
 */
uint64_t probe_table_lost(const struct probe_table *table);
uint64_t probe_table_unmatched(const struct probe_table *table);

/* ---- What is shown ------------------------------------------------------------ */

/* Columns, in their order. */
enum probe_column {
	PROBE_COLUMN_OUTCOME = 1 << 0, /* for a transaction: done or aborted */
	PROBE_COLUMN_COUNT = 1 << 1,
	PROBE_COLUMN_RATE = 1 << 2, /* hits a second */
	PROBE_COLUMN_SUM = 1 << 3,
	PROBE_COLUMN_MIN = 1 << 4,
	PROBE_COLUMN_AVERAGE = 1 << 5,
	PROBE_COLUMN_PERCENTILES = 1 << 6,
	PROBE_COLUMN_MAX = 1 << 7,
	PROBE_COLUMN_LAST = 1 << 8,
	PROBE_COLUMN_CHANGE = 1 << 9, /* for a counter: its growth a second */
	PROBE_COLUMN_TIME = 1 << 10,  /* time of the last hit */
	PROBE_COLUMN_BUCKETS = 1 << 11,
	PROBE_COLUMN_PAIRS = 1 << 12 /* pairs in flight, and end events without a start event */
};

/* How the rows of a tracer are shown. */
struct probe_view {
	const char *tracer;
	const char *title;    /* name of the table, if several are shown; or NULL */
	unsigned int columns; /* bits of enum probe_column */
	enum probe_order order;
	bool chart;	   /* text: charts instead of lines for rows without keys */
	bool folded;	   /* text: stacks as lines for flame graphs, not as a tree */
	bool flamegraph;   /* with `folded`: draw the flame graph, as an SVG file of its own */
	bool pprof;	   /* with `folded`: write a profile of pprof, a binary file */
	bool heap;	   /* stacks are stacks of a heap (probe/heap.h) */
	bool live;	   /* for a heap: show the bytes that are not freed, not all bytes */
	bool edges;	   /* text: with the callers and callees of functions (probe/calls.h) */
	bool times;	   /* values are nanoseconds */
	bool tags;	   /* metrics: those of pmtrace(3), as its agent names them */
	const char *value; /* the expression of the values, or NULL */
	const char *const *key_names; /* names of the table's keys */
	/*
	 * Text: words for the numbers of a key that is the name of an argument. NULL if no words
	 * are known.
	 */
	const struct probe_catalogue *catalogue;
	size_t top;	     /* text: most rows to show; 0 for all */
	bool all;	     /* text: show rows without hits, too */
	uint64_t elapsed_ns; /* the time in which the hits happened, for rates */
	uint64_t time_ns;    /* time when the table was made (CLOCK_REALTIME) */
	bool is_interval;    /* the table has only hits since the previous table */
};

#ifdef __cplusplus
}
#endif
#endif
