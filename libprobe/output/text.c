/* SPDX-License-Identifier: MIT */
/*
 * Text: one line for each hit, in columns.
 *
 *	TIME             PID     TID     COMMAND          PROBE  ARGUMENTS
 *	14:03:07.123456  8121    8121    postgres         postgresql:query__start "select 1"
 *
 * A span has its duration after the command, then both names, and the arguments of its start and
 * end events:
 *
 *	... postgres  12.3ms    postgresql:query__start..query__done "select 1" -> "select 1"
 *
 * A hit or a span may be followed by its call stack, a line for each frame.
 *
 * Integers are decimal. But an unsigned integer of 2^32 or more is nearly always an address and
 * hardly ever a count, so it is hexadecimal. Strings are in double quotes with C escapes, followed
 * by "..." if they were cut. Unreadable values are `null`. Aggregates are the hexadecimal digits of
 * their bytes in braces. If the catalogue knows the probe, each argument's name comes before its
 * value, and a number that has a name is replaced by the name.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/session/session.h"
#include "probe/catalogue.h"
#include "probe/sink.h"

/* ==== Text units ============================================================================== */

void probe_duration_text(char text[PROBE_DURATION_BYTES], double ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	size_t unit = 0;
	int count;

	if (!isfinite(ns) || fabs(ns) > 1e25) {
		strcpy(text, "-");
		return;
	}
	/* From 999.5 on, the number would be shown as 1000. */
	while (unit < 3 && ns >= 999.5) {
		ns /= 1000;
		unit++;
	}
	if (unit == 0 && ns >= 0 && ns == (double)(int64_t)ns)
		count = 0;
	else
		count = ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0;
	snprintf(text, PROBE_DURATION_BYTES, "%.*f%s", count, ns, units[unit]);
}

void text_real(struct buffer *out, double value, enum text_digits digits)
{
	char *at = isfinite(value) ? buffer_reserve(out, 40) : NULL;
	locale_t before = buffer_use_point();

	if (at)
		out->length += (size_t)snprintf(at, 40, "%.*g", (int)digits, value);
	else if (!isfinite(value))
		buffer_char(out, '-');
	uselocale(before);
}

void text_duration(struct buffer *out, double ns)
{
	char *at = buffer_reserve(out, PROBE_DURATION_BYTES);
	locale_t before = buffer_use_point();

	if (at) {
		probe_duration_text(at, ns);
		out->length += strlen(at);
	}
	uselocale(before);
}

void text_number(struct buffer *out, long double value)
{
	locale_t before;
	char *at;

	if (!isfinite(value)) {
		buffer_char(out, '-');
		return;
	}
	if (buffer_whole(out, value))
		return;
	if (fabsl(value) >= 0x1p63L) {
		buffer_float(out, (double)value);
		return;
	}
	at = buffer_reserve(out, 40);
	before = buffer_use_point();
	if (at)
		out->length += (size_t)snprintf(
			at, 40, "%.*f", fabsl(value) < 1000 ? 2 : 0, (double)value);
	uselocale(before);
}

void text_figure(struct buffer *out, const struct probe_row *row, const struct probe_view *view,
	long double value, enum text_digits digits)
{
	if (row->is_float)
		text_real(out, (double)value, digits);
	else if (view->times)
		text_duration(out, (double)value);
	else
		text_number(out, value);
}

void text_exact(struct buffer *out, const struct probe_row *row, const struct probe_view *view,
	const struct probe_value *value)
{
	double number = NAN;

	if (!view->times && value->kind != PROBE_VALUE_FLOAT && value_add_number(out, value))
		return;
	value_number(value, &number);
	text_figure(out, row, view, number, TEXT_VALUE);
}

/* ==== Text ==================================================================================== */

enum {
	PID_WIDTH = 7,	    /* the kernel's largest pid_max is 4194304 */
	COMMAND_WIDTH = 15, /* TASK_COMM_LEN without its NUL */
	PROBE_WIDTH = 24,   /* minimum width; the column grows up to NAME_MOST */
	NAME_MOST = 48,
	DURATION_WIDTH = 8,
	NSEC_PER_SEC = 1000000000
};

/* Ends a column that began at `before`: blanks, and the gap. */
static void column_end(struct buffer *out, size_t before, size_t width)
{
	buffer_pad(out, out->length - out->start - before, width);
	buffer_string(out, "  ");
}

static size_t column_start(const struct buffer *out)
{
	return out->length - out->start;
}

