/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/session/session.h"
#include "probe/sink.h"
#include "probe/table.h"
#include "tests/unit/session/table_rows.h"

const struct probe_session_probe rows_probes[ROWS_PROBES] = {
	{.provider = "db", .name = "query__start"},
	{.provider = "db", .name = "query__done", .unmatched = 2},
	{.provider = "db", .name = "query__abort"},
	{.provider = "a\"p", .name = "idle"},
};
uint64_t *rows_buckets(uint64_t count)
{
	uint64_t *buckets = calloc(PROBE_BUCKETS, sizeof(*buckets)), high;
	int64_t low;
	size_t index = 0;

	assert_non_null(buckets);
	for (uint64_t value = 1; value <= count; value++) {
		for (;; index++) {
			probe_bucket_range(index, &low, &high);
			if (value <= high)
				break;
		}
		assert_true(value >= (uint64_t)low);
		buckets[index]++;
	}
	return buckets;
}

struct probe_table *rows_none(size_t key_count)
{
	struct probe_table *table;

	assert_null(probe_table_create(key_count, &table));
	return table;
}

struct probe_table *rows_table(size_t key_count, const struct probe_row *rows, size_t count)
{
	struct probe_table *table = rows_none(key_count);

	assert_null(table_add_rows(table, rows, count, rows_probes, ROWS_PROBES));
	return table;
}

const char *rows_shown(const struct probe_table *table, enum probe_sink_format format,
	const struct probe_view *view)
{
	static char text[1 << 16];
	struct probe_sink *sink;
	FILE *file = tmpfile();
	ssize_t length;

	assert_non_null(file);
	assert_null(probe_sink_create(format, fileno(file), "the file", &sink));
	probe_sink_table(sink, table, view);
	assert_null(probe_sink_flush(sink));
	length = pread(fileno(file), text, sizeof(text) - 1, 0);
	assert_true(length >= 0);
	text[length] = '\0';
	probe_sink_free(sink);
	fclose(file);
	return text;
}
