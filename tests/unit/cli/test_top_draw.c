/* SPDX-License-Identifier: MIT */
/* The output of `probectl top`: lines of any width, for any names. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/top/top.h"
#include "tests/unit/skip.h"

/* ---- Cells ------------------------------------------------------------------------------ */

static void fits(const char *text, size_t width, bool utf8, const char *expected, size_t taken)
{
	struct buffer out = {0};

	assert_int_equal(cell_text(&out, text, width, utf8), taken);
	buffer_char(&out, '\0');
	assert_string_equal(out.data, expected);
	buffer_deinit(&out);
}

static void test_text(void **state)
{
	(void)state;
	fits("query__start", 12, true, "query__start", 12);
	fits("query__start", 11, true, "query…start", 11);
	fits("query__start", 8, true, "quer…art", 8);
	fits("query__start", 8, false, "que..art", 8);
	fits("query__start", 2, true, "q…", 2);
	fits("query__start", 1, true, ".", 1);
	fits("query__start", 0, true, "", 0);
	fits("", 0, true, "", 0);
	/* Control characters, and characters that change the direction of text. */
	fits("\033[2Jx\r\n", 20, true, "\\033[2Jx\\r\\n", 12);
	fits("a\xe2\x80\xae"
	     "b",
		20, true, "a\\342\\200\\256b", 14);
	fits("\xff\xc3", 20, true, "\\377\\303", 8);
	/* Two columns each: half a character is not drawn. */
	fits("\xe6\xbc\xa2\xe5\xad\x97", 4, true, "\xe6\xbc\xa2\xe5\xad\x97", 4);
	fits("\xe6\xbc\xa2\xe5\xad\x97\xe5\xad\x97", 4, true, "\xe6\xbc\xa2…", 3);
	fits("\xc3\xa9t\xc3\xa9", 9, true, "\xc3\xa9t\xc3\xa9", 3);
	fits("\xc3\xa9t\xc3\xa9", 9, false, "?t?", 3);
}

static void number(void (*cell)(struct buffer *out, double value, size_t width), double value,
	const char *expected)
{
	struct buffer out = {0};

	cell(&out, value, strlen(expected));
	buffer_char(&out, '\0');
	assert_string_equal(out.data, expected);
	buffer_deinit(&out);
}

static void test_numbers(void **state)
{
	struct buffer out = {0};

	(void)state;
	number(cell_rate, 0, "    ");
	number(cell_rate, 0.04, " 0.0");
	number(cell_rate, 9.94, "9.9");
	number(cell_rate, 9.96, " 10");
	number(cell_rate, 123456789, "123456789");
	number(cell_rate, 123456789, " 123M");
	number(cell_rate, 40.5e9, "40.5G");
	number(cell_time, 812, " 812ns");
	number(cell_time, 1234567, "1.23ms");
	number(cell_time, NAN, "  -");
	cell_count(&out, UINT64_MAX, 11);
	buffer_char(&out, '\0');
	assert_string_equal(out.data, "      18.4E");
	buffer_deinit(&out);
}

/* ---- Screens ------------------------------------------------------------------------------ */

static struct top_row *add(
	struct top_model *model, const char *provider, const char *name, uint64_t new_hits)
{
	struct top_row *row = model_row(model, provider, name);

	assert_non_null(row);
	row->new_hits = new_hits;
	row->total = 10 * new_hits;
	row->on = true;
	return row;
}

static void fill(struct top_model *model)
{
	struct top_row *row;

	model_init(model);
	model->interval_ns = 1000000000;
	model->elapsed_ns = 10000000000;
	model->has_times = true;
	add(model, "postgresql", "query__start", 31);
	row = add(model, "postgresql", "query__done", 31);
	row->ends = true;
	row->begin = strdup("postgresql:query__start");
	row->recent = (struct top_times){.p50 = 212e3, .p99 = 1.1e6, .average = 3e5, .sum = 93e5};
	row->in_flight = 2;
	row->path = strdup("/usr/lib/postgresql/15/bin/postgres");
	add(model, "postgresql", "sort__start", 0)->on = false;
	row = add(model, "postgresql", "mark__dirty", 0);
	row->refused = 1;
	row->reason = strdup("a branch enters the instructions after the site");
	model_arrange(model);
}

