/* SPDX-License-Identifier: MIT */
/* Output functions that all commands share: safe text and tables. JSON is in out.h. */
#ifndef CLI_PRINT_PRINT_H
#define CLI_PRINT_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "libprobe/base/error.h"
#include "probe/target.h"

/* Printed before the name of a process or a file that could not be read completely. */
#define READ_OF "what can be read of "

/* Arguments for "%zu site%s": a count, and the ending of its noun. */
#define COUNTED(count) (count), (count) == 1 ? "" : "s"

/* ---- Text --------------------------------------------------------------------- */

/*
 * Returns a copy that is safe for a terminal: control characters and bytes that are not UTF-8
 * are escaped as in C ("\n", "\377"). The caller frees it; NULL on lack of memory.
 */
char *printable(const char *text);

/* Writes a text to a stream, escaped as by printable(). */
void print_printable(FILE *stream, const char *text);

/*
 * Reports a site that is not as probectl left it, on standard error: "probectl: slow:tick at
 * 0x... in PATH: it holds cc ...".
 */
void print_bad_site(const struct probe_bad_site *site, pid_t pid, const char *consequence);

/*
 * Reports on standard error that a session has found a site altered or intact again, with the
 * times.
 */
void print_site_news(const struct probe_site_news *news, pid_t pid);

/* ---- Tables -------------------------------------------------------------------- */

struct table_column {
	const char *title;
	bool is_number; /* align the column to the right */
	bool shrinks;	/* cut the column, with an ellipsis, if the terminal is too narrow */
};

struct table;

/* `columns` must outlive the table. Lack of memory is reported by table_print(). */
struct table *table_create(const struct table_column *columns, size_t count);
/* Adds a row with one cell for each column. The cells are copied and made printable; NULL is "". */
void table_add(struct table *table, const char *const *cells);
/*
 * Adds an indented line below the last row. The cells of such lines have columns of their own,
 * separate from the table's columns. A single cell is a text outside all columns.
 */
void table_add_line(struct table *table, const char *const *cells, size_t count);
/*
 * Prints the table on standard output. The first line has the titles; nothing is printed if the
 * table has no rows.
 */
PROBE_MUST_CHECK struct probe_error *table_print(struct table *table);
void table_free(struct table *table);

#endif
