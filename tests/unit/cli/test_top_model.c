/* SPDX-License-Identifier: MIT */
/* The rows of `probectl top`: order, filter and cursor; and the keys of a terminal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/top/top.h"

/* ---- The model -------------------------------------------------------------------------- */

static void add(struct top_model *model, const char *provider, const char *name, uint64_t new_hits,
	uint64_t total, double p99)
{
	struct top_row *row = model_row(model, provider, name);

	assert_non_null(row);
	row->new_hits = new_hits;
	row->total = total;
	row->recent.p99 = p99;
	row->ends = !isnan(p99);
	row->on = true;
}

static void fill(struct top_model *model)
{
	model_init(model);
	model->interval_ns = 2000000000;
	model->elapsed_ns = 10000000000;
	add(model, "pg", "query__start", 30, 300, NAN);
	add(model, "pg", "query__done", 30, 299, 5e6);
	add(model, "pg", "lock__wait", 0, 1000, NAN);
	add(model, "jvm", "gc__end", 1, 2, 9e6);
	add(model, "pg", "abort", 4, 4, NAN);
	model_arrange(model);
}

/* The visible names, in order. */
static void shows(const struct top_model *model, const char *expected)
{
	char text[512] = "";

	for (size_t i = 0; i < model->shown_count; i++) {
		strcat(text, i ? " " : "");
		strcat(text, model->rows[model->shown[i]].name);
	}
	assert_string_equal(text, expected);
}

static void test_order(void **state)
{
	struct top_model model;

	(void)state;
	fill(&model);
	/* Equal figures are sorted by name, so that rows do not swap places for no reason. */
	shows(&model, "query__done query__start abort gc__end lock__wait");
	assert_true(model_rate(&model, model_find(&model, "pg", "abort")) == 2);
	assert_true(model_rate_all(&model) == 32.5);
	model.order = TOP_ORDER_TOTAL;
	model_arrange(&model);
	shows(&model, "lock__wait query__start query__done abort gc__end");
	model.order = TOP_ORDER_P99;
	model_arrange(&model);
	shows(&model, "gc__end query__done abort lock__wait query__start");
	/* The pair that takes most of the time may be one that ends fast. */
	model_find(&model, "jvm", "gc__end")->recent.sum = 9e6;
	model_find(&model, "pg", "query__done")->recent.sum = 3e9;
	model.order = TOP_ORDER_TIME;
	model_arrange(&model);
	shows(&model, "query__done gc__end abort lock__wait query__start");
	assert_true(model_time(&model, model_find(&model, "pg", "query__done")) == 1.5e9);
	assert_true(isnan(model_time(&model, model_find(&model, "pg", "abort"))));
	model.order = TOP_ORDER_NAME;
	model_arrange(&model);
	shows(&model, "gc__end abort lock__wait query__done query__start");
	model.reversed = true;
	model_arrange(&model);
	shows(&model, "query__start query__done lock__wait abort gc__end");
	model.reversed = false;
	model.order = TOP_ORDER_RATE;
	model.since_start = true;
	model_arrange(&model);
	shows(&model, "lock__wait query__start query__done abort gc__end");
	assert_true(model_rate(&model, model_find(&model, "pg", "lock__wait")) == 100);
	model_deinit(&model);
}

/* Rows with keys belong to their probe: they are on as it is, and are not counted twice. */
static void test_rows_by_key(void **state)
{
	struct top_model model;
	struct top_row *row;

	(void)state;
	fill(&model);
	row = model_key_row(&model, "pg", "query__done", "\"SELECT\" 7");
	assert_non_null(row);
	assert_string_equal(row->label, "pg:query__done \"SELECT\" 7");
	row->new_hits = row->total = 10;
	assert_ptr_equal(model_key_row(&model, "pg", "query__done", "\"SELECT\" 7"), row);
	assert_true(model_find(&model, "pg", "query__done") == row - 1);
	model_arrange(&model);
	assert_true(row->on);
	shows(&model, "query__done query__start query__done abort gc__end lock__wait");
	assert_true(model_rate_all(&model) == 32.5);
	assert_true(model_set_filter(&model, "select"));
	shows(&model, "query__done");
	model_find(&model, "pg", "query__done")->on = false;
	model_arrange(&model);
	assert_false(row->on);
	model_deinit(&model);
}

static void test_filter(void **state)
{
	struct top_model model;

	(void)state;
	fill(&model);
	assert_true(model_set_filter(&model, "QUERY"));
	shows(&model, "query__done query__start");
	assert_true(model_set_filter(&model, "pg:l"));
	shows(&model, "lock__wait");
	assert_true(model_set_filter(&model, "*__*t"));
	shows(&model, "query__start lock__wait");
	assert_true(model_set_filter(&model, "j*:*"));
	shows(&model, "gc__end");
	assert_true(model_set_filter(&model, "/^pg:(abort|lock)/"));
	shows(&model, "abort lock__wait");
	/* While it is being typed, it is not yet a regular expression. */
	assert_true(model_set_filter(&model, "/^pg"));
	shows(&model, "");
	assert_false(model_set_filter(&model, "/(/"));
	shows(&model, "");
	assert_true(model_set_filter(&model, ""));
	assert_int_equal(model.shown_count, model.count);
	model_deinit(&model);
}

