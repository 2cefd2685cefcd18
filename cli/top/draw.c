/* SPDX-License-Identifier: MIT */
/*
 * Lays out the rows of `probectl top`, and the lines around them, as text:
 *
 *   probectl top  postgres (8121)  every 1s                      14:03:22
 *   71 probes, 9 hit  123,456 hits/s  filter: lock
 *    PROBE                        HITS/s      TOTAL    P50    P99  OPEN
 *    postgresql:query__start          31       1871
 *    postgresql:query__done           31       1871  212us  1.1ms     1
 *   -postgresql:sort__start                       3
 *   !postgresql:mark__dirty
 *   postgresql:query__done in /usr/lib/...: ends postgresql:query__start
 *   ? help  q quit  space on/off  / filter  order: r t m 9 s n
 *
 * If the screen has few lines, the most important lines stay, in this order: a row, the last
 * line, the titles, the first line, the line about the selected probe, the second line. On a
 * narrow screen, columns are left out; the name stays.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "cli/top/top.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/utf8.h"
#include "probe/sink.h"

/* ==== Cells =================================================================================== */

/* ---- Characters -------------------------------------------------------------------- */

/* Returns a character's width. Combining marks and unknown characters have 0: not printed. */
static size_t columns_of(const char *text, size_t bytes)
{
	int columns = bytes == 1 ? 1 : wcwidth((wchar_t)utf8_code(text, bytes));

	return columns > 0 ? (size_t)columns : 0;
}

/* Appends a text and a NUL. Leaves out characters without width or unsafe on a terminal. */
static void clean(struct buffer *out, const char *text, bool utf8)
{
	AUTO(buffer_deinit) struct buffer printable = {0};

	buffer_printable(&printable, text);
	for (size_t i = 0; i < printable.length;) {
		const char *at = printable.data + i;
		size_t bytes = utf8_character(at, printable.length - i);

		if (bytes == 1 || (utf8 && columns_of(at, bytes)))
			buffer_bytes(out, at, bytes);
		else
			buffer_char(out, '?');
		i += bytes ? bytes : 1;
	}
	buffer_char(out, '\0');
	out->no_memory |= printable.no_memory;
}

/* ---- Text -------------------------------------------------------------------------- */

static size_t clean_width(const char *text)
{
	size_t width = 0;

	while (*text) {
		size_t bytes = utf8_character(text, strlen(text));

		width += columns_of(text, bytes);
		text += bytes;
	}
	return width;
}

size_t cell_width(const char *text, bool utf8)
{
	AUTO(buffer_deinit) struct buffer copy = {0};
	size_t width = 0;

	clean(&copy, text, utf8);
	if (!copy.no_memory)
		width = clean_width(copy.data);
	return width;
}

/* Returns the length of the longest start of a text that fits in `width` columns, and its width. */
static size_t head(const char *text, size_t width, size_t *width_ret)
{
	size_t length = 0, taken = 0;

	while (text[length]) {
		size_t bytes = utf8_character(text + length, strlen(text + length));
		size_t columns = columns_of(text + length, bytes);

		if (taken + columns > width)
			break;
		taken += columns;
		length += bytes;
	}
	*width_ret = taken;
	return length;
}

/* Writes the start of a text that is too wide, dots and its end. */
static size_t fit_ends(struct buffer *out, const char *text, size_t width, bool utf8)
{
	size_t dots = utf8 ? 1 : 2, first, last = clean_width(text);

	if (width <= dots) {
		buffer_bytes(out, "..", width);
		return width;
	}
	buffer_bytes(out, text, head(text, (width - dots + 1) / 2, &first));
	buffer_string(out, utf8 ? "…" : "..");
	while (last > width - dots - first) {
		size_t bytes = utf8_character(text, strlen(text));

		last -= columns_of(text, bytes);
		text += bytes;
	}
	buffer_string(out, text);
	return first + dots + last;
}

