/* SPDX-License-Identifier: MIT */
/* Rows for tests of tables. */
#ifndef UNIT_TABLE_TABLE_ROWS_H
#define UNIT_TABLE_TABLE_ROWS_H

#include "libprobe/session/session.h"
#include "probe/sink.h"
#include "probe/table.h"

#define SIGNED(n)                                                                                  \
	{                                                                                          \
		.kind = PROBE_VALUE_SIGNED, .i = (n)                                               \
	}
#define UNSIGNED(n)                                                                                \
	{                                                                                          \
		.kind = PROBE_VALUE_UNSIGNED, .u = (n)                                             \
	}
#define STRING(s)                                                                                  \
	{                                                                                          \
		.kind = PROBE_VALUE_STRING, .bytes = (s), .length = sizeof(s) - 1                  \
	}

/* What the rows of rows_table() are of. */
enum { ROWS_PROBES = 4 };
extern const struct probe_session_probe rows_probes[ROWS_PROBES];

/* The buckets of so many values from 1 on. */
uint64_t *rows_buckets(uint64_t count);

/* A table without rows, and one of these. */
struct probe_table *rows_none(size_t key_count);
struct probe_table *rows_table(size_t key_count, const struct probe_row *rows, size_t count);

/* What is printed of a table; it is overwritten by the next. */
const char *rows_shown(const struct probe_table *table, enum probe_sink_format format,
	const struct probe_view *view);

#endif
