/* SPDX-License-Identifier: MIT */
/*
 * Text in columns. Cells are first collected in a buffer, because the widest cell decides the width
 * of its column. Cells hold printable text; an invalid byte counts as one character.
 *
 *	PROBE                    HITS
 *	postgresql:query__start    31
 *	    a note below a row
 *
 * The titles of the columns come first, then the cells line by line. The text of a cell is written
 * to grid->text, and grid_end() ends the cell; the other functions write and end one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"

enum { GRID_COLUMNS_MAX = 32 };

/* Initialise with {0}. If memory runs out, text.no_memory is set. */
struct grid {
	struct buffer text; /* the text of all cells */
	struct grid_cell *cells;
	size_t cell_count;
	size_t start; /* offset in `text` of the cell that is being written */
	size_t column, column_count;
	size_t note_column; /* column of the next cell of a note */
	bool has_rows;	    /* there is a cell that is not a title */
	struct {
		size_t width, note_width; /* in characters */
		char kind;		  /* the mark after the title */
	} columns[GRID_COLUMNS_MAX];
};

void grid_deinit(struct grid *grid);

/*
 * Adds columns. After each title comes its column's kind: < is left-aligned, > right-aligned. A
 * column ~ is left-aligned; if a line is wider than the screen, it is narrowed, and its cells are
 * cut. Text that was written since the last cell begins the first title.
 */
void grid_titles(struct grid *grid, const char *titles);
void grid_end(struct grid *grid);
/* Writes a text that may hold any bytes, as buffer_printable(). */
void grid_text(struct grid *grid, const char *text);
void grid_number(struct grid *grid, uint64_t number);
void grid_signed(struct grid *grid, int64_t number);

/*
 * Lines below a row, which are indented, and have columns of their own. A column that is empty in
 * all of them takes no space. grid_note_cell() ends a cell; `is_last` ends the line, too.
 * grid_note() ends a line that is a text outside all columns.
 */
void grid_note_cell(struct grid *grid, bool is_last);
void grid_note(struct grid *grid);

/* Writes the grid to `out`. `screen` is the width of the screen in characters, 0 if none. */
void grid_print(const struct grid *grid, struct buffer *out, size_t screen);