static void text_column(struct buffer *out, const char *text, size_t width)
{
	size_t before = column_start(out);

	buffer_escaped(out, text);
	column_end(out, before, width);
}

static void number_column(struct buffer *out, int64_t number, size_t width)
{
	size_t before = column_start(out);

	buffer_signed(out, number);
	column_end(out, before, width);
}

static void head_columns(struct buffer *out, bool has_duration)
{
	text_column(out, "TIME", sizeof("HH:MM:SS.uuuuuu") - 1);
	text_column(out, "PID", PID_WIDTH);
	text_column(out, "TID", PID_WIDTH);
	text_column(out, "COMMAND", COMMAND_WIDTH);
	if (has_duration)
		text_column(out, "DURATION", DURATION_WIDTH);
	text_column(out, has_duration ? "PAIR" : "PROBE", PROBE_WIDTH);
	buffer_string(out, "ARGUMENTS\n");
}

static void text_begin(struct format_context *context, bool header)
{
	if (header)
		head_columns(&context->out, false);
}

static void text_begin_spans(struct format_context *context, bool header)
{
	if (header)
		head_columns(&context->out, true);
}

/* Writes the local time with microseconds. localtime_r() is called for a new second. */
static void text_time(struct format_context *context, uint64_t time_ns)
{
	struct clock_cache *clock = &context->clock;
	time_t second = (time_t)(time_ns / NSEC_PER_SEC);
	uint64_t micro = time_ns % NSEC_PER_SEC / 1000;
	char digits[] = ".000000";
	struct tm tm;

	if (clock->second != second) {
		if (!localtime_r(&second, &tm) ||
			!strftime(clock->text, sizeof(clock->text), "%H:%M:%S", &tm))
			strcpy(clock->text, "??:??:??");
		clock->second = second;
	}
	for (int i = 6; micro; i--, micro /= 10)
		digits[i] = (char)('0' + micro % 10);
	buffer_string(&context->out, clock->text);
	buffer_string(&context->out, digits);
}

static void hit_columns(
	struct format_context *context, const struct probe_hit *hit, const char *comm)
{
	struct buffer *out = &context->out;

	text_time(context, hit->time_ns);
	buffer_string(out, "  ");
	number_column(out, hit->pid, PID_WIDTH);
	number_column(out, hit->tid, PID_WIDTH);
	text_column(out, comm ? comm : "?", COMMAND_WIDTH);
}

void text_meant(
	struct buffer *out, const struct probe_arg_meaning *arg, const struct probe_value *value)
{
	bool is_number = value->kind == PROBE_VALUE_SIGNED || value->kind == PROBE_VALUE_UNSIGNED;
	const char *word = is_number && arg ? probe_meaning_word(arg, value->i) : NULL;

	if (is_number && arg && arg->kind == PROBE_ARG_BOOLEAN)
		word = value->u ? "true" : "false";
	if (word)
		buffer_escaped(out, word);
	else if (is_number && arg && arg->kind == PROBE_ARG_POINTER)
		buffer_hex(out, value->u);
	else
		value_add_text(out, value);
}

/* Returns true if an argument is only the length of a string that is shown. */
static bool is_length(const struct probe_hit *hit, const struct probe_session_probe *probe,
	const struct probe_arg_meaning *arg)
{
	const struct probe_meaning *meaning = probe->meaning;

	for (size_t i = 0; i < hit->arg_count && i < PROBE_ARGS_MAX; i++) {
		const struct probe_arg_meaning *its = &meaning->args[probe->args[i]];

		if (value_has_known_text(&hit->args[i]) && probe->args[i] < meaning->arg_count &&
			its->kind == PROBE_ARG_SIZED_STRING && &meaning->args[its->length] == arg)
			return true;
	}
	return false;
}

static void text_args(
	struct buffer *out, const struct probe_hit *hit, const struct probe_session_probe *probe)
{
	const struct probe_meaning *meaning = probe->meaning;
	bool any = false;

	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_arg_meaning *arg = NULL;

		if (meaning && i < PROBE_ARGS_MAX && probe->args[i] < meaning->arg_count)
			arg = &meaning->args[probe->args[i]];
		if (arg && is_length(hit, probe, arg))
			continue;
		if (any)
			buffer_char(out, ' ');
		any = true;
		if (!arg) {
			value_add_text(out, &hit->args[i]);
			continue;
		}
		buffer_string(out, arg->name);
		buffer_char(out, '=');
		text_meant(out, arg, &hit->args[i]);
	}
}

