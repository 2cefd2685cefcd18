/* SPDX-License-Identifier: MIT */
/* Names and labels of metric instances. */
#include "libprobe/output/output.h"

#ifdef PCP_BUILT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/buffer.h"

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
		metric_key_text(&out, &row->row.keys[i], key_count == 1);
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
	metric_key_text(&out, &row->row.keys[0], true);
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

static bool take_label(const struct metric_label *label, void *data)
{
	struct pcp_instance *instance = data;
	struct pcp_label *number = &instance->labels[instance->label_count];

	if (!label->is_number)
		return add_label(instance, label->name, label->text, label->length);
	*number = (struct pcp_label){.name = label->name,
		.value = strndup(label->text, label->length),
		.is_number = true};
	instance->label_count += number->value != NULL;
	return number->value != NULL;
}

bool pcp_rename_program(struct pcp_instance *instance, const char *program)
{
	struct pcp_instance named = {0};

	if (!add_label(&named, "program", program, strlen(program)))
		return false;
	/* The label after the pid. */
	free(instance->labels[1].value);
	instance->labels[1] = named.labels[0];
	return true;
}

bool pcp_process_labels(struct pcp_instance *instance, pid_t pid, const char *program)
{
	return metric_process_labels(pid, program, take_label, instance);
}

bool pcp_row_labels(struct pcp_instance *instance, const struct probe_table_row *row,
	const struct probe_view *view, size_t key_count)
{
	return metric_row_labels(row, view, key_count, take_label, instance);
}
#endif
