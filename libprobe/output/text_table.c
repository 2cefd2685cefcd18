/* SPDX-License-Identifier: MIT */
/*
 * Gathered rows as text: a line each, the probe first, figures on the right of
 * their columns, keys last, for they may be long.
 *
 *	PROBE                            COUNT         AVG  str(arg0)
 *	postgresql:query__done           28081     1.23ms  "select 1"
 *	postgresql:query__start              -           -  (refused)
 *	... 17 more rows (--top)
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/base/value.h"
#include "libprobe/session/session.h"
#include "probe/catalogue.h"

enum {
	SILENT_ROWS_MAX = 50, /* beyond this number, rows without hits are only counted */
	CHARTS_MAX = 4,	      /* beyond this number, a chart each would hide what matters */
	HITS_WIDTH = 12
};

/* ---- Cells ------------------------------------------------------------------------ */

/* A line that is being written: its cells come in the order of the columns. */
struct table_line {
	struct grid *grid;
	const struct probe_view *view;
	bool has_coverage;		   /* some row is not counted as a whole */
	const struct probe_table_row *row; /* NULL: titles */
	size_t column;
	/* The key that is a call stack, of which a line has but the innermost function; or NULL. */
	const struct probe_value *stack;
	size_t stack_column;
};

static void next(struct table_line *line, bool right)
{
	grid_cell(line->grid, line->column++, right);
}

static void title(struct table_line *line, const char *text, bool right)
{
	buffer_string(&line->grid->text, text);
	next(line, right);
}

static void amount(
	struct table_line *line, const char *name, long double value, enum text_digits digits)
{
	struct buffer *text = &line->grid->text;

	if (!line->row)
		buffer_string(text, name);
	else if (line->row->row.is_float)
		text_real(text, (double)value, digits);
	else if (line->view->times)
		text_duration(text, (double)value);
	else
		text_number(text, value);
	next(line, true);
}

/* A whole number keeps all its digits; an address is one, and not shown as such. */
static void exact(struct table_line *line, const char *name, const struct probe_value *value)
{
	struct buffer *text = &line->grid->text;
	double number = NAN;

	if (line->row && !line->view->times && value->kind == PROBE_VALUE_UNSIGNED) {
		buffer_unsigned(text, value->u);
		next(line, true);
		return;
	}
	if (line->row && !line->view->times && value->kind == PROBE_VALUE_SIGNED) {
		buffer_signed(text, value->i);
		next(line, true);
		return;
	}
	if (line->row)
		value_number(value, &number);
	amount(line, name, number, TEXT_VALUE);
}

static void per_second(struct table_line *line, const char *name, double value)
{
	struct buffer *text = &line->grid->text;
	uint64_t elapsed_ns = line->view->elapsed_ns;

	if (!line->row)
		buffer_string(text, name);
	else
		text_number(text, elapsed_ns ? value * 1e9 / (double)elapsed_ns : NAN);
	next(line, true);
}

static void change(struct table_line *line)
{
	double last = NAN;

	if (line->row) {
		value_number(&line->row->row.last, &last);
		last -= line->row->first;
	}
	per_second(line, "GROWTH/s", last);
}

static void percentiles(struct table_line *line)
{
	static const struct {
		const char *name;
		double percent;
	} shown[] = {{"P50", 50}, {"P90", 90}, {"P99", 99}};

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		double value = NAN;

		if (line->row)
			value = probe_row_percentile(&line->row->row, shown[i].percent);
		if (!line->view->times && isfinite(value) && !line->row->row.is_float)
			value = (double)(int64_t)value;
		amount(line, shown[i].name, value, TEXT_BUCKET);
	}
}

static void last_cells(struct table_line *line, struct format_context *context)
{
	if (line->view->columns & PROBE_COLUMN_LAST)
		exact(line, "LAST", line->row ? &line->row->row.last : NULL);
	if (line->view->columns & PROBE_COLUMN_CHANGE)
		change(line);
	if (!(line->view->columns & PROBE_COLUMN_TIME))
		return;
	if (!line->row)
		buffer_string(&line->grid->text, "TIME");
	else if (line->row->row.last_time_ns) {
		struct format_context its = {.out = line->grid->text, .clock = context->clock};

		text_time(&its, line->row->row.last_time_ns);
		line->grid->text = its.out;
		context->clock = its.clock;
	}
	next(line, false);
}

