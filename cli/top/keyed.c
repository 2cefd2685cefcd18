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

static void set_keys(struct probe_gather *gather, const struct top_options *options)
{
	for (size_t i = 0; i < options->keys.count; i++)
		gather->keys[i] = options->keys.items[i];
	gather->key_count = options->keys.count;
	gather->keys_max = options->keys_max;
}

struct probe_error *source_set_keys(struct top_source *source, const struct top_options *options)
{
	static const struct probe_session_options timing = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES, .sum = true, .histogram = true}};
	const struct string_list *keys = &options->keys;

	source->counting.kind = keys->count ? PROBE_SESSION_GATHER : PROBE_SESSION_COUNT;
	source->times.options = timing;
	set_keys(&source->counting.gather, options);
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
	if (value->kind == PROBE_VALUE_STACK) {
		value_add_stack(out, value);
		return;
	}
	if (value->kind == PROBE_VALUE_OTHER) {
		buffer_bytes(out, value->bytes, value->length);
		return;
	}
	buffer_char(out, '"');
	buffer_c_escaped(out, value->bytes, value->length, '"');
	buffer_string(out, value->truncated ? "\"..." : "\"");
}

/* The keys of a table's row, as a row of the model has them; ends with NUL. */
static void key_text(struct buffer *out, const struct probe_table_row *row, size_t key_count)
{
	for (size_t i = 0; i < key_count; i++) {
		buffer_string(out, i ? " " : "");
		add_value(out, &row->row.keys[i]);
	}
	buffer_char(out, '\0');
}

static struct probe_error *take_row(
	struct top_model *model, const struct probe_table_row *row, size_t key_count)
{
	struct buffer key = {0};
	struct top_row *found = NULL;

	key_text(&key, row, key_count);
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
	model->has_keys = true;
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
