/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/base/event.h"
#include "libprobe/base/value.h"

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

size_t event_packed_size(const struct probe_event *event)
{
	size_t size = sizeof(*event) + event->arg_count * sizeof(*event->args) +
		      text_size(event->provider) + text_size(event->name) + text_size(event->comm);

	for (size_t i = 0; i < event->arg_count; i++)
		size += value_has_bytes(&event->args[i]) ? event->args[i].length : 0;
	return (size + _Alignof(struct probe_event) - 1) / _Alignof(struct probe_event) *
	       _Alignof(struct probe_event);
}

/* Appends bytes to a block; returns their offset in place of a pointer. */
static const char *put(char *block, size_t *used, const char *bytes, size_t size)
{
	size_t offset = *used;

	if (size)
		memcpy(block + offset, bytes, size);
	*used += size;
	return (const char *)(uintptr_t)offset;
}

static const char *put_text(char *block, size_t *used, const char *text)
{
	return text ? put(block, used, text, text_size(text)) : NULL;
}

void event_pack(const struct probe_event *event, void *block)
{
	struct probe_event *to = block;
	struct probe_value *values = (struct probe_value *)(to + 1);
	size_t used = sizeof(*to) + event->arg_count * sizeof(*values);

	*to = *event;
	for (size_t i = 0; i < event->arg_count; i++) {
		values[i] = event->args[i];
		if (value_has_bytes(&values[i]))
			values[i].bytes = put(block, &used, values[i].bytes, values[i].length);
	}
	to->provider = put_text(block, &used, event->provider);
	to->name = put_text(block, &used, event->name);
	to->comm = put_text(block, &used, event->comm);
	memset((char *)block + used, 0, event_packed_size(event) - used);
}

/* A text of a block; NULL if there was none. False if it does not end inside the block. */
static bool take_text(char *block, size_t size, const char **text)
{
	size_t offset = (uintptr_t)*text;

	if (!offset)
		return true;
	if (offset >= size || !memchr(block + offset, '\0', size - offset))
		return false;
	*text = block + offset;
	return true;
}

struct probe_event *event_unpack(void *block, size_t size)
{
	struct probe_event *event = block;
	struct probe_value *values = (struct probe_value *)(event + 1);

	if (size < sizeof(*event) || event->arg_count > (size - sizeof(*event)) / sizeof(*values) ||
		!take_text(block, size, &event->provider) ||
		!take_text(block, size, &event->name) || !take_text(block, size, &event->comm))
		return NULL;
	for (size_t i = 0; i < event->arg_count; i++) {
		size_t offset = (uintptr_t)values[i].bytes;

		if (!value_has_bytes(&values[i])) {
			values[i].bytes = NULL;
			values[i].length = 0;
			continue;
		}
		if (offset > size || values[i].length > size - offset)
			return NULL;
		values[i].bytes = (char *)block + offset;
	}
	event->args = values;
	return event;
}

const struct probe_value *probe_event_arg(
	const struct probe_event *event, unsigned int number, bool string)
{
	for (size_t i = 0; i < event->arg_count; i++) {
		const struct probe_value *value = &event->args[i];
		bool is_string =
			value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT;

		if ((value->number ? value->number - 1U : i) == number && (is_string || !string))
			return value;
	}
	return NULL;
}
