/* SPDX-License-Identifier: MIT */
/* Names and labels of metric instances. */
#include "libprobe/pcp/pcp.h"

#ifdef PCP_BUILT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/value.h"
#include "libprobe/table/table.h"

enum { NAME_CUT = 236 /* leaves room for "~01234567#99999" */ };

/* FNV-1a, of 32 bits. */
uint32_t pcp_hash(const char *text)
{
	uint32_t value = 2166136261u;

	while (*text)
		value = (value ^ (unsigned char)*text++) * 16777619u;
	return value;
}

/* Where to cut a text to at most `most` bytes without splitting a character. */
static size_t cut_length(const char *text, size_t length, size_t most)
{
	if (length <= most)
		return length;
	while (most && ((unsigned char)text[most] & 0xc0) == 0x80)
		most--;
	return most;
}

static void key_text(struct buffer *out, const struct probe_value *key, bool is_alone)
{
	if (key->kind == PROBE_VALUE_NULL)
		buffer_string(out, "(unreadable)");
	if (key->kind == PROBE_VALUE_STACK)
		value_add_stack(out, key);
	if (key->kind == PROBE_VALUE_NULL || key->kind == PROBE_VALUE_STACK ||
		value_add_number(out, key))
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

char *pcp_row_key(pid_t pid, const struct probe_table_row *row, size_t key_count)
{
	char *key = NULL;
	struct buffer out;

	if (!buffer_init(&out))
		return NULL;
	buffer_signed(&out, pid);
	buffer_char(&out, '/');
	if (row->begin_name) {
		buffer_string(&out, row->begin_provider);
		buffer_char(&out, ':');
		buffer_string(&out, row->begin_name);
		buffer_string(&out, "..");
	}
	if (!row->begin_name || strcmp(row->begin_provider, row->provider)) {
		buffer_string(&out, row->provider);
		buffer_char(&out, ':');
	}
	buffer_string(&out, row->name);
	for (size_t i = 0; i < key_count; i++) {
		buffer_string(&out, i ? ", " : " ");
		key_text(&out, &row->row.keys[i], key_count == 1);
	}
	buffer_char(&out, '\0');
	if (!out.no_memory)
		key = strdup(out.data);
	buffer_deinit(&out);
	return key;
}

char *pcp_row_tag(const struct probe_table_row *row)
{
	char *tag = NULL;
	struct buffer out;

	if (!buffer_init(&out))
		return NULL;
	key_text(&out, &row->row.keys[0], true);
	buffer_char(&out, '\0');
	if (!out.no_memory)
		tag = strdup(out.data);
	buffer_deinit(&out);
	return tag;
}

void pcp_instance_name(struct pcp_instance *instance, const char *key)
{
	size_t length = strlen(key), cut = cut_length(key, length, NAME_CUT);

	if (cut < length)
		snprintf(instance->name, sizeof(instance->name), "%.*s~%08x", (int)cut, key,
			pcp_hash(key));
	else
		snprintf(instance->name, sizeof(instance->name), "%s", key);
}

/* Adds as much of a text as a label holds; false without memory. */
static bool add_label(
	struct pcp_instance *instance, const char *name, const char *text, size_t length)
{
	struct pcp_label *label = &instance->labels[instance->label_count];
	size_t most = PCP_LABEL_BYTES;
	struct buffer out;

	if (!buffer_init(&out))
		return false;
	for (;;) {
		length = cut_length(text, length, most);
		out.length = out.start = 0;
		buffer_char(&out, '"');
		buffer_json_escaped(&out, text, length);
		if (out.no_memory || out.length <= PCP_LABEL_BYTES + 1)
			break;
		/* One byte may have become six. */
		most = length - (out.length - PCP_LABEL_BYTES - 1 + 5) / 6;
	}
	buffer_char(&out, '"');
	buffer_char(&out, '\0');
	*label = (struct pcp_label){.name = name, .value = out.no_memory ? NULL : strdup(out.data)};
	buffer_deinit(&out);
	instance->label_count += label->value != NULL;
	return label->value != NULL;
}

static bool add_text_label(struct pcp_instance *instance, const char *name, const char *text)
{
	return add_label(instance, name, text, strlen(text));
}

bool pcp_rename_program(struct pcp_instance *instance, const char *program)
{
	struct pcp_instance named = {0};

	if (!add_text_label(&named, "program", program))
		return false;
	/* The label after the pid. */
	free(instance->labels[1].value);
	instance->labels[1] = named.labels[0];
	return true;
}

bool pcp_process_labels(struct pcp_instance *instance, pid_t pid, const char *program)
{
	struct pcp_label *label = &instance->labels[instance->label_count];

	*label = (struct pcp_label){.name = "pid", .is_number = true};
	if (asprintf(&label->value, "%d", (int)pid) < 0)
		return false;
	instance->label_count++;
	return add_text_label(instance, "program", program);
}

static bool add_key_labels(
	struct pcp_instance *instance, const struct probe_value *keys, size_t key_count)
{
	static const char *const names[PROBE_KEYS_MAX] = {"key", "key2", "key3", "key4"};
	bool done = true;

	for (size_t i = 0; i < key_count && done; i++) {
		struct buffer out;

		if (value_has_bytes(&keys[i]) && keys[i].kind != PROBE_VALUE_STACK) {
			done = add_label(instance, names[i], keys[i].bytes, keys[i].length);
			continue;
		}
		done = buffer_init(&out);
		if (!done)
			break;
		key_text(&out, &keys[i], true);
		done = !out.no_memory && add_label(instance, names[i], out.data, out.length);
		buffer_deinit(&out);
	}
	return done;
}

bool pcp_row_labels(struct pcp_instance *instance, const struct probe_table_row *row,
	const struct probe_view *view, size_t key_count)
{
	bool done = add_text_label(instance, "provider", row->provider) &&
		    add_text_label(instance, "probe", row->name);

	if (done && row->begin_name)
		done = add_text_label(instance, "begin", row->begin_name);
	if (done && view->columns & PROBE_COLUMN_OUTCOME)
		done = add_text_label(
			instance, "outcome", table_name_aborts(row->name) ? "aborted" : "done");
	if (done && view->value)
		done = add_text_label(instance, "value", view->value);
	return done && add_key_labels(instance, row->row.keys, key_count);
}
#endif