static void end_line(struct buffer *out, const struct probe_hit *hit)
{
	buffer_char(out, '\n');
	if (hit->stack)
		text_hit_stack(out, hit->stack);
}

/*
 * Ends the column of names that began at `before`. The column grows with the names, within limits.
 */
static void name_end(struct format_context *context, size_t before)
{
	size_t width = column_start(&context->out) - before;

	if (context->name_width < PROBE_WIDTH)
		context->name_width = PROBE_WIDTH;
	if (width > context->name_width && width <= NAME_MOST)
		context->name_width = width;
	column_end(&context->out, before, context->name_width);
}

static void text_hit(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	struct buffer *out = &context->out;
	size_t before;

	hit_columns(context, hit, comm);
	before = column_start(out);
	event_put_probe(out, probe->provider, probe->name);
	if (hit->arg_count)
		name_end(context, before);
	text_args(out, hit, probe);
	end_line(out, hit);
}

static void text_span(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm)
{
	struct buffer *out = &context->out;
	char duration[PROBE_DURATION_BYTES];
	size_t before;

	hit_columns(context, hit, comm);
	probe_duration_text(duration, (double)hit->duration_ns);
	text_column(out, duration, DURATION_WIDTH);
	before = column_start(out);
	event_put_probe(out, begin->provider, begin->name);
	buffer_string(out, "..");
	if (strcmp(begin->provider, end->provider) == 0)
		event_put_name(out, end->provider, end->name);
	else
		event_put_probe(out, end->provider, end->name);
	if (hit->begin->arg_count || hit->arg_count)
		name_end(context, before);
	text_args(out, hit->begin, begin);
	if (hit->arg_count)
		buffer_string(out, hit->begin->arg_count ? " -> " : "-> ");
	text_args(out, hit, end);
	end_line(out, hit);
}

static void text_lost(
	struct format_context *context, const struct probe_session_probe *probe, uint64_t lost)
{
	struct buffer *out = &context->out;

	buffer_string(out, "# lost ");
	text_counted(out, lost, " hit of ", " hits of ");
	event_put_probe(out, probe->provider, probe->name);
	buffer_char(out, '\n');
}

/* ==== Text table ============================================================================== */

/*
 * Rows of tables as text: a line each, the probe first, figures right-aligned, keys last, because
 * they may be long.
 *
 *	PROBE                            COUNT         AVG  str(arg0)
 *	postgresql:query__done           28081     1.23ms  "select 1"
 *	postgresql:query__start              -           -  (refused)
 *	... 17 more rows (--top)
 */

enum {
	SILENT_ROWS_MAX = 50, /* if there are more rows, those without hits are only counted */
	CHARTS_MAX = 4,	      /* if there are more charts, rows that matter would be hard to find */
	HITS_WIDTH = 12
};

/* ---- Cells ------------------------------------------------------------------------ */

/* A line being written; cells come in the order of columns. */
struct table_line {
	struct grid *grid;
	const struct probe_view *view;
	bool has_coverage;		   /* some row of the table is not fully counted */
	const struct probe_table_row *row; /* NULL for the line of titles */
	/* The key that is a call stack, of which the line shows the innermost function; or NULL. */
	const struct probe_value *stack;
	size_t stack_column;
};

static void next(struct table_line *line, bool right)
{
	if (line->row)
		grid_end(line->grid);
	else
		grid_titles(line->grid, right ? ">" : "<");
}

static void title(struct table_line *line, const char *text, bool right)
{
	buffer_string(&line->grid->text, text);
	next(line, right);
}

static void amount(
	struct table_line *line, const char *name, long double value, enum text_digits digits)
{
	if (line->row)
		text_figure(&line->grid->text, &line->row->row, line->view, value, digits);
	else
		buffer_string(&line->grid->text, name);
	next(line, true);
}

static void exact(struct table_line *line, const char *name, const struct probe_value *value)
{
	if (line->row)
		text_exact(&line->grid->text, &line->row->row, line->view, value);
	else
		buffer_string(&line->grid->text, name);
	next(line, true);
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
	double growth = NAN;

	if (line->view->columns & PROBE_COLUMN_LAST)
		exact(line, "LAST", line->row ? &line->row->row.last : NULL);
	if (line->view->columns & PROBE_COLUMN_CHANGE) {
		if (line->row && value_number(&line->row->row.last, &growth))
			growth -= line->row->first;
		per_second(line, "GROWTH/s", growth);
	}
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

/* Writes the probe of a row, or both probes of a pair. */
static void row_name(struct buffer *out, const struct probe_table_row *row)
{
	if (row->begin_name) {
		event_put_probe(out, row->begin_provider, row->begin_name);
		buffer_string(out, " -> ");
	}
	event_put_probe(out, row->provider, row->name);
}

/* Returns the meaning of a key that is an argument, or NULL. */
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
			line->stack_column = line->grid->column;
			buffer_c_escaped(text, value->bytes, value_stack_line(value, 0), 0);
		} else if (value) {
			text_meant(text, meaning_of_key(line->view, line->row, name), value);
		} else {
			buffer_escaped(text, name);
		}
		next(line, false);
	}
}

