/* SPDX-License-Identifier: MIT */
/*
 * Tables. One buffer has the texts of all cells, one after the other, already safe for a terminal.
 * A cell has the offset of its text, not a pointer, because the buffer moves when it grows.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/print/out.h"
#include "cli/print/print.h"
#include "libprobe/base/utf8.h"

enum {
	GAP = 2,    /* blanks between columns */
	INDENT = 4, /* blanks before a line below a row */
	/* If a column is narrowed, it still has at least this width, in characters. */
	SHRUNK_WIDTH = 12
};

struct cell {
	size_t offset, length; /* range of the cell's text in the table's text, in bytes */
	size_t width;	       /* width of the text, in terminal columns */
};

struct row {
	size_t first, count; /* range of the row's cells in the table's cells */
	bool is_line;
};

struct table {
	const struct table_column *columns;
	size_t column_count;
	struct buffer text;
	struct cell *cells;
	size_t cell_count, cell_room;
	struct row *rows;
	size_t row_count, row_room;
	size_t *widths;	     /* width of each column of the table */
	size_t *line_widths; /* width of each column of the lines below rows */
	size_t line_column_count;
	bool no_memory;
};

/* ---- Filling --------------------------------------------------------------------- */

/* Makes space for `more` items. Returns false on lack of memory. */
static bool grow(void **items, size_t *room, size_t count, size_t more, size_t item_bytes)
{
	size_t wanted = *room * 2 > count + more ? *room * 2 : count + more + 64;
	void *grown;

	if (count + more <= *room)
		return true;
	grown = reallocarray(*items, wanted, item_bytes);
	if (!grown)
		return false;
	*items = grown;
	*room = wanted;
	return true;
}

static bool reserve_row(struct table *table, size_t cells)
{
	void *items = table->cells, *rows = table->rows;
	bool done = grow(&items, &table->cell_room, table->cell_count, cells, sizeof(struct cell));

	table->cells = items;
	done = done && grow(&rows, &table->row_room, table->row_count, 1, sizeof(struct row));
	table->rows = rows;
	return done;
}

static void add(struct table *table, const char *const *cells, size_t count, bool is_line)
{
	/*
	 * The only text of a line below a row is outside the columns, so it makes no column wider.
	 */
	size_t *widths = !is_line ? table->widths : count > 1 ? table->line_widths : NULL;

	if (!reserve_row(table, count)) {
		table->no_memory = true;
		return;
	}
	table->rows[table->row_count++] =
		(struct row){.first = table->cell_count, .count = count, .is_line = is_line};
	for (size_t i = 0; i < count; i++) {
		struct cell *cell = &table->cells[table->cell_count++];

		cell->offset = table->text.length;
		cell->width = out_printable(&table->text, cells[i] ? cells[i] : "");
		cell->length = table->text.length - cell->offset;
		if (widths && cell->width > widths[i])
			widths[i] = cell->width;
	}
}

struct table *table_create(const struct table_column *columns, size_t count)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->columns = columns;
	table->column_count = count;
	table->widths = calloc(count, sizeof(*table->widths));
	table->no_memory = !table->widths;
	/* The titles are the first row. */
	if (!table->no_memory && reserve_row(table, count)) {
		const char *titles[count];

		for (size_t i = 0; i < count; i++)
			titles[i] = columns[i].title;
		add(table, titles, count, false);
	} else {
		table->no_memory = true;
	}
	return table;
}

void table_add(struct table *table, const char *const *cells)
{
	if (table && !table->no_memory)
		add(table, cells, table->column_count, false);
}

void table_add_line(struct table *table, const char *const *cells, size_t count)
{
	size_t *widths;

	if (!table || table->no_memory)
		return;
	if (count > table->line_column_count) {
		widths = reallocarray(table->line_widths, count, sizeof(*widths));
		if (!widths) {
			table->no_memory = true;
			return;
		}
		for (size_t i = table->line_column_count; i < count; i++)
			widths[i] = 0;
		table->line_widths = widths;
		table->line_column_count = count;
	}
	add(table, cells, count, true);
}

