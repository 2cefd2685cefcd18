/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/record/read_back.h"

bool read_next(struct probe_reader *reader, struct probe_event *ret)
{
	bool there;

	assert_null(probe_reader_next(reader, ret, &there));
	return there;
}

void check_value(const struct probe_value *got, const struct probe_value *want)
{
	assert_int_equal(got->kind, want->kind);
	assert_int_equal(got->truncated, want->truncated);
	assert_int_equal(got->length, want->length);
	if (want->kind == PROBE_VALUE_FLOAT)
		assert_true(got->f == want->f);
	else
		assert_int_equal(got->u, want->u);
	if (want->length)
		assert_memory_equal(got->bytes, want->bytes, want->length);
}

void check_text(const char *got, const char *want)
{
	if (want)
		assert_string_equal(got, want);
	else
		assert_null(got);
}

void check_stack(const struct probe_stack *got, const struct probe_stack *want)
{
	assert_non_null(got);
	assert_int_equal(got->count, want->count);
	assert_int_equal(got->end, want->end);
	for (size_t i = 0; i < got->count; i++) {
		assert_int_equal(got->frames[i]->ip, want->frames[i]->ip);
		assert_int_equal(got->frames[i]->offset, want->frames[i]->offset);
		assert_int_equal(got->frames[i]->function, want->frames[i]->function);
		assert_int_equal(got->frames[i]->line, want->frames[i]->line);
		check_text(got->frames[i]->module, want->frames[i]->module);
		check_text(got->frames[i]->symbol, want->frames[i]->symbol);
		check_text(got->frames[i]->file, want->frames[i]->file);
	}
}

void put_file(const char *folder, const char *name, const void *bytes, size_t length)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	fclose(file);
}