static void figure_cells(struct table_line *line, struct format_context *context)
{
	static const struct probe_row none = {0};
	const struct probe_row *row = line->row ? &line->row->row : &none;
	unsigned int columns = line->view->columns;

	if (line->row && probe_coverage_is_none(&line->row->coverage))
		buffer_char(&line->grid->text, '-');
	else if (line->row)
		buffer_unsigned(&line->grid->text, row->count);
	else
		buffer_string(&line->grid->text, columns == PROBE_COLUMN_COUNT ? "HITS" : "COUNT");
	next(line, true);
	if (columns & PROBE_COLUMN_RATE)
		per_second(line, "RATE/s", (double)row->count);
	if (columns & PROBE_COLUMN_SUM)
		amount(line, line->view->times ? "TOTAL" : "SUM", row->sum, TEXT_VALUE);
	if (columns & PROBE_COLUMN_MIN)
		exact(line, "MIN", &row->min);
	if (columns & PROBE_COLUMN_AVERAGE)
		amount(line, "AVG", row->count ? row->sum / row->count : NAN, TEXT_AVERAGE);
	if (columns & PROBE_COLUMN_PERCENTILES)
		percentiles(line);
	if (columns & PROBE_COLUMN_MAX)
		exact(line, "MAX", &row->max);
	last_cells(line, context);
}

/* The probe; of a pair, both. */
static void row_name(struct buffer *out, const struct probe_table_row *row)
{
	if (row->begin_name) {
		text_probe(out, row->begin_provider, row->begin_name);
		buffer_string(out, " -> ");
	}
	text_probe(out, row->provider, row->name);
}

/* What is known of the argument that a key is by its name; NULL: nothing, or it is none. */
static const struct probe_arg_meaning *meaning_of_key(
	const struct probe_view *view, const struct probe_table_row *row, const char *key)
{
	bool of_begin = row->begin_name && strncmp(key, "begin.", 6) == 0;
	const struct probe_meaning *meaning = probe_catalogue_find(view->catalogue,
		of_begin ? row->begin_provider : row->provider,
		of_begin ? row->begin_name : row->name, SIZE_MAX);

	if (of_begin)
		key += 6;
	else if (row->begin_name && strncmp(key, "end.", 4) == 0)
		key += 4;
	for (size_t i = 0; meaning && i < meaning->arg_count; i++)
		if (strcmp(meaning->args[i].name, key) == 0)
			return &meaning->args[i];
	return NULL;
}

static void key_cells(struct table_line *line, size_t key_count)
{
	struct buffer *text = &line->grid->text;

	for (size_t i = 0; i < key_count; i++) {
		const char *name = line->view->key_names ? line->view->key_names[i] : "KEY";
		const struct probe_value *value = line->row ? &line->row->row.keys[i] : NULL;

		if (value && value->kind == PROBE_VALUE_STACK) {
			line->stack = value;
			line->stack_column = line->column;
			buffer_c_escaped(text, value->bytes, value_stack_line(value, 0), 0);
		} else if (value) {
			text_meant(text, meaning_of_key(line->view, line->row, name), value);
		} else {
			buffer_c_escaped(text, name, strlen(name), 0);
		}
		next(line, false);
	}
}

/* The other functions of a stack stand under the first one. */
static void callers(const struct table_line *line)
{
	const struct probe_value *stack = line->stack;
	struct grid *grid = line->grid;
	size_t length = stack ? value_stack_line(stack, 0) : 0;

	for (size_t at = length + 1; stack && at < stack->length; at += length + 1) {
		length = value_stack_line(stack, at);
		for (size_t column = 0; column < line->column; column++) {
			if (column == line->stack_column)
				buffer_c_escaped(&grid->text, stack->bytes + at, length, 0);
			grid_cell(grid, column, grid->right[column]);
		}
	}
}

