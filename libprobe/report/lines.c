/* SPDX-License-Identifier: MIT */
#include "libprobe/report/report.h"

bool lines_begin(struct lines *lines, struct buffer *out)
{
	*lines = (struct lines){.out = out};
	if (grid_init(&lines->grid))
		return true;
	out->no_memory = true;
	return false;
}

void lines_end(struct lines *lines)
{
	grid_print(&lines->grid, lines->out);
	grid_deinit(&lines->grid);
}

void lines_next(struct lines *lines, bool right, bool is_last)
{
	grid_cell(&lines->grid, lines->column++, right);
	if (is_last)
		lines->column = 0;
}

void lines_title(struct lines *lines, const char *text, bool right, bool is_last)
{
	buffer_string(&lines->grid.text, text);
	lines_next(lines, right, is_last);
}

void lines_number(struct lines *lines, uint64_t value)
{
	buffer_unsigned(&lines->grid.text, value);
	lines_next(lines, true, false);
}
