/* SPDX-License-Identifier: MIT */
/* Output that all commands share: safe text and tables; JSON is in out.h. */
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

/* For "%zu site%s": a count, and the ending of its noun. */
#define COUNTED(count) (count), (count) == 1 ? "" : "s"

/* ---- Text --------------------------------------------------------------------- */

/*
 * A copy that is safe on a terminal: control characters and bytes that are no
 * UTF-8 are escaped as in C ("\n", "\377"). To be freed; NULL without memory.
 */
char *printable(const char *text);

/* Writes the same to a stream. */
void print_printable(FILE *stream, const char *text);

/*
 * Names a site that is not as it was left, on standard error: "probectl: slow:tick at 0x... in
 * PATH: it holds cc ...".
 */
void print_bad_site(const struct probe_bad_site *site, pid_t pid, const char *consequence);

/* The same of what a session has to tell of it, with the times of it. */
void print_site_news(const struct probe_site_news *news, pid_t pid);

/* ---- Tables -------------------------------------------------------------------- */

struct table_column {
	const char *title;
	bool is_number; /* aligned to the right */
	bool shrinks;	/* is cut, with an ellipsis, if the terminal is too narrow */
};

struct table;

/* `columns` must outlive the table. Without memory, table_print() says so. */
struct table *table_create(const struct table_column *columns, size_t count);
/* One cell for each column; copied, made printable. NULL is "". */
void table_add(struct table *table, const char *const *cells);
/*
 * A line below the last row, indented, in columns of its own; the table's are unaffected. If it has
 * one cell, that is a text outside the columns.
 */
void table_add_line(struct table *table, const char *const *cells, size_t count);
/* Prints on standard output: titles in the first line, if there is a row. */
PROBE_MUST_CHECK struct probe_error *table_print(struct table *table);
void table_free(struct table *table);

#endif