/* What is not counted of the row's probe follows all columns, without a title. */
static void coverage_cell(struct table_line *line)
{
	char text[PROBE_COVERAGE_BYTES] = "";

	if (!line->has_coverage)
		return;
	if (line->row)
		probe_coverage_text(text, &line->row->coverage);
	if (text[0]) {
		buffer_char(&line->grid->text, '(');
		buffer_string(&line->grid->text, text);
		buffer_char(&line->grid->text, ')');
	}
	next(line, false);
}

static bool any_incomplete(const struct probe_table_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].coverage.refused || rows[i].coverage.overwritten)
			return true;
	return false;
}

static void add_line(struct grid *grid, struct format_context *context,
	const struct probe_table_row *row, size_t key_count, const struct probe_view *view,
	bool has_coverage)
{
	struct table_line line = {
		.grid = grid, .view = view, .has_coverage = has_coverage, .row = row};

	if (row)
		row_name(&grid->text, row);
	else
		buffer_string(&grid->text, "PROBE");
	next(&line, false);
	if (view->columns & PROBE_COLUMN_OUTCOME)
		title(&line,
			!row			       ? "OUTCOME"
			: table_name_aborts(row->name) ? "aborted"
						       : "done",
			false);
	figure_cells(&line, context);
	key_cells(&line, key_count);
	coverage_cell(&line);
	callers(&line);
}

/* ---- Tables ----------------------------------------------------------------------- */

/* Certainly without hits: those of sites that are not counted are unknown. */
static bool is_silent(const struct probe_table_row *row)
{
	return !row->row.count && !row->row.in_flight && !row->unmatched &&
	       !row->coverage.refused && !row->coverage.overwritten;
}

/*
 * Which rows are shown: the first ones up to the limit; the one of the keys that found no room,
 * which may have most of the hits; and those without hits, if they are few and no row with hits is
 * left out.
 */
struct shown {
	size_t rows;   /* with hits */
	size_t more;   /* of them, those that are too many */
	size_t silent; /* without hits, and not shown */
	bool show_silent;
};

static struct shown shown_rows(const struct probe_table_row *rows, size_t count, size_t key_count,
	const struct probe_view *view)
{
	struct shown shown = {0};

	for (size_t i = 0; i < count; i++) {
		if (is_silent(&rows[i]))
			shown.silent++;
		else if (!value_keys_are_other(rows[i].row.keys, key_count))
			shown.rows++;
	}
	if (view->top && shown.rows > view->top) {
		shown.more = shown.rows - view->top;
		shown.rows = view->top;
	}
	shown.show_silent =
		view->all || (!view->chart && !shown.more && shown.silent <= SILENT_ROWS_MAX);
	if (shown.show_silent)
		shown.silent = 0;
	return shown;
}

static void count_line(
	struct buffer *out, const char *before, uint64_t count, const char *one, const char *many)
{
	if (!count)
		return;
	buffer_string(out, before);
	buffer_unsigned(out, count);
	buffer_string(out, count == 1 ? one : many);
}

void text_heading(struct format_context *context, const struct probe_view *view)
{
	struct buffer *out = &context->out;

	if (!view->time_ns && !view->title)
		return;
	buffer_string(out, "#");
	if (view->title) {
		buffer_char(out, ' ');
		buffer_c_escaped(out, view->title, strlen(view->title), 0);
	}
	if (view->time_ns) {
		buffer_string(out, view->title ? ", " : " ");
		text_time(context, view->time_ns);
		buffer_string(out, view->is_interval ? ", the last " : ", all of ");
		text_duration(out, (double)view->elapsed_ns);
	}
	buffer_char(out, '\n');
}