/* Writes the other functions of a stack, on the lines below. */
static void callers(const struct table_line *line)
{
	const struct probe_value *stack = line->stack;
	struct grid *grid = line->grid;
	size_t length = stack ? value_stack_line(stack, 0) : 0;

	for (size_t at = length + 1; stack && at < stack->length; at += length + 1) {
		length = value_stack_line(stack, at);
		for (size_t column = 0; column < grid->column_count; column++) {
			if (column == line->stack_column)
				buffer_c_escaped(&grid->text, stack->bytes + at, length, 0);
			grid_end(grid);
		}
	}
}

/* Writes how many sites are not counted, in the last column, without a title. */
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

/* Returns true if a row certainly has no hits: all of its sites are counted. */
static bool is_silent(const struct probe_table_row *row)
{
	return !row->row.count && !row->row.in_flight && !row->unmatched &&
	       !row->coverage.refused && !row->coverage.overwritten;
}

/*
 * The rows to show: the first ones, up to the limit; "(other)", which may have most hits; and rows
 * without hits, if they are few and no row with hits is left out.
 */
struct shown {
	size_t rows;   /* number of shown rows with hits */
	size_t more;   /* number of rows with hits that are left out */
	size_t silent; /* number of rows without hits that are left out */
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

void text_counted(struct buffer *out, uint64_t count, const char *one, const char *many)
{
	buffer_unsigned(out, count);
	buffer_string(out, count == 1 ? one : many);
}

void text_more(struct buffer *out, uint64_t count, const char *one, const char *many)
{
	if (!count)
		return;
	buffer_string(out, "... ");
	text_counted(out, count, one, many);
}

void text_heading(struct format_context *context, const struct probe_view *view)
{
	struct buffer *out = &context->out;

	if (!view->time_ns && !view->title)
		return;
	buffer_string(out, "#");
	if (view->title) {
		buffer_char(out, ' ');
		buffer_escaped(out, view->title);
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
	bool has_coverage = false;
	AUTO(grid_deinit) struct grid grid = {0};

	for (size_t i = 0; i < count; i++)
		has_coverage |= rows[i].coverage.refused || rows[i].coverage.overwritten;

	/* A minimum width aligns several tables' numbers. */
	grid.columns[1].width = view->columns == PROBE_COLUMN_COUNT ? HITS_WIDTH : 0;
	add_line(&grid, context, NULL, key_count, view, has_coverage);
	for (size_t i = 0; i < count; i++) {
		bool silent = is_silent(&rows[i]);

		if (silent ? shown->show_silent
			   : value_keys_are_other(rows[i].row.keys, key_count) ||
					done++ < shown->rows)
			add_line(&grid, context, &rows[i], key_count, view, has_coverage);
	}
	grid_print(&grid, &context->out, 0);
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
			buffer_escaped(out, view->value);
		}
		probe_coverage_text(missing, &rows[i].coverage);
		buffer_print(out, missing[0] ? "  (%s)\n" : "\n", missing);
		text_chart(context, &rows[i], view);
		buffer_char(out, '\n');
	}
}

/*
 * Writes, below all charts, the pairs in flight (not if there are keys), and the end events without
 * a start event.
 */
static void pair_line(struct buffer *out, const struct probe_table *table)
{
	const struct probe_table_row *rows;
	uint64_t in_flight = 0;
	size_t count;

	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count && !table->key_count; i++) {
		const struct probe_table_row *row = &rows[i];
		size_t k = 0;

		/* All rows of a start event have the same number of pairs in flight. */
		while (row->begin_name && k < i &&
			(!rows[k].begin_name || strcmp(rows[k].begin_name, row->begin_name) ||
				strcmp(rows[k].begin_provider, row->begin_provider)))
			k++;
		if (!row->begin_name || k == i)
			in_flight += row->row.in_flight;
	}
	if (!table->key_count)
		buffer_print(out, "in flight %" PRIu64 "  ", in_flight);
	buffer_print(out, "ends without a begin %" PRIu64 "\n", probe_table_unmatched(table));
}

