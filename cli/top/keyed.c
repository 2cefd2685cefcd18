/* SPDX-License-Identifier: MIT */
/*
 * Hits by key in `probectl top` (-k). The sessions that count then gather a row for each
 * value of the keys; the probes' own rows stay, with the hits of all keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/source.h"
#include "libprobe/base/value.h"

struct probe_error *source_set_keys(struct top_source *source, const struct top_options *options)
{
	const struct string_list *keys = &options->keys;
	struct probe_gather *gather = &source->counting.gather;

	source->counting.kind = keys->count ? PROBE_SESSION_GATHER : PROBE_SESSION_COUNT;
	for (size_t i = 0; i < keys->count; i++)
		gather->keys[i] = keys->items[i];
	gather->key_count = keys->count;
	gather->keys_max = options->keys_max;
	return keys->count ? probe_table_create(keys->count, &source->gone_keys) : NULL;
}

/* As trace shows it: what may be an address is hexadecimal. */
static void add_value(struct buffer *out, const struct probe_value *value)
{
	if (value->kind == PROBE_VALUE_NULL) {
		buffer_string(out, "null");
		return;
	}
	if (value->kind == PROBE_VALUE_UNSIGNED && value->u > UINT32_MAX) {
		buffer_hex(out, value->u);
		return;
	}
	if (value_add_number(out, value))
		return;
	buffer_char(out, '"');
	buffer_c_escaped(out, value->bytes, value->length, '"');
	buffer_string(out, value->truncated ? "\"..." : "\"");
}

static struct probe_error *take_row(
	struct top_model *model, const struct probe_table_row *row, size_t key_count)
{
	struct buffer key = {0};
	struct top_row *found = NULL;

	for (size_t i = 0; i < key_count; i++) {
		buffer_string(&key, i ? " " : "");
		add_value(&key, &row->row.keys[i]);
	}
	buffer_char(&key, '\0');
	if (!key.no_memory)
		found = model_key_row(model, row->provider, row->name, key.data);
	buffer_deinit(&key);
	if (!found)
		return probe_error_no_memory();
	found->total += row->row.count;
	return NULL;
}

struct probe_error *source_read_keys(struct top_source *source, struct top_model *model)
{
	const struct probe_table_row *rows;
	struct probe_error *error;
	struct probe_table *table;
	size_t count;

	if (!source->gone_keys)
		return NULL;
	error = probe_table_since(source->gone_keys, NULL, &table);
	if (error)
		return error;
	for (size_t i = 0; i < source->count && !error; i++)
		error = probe_table_add(table, source->processes[i].counts, &source->counting);
	rows = error ? NULL : probe_table_rows(table, &count);
	for (size_t i = 0; rows && i < count && !error; i++)
		if (rows[i].row.count)
			error = take_row(model, &rows[i], source->counting.gather.key_count);
	probe_table_free(table);
	return error;
}

struct probe_error *source_keep_keys(struct top_source *source, const struct top_process *process)
{
	return source->gone_keys && process->counts
		       ? probe_table_add(source->gone_keys, process->counts, &source->counting)
		       : NULL;
}