size_t cell_text(struct buffer *out, const char *text, size_t width, bool utf8)
{
	AUTO(buffer_deinit) struct buffer copy = {0};
	size_t taken = 0;

	clean(&copy, text, utf8);
	out->no_memory |= copy.no_memory;
	if (!copy.no_memory) {
		taken = clean_width(copy.data);
		if (taken <= width)
			buffer_string(out, copy.data);
		else
			taken = fit_ends(out, copy.data, width, utf8);
	}
	return taken;
}

/* ---- Numbers ----------------------------------------------------------------------- */

static void right(struct buffer *out, const char *text, size_t width)
{
	size_t length = strlen(text);

	buffer_pad(out, 0, width > length ? width - length : 0);
	buffer_string(out, text);
}

/* Formats a number. A number with too many digits gets a unit: "12.3M". */
static void short_number(char *text, size_t size, double value)
{
	static const char units[] = " kMGTPE";
	size_t unit = 0;

	while (value >= 999.5 && units[unit + 1]) {
		value /= 1000;
		unit++;
	}
	snprintf(text, size, "%.*f%c", value < 99.95 ? 1 : 0, value, units[unit]);
}

void cell_rate(struct buffer *out, double rate, size_t width)
{
	char text[32];

	if (rate == 0)
		text[0] = '\0';
	else if (rate < 9.95)
		snprintf(text, sizeof(text), "%.1f", rate);
	else
		snprintf(text, sizeof(text), "%.0f", rate);
	if (strlen(text) > width)
		short_number(text, sizeof(text), rate);
	right(out, text, width);
}

void cell_count(struct buffer *out, uint64_t count, size_t width)
{
	char text[32];

	snprintf(text, sizeof(text), "%ju", (uintmax_t)count);
	if (strlen(text) > width)
		short_number(text, sizeof(text), (double)count);
	right(out, text, width);
}

void cell_time(struct buffer *out, double ns, size_t width)
{
	char text[PROBE_DURATION_BYTES] = "-";

	if (!isnan(ns))
		probe_duration_text(text, ns);
	right(out, text, width);
}

/* ==== Draw ==================================================================================== */

/* ---- Frames ------------------------------------------------------------------------ */

void frame_clear(struct top_frame *frame)
{
	frame->text.length = 0;
	frame->count = 0;
}

void frame_deinit(struct top_frame *frame)
{
	buffer_deinit(&frame->text);
	free(frame->lines);
	*frame = (struct top_frame){0};
}

static void line_begin(struct top_frame *frame, enum top_look look)
{
	if (ARRAY_ROOM(frame->lines, frame->count))
		frame->lines[frame->count] =
			(struct top_line){.offset = frame->text.length, .look = look};
	else
		frame->text.no_memory = true;
}

/* Ends a line. A highlighted line is filled up to the full width. */
static void line_end(struct top_frame *frame, size_t taken, size_t width)
{
	struct top_line *line = &frame->lines[frame->count];

	if (frame->text.no_memory)
		return;
	if (line->look == TOP_LOOK_REVERSE && taken < width)
		buffer_pad(&frame->text, 0, width - taken);
	while (line->look != TOP_LOOK_REVERSE && frame->text.length > line->offset &&
		frame->text.data[frame->text.length - 1] == ' ')
		frame->text.length--;
	line->length = frame->text.length - line->offset;
	frame->count++;
}

static void draw_line(
	struct top_frame *frame, const struct top_view *view, enum top_look look, const char *text)
{
	line_begin(frame, look);
	line_end(frame, cell_text(&frame->text, text, view->width, view->utf8), view->width);
}

/* ---- Columns ----------------------------------------------------------------------- */

enum { GAP = 2, NAME_WIDTH_MIN = 14, NAME_WIDTH_MAX = 512 };

