/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/print.h"
#include "probe/utf8.h"

/* ---- Text --------------------------------------------------------------------- */

/* Is a character one that terminals obey? `step` is its length. */
static bool is_control(const char *text, size_t step)
{
	unsigned char c = (unsigned char)text[0];

	/* C2 80 to C2 9F are the C1 controls. */
	return (step == 1 && (c < ' ' || c == 0x7f)) ||
	       (step == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

static size_t escape(char *to, unsigned char c)
{
	static const char letters[] = "abtnvfr";

	to[0] = '\\';
	if (c >= '\a' && c <= '\r') {
		to[1] = letters[c - '\a'];
		return 2;
	}
	/* Octal digits end by themselves, whatever follows. */
	to[1] = (char)('0' + (c >> 6));
	to[2] = (char)('0' + (c >> 3 & 7));
	to[3] = (char)('0' + (c & 7));
	return 4;
}

char *printable(const char *text)
{
	size_t length = strlen(text);
	char *copy = malloc(4 * length + 1), *to = copy;

	if (!copy)
		return NULL;
	while (length > 0) {
		size_t step = probe_utf8_character(text, length);

		if (step > 0 && !is_control(text, step)) {
			memcpy(to, text, step);
			to += step;
		} else {
			to += escape(to, (unsigned char)*text);
			step = 1;
		}
		text += step;
		length -= step;
	}
	*to = '\0';
	return copy;
}

void print_printable(FILE *stream, const char *text)
{
	char *copy = printable(text);

	fputs(copy ? copy : "(out of memory)", stream);
	free(copy);
}

/* ---- Tables -------------------------------------------------------------------- */

enum {
	GAP = 2,	  /* blanks between columns */
	INDENT = 4,	  /* of lines below a row */
	SHRUNK_WIDTH = 12 /* a column does not become narrower */
};

struct row {
	char **cells;
	size_t count;
	bool is_line;
};

struct table {
	const struct table_column *columns;
	size_t column_count;
	struct row *rows;
	size_t row_count, row_room;
	size_t *widths;	     /* of the columns */
	size_t *line_widths; /* of the columns of lines */
	size_t line_column_count;
	bool no_memory;
};

/* Columns of a terminal that printable text takes: one for each character. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
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
	for (size_t i = 0; i < count && table->widths; i++)
		table->widths[i] = width_of(columns[i].title);
	return table;
}

static void row_free(struct row *row)
{
	for (size_t i = 0; i < row->count && row->cells; i++)
		free(row->cells[i]);
	free(row->cells);
}

static bool row_init(struct row *row, const char *const *cells, size_t count, size_t *widths)
{
	*row = (struct row){.cells = calloc(count, sizeof(char *)), .count = count};
	if (!row->cells)
		return false;
	for (size_t i = 0; i < count; i++) {
		size_t width;

		row->cells[i] = printable(cells[i] ? cells[i] : "");
		if (!row->cells[i])
			return false;
		width = width_of(row->cells[i]);
		if (width > widths[i])
			widths[i] = width;
	}
	return true;
}

static struct row *new_row(struct table *table)
{
	size_t room = table->row_room ? table->row_room * 2 : 64;
	struct row *rows;

	if (table->row_count == table->row_room) {
		rows = reallocarray(table->rows, room, sizeof(*rows));
		if (!rows)
			return NULL;
		table->rows = rows;
		table->row_room = room;
	}
	return &table->rows[table->row_count];
}

static void add(struct table *table, const char *const *cells, size_t count, bool is_line)
{
	struct row *row = new_row(table);

	if (!row || !row_init(row, cells, count, is_line ? table->line_widths : table->widths)) {
		if (row)
			row_free(row);
		table->no_memory = true;
		return;
	}
	row->is_line = is_line;
	table->row_count++;
}

void table_add(struct table *table, const char *const *cells)
{
	if (table && !table->no_memory)
		add(table, cells, table->column_count, false);
}

void table_add_line(struct table *table, const char *const *cells, size_t count)
{
	if (!table || table->no_memory)
		return;
	if (count > table->line_column_count) {
		size_t *widths = reallocarray(table->line_widths, count, sizeof(*widths));

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

/* Makes the columns that may shrink narrower, until a line fits the terminal. */
static void fit_terminal(struct table *table)
{
	struct winsize size;
	size_t total = 0;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
		size.ws_col == 0)
		return;
	for (size_t i = 0; i < table->column_count; i++)
		total += table->widths[i] + (i > 0 ? GAP : 0);
	for (size_t i = 0; i < table->column_count && total > size.ws_col; i++) {
		size_t *width = &table->widths[i];
		size_t excess = total - size.ws_col;

		if (!table->columns[i].shrinks || *width <= SHRUNK_WIDTH)
			continue;
		if (excess > *width - SHRUNK_WIDTH)
			excess = *width - SHRUNK_WIDTH;
		*width -= excess;
		total -= excess;
	}
}

/* Prints at most `width` columns; returns how many it were. */
static size_t print_cut(const char *text, size_t width)
{
	size_t length = 0, printed = 0;

	if (width_of(text) <= width) {
		fputs(text, stdout);
		return width_of(text);
	}
	while (printed + 1 < width) {
		length += probe_utf8_character(text + length, strlen(text + length));
		printed++;
	}
	fwrite(text, 1, length, stdout);
	fputs("…", stdout);
	return width;
}

static void print_cell(const struct table *table, size_t column, const char *text)
{
	size_t width = table->widths[column];
	bool is_last = column + 1 == table->column_count;

	if (column > 0)
		printf("%*s", GAP, "");
	if (table->columns[column].is_number) {
		printf("%*s%s", (int)(width - width_of(text)), "", text);
		return;
	}
	/* The last column runs over the edge rather than being cut. */
	if (is_last && !table->columns[column].shrinks)
		fputs(text, stdout);
	else {
		size_t printed = print_cut(text, width);

		if (!is_last)
			printf("%*s", (int)(width - printed), "");
	}
}

static void print_line(const struct table *table, const struct row *row)
{
	size_t last = row->count;

	while (last > 0 && !row->cells[last - 1][0])
		last--;
	printf("%*s", INDENT, "");
	for (size_t i = 0; i < last; i++) {
		size_t pad = table->line_widths[i] - width_of(row->cells[i]);

		fputs(row->cells[i], stdout);
		/* A column that no line fills takes no room. */
		if (i + 1 < last && table->line_widths[i] > 0)
			printf("%*s", (int)(pad + GAP), "");
	}
	putchar('\n');
}

struct probe_error *table_print(struct table *table)
{
	if (!table || table->no_memory)
		return probe_error_no_memory();
	if (table->row_count == 0)
		return NULL;
	fit_terminal(table);
	for (size_t i = 0; i < table->column_count; i++)
		print_cell(table, i, table->columns[i].title);
	putchar('\n');
	for (size_t i = 0; i < table->row_count; i++) {
		const struct row *row = &table->rows[i];

		if (row->is_line) {
			print_line(table, row);
			continue;
		}
		for (size_t k = 0; k < row->count; k++)
			print_cell(table, k, row->cells[k]);
		putchar('\n');
	}
	return NULL;
}

void table_free(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->row_count; i++)
		row_free(&table->rows[i]);
	free(table->rows);
	free(table->widths);
	free(table->line_widths);
	free(table);
}

/* ---- JSON ------------------------------------------------------------------------ */

json_t *json_text(const char *text)
{
	char *clean;
	json_t *json;

	if (!text)
		return json_null();
	/* NULL where the text is no UTF-8, or there is no memory. */
	json = json_string(text);
	if (json)
		return json;
	clean = probe_utf8_clean(text, strlen(text), NULL);
	json = clean ? json_string(clean) : NULL;
	free(clean);
	return json;
}

json_t *json_hex(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string_nocheck(text);
}

struct probe_error *print_json(json_t *object)
{
	int status;

	if (!object)
		return probe_error_no_memory();
	/* A failure to write is reported once, when the program ends. */
	status = json_dumpf(object, stdout, JSON_COMPACT);
	json_decref(object);
	if (status != 0 && !ferror(stdout))
		return probe_error_no_memory();
	putchar('\n');
	return NULL;
}