static void text_grid(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view, const struct shown *shown)
{
	size_t key_count = table->key_count, count, done = 0;
	const struct probe_table_row *rows = probe_table_rows(table, &count);
	bool has_coverage = any_incomplete(rows, count);
	struct grid grid;

	if (!grid_init(&grid)) {
		context->out.no_memory = true;
		return;
	}
	/* Short numbers under each other in one table after the other. */
	grid.widths[1] = view->columns == PROBE_COLUMN_COUNT ? HITS_WIDTH : 0;
	add_line(&grid, context, NULL, key_count, view, has_coverage);
	for (size_t i = 0; i < count; i++) {
		bool silent = is_silent(&rows[i]);

		if (silent ? shown->show_silent
			   : value_keys_are_other(rows[i].row.keys, key_count) ||
					done++ < shown->rows)
			add_line(&grid, context, &rows[i], key_count, view, has_coverage);
	}
	grid_print(&grid, &context->out);
	grid_deinit(&grid);
}

static void text_charts(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view, const struct shown *shown)
{
	struct buffer *out = &context->out;
	const struct probe_table_row *rows;
	char missing[PROBE_COVERAGE_BYTES];
	size_t count, done = 0;

	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++) {
		if (is_silent(&rows[i]) ? !shown->show_silent : done++ >= shown->rows)
			continue;
		row_name(out, &rows[i]);
		if (view->value) {
			buffer_string(out, "  ");
			buffer_c_escaped(out, view->value, strlen(view->value), 0);
		}
		probe_coverage_text(missing, &rows[i].coverage);
		if (missing[0]) {
			buffer_string(out, "  (");
			buffer_string(out, missing);
			buffer_char(out, ')');
		}
		buffer_char(out, '\n');
		text_chart(context, &rows[i], view);
		buffer_char(out, '\n');
	}
}

/* A pair with several ends says what is in flight with each of them. */
static bool is_first_end(const struct probe_table_row *rows, size_t index)
{
	const struct probe_table_row *row = &rows[index];

	for (size_t i = 0; i < index && row->begin_name; i++) {
		if (rows[i].begin_name && !strcmp(rows[i].begin_name, row->begin_name) &&
			!strcmp(rows[i].begin_provider, row->begin_provider))
			return false;
	}
	return true;
}

/* With charts each pair has its own; keys have none. */
static void pair_line(struct buffer *out, const struct probe_table *table)
{
	const struct probe_table_row *rows;
	uint64_t in_flight = 0;
	size_t count;

	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count && !table->key_count; i++)
		in_flight += is_first_end(rows, i) ? rows[i].row.in_flight : 0;
	if (!table->key_count) {
		buffer_string(out, "in flight ");
		buffer_unsigned(out, in_flight);
		buffer_string(out, "  ");
	}
	buffer_string(out, "ends without a begin ");
	buffer_unsigned(out, probe_table_unmatched(table));
	buffer_char(out, '\n');
}

/* In place of titles without a row: that there is nothing, and as far as it is known why. */
static void nothing_line(
	struct buffer *out, const struct probe_table *table, const struct probe_view *view)
{
	if (!(view->columns & PROBE_COLUMN_PAIRS)) {
		buffer_string(out, "no hits\n");
		return;
	}
	buffer_string(out, "no pair was timed: ");
	buffer_unsigned(out, table->in_flight);
	buffer_string(out, " in flight");
	count_line(out, ", ", probe_table_unmatched(table), " end without a begin",
		" ends without a begin");
	buffer_char(out, '\n');
}

void text_table(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view)
{
	const struct probe_table_row *rows;
	struct buffer *out = &context->out;
	struct shown shown;
	size_t count;
	bool charts;

	rows = probe_table_rows(table, &count);
	shown = shown_rows(rows, count, table->key_count, view);
	charts = view->chart && !table->key_count && shown.rows <= CHARTS_MAX;
	text_heading(context, view);
	if (!count) {
		nothing_line(out, table, view);
		return;
	}
	if (charts)
		text_charts(context, table, view, &shown);
	else
		text_grid(context, table, view, &shown);
	count_line(out, "... ", shown.more, " more row (--top)\n", " more rows (--top)\n");
	count_line(out, "... ", shown.silent, " probe was not hit\n", " probes were not hit\n");
	if (view->columns & PROBE_COLUMN_PAIRS && !charts)
		pair_line(out, table);
}
