/* SPDX-License-Identifier: MIT */
/*
 * Tables of gathered rows (struct probe_row): rows of several sessions are merged by probe and
 * key.
 */
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
	const char *begin_provider, *begin_name; /* of a pair; otherwise NULL */
	struct probe_row row;			 /* `probe` and `begin` are unused */
	uint64_t unmatched;			 /* ends without a begin; 0 with keys */
	double first;			/* of a counter: its value when the table's time began */
	struct probe_coverage coverage; /* of its probes; of a pair, also of the begins */
};

struct probe_table;

/* Creates an empty table for rows with `key_count` keys. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_table_create(size_t key_count, struct probe_table **ret);
/* Frees a table. NULL is allowed. */
void probe_table_free(struct probe_table *table);

/*
 * Limits the rows with keys that probe_table_add_table() adds; 0: no limit. Once the table has this
 * many, only keys that it already has get more hits. Hits of other keys are added to a row of their
 * probe whose keys are PROBE_VALUE_OTHER, so no hit is lost.
 */
void probe_table_limit(struct probe_table *table, size_t rows_max);

/*
 * Adds what a session has gathered so far; of a PROBE_SESSION_COUNT, its counts. `options` are
 * those of the session. Rows with the same names and keys become one. Errors: those of
 * probe_session_rows(); the table can then only be freed.
 */
PROBE_MUST_CHECK struct probe_error *probe_table_add(struct probe_table *table,
	struct probe_session *session, const struct probe_session_options *options);

/*
 * Adds the rows of another table with as many keys, which stays as it is: what sessions have
 * gathered that are gone. Errors: PROBE_ERROR_MEMORY; the table can then only be freed.
 */
PROBE_MUST_CHECK struct probe_error *probe_table_add_table(
	struct probe_table *table, const struct probe_table *other);

/*
 * Makes a table of what is new since an earlier one: the differences of counts, sums and
 * buckets. `earlier` may be NULL: then everything is new. Extremes are exact if they are new.
 * Others are the bounds of buckets; without buckets they are PROBE_VALUE_NULL. Rows
 * without a new hit are left out. If a row of `earlier` is gone, its hits are expected in the row
 * of PROBE_VALUE_OTHER (probe_table_limit()), and are not new there. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_table_since(const struct probe_table *table,
	const struct probe_table *earlier, struct probe_table **ret);

/* What rows are sorted by, highest first; then by names and keys. */
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
 * Return the number of hits that were lost, and of ends without a begin, over all probes. Rows
 * with keys do not have these numbers.
 */
uint64_t probe_table_lost(const struct probe_table *table);
uint64_t probe_table_unmatched(const struct probe_table *table);

/* ---- What is shown ------------------------------------------------------------ */

/* Columns, in their order. */
enum probe_column {
	PROBE_COLUMN_OUTCOME = 1 << 0, /* of a transaction: done or aborted */
	PROBE_COLUMN_COUNT = 1 << 1,
	PROBE_COLUMN_RATE = 1 << 2, /* hits a second */
	PROBE_COLUMN_SUM = 1 << 3,
	PROBE_COLUMN_MIN = 1 << 4,
	PROBE_COLUMN_AVERAGE = 1 << 5,
	PROBE_COLUMN_PERCENTILES = 1 << 6,
	PROBE_COLUMN_MAX = 1 << 7,
	PROBE_COLUMN_LAST = 1 << 8,
	PROBE_COLUMN_CHANGE = 1 << 9, /* of a counter: its growth a second */
	PROBE_COLUMN_TIME = 1 << 10,  /* of the last hit */
	PROBE_COLUMN_BUCKETS = 1 << 11,
	PROBE_COLUMN_PAIRS = 1 << 12 /* in flight, ends without a begin */
};

/* How the rows of a tracer are shown. */
struct probe_view {
	const char *tracer;
	const char *title;    /* names the table if there are several; or NULL */
	unsigned int columns; /* of enum probe_column */
	enum probe_order order;
	bool chart;		      /* text: rows without keys are charts, not lines */
	bool folded;		      /* text: stacks are lines for flame graphs, not a tree */
	bool flamegraph;	      /* ... and these are drawn, as an SVG file of their own */
	bool pprof;		      /* ... and are a profile of pprof, a binary file */
	bool heap;		      /* stacks: of a heap (probe/heap.h) */
	bool live;		      /* of a heap: the bytes that are not freed, not all */
	bool times;		      /* values are nanoseconds */
	bool tags;		      /* metrics: of pmtrace(3), named as its agent's */
	const char *value;	      /* what the values are: an expression, or NULL */
	const char *const *key_names; /* as many as the table has keys */
	/* Text: a key that is the name of an argument has its words. NULL: none are known. */
	const struct probe_catalogue *catalogue;
	size_t top;	     /* text: rows, at most; 0: all */
	bool all;	     /* text: all rows without hits, too */
	uint64_t elapsed_ns; /* the time of the hits, for rates */
	uint64_t time_ns;    /* CLOCK_REALTIME, when the table was made */
	bool is_interval;    /* only what is new since the last table */
};

#ifdef __cplusplus
}
#endif
#endif
