/* SPDX-License-Identifier: MIT */
/* Output functions for all commands: safe text and tables. For JSON see out.h. */
#ifndef CLI_PRINT_PRINT_H
#define CLI_PRINT_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "libprobe/base/error.h"
#include "probe/target.h"

/*
 * A start of a message that says that a process or a file could not be read completely. The name
 * of the process or file follows.
 */
#define READ_OF "what can be read of "

/* Arguments for the format "%zu site%s": a number, and the ending of the noun for this number. */
#define COUNTED(count) (count), (count) == 1 ? "" : "s"

/* ---- Text --------------------------------------------------------------------- */

/*
 * Returns a copy of a text that is safe for a terminal. Control characters, and bytes that are not
 * UTF-8, are escaped as in C ("\n", "\377"). Returns NULL on lack of memory. The caller frees the
 * copy.
 */
char *printable(const char *text);

/* Writes a text to a stream. The text is escaped as by printable(). */
void print_printable(FILE *stream, const char *text);

/*
 * Reports on standard error that another program has changed a site: "probectl: slow:tick at 0x...
 * in PATH: it holds cc ...".
 */
void print_bad_site(const struct probe_bad_site *site, pid_t pid, const char *consequence);

/*
 * Reports on standard error that a session has found a change of a site: another program has
 * changed it, or it is intact again. The message tells when this was found.
 */
void print_site_news(const struct probe_site_news *news, pid_t pid);

/* ---- Tables -------------------------------------------------------------------- */

struct table_column {
	const char *title;
	bool is_number; /* align the cells of the column to the right */
	/* If the terminal is too narrow, shorten the cells of the column, with an ellipsis. */
	bool shrinks;
};

struct table;

/* Creates a table. `columns` must outlive it. table_print() reports lack of memory. */
struct table *table_create(const struct table_column *columns, size_t count);
/*
 * Adds a row. There must be one cell for each column; NULL stands for an empty cell. The cells are
 * copied and made safe for a terminal.
 */
void table_add(struct table *table, const char *const *cells);
/*
 * Adds an indented line below the last row. Such lines have columns of their own, which are not
 * those of the table. If the line has a single cell, this is a text outside all columns.
 */
void table_add_line(struct table *table, const char *const *cells, size_t count);
/*
 * Prints the table on standard output. The first line has the titles. A table without rows prints
 * nothing.
 */
PROBE_MUST_CHECK struct probe_error *table_print(struct table *table);
void table_free(struct table *table);

#endif
