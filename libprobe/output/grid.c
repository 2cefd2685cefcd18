/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "libprobe/base/array.h"
#include "libprobe/output/output.h"
#include "libprobe/base/utf8.h"

bool grid_init(struct grid *grid)
{
	*grid = (struct grid){0};
	return buffer_init(&grid->text);
}

void grid_deinit(struct grid *grid)
{
	buffer_deinit(&grid->text);
	free(grid->cells);
}

static size_t characters(const char *text, size_t length)
{
	size_t count = 0;

	for (size_t i = 0; i < length; count++) {
		size_t bytes = utf8_character(text + i, length - i);

		i += bytes ? bytes : 1;
	}
	return count;
}

void grid_cell(struct grid *grid, size_t column, bool right)
{
	struct grid_cell cell = {.offset = grid->start, .length = grid->text.length - grid->start};

	if (!ARRAY_ROOM(grid->cells, grid->cell_count)) {
		grid->no_memory = true;
		return;
	}
	grid->start = grid->text.length;
	if (cell.length)
		cell.width = characters(grid->text.data + cell.offset, cell.length);
	if (column < GRID_COLUMNS_MAX) {
		grid->right[column] = right;
		if (cell.width > grid->widths[column])
			grid->widths[column] = cell.width;
		if (column >= grid->column_count)
			grid->column_count = column + 1;
	}
	grid->cells[grid->cell_count++] = cell;
}

void grid_print(const struct grid *grid, struct buffer *out)
{
	size_t end = out->length; /* of the line's text, without the blanks behind it */

	if (grid->no_memory || grid->text.no_memory) {
		out->no_memory = true;
		return;
	}
	for (size_t i = 0; i < grid->cell_count; i++) {
		const struct grid_cell *cell = &grid->cells[i];
		size_t column = i % grid->column_count;
		bool is_last = column + 1 == grid->column_count;

		if (column)
			buffer_string(out, "  ");
		if (grid->right[column])
			buffer_pad(out, cell->width, grid->widths[column]);
		if (cell->length)
			buffer_bytes(out, grid->text.data + cell->offset, cell->length);
		if (cell->length)
			end = out->length;
		if (!is_last && !grid->right[column])
			buffer_pad(out, cell->width, grid->widths[column]);
		if (!is_last)
			continue;
		out->length = end;
		buffer_char(out, '\n');
		end = out->length;
	}
}
