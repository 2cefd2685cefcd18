/* SPDX-License-Identifier: MIT */
/*
 * Tables of what was gathered (struct probe_row): rows of several sessions
 * merged by probe and key, what is new since an earlier table, and which columns
 * of them are shown.
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

/* All strings, keys and buckets are owned by the table. */
struct probe_table_row {
	const char *provider, *name;
	const char *begin_provider, *begin_name; /* of a pair; else NULL */
	struct probe_row row;			 /* its `probe` and `begin` mean nothing here */
	uint64_t unmatched;			 /* ends without a begin; only without keys */
	double first;			/* of a counter: what it was when the table's time began */
	struct probe_coverage coverage; /* of all its probes; of a pair, also of the begins */
};

struct probe_table;

/* Makes an empty table for rows with so many keys. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_table_create(size_t key_count, struct probe_table **ret);
/* Frees a table. NULL is allowed. */
void probe_table_free(struct probe_table *table);

/*
 * Adds what a session has gathered so far; of a PROBE_SESSION_COUNT, its counts.
 * Rows of the same probe (by its name), begin and keys become one.
 * Errors: PROBE_ERROR_MEMORY; the table can then only be freed.
 */
PROBE_MUST_CHECK struct probe_error *probe_table_add(struct probe_table *table,
	struct probe_session *session, const struct probe_session_options *options);

/*
 * Makes a table of what is new since an earlier one: the differences of counts, sums and
 * buckets. `earlier` may be NULL: then everything is new. Extremes are exact if they are new.
 * Others are the bounds of buckets; without buckets they are PROBE_VALUE_NULL. Rows
 * without a new hit are left out. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_table_since(const struct probe_table *table,
	const struct probe_table *earlier, struct probe_table **ret);

/* By what rows are ordered, most first; then by names and keys. */
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

/* The rows; owned by the table, until it changes. */
const struct probe_table_row *probe_table_rows(const struct probe_table *table, size_t *count_ret);

/* Losses and unmatched ends, summed over all probes; with keys, rows have no such numbers. */
uint64_t probe_table_lost(const struct probe_table *table);
uint64_t probe_table_unmatched(const struct probe_table *table);

/* ---- What is shown ------------------------------------------------------------ */

/* Columns, in the order in which they stand. */
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
	const char *title;    /* says which of several tracers' table it is; or NULL */
	unsigned int columns; /* of enum probe_column */
	enum probe_order order;
	bool chart;	   /* text: without keys, a chart for each row in place of a line */
	bool folded;	   /* text: stacks as lines for flame graphs, not as a tree */
	bool times;	   /* values are nanoseconds */
	const char *value; /* what the values are: an expression, or NULL */
	const char *const *key_names; /* as many as the table has keys */
	size_t top;		      /* text: so many rows at most; 0: all */
	bool all;		      /* text: also rows without hits, however many */
	uint64_t elapsed_ns;	      /* in which the hits came: for rates */
	uint64_t time_ns;	      /* CLOCK_REALTIME, when the table was made */
	bool is_interval;	      /* only what is new since the last table */
};

#ifdef __cplusplus
}
#endif
#endif