enum column {
	COLUMN_RATE,
	COLUMN_TOTAL,
	COLUMN_P50,
	COLUMN_P99,
	COLUMN_AVERAGE,
	COLUMN_TIME,
	COLUMN_OPEN,
	COLUMNS
};

static const struct {
	const char *title;
	unsigned int width;
	/* On a narrow screen, columns are left out in this order, beginning with 0. */
	unsigned int order;
} columns[COLUMNS] = {
	[COLUMN_RATE] = {"HITS/s", 9, 6},
	[COLUMN_TOTAL] = {"TOTAL", 11, 3},
	[COLUMN_P50] = {"P50", 7, 5},
	[COLUMN_P99] = {"P99", 7, 4},
	[COLUMN_AVERAGE] = {"AVG", 7, 1},
	[COLUMN_TIME] = {"TIME/s", 7, 2},
	[COLUMN_OPEN] = {"OPEN", 5, 0},
};

/* For each order of the rows, the column that it sorts by. */
static const enum column ordered[TOP_ORDER_COUNT] = {[TOP_ORDER_RATE] = COLUMN_RATE,
	[TOP_ORDER_TOTAL] = COLUMN_TOTAL,
	[TOP_ORDER_P50] = COLUMN_P50,
	[TOP_ORDER_P99] = COLUMN_P99,
	[TOP_ORDER_TIME] = COLUMN_TIME,
	[TOP_ORDER_NAME] = COLUMNS};

/* The columns that are shown, and the width of the column with the names. */
struct shape {
	bool has[COLUMNS];
	size_t name;
};

static size_t figures_width(const struct shape *shape)
{
	size_t width = 0;

	for (size_t i = 0; i < COLUMNS; i++)
		width += shape->has[i] ? columns[i].width + GAP : 0;
	return width;
}

static struct shape find_shape(const struct top_model *model, size_t width, bool utf8)
{
	size_t name = strlen("PROBE"),
	       least = width * 2 / 5 > NAME_WIDTH_MIN ? width * 2 / 5 : NAME_WIDTH_MIN;
	struct shape shape;

	/* Hidden rows count, too, so that filters do not move columns. */
	for (size_t i = 0; i < model->count; i++) {
		size_t its = cell_width(model->rows[i].label, utf8);

		name = its > name ? its : name;
	}
	name = (name < NAME_WIDTH_MAX ? name : NAME_WIDTH_MAX) +
	       1; /* the name is preceded by a mark */
	if (least > name)
		least = name;
	for (size_t i = 0; i < COLUMNS; i++)
		shape.has[i] = i <= COLUMN_TOTAL || model->has_times;
	for (unsigned int turn = 0; turn <= COLUMNS; turn++) {
		if (least + figures_width(&shape) <= width)
			break;
		/* The column that sorts the rows is left out last. */
		for (size_t i = 0; i < COLUMNS; i++)
			if (turn == (ordered[model->order] == i ? COLUMNS : columns[i].order))
				shape.has[i] = false;
	}
	shape.name = width - figures_width(&shape);
	if (shape.name > name)
		shape.name = name;
	return shape;
}

/* ---- Rows -------------------------------------------------------------------------- */

static void titles(struct top_frame *frame, const struct top_model *model,
	const struct top_view *view, const struct shape *shape)
{
	struct buffer *out = &frame->text;
	char text[16];
	size_t taken;

	line_begin(frame, TOP_LOOK_TITLE);
	snprintf(text, sizeof(text), " PROBE%s", ordered[model->order] == COLUMNS ? "*" : "");
	taken = cell_text(out, text, shape->name, view->utf8);
	for (size_t i = 0; i < COLUMNS; i++) {
		if (!shape->has[i])
			continue;
		buffer_pad(out, 0, shape->name - taken + GAP);
		taken = shape->name;
		/* A star marks the column that rows are sorted by. */
		snprintf(text, sizeof(text), "%s%s", columns[i].title,
			ordered[model->order] == i ? "*" : "");
		buffer_pad(out, 0, columns[i].width - strlen(text));
		buffer_string(out, text);
	}
	line_end(frame, 0, 0);
}

