/* SPDX-License-Identifier: MIT */
/* A table whose cells are written one after the other, line by line. */
#ifndef LIBPROBE_REPORT_LINES_H
#define LIBPROBE_REPORT_LINES_H

#include "libprobe/output/grid.h"

struct lines {
	struct grid grid;   /* the next cell is written to grid.text */
	struct buffer *out; /* where the table goes */
	size_t column;
};

/* False without memory, which `out` then says, too. */
bool lines_begin(struct lines *lines, struct buffer *out);
/* Writes the table and frees it. */
void lines_end(struct lines *lines);

/* Ends a cell: of numbers on the right, and the last one of its line. */
void lines_next(struct lines *lines, bool right, bool is_last);
void lines_title(struct lines *lines, const char *text, bool right, bool is_last);
/* A number, which is not the last cell of its line. */
void lines_number(struct lines *lines, uint64_t value);

#endif