static void draw(
	struct top_frame *frame, const struct top_model *model, size_t width, size_t height)
{
	struct top_view view = {.width = width,
		.height = height,
		.utf8 = true,
		.title = "postgres (8121)",
		.clock = "14:03:22",
		.interval_ns = 500000000};

	draw_screen(frame, model, &view);
	assert_int_equal(frame->count, height);
}

static void line_is(const struct top_frame *frame, size_t index, const char *expected)
{
	const struct top_line *line = &frame->lines[index];
	char text[512];

	assert_true(line->length < sizeof(text));
	snprintf(text, sizeof(text), "%.*s", (int)line->length, frame->text.data + line->offset);
	assert_string_equal(text, expected);
}

static void test_screen(void **state)
{
	struct top_frame frame = {0};
	struct top_model model;

	(void)state;
	fill(&model);
	model.selected = (size_t)(model_find(&model, "postgresql", "mark__dirty") - model.rows);
	draw(&frame, &model, 99, 10);
	line_is(&frame, 0,
		"probectl top  postgres (8121)  every 0.5s"
		"                                                  14:03:22");
	line_is(&frame, 1, "62 hits/s  2 of 4 probes hit  off 1  sites refused 1");
	line_is(&frame, 2,
		" PROBE                      HITS/s*        TOTAL      P50      P99      AVG   "
		"TIME/s   OPEN");
	line_is(&frame, 3,
		" postgresql:query__done          31          310    212us   1.10ms    300us   "
		"9.30ms      2");
	line_is(&frame, 4, " postgresql:query__start         31          310");
	/* In its full width. */
	line_is(&frame, 5,
		"!postgresql:mark__dirty                        0"
		"                                                   ");
	line_is(&frame, 6, "-postgresql:sort__start                        0");
	line_is(&frame, 7, "");
	line_is(&frame, 8, "1 site refused: a branch enters the instructions after the site");
	model_find(&model, "postgresql", "query__done")->unkeyed = 7;
	draw(&frame, &model, 99, 10);
	line_is(&frame, 1,
		"62 hits/s  2 of 4 probes hit  without a row for the key 7  off 1  sites refused "
		"1");
	assert_int_equal(frame.lines[5].look, TOP_LOOK_REVERSE);
	assert_int_equal(frame.lines[6].look, TOP_LOOK_FAINT);
	assert_int_equal(frame.lines[2].look, TOP_LOOK_TITLE);
	model.selected = (size_t)(model_find(&model, "postgresql", "query__done") - model.rows);
	draw(&frame, &model, 90, 10);
	assert_int_equal(frame.lines[5].look, TOP_LOOK_WRONG);
	line_is(&frame, 8, "ends postgresql:query__start; in /usr/lib/postgresql/15/bin/postgres");
	frame_deinit(&frame);
	model_deinit(&model);
}

/* Columns disappear one by one; the name stays longest. */
static void test_narrow(void **state)
{
	struct top_frame frame = {0};
	struct top_model model;

	(void)state;
	fill(&model);
	draw(&frame, &model, 80, 3);
	line_is(&frame, 0,
		" PROBE                      HITS/s*        TOTAL      P50      P99   TIME/s");
	draw(&frame, &model, 60, 3);
	line_is(&frame, 0, " PROBE                      HITS/s*      P50      P99");
	draw(&frame, &model, 40, 3);
	line_is(&frame, 0, " PROBE                  HITS/s*      P50");
	line_is(&frame, 1, " postgresq…ery__done         31    212us");
	draw(&frame, &model, 20, 3);
	line_is(&frame, 0, " PROBE");
	line_is(&frame, 1, " postgresq…ery__done");
	/* The column that rows are sorted by stays for longer than all others. */
	model.order = TOP_ORDER_TIME;
	draw(&frame, &model, 60, 3);
	line_is(&frame, 0, " PROBE                       HITS/s      P50  TIME/s*");
	draw(&frame, &model, 30, 3);
	line_is(&frame, 0, " PROBE                 TIME/s*");
	draw(&frame, &model, 20, 3);
	line_is(&frame, 0, " PROBE");
	model.order = TOP_ORDER_RATE;
	model.has_times = false;
	draw(&frame, &model, 60, 3);
	line_is(&frame, 0, " PROBE                      HITS/s*        TOTAL");
	frame_deinit(&frame);
	model_deinit(&model);
}

static size_t columns(const char *text, size_t length)
{
	char copy[2048];

	assert_true(length < sizeof(copy));
	memcpy(copy, text, length);
	copy[length] = '\0';
	return cell_width(copy, true);
}