void table_free(struct table *table)
{
	if (!table)
		return;
	buffer_deinit(&table->text);
	free(table->cells);
	free(table->rows);
	free(table->widths);
	free(table->line_widths);
	free(table);
}

/* ---- Printing ----------------------------------------------------------------------- */

/* Returns by how many characters a column can be narrowed. */
static size_t slack(const struct table *table, size_t column)
{
	size_t width = table->widths[column];

	return table->columns[column].shrinks && width > SHRUNK_WIDTH ? width - SHRUNK_WIDTH : 0;
}

/*
 * Narrows the columns that may be narrowed, until a line fits the terminal. If this is not
 * sufficient, narrows nothing, because lines wrap in any case.
 */
static void fit_terminal(struct table *table)
{
	struct winsize size;
	size_t total = 0, most = 0, excess;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
		size.ws_col == 0)
		return;
	for (size_t i = 0; i < table->column_count; i++) {
		total += table->widths[i] + (i > 0 ? GAP : 0);
		most += slack(table, i);
	}
	if (total <= size.ws_col || total - size.ws_col > most)
		return;
	excess = total - size.ws_col;
	for (size_t i = 0; i < table->column_count && excess > 0; i++) {
		size_t cut = slack(table, i) < excess ? slack(table, i) : excess;

		table->widths[i] -= cut;
		excess -= cut;
	}
}

/* Returns the length in bytes of the first `width` characters of a cell. */
static size_t prefix_length(const char *text, size_t length, size_t width)
{
	size_t prefix = 0;

	for (; width > 0 && prefix < length; width--) {
		size_t step = utf8_character(text + prefix, length - prefix);

		/* The text in a table is valid UTF-8. */
		prefix += step > 0 ? step : 1;
	}
	return prefix;
}

static void print_cell(
	const struct table *table, size_t column, const struct cell *cell, struct buffer *out)
{
	const struct table_column *look = &table->columns[column];
	const char *text = table->text.data + cell->offset;
	size_t width = table->widths[column];
	size_t pad = width > cell->width ? width - cell->width : 0;
	bool is_last = column + 1 == table->column_count;

	if (column > 0)
		buffer_pad(out, 0, GAP);
	if (look->is_number)
		buffer_pad(out, 0, pad);
	/*
	 * Cut only cells of columns that may be narrowed. Other cells that are too wide are written
	 * in full.
	 */
	if (cell->width <= width) {
		buffer_bytes(out, text, cell->length);
	} else {
		buffer_bytes(out, text, prefix_length(text, cell->length, width - 1));
		buffer_string(out, "…");
	}
	if (!look->is_number && !is_last)
		buffer_pad(out, 0, pad);
}

/* Prints a line below a row. If a column is empty in all such lines, it takes no space. */
static void print_line(const struct table *table, const struct row *row, struct buffer *out)
{
	const struct cell *cells = &table->cells[row->first];
	size_t last = row->count;

	while (last > 0 && cells[last - 1].length == 0)
		last--;
	buffer_pad(out, 0, INDENT);
	for (size_t i = 0; i < last; i++) {
		buffer_bytes(out, table->text.data + cells[i].offset, cells[i].length);
		if (i + 1 < last && table->line_widths[i] > 0)
			buffer_pad(out, 0, table->line_widths[i] - cells[i].width + GAP);
	}
}

struct probe_error *table_print(struct table *table)
{
	struct buffer out = {0};
	struct probe_error *error;

	if (!table || table->no_memory || table->text.no_memory)
		return probe_error_no_memory();
	if (table->row_count < 2)
		return NULL;
	fit_terminal(table);
	for (size_t i = 0; i < table->row_count; i++) {
		const struct row *row = &table->rows[i];

		if (row->is_line) {
			print_line(table, row, &out);
		} else {
			for (size_t k = 0; k < row->count; k++)
				print_cell(table, k, &table->cells[row->first + k], &out);
		}
		buffer_char(&out, '\n');
	}
	error = out_flush(&out, stdout);
	buffer_deinit(&out);
	return error;
}