/* Says that a table without rows has no hits, and why, if that is known. */
static void nothing_line(
	struct buffer *out, const struct probe_table *table, const struct probe_view *view)
{
	if (!(view->columns & PROBE_COLUMN_PAIRS)) {
		buffer_string(out, "no hits\n");
		return;
	}
	buffer_print(out, "no pair was timed: %" PRIu64 " in flight", table->in_flight);
	if (probe_table_unmatched(table)) {
		buffer_string(out, ", ");
		text_counted(out, probe_table_unmatched(table), " end without a begin",
			" ends without a begin");
	}
	buffer_char(out, '\n');
}

static void text_table(struct format_context *context, const struct probe_table *table,
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
	text_more(out, shown.more, " more row (--top)\n", " more rows (--top)\n");
	text_more(out, shown.silent, " probe was not hit\n", " probes were not hit\n");
	if (view->columns & PROBE_COLUMN_PAIRS && !charts)
		pair_line(out, table);
}

/* ==== Text calls ============================================================================== */

/*
 *	FUNCTION            CALLS    SELF  SHARE   TOTAL
 *	fn:app:parse           10  12.5ms  62.5%  20.0ms
 *	  <- fn:app:main       10  12.5ms         20.0ms
 *	  -> fn:app:token     200  7.50ms         7.50ms
 */

enum { EDGES_SHOWN = 8 };

static void call_cells(struct grid *grid, const struct probe_calls_sum *sum, double whole_ns)
{
	char share[32];

	grid_end(grid);
	grid_number(grid, sum->count);
	text_duration(&grid->text, (double)sum->self_ns);
	grid_end(grid);
	if (whole_ns > 0) {
		snprintf(share, sizeof(share), "%u.%u%%",
			(unsigned int)(1000 * (double)sum->self_ns / whole_ns + 0.5) / 10,
			(unsigned int)(1000 * (double)sum->self_ns / whole_ns + 0.5) % 10);
		buffer_string(&grid->text, share);
	}
	grid_end(grid);
	text_duration(&grid->text, (double)sum->total_ns);
	grid_end(grid);
}

static void call_edge_rows(
	struct grid *grid, const char *arrow, const struct probe_calls_edge *edges, size_t count)
{
	size_t shown = count > EDGES_SHOWN ? EDGES_SHOWN : count;

	for (size_t i = 0; i < shown; i++) {
		buffer_string(&grid->text, arrow);
		buffer_escaped(&grid->text, edges[i].function ? edges[i].function : "(not traced)");
		call_cells(grid, &edges[i].sum, 0);
	}
	if (shown < count) {
		buffer_string(&grid->text, arrow);
		text_more(&grid->text, count - shown, " more", " more");
		for (int i = 0; i < 5; i++)
			grid_end(grid);
	}
}

static void text_calls(struct format_context *context, const struct probe_calls_row *rows,
	size_t count, const struct probe_view *view)
{
	size_t shown = view->top && view->top < count ? view->top : count;
	AUTO(grid_deinit) struct grid grid = {0};
	double whole_ns = 0;

	text_heading(context, view);
	grid_titles(&grid, "FUNCTION<CALLS>SELF>SHARE>TOTAL>");
	for (size_t i = 0; i < count; i++)
		whole_ns += (double)rows[i].sum.self_ns;
	for (size_t i = 0; i < shown; i++) {
		buffer_escaped(&grid.text, rows[i].function);
		call_cells(&grid, &rows[i].sum, whole_ns);
		if (!view->edges)
			continue;
		call_edge_rows(&grid, "  <- ", rows[i].callers, rows[i].caller_count);
		call_edge_rows(&grid, "  -> ", rows[i].callees, rows[i].callee_count);
	}
	if (count)
		grid_print(&grid, &context->out, 0);
	else
		buffer_string(&context->out,
			"no call has ended; if hits were lost, add --full=wait or a "
			"larger -b, or name fewer functions\n");
	text_more(&context->out, count - shown, " more function (--top)\n",
		" more functions (--top)\n");
}

const struct format format_text = {
	.begin = text_begin,
	.hit = text_hit,
	.begin_spans = text_begin_spans,
	.span = text_span,
	.lost = text_lost,
	.table = text_table,
	.stacks = text_stacks,
	.calls = text_calls,
};
