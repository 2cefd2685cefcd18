/* SPDX-License-Identifier: MIT */
/*
 * Columns of text. Cells are put one after the other into a buffer first, since
 * the widest decides how wide a column is.
 */
#ifndef LIBPROBE_OUTPUT_GRID_H
#define LIBPROBE_OUTPUT_GRID_H

#include "libprobe/base/buffer.h"

enum { GRID_COLUMNS_MAX = 24 };

struct grid_cell {
	size_t offset, length; /* bytes, in the grid's text */
	size_t width;	       /* characters */
};

struct grid {
	struct buffer text;
	struct grid_cell *cells;
	size_t cell_count;
	size_t column_count; /* known after the first line */
	size_t widths[GRID_COLUMNS_MAX];
	bool right[GRID_COLUMNS_MAX]; /* aligned so */
	size_t start;		      /* of the cell that is being written */
	bool no_memory;
};

/* False without memory. */
bool grid_init(struct grid *grid);
void grid_deinit(struct grid *grid);

/*
 * What was written to grid->text since the last cell is a cell. Cells come line by
 * line, in the order of the columns; all lines have as many.
 */
void grid_cell(struct grid *grid, size_t column, bool right);

/* Without memory, says so to `out`. */
void grid_print(const struct grid *grid, struct buffer *out);

#endif