/* At any size, every line fits, and a row is visible. */
static void test_any_size(void **state)
{
	struct top_frame frame = {0};
	struct top_model model;

	(void)state;
	fill(&model);
	add(&model, "\033]0;evil\a", "\xe6\xbc\xa2\xe5\xad\x97__\xff", 1000000);
	model_arrange(&model);
	for (size_t width = 1; width < 150; width++) {
		for (size_t height = 1; height < 12; height++) {
			draw(&frame, &model, width, height);
			for (size_t i = 0; i < height; i++) {
				const struct top_line *line = &frame.lines[i];
				const char *text = frame.text.data + line->offset;

				assert_true(columns(text, line->length) <= width);
				assert_null(memchr(text, '\033', line->length));
				assert_null(memchr(text, '\a', line->length));
			}
		}
	}
	frame_deinit(&frame);
	model_deinit(&model);
}

/* The cursor is always visible, and so is every row that has room. */
static void test_scrolling(void **state)
{
	struct top_view view = {
		.width = 60, .height = 12, .title = "", .clock = "", .interval_ns = 1000000000};
	struct top_frame frame = {0};
	struct top_model model;
	char name[16];
	size_t rows;

	(void)state;
	model_init(&model);
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "p%02d", i);
		add(&model, "many", name, 0);
	}
	model_arrange(&model);
	rows = draw_rows(&view);
	assert_int_equal(rows, 7);
	for (int i = 0; i < 40; i++) {
		model_move(&model, 1);
		draw_screen(&frame, &model, &view);
		assert_true(view.first <= model_cursor(&model));
		assert_true(model_cursor(&model) < view.first + rows);
	}
	assert_int_equal(view.first, 33);
	view.height = 30;
	draw_screen(&frame, &model, &view);
	assert_int_equal(view.first, 15);
	model.selected = SIZE_MAX;
	draw_screen(&frame, &model, &view);
	assert_int_equal(view.first, 0);
	frame_deinit(&frame);
	model_deinit(&model);
}

static void test_other_screens(void **state)
{
	struct top_view view = {.width = 60,
		.height = 6,
		.utf8 = true,
		.title = "x",
		.clock = "14:03:22",
		.interval_ns = 1000000000,
		.editing = true};
	struct top_frame frame = {0};
	struct top_model model;

	(void)state;
	fill(&model);
	assert_true(model_set_filter(&model, "nothing"));
	draw_screen(&frame, &model, &view);
	line_is(&frame, 2, " (no probe matches the filter)");
	line_is(&frame, 5, "filter: nothing_                                            ");
	view.height = 1;
	draw_screen(&frame, &model, &view);
	line_is(&frame, 0, "filter: nothing_                                            ");
	view = (struct top_view){.width = 100, .height = 40, .utf8 = true, .help = true};
	draw_screen(&frame, &model, &view);
	assert_int_equal(frame.count, 40);
	line_is(&frame, 0, "q Ctrl-C        quit; all probes are switched off");
	model_deinit(&model);
	view = (struct top_view){.width = 60, .height = 6, .title = "x", .clock = "14:03:22"};
	draw_screen(&frame, &model, &view);
	line_is(&frame, 2, " (no probe so far)");
	frame_deinit(&frame);
}

static void test_table(void **state)
{
	struct top_view view = {.utf8 = false, .title = "postgres (8121)", .clock = "14:03:22"};
	struct top_frame frame = {0};
	struct top_model model;

	(void)state;
	fill(&model);
	draw_table(&frame, &model, &view, 0);
	assert_int_equal(frame.count, 4);
	line_is(&frame, 0, "# 14:03:22, postgres (8121), the last 1.00s");
	line_is(&frame, 3, " postgresql:query__start         31          310");
	draw_table(&frame, &model, &view, 1);
	assert_int_equal(frame.count, 3);
	model.since_start = true;
	draw_table(&frame, &model, &view, 0);
	line_is(&frame, 0, "# 14:03:22, postgres (8121), all of 10.0s");
	frame_deinit(&frame);
	model_deinit(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_screen),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_any_size),
		cmocka_unit_test(test_scrolling),
		cmocka_unit_test(test_other_screens),
		cmocka_unit_test(test_table),
	};

	/* The locale determines character widths; Debian's libc always has this one. */
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return skip_all("needs the locale C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