static void figure(struct buffer *out, const struct top_model *model, const struct top_row *row,
	enum column column)
{
	const struct top_times *its = model_times(model, row);
	double time = column == COLUMN_P50	 ? its->p50
		      : column == COLUMN_P99	 ? its->p99
		      : column == COLUMN_AVERAGE ? its->average
						 : model_time(model, row);
	size_t width = columns[column].width;

	if (column >= COLUMN_P50 && !row->ends) {
		buffer_pad(out, 0, width);
	} else if (column == COLUMN_OPEN) {
		cell_count(out, row->in_flight, width);
	} else if (column >= COLUMN_P50) {
		cell_time(out, time, width);
	} else if (probe_coverage_is_none(&row->coverage)) {
		/* If hits are not counted, show a dash, because 0 would be wrong. */
		buffer_pad(out, 0, width - 1);
		buffer_char(out, '-');
	} else if (column == COLUMN_TOTAL) {
		cell_count(out, row->total, width);
	} else {
		cell_rate(out, model_rate(model, row), width);
	}
}

static void row_line(struct top_frame *frame, const struct top_model *model,
	const struct top_view *view, const struct shape *shape, const struct top_row *row)
{
	bool is_wrong = row->refused || row->coverage.overwritten;
	enum top_look look = is_wrong ? TOP_LOOK_WRONG : row->on ? TOP_LOOK_PLAIN : TOP_LOOK_FAINT;
	struct buffer *out = &frame->text;
	size_t taken;

	if ((size_t)(row - model->rows) == model->selected)
		look = TOP_LOOK_REVERSE;
	line_begin(frame, look);
	/* The mark before the name says the same as the look, without colours. */
	buffer_char(out, is_wrong ? '!' : row->on ? ' ' : '-');
	taken = 1 + cell_text(out, row->label, shape->name - 1, view->utf8);
	buffer_pad(out, 0, shape->name - taken);
	for (size_t i = 0; i < COLUMNS; i++) {
		if (!shape->has[i])
			continue;
		buffer_pad(out, 0, GAP);
		figure(out, model, row, (enum column)i);
	}
	line_end(frame, shape->name + figures_width(shape), view->width);
}

/* ---- Lines around the rows --------------------------------------------------------- */

static void draw_head(
	struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	size_t right = strlen(view->clock), taken;
	AUTO_FREE char *text = NULL;

	if (asprintf(&text, "probectl top  %s  every %gs%s%s", view->title,
		    (double)view->interval_ns / 1e9, model->since_start ? "  since the start" : "",
		    view->paused ? "  paused" : "") < 0) {
		frame->text.no_memory = true;
		return;
	}
	line_begin(frame, view->paused ? TOP_LOOK_REVERSE : TOP_LOOK_BOLD);
	/* On a narrow screen, the clock is left out first. */
	if (cell_width(text, view->utf8) + GAP + right > view->width)
		right = 0;
	taken = cell_text(&frame->text, text, view->width, view->utf8);
	if (right) {
		buffer_pad(&frame->text, 0, view->width - taken - right);
		buffer_string(&frame->text, view->clock);
		taken = view->width;
	}
	line_end(frame, taken, view->width);
}

static void summary_count(struct buffer *text, const char *name, uint64_t count)
{
	if (count)
		buffer_print(text, "%s%" PRIu64, name, count);
}

