/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/grid.h"

static void assert_printed(const struct grid *grid, size_t screen, const char *expected)
{
	struct buffer out = {0};

	grid_print(grid, &out, screen);
	buffer_char(&out, '\0');
	assert_false(out.no_memory);
	assert_string_equal(out.data, expected);
	buffer_deinit(&out);
}

static void test_rows_and_notes(void **state)
{
	AUTO(grid_deinit) struct grid grid = {0};

	(void)state;
	buffer_string(&grid.text, "PRO");
	grid_titles(&grid, "BE<HITS>KEY<");
	assert_false(grid.has_rows);
	grid_text(&grid, "a\n");
	grid_number(&grid, 7);
	grid_end(&grid);
	/* The second of three columns is empty in all notes. */
	for (size_t i = 0; i < 2; i++) {
		buffer_string(&grid.text, i ? "xxxx" : "x");
		grid_note_cell(&grid, false);
		grid_note_cell(&grid, false);
		buffer_string(&grid.text, i ? "" : "y");
		grid_note_cell(&grid, true);
	}
	buffer_string(&grid.text, "a text that makes no column wider");
	grid_note(&grid);
	grid_text(&grid, "\xc3\xa4\xc3\xb6");
	grid_signed(&grid, -12345);
	grid_text(&grid, "k");
	assert_true(grid.has_rows);
	assert_printed(&grid, 0,
		"PROBE    HITS  KEY\n"
		"a\\n         7\n"
		"    x     y\n"
		"    xxxx\n"
		"    a text that makes no column wider\n"
		"\xc3\xa4\xc3\xb6     -12345  k\n");
}

static void test_narrow_screen(void **state)
{
	AUTO(grid_deinit) struct grid grid = {0};

	(void)state;
	grid_titles(&grid, "A<B~C<");
	grid_text(&grid, "0123456789");
	grid_text(&grid, "0123456789\xc3\xa4"
			 "123456789");
	grid_text(&grid, "c");
	assert_printed(&grid, 35,
		"A           B                     C\n"
		"0123456789  0123456789\xc3\xa4"
		"123456789  c\n");
	assert_printed(&grid, 28,
		"A           B              C\n"
		"0123456789  0123456789\xc3\xa4"
		"1…  c\n");
	/* A column keeps twelve characters; if that is too wide, nothing is cut. */
	assert_printed(&grid, 26,
		"A           B                     C\n"
		"0123456789  0123456789\xc3\xa4"
		"123456789  c\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_and_notes),
		cmocka_unit_test(test_narrow_screen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