static void test_cursor(void **state)
{
	struct top_model model;

	(void)state;
	fill(&model);
	assert_int_equal(model_cursor(&model), SIZE_MAX);
	model_move(&model, 1);
	assert_int_equal(model_cursor(&model), 0);
	model_move(&model, 2);
	assert_string_equal(model.rows[model.selected].name, "abort");
	/* It stays on its probe, whatever comes before it. */
	model_find(&model, "pg", "abort")->new_hits = 100;
	add(&model, "aaa", "new", 1000, 1000, NAN);
	model_arrange(&model);
	assert_int_equal(model_cursor(&model), 1);
	assert_string_equal(model.rows[model.selected].name, "abort");
	model_move(&model, -7);
	assert_int_equal(model_cursor(&model), 0);
	model_move(&model, 100);
	assert_int_equal(model_cursor(&model), 5);
	/* When hidden, it is gone; and another one is found from the beginning. */
	assert_true(model_set_filter(&model, "query"));
	assert_int_equal(model_cursor(&model), SIZE_MAX);
	model_move(&model, 100);
	assert_int_equal(model_cursor(&model), 1);
	assert_true(model_set_filter(&model, "nothing"));
	model_move(&model, 1);
	assert_int_equal(model_cursor(&model), SIZE_MAX);
	model_deinit(&model);
}

static void test_many(void **state)
{
	struct top_model model;
	char name[16];

	(void)state;
	model_init(&model);
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "p%d", i * 7919 % 2000);
		assert_non_null(model_row(&model, "many", name));
	}
	assert_int_equal(model.count, 2000);
	for (size_t i = 1; i < model.count; i++)
		assert_true(strcmp(model.rows[i - 1].name, model.rows[i].name) < 0);
	assert_ptr_equal(model_row(&model, "many", "p17"), model_find(&model, "many", "p17"));
	assert_null(model_find(&model, "many", "p2000"));
	model_deinit(&model);
}

/* ---- Keys --------------------------------------------------------------------------------- */

/* The keys typed, as a line of words. */
static void typed(const char *bytes, size_t count, bool all, const char *expected)
{
	static const char *const names[] = {"text", "up", "down", "page-up", "page-down", "home",
		"end", "enter", "escape", "erase", "clear", "redraw"};
	struct top_keys keys = {0};
	char text[512] = "";
	struct top_key key;

	for (size_t i = 0; i < count; i++) {
		assert_int_equal(keys_add(&keys, bytes + i, 1), 1);
		while (keys_next(&keys, all && i + 1 == count, &key)) {
			strcat(text, text[0] ? " " : "");
			strcat(text, key.kind == TOP_KEY_TEXT ? key.text : names[key.kind]);
		}
	}
	assert_string_equal(text, expected);
}

#define TYPED(bytes, expected) typed(bytes, sizeof(bytes) - 1, false, expected)
#define TYPED_ALL(bytes, expected) typed(bytes, sizeof(bytes) - 1, true, expected)

static void test_keys(void **state)
{
	(void)state;
	TYPED("qr/x", "q r / x");
	TYPED("\033[A\033OA\033[B\033OB", "up up down down");
	TYPED("\033[5~\033[6~\033[H\033[F\033[1~\033[4~\033OH\033OF",
		"page-up page-down home end home end home end");
	TYPED("\r\n\x7f\b\x15\x0c", "enter enter erase erase clear redraw");
	TYPED("a\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80z",
		"a \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80 z");
	/* Unknown keys do nothing, whatever they contain. */
	TYPED("\033[15~\033[1;5C\033[<0;10;20M\033OPq", "q");
	TYPED("\x01\x02\xff\xfe\x80q\xc3q", "q q");
}

static void test_escape(void **state)
{
	(void)state;
	/* It may be the beginning of another key, until no more input comes. */
	TYPED("\033", "");
	TYPED_ALL("\033", "escape");
	TYPED_ALL("x\033", "x escape");
	TYPED("\033q", "escape q");
	TYPED("\033\033[A", "escape up");
	TYPED("\033[", "");
	TYPED_ALL("\033[", "escape [");
	/* An unfinished key does not swallow later input. */
	TYPED("\033[12\x01q", "q");
}

static void test_flood(void **state)
{
	struct top_keys keys = {0};
	char bytes[200];
	struct top_key key;
	size_t taken = 0, got;

	(void)state;
	memset(bytes, '1', sizeof(bytes));
	bytes[0] = '\033';
	bytes[1] = '[';
	while (taken < sizeof(bytes)) {
		got = keys_add(&keys, bytes + taken, sizeof(bytes) - taken);
		assert_true(got > 0);
		taken += got;
		while (keys_next(&keys, false, &key))
			assert_int_equal(key.kind, TOP_KEY_TEXT);
		assert_true(keys.count < sizeof(keys.bytes));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_rows_by_key),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_cursor),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_flood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
