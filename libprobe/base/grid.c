/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "libprobe/base/array.h"
#include "libprobe/base/grid.h"
#include "libprobe/base/utf8.h"

enum {
	GAP = 2,	  /* blanks between columns */
	INDENT = 4,	  /* blanks before a note */
	SHRUNK_WIDTH = 12 /* minimum width of a column that is narrowed */
};

struct grid_cell {
	size_t offset, length; /* in bytes of the grid's text */
	size_t width;	       /* in characters */
	size_t column;	       /* 0 begins a line */
	enum { IN_ROW, IN_NOTE, IS_NOTE } kind;
};

/* ---- Filling --------------------------------------------------------------------- */

void grid_deinit(struct grid *grid)
{
	buffer_deinit(&grid->text);
	free(grid->cells);
}

/*
 * Returns the length in bytes of the first characters, at most `most`, and sets *count_ret to their
 * number.
 */
static size_t characters(const char *text, size_t length, size_t most, size_t *count_ret)
{
	size_t count = 0, at = 0;

	for (; at < length && count < most; count++) {
		size_t bytes = utf8_character(text + at, length - at);

		at += bytes ? bytes : 1;
	}
	*count_ret = count;
	return at;
}

/*
 * Adds a cell with the text written since the last cell. Widens the cell's column, unless `width`
 * is NULL.
 */
static void add(struct grid *grid, struct grid_cell cell, size_t *width)
{
	cell.offset = grid->start;
	cell.length = grid->text.length - grid->start;
	grid->start = grid->text.length;
	if (cell.length)
		characters(grid->text.data + cell.offset, cell.length, cell.length, &cell.width);
	if (width && cell.width > *width)
		*width = cell.width;
	if (ARRAY_ROOM(grid->cells, grid->cell_count))
		grid->cells[grid->cell_count++] = cell;
	else
		grid->text.no_memory = true;
}

void grid_titles(struct grid *grid, const char *titles)
{
	for (size_t length; *titles; titles += length + 1) {
		size_t column = grid->column_count++;

		assert(column < GRID_COLUMNS_MAX);
		length = strcspn(titles, "<>~");
		grid->columns[column].kind = titles[length];
		buffer_bytes(&grid->text, titles, length);
		add(grid, (struct grid_cell){.column = column}, &grid->columns[column].width);
	}
}

void grid_end(struct grid *grid)
{
	size_t column = grid->column;

	grid->has_rows = true;
	grid->column = (column + 1) % grid->column_count;
	add(grid, (struct grid_cell){.column = column}, &grid->columns[column].width);
}

void grid_text(struct grid *grid, const char *text)
{
	buffer_printable(&grid->text, text);
	grid_end(grid);
}

void grid_number(struct grid *grid, uint64_t number)
{
	buffer_unsigned(&grid->text, number);
	grid_end(grid);
}

void grid_signed(struct grid *grid, int64_t number)
{
	buffer_signed(&grid->text, number);
	grid_end(grid);
}

void grid_note_cell(struct grid *grid, bool is_last)
{
	size_t column = grid->note_column;

	assert(column < GRID_COLUMNS_MAX);
	grid->note_column = is_last ? 0 : column + 1;
	add(grid, (struct grid_cell){.column = column, .kind = IN_NOTE},
		&grid->columns[column].note_width);
}

void grid_note(struct grid *grid)
{
	add(grid, (struct grid_cell){.kind = IS_NOTE}, NULL);
}

/* ---- Printing -------------------------------------------------------------------- */

/* Returns by how many characters a column can be narrowed. */
static size_t slack(const struct grid *grid, size_t column)
{
	size_t width = grid->columns[column].width;

	return grid->columns[column].kind == '~' && width > SHRUNK_WIDTH ? width - SHRUNK_WIDTH : 0;
}

/*
 * Narrows columns until a line fits the screen. If this is not sufficient, narrows nothing, because
 * lines wrap in any case.
 */
static void find_widths(const struct grid *grid, size_t screen, size_t ret[GRID_COLUMNS_MAX])
{
	size_t total = 0, most = 0, excess;

	for (size_t i = 0; i < grid->column_count; i++) {
		ret[i] = grid->columns[i].width;
		total += ret[i] + (i ? GAP : 0);
		most += slack(grid, i);
	}
	if (!screen || total <= screen || total - screen > most)
		return;
	excess = total - screen;
	for (size_t i = 0; i < grid->column_count && excess; i++) {
		size_t cut = slack(grid, i) < excess ? slack(grid, i) : excess;

		ret[i] -= cut;
		excess -= cut;
	}
}

static void print_text(
	const struct grid *grid, const struct grid_cell *cell, size_t width, struct buffer *out)
{
	size_t length = cell->length, count;
	const char *text;

	if (!length)
		return;
	text = grid->text.data + cell->offset;
	if (cell->width > width)
		length = characters(text, length, width - 1, &count);
	buffer_bytes(out, text, length);
	if (cell->width > width)
		buffer_string(out, "…");
}

void grid_print(const struct grid *grid, struct buffer *out, size_t screen)
{
	size_t widths[GRID_COLUMNS_MAX];
	size_t end = out->length; /* end of the line's text, without trailing blanks */

	if (grid->text.no_memory) {
		out->no_memory = true;
		return;
	}
	find_widths(grid, screen, widths);
	for (size_t i = 0; i < grid->cell_count; i++) {
		const struct grid_cell *cell = &grid->cells[i];
		size_t width = cell->kind == IN_ROW    ? widths[cell->column]
			       : cell->kind == IN_NOTE ? grid->columns[cell->column].note_width
						       : cell->width;
		bool is_right = cell->kind == IN_ROW && grid->columns[cell->column].kind == '>';

		if (!cell->column && cell->kind != IN_ROW)
			buffer_pad(out, 0, INDENT);
		if (is_right)
			buffer_pad(out, cell->width, width);
		print_text(grid, cell, width, out);
		if (cell->length)
			end = out->length;
		if (i + 1 < grid->cell_count && grid->cells[i + 1].column) {
			if (!is_right)
				buffer_pad(out, cell->width, width);
			buffer_pad(out, 0, cell->kind == IN_ROW || width ? GAP : 0);
			continue;
		}
		out->length = end;
		buffer_char(out, '\n');
		end = out->length;
	}
}
