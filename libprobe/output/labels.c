/* SPDX-License-Identifier: MIT */
/* The labels of rows. */
#include <stdio.h>
#include <string.h>

#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

static bool take_text(const char *name, const char *text, metric_take_label *take, void *data)
{
	const struct metric_label label = {name, text, strlen(text), false};

	return take(&label, data);
}

bool metric_process_labels(pid_t pid, const char *program, metric_take_label *take, void *data)
{
	char text[16];
	const struct metric_label label = {
		"pid", text, (size_t)snprintf(text, sizeof(text), "%d", (int)pid), true};

	return take(&label, data) && take_text("program", program, take, data);
}

void metric_key_text(struct buffer *out, const struct probe_value *key, bool is_alone)
{
	if (key->kind == PROBE_VALUE_NULL)
		buffer_string(out, "(unreadable)");
	if (key->kind == PROBE_VALUE_STACK)
		value_add_stack(out, key);
	if (key->kind == PROBE_VALUE_OTHER)
		buffer_bytes(out, key->bytes, key->length);
	if (key->kind == PROBE_VALUE_NULL || key->kind == PROBE_VALUE_STACK ||
		key->kind == PROBE_VALUE_OTHER || value_add_number(out, key))
		return;
	/* Bare where it cannot be mistaken for another. */
	if (is_alone && key->length && key->bytes[0] != '"' && key->bytes[0] != '(') {
		buffer_c_escaped(out, key->bytes, key->length, 0);
	} else {
		buffer_char(out, '"');
		buffer_c_escaped(out, key->bytes, key->length, '"');
		buffer_char(out, '"');
	}
	if (key->truncated)
		buffer_string(out, "...");
}

static bool take_keys(
	const struct probe_value *keys, size_t key_count, metric_take_label *take, void *data)
{
	static const char *const names[PROBE_KEYS_MAX] = {"key", "key2", "key3", "key4"};
	bool done = true;

	for (size_t i = 0; i < key_count && done; i++) {
		struct metric_label label = {.name = names[i]};
		struct buffer out;

		if (value_has_bytes(&keys[i]) && keys[i].kind != PROBE_VALUE_STACK) {
			label.text = keys[i].bytes;
			label.length = keys[i].length;
			done = take(&label, data);
			continue;
		}
		done = buffer_init(&out);
		if (!done)
			break;
		metric_key_text(&out, &keys[i], true);
		label.text = out.data;
		label.length = out.length;
		done = !out.no_memory && take(&label, data);
		buffer_deinit(&out);
	}
	/* A key of the program may have the same text. */
	if (done && value_keys_are_other(keys, key_count))
		done = take_text("other", "true", take, data);
	return done;
}

bool metric_row_labels(const struct probe_table_row *row, const struct probe_view *view,
	size_t key_count, metric_take_label *take, void *data)
{
	bool done = take_text("provider", row->provider, take, data) &&
		    take_text("probe", row->name, take, data);

	if (done && row->begin_name)
		done = take_text("begin", row->begin_name, take, data);
	if (done && view->columns & PROBE_COLUMN_OUTCOME)
		done = take_text(
			"outcome", table_name_aborts(row->name) ? "aborted" : "done", take, data);
	if (done && view->value)
		done = take_text("value", view->value, take, data);
	return done && take_keys(row->row.keys, key_count, take, data);
}
