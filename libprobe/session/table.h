/* SPDX-License-Identifier: MIT */
/* What the parts of tables share. */
#ifndef LIBPROBE_SESSION_TABLE_H
#define LIBPROBE_SESSION_TABLE_H

#include "libprobe/base/error.h"
#include "probe/table.h"

struct probe_table {
	struct probe_table_row *rows;
	size_t count;
	size_t key_count;
	size_t rows_max; /* of probe_table_limit(); 0: no limit */
	uint64_t lost, unmatched;
	uint64_t in_flight; /* of sessions with keys: begins without an end */
};

/* Adds rows as probe_session_rows() gives them. Errors as probe_table_add(). */
PROBE_MUST_CHECK struct probe_error *table_add_rows(struct probe_table *table,
	const struct probe_row *rows, size_t count, const struct probe_session_probe *probes,
	size_t probe_count);

/* Copies a row into the table, with all that it points to. */
PROBE_MUST_CHECK struct probe_error *table_append(
	struct probe_table *table, const struct probe_table_row *row);

/* Gives back what a row of a table points to. */
void table_row_free(struct probe_table_row *row);

/* Makes one row of those with the same names and keys. */
void table_merge(struct probe_table *table);

/* Adds what the probes have lost, and so on. */
void table_add_totals(
	struct probe_table *table, const struct probe_session_probe *probes, size_t probe_count);

/* Whether the name of an end says that what began has failed: abort, rollback, error, fail. */
bool table_name_aborts(const char *name);

/*
 * The row of a table that has the names and keys of this one, or NULL. Only the first `count` rows
 * are searched, which must be in the order of table_compare().
 */
struct probe_table_row *table_find(
	const struct probe_table *table, size_t count, const struct probe_table_row *row);

/* Replaces the keys of a row of the table by PROBE_VALUE_OTHER; does nothing without keys. */
void table_row_fold(const struct probe_table *table, struct probe_table_row *row);

/* The order by names and keys of two struct probe_table_row; `table` is one with such rows. */
int table_compare(const void *a, const void *b, void *table);

#endif