static void summary_line(
	struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	size_t probes = 0, hit = 0, off = 0, refused = 0;
	AUTO(buffer_deinit) struct buffer text = {0};
	uint64_t lost = 0;

	for (size_t i = 0; i < model->count; i++) {
		const struct top_row *row = &model->rows[i];

		if (row->key[0])
			continue;
		probes++;
		hit += row->new_hits > 0;
		off += !row->on && !row->refused;
		refused += row->refused;
		lost += row->lost;
	}
	buffer_print(&text, "%" PRIu64 " hits/s  %zu of %zu probes hit",
		(uint64_t)model_rate_all(model), hit, probes);
	summary_count(&text, "  not timed ", lost);
	summary_count(&text, "  without a row for the key ", model_unkeyed(model));
	summary_count(&text, "  off ", off);
	summary_count(&text, "  sites refused ", refused);
	if (model->filter[0])
		buffer_print(&text, "  filter: %s", model->filter);
	buffer_char(&text, '\0');
	draw_line(frame, view, TOP_LOOK_PLAIN, text.no_memory ? "" : text.data);
}

/* Draws a line with those details of the selected probe that do not fit in its row. */
static void detail_line(
	struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	char missing[PROBE_COVERAGE_BYTES];
	const struct top_row *row;
	AUTO(buffer_deinit) struct buffer text = {0};

	if (model_cursor(model) == SIZE_MAX) {
		draw_line(frame, view, TOP_LOOK_FAINT, "");
		return;
	}
	row = &model->rows[model->selected];
	if (row->refused) {
		buffer_print(&text, "%ju site%s refused: %s", (uintmax_t)row->refused,
			row->refused == 1 ? "" : "s", row->reason ? row->reason : "");
	} else if (row->coverage.overwritten) {
		probe_coverage_text(missing, &row->coverage);
		buffer_print(&text, "%s: hits are missing", missing);
	} else if (!row->on) {
		buffer_string(&text, "off (space switches it on)");
	}
	if (row->ends)
		buffer_print(&text, "%sends %s", text.length ? "; " : "", row->begin);
	if (row->unmatched)
		buffer_print(&text, ", without a begin %ju", (uintmax_t)row->unmatched);
	if (row->lost)
		buffer_print(
			&text, "%snot timed %ju", text.length ? ", " : "", (uintmax_t)row->lost);
	if (row->path)
		buffer_print(&text, "%sin %s", text.length ? "; " : "", row->path);
	buffer_char(&text, '\0');
	draw_line(frame, view, TOP_LOOK_FAINT, text.no_memory ? "" : text.data);
}

static void draw_last(
	struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	static const char keys[] = "? help  q quit  space on/off  / filter  order: r t m 9 s n";
	char text[TOP_FILTER_BYTES + 32];

	if (view->editing) {
		snprintf(text, sizeof(text), "filter: %s_", model->filter);
		draw_line(frame, view, TOP_LOOK_REVERSE, text);
	} else if (view->message) {
		draw_line(frame, view, TOP_LOOK_REVERSE, view->message);
	} else {
		draw_line(frame, view, TOP_LOOK_FAINT, keys);
	}
}

/* ---- Help -------------------------------------------------------------------------- */

static const char *const help[] = {
	"q Ctrl-C        quit; all probes are switched off",
	"up down         move the cursor; so do k, j, page up, page down, home, end",
	"space           switch the probe under the cursor on or off",
	"A O             switch all probes that are shown on (A) or off (O)",
	"/               filter: a text, globs (*lock*), or /a regular expression/",
	"escape          clear the cursor, then the filter",
	"r t m 9 s n     order: rate, total, median, 99th percentile, time/s, name",
	"R               reverse the order",
	"c               rates and times of the last interval, or since the start",
	"+ -             use a longer or shorter interval",
	"p               pause the display; hits are still counted",
	"Ctrl-L          redraw the screen",
	"",
	"P50, P99, AVG: the time from the probe that begins something to",
	"this one, which ends it (X__start, X__done). TIME/s: their sum, per second,",
	"over all threads. OPEN: begun, not yet ended.",
	"Before a name: - off, ! a site is not counted (the line below says why).",
};

enum { HELP_LINES = sizeof(help) / sizeof(help[0]) };

/* ---- The whole screen -------------------------------------------------------------- */

/* The lines that are shown in addition to the rows. */
struct arrangement {
	bool last, titles, head, detail, summary;
	size_t rows;
};

static struct arrangement plan_lines(size_t height)
{
	struct arrangement plan = {.last = height >= 2,
		.titles = height >= 3,
		.head = height >= 5,
		.detail = height >= 7,
		.summary = height >= 8};

	plan.rows = height - plan.last - plan.titles - plan.head - plan.detail - plan.summary;
	return plan;
}

size_t draw_rows(const struct top_view *view)
{
	return plan_lines(view->height).rows;
}

static void draw_all_rows(struct top_frame *frame, const struct top_model *model,
	struct top_view *view, const struct arrangement *plan)
{
	struct shape shape = find_shape(model, view->width, view->utf8);
	const char *none = model->count ? " (no probe matches the filter)" : " (no probe so far)";
	size_t cursor = model_cursor(model), rows = plan->rows, end;
	size_t most = model->shown_count > rows ? model->shown_count - rows : 0;

	/* Scroll so that the cursor is visible, and no line is empty without need. */
	if (cursor == SIZE_MAX)
		view->first = 0;
	else if (cursor < view->first)
		view->first = cursor;
	else if (cursor >= view->first + rows)
		view->first = cursor - rows + 1;
	if (view->first > most)
		view->first = most;
	end = view->first + rows;
	if (plan->titles)
		titles(frame, model, view, &shape);
	for (size_t i = view->first; i < end; i++) {
		if (i < model->shown_count)
			row_line(frame, model, view, &shape, &model->rows[model->shown[i]]);
		else
			draw_line(frame, view, TOP_LOOK_PLAIN, i == 0 ? none : "");
	}
}

void draw_screen(struct top_frame *frame, const struct top_model *model, struct top_view *view)
{
	struct arrangement plan = plan_lines(view->height);

	frame_clear(frame);
	if (view->help) {
		for (size_t i = 0; i + 1 < view->height; i++)
			draw_line(frame, view, TOP_LOOK_PLAIN, i < HELP_LINES ? help[i] : "");
		draw_line(frame, view, TOP_LOOK_REVERSE, "press any key to go back");
		return;
	}
	if (view->editing && view->height == 1) {
		draw_last(frame, model, view);
		return;
	}
	if (plan.head)
		draw_head(frame, model, view);
	if (plan.summary)
		summary_line(frame, model, view);
	draw_all_rows(frame, model, view, &plan);
	if (plan.detail)
		detail_line(frame, model, view);
	if (plan.last)
		draw_last(frame, model, view);
}

void draw_table(struct top_frame *frame, const struct top_model *model, const struct top_view *view,
	size_t top)
{
	uint64_t ns = model->since_start ? model->elapsed_ns : model->interval_ns;
	char *text = NULL, time[PROBE_DURATION_BYTES];
	struct top_view wide = *view;
	struct shape shape;
	size_t done = 0;

	if (!wide.width)
		wide.width = NAME_WIDTH_MAX + 128;
	shape = find_shape(model, wide.width, view->utf8);
	frame_clear(frame);
	probe_duration_text(time, (double)ns);
	if (asprintf(&text, "# %s, %s, %s %s", view->clock, view->title,
		    model->since_start ? "all of" : "the last", time) < 0)
		frame->text.no_memory = true;
	else
		draw_line(frame, &wide, TOP_LOOK_PLAIN, text);
	free(text);
	titles(frame, model, &wide, &shape);
	for (size_t i = 0; i < model->shown_count && (!top || done < top); i++) {
		const struct top_row *row = &model->rows[model->shown[i]];

		if ((row->key[0] || (!row->coverage.refused && !row->coverage.overwritten)) &&
			(model->since_start ? !row->total : !row->new_hits))
			continue;
		row_line(frame, model, &wide, &shape, row);
		done++;
	}
}
