/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/names/argument.h"
#include "libprobe/stream/key.h"

/* The words that are keys. */
static const struct {
	const char *name;
	enum key_kind kind;
} words[] = {{"tid", KEY_TID}, {"pid", KEY_PID}, {"cpu", KEY_CPU}, {"comm", KEY_COMM}};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

struct probe_error *key_parse(const char *text, size_t length, struct key *ret)
{
	const char *end = text + length;

	for (size_t i = 0; i < WORDS; i++) {
		if (strlen(words[i].name) == length && !memcmp(text, words[i].name, length)) {
			*ret = (struct key){.kind = words[i].kind};
			return NULL;
		}
	}
	*ret = (struct key){.kind = KEY_ARG};
	if (argument_parse(text, &ret->arg) == end)
		return NULL;
	ret->kind = KEY_STRING;
	if (length > 5 && !memcmp(text, "str(", 4) && end[-1] == ')' &&
		argument_parse(text + 4, &ret->arg) == end - 1)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"'%.*s' is not a key (expected argN, str(argN), tid, pid, cpu or comm)",
		(int)(length < 100 ? length : 100), text);
}

void key_print(struct buffer *out, const struct key *key)
{
	for (size_t i = 0; i < WORDS; i++) {
		if (words[i].kind == key->kind) {
			buffer_string(out, words[i].name);
			return;
		}
	}
	buffer_string(out, key->kind == KEY_STRING ? "str(arg" : "arg");
	buffer_unsigned(out, key->arg);
	if (key->kind == KEY_STRING)
		buffer_char(out, ')');
}

static struct probe_value signed_value(int64_t value)
{
	return (struct probe_value){.kind = PROBE_VALUE_SIGNED, .i = value};
}

static bool arg_value(
	const struct key *key, const struct probe_event *event, struct probe_value *ret)
{
	const struct probe_value *value = probe_event_arg(event, key->arg, key->kind == KEY_STRING);

	if (!value)
		return false;
	*ret = *value;
	if (ret->kind == PROBE_VALUE_TEXT)
		ret->kind = key->kind == KEY_STRING ? PROBE_VALUE_STRING : PROBE_VALUE_UNSIGNED;
	return key->kind == KEY_STRING ? ret->kind == PROBE_VALUE_STRING
				       : ret->kind != PROBE_VALUE_NULL;
}

bool key_value(const struct key *key, const struct probe_event *event, struct probe_value *ret)
{
	switch (key->kind) {
	case KEY_TID:
		*ret = signed_value(event->tid);
		return true;
	case KEY_PID:
		*ret = signed_value(event->pid);
		return true;
	case KEY_CPU:
		*ret = signed_value(event->cpu);
		return event->cpu >= 0;
	case KEY_COMM:
		if (!event->comm)
			return false;
		*ret = (struct probe_value){.kind = PROBE_VALUE_STRING,
			.bytes = event->comm,
			.length = strlen(event->comm)};
		return true;
	default:
		return arg_value(key, event, ret);
	}
}

struct probe_error *key_not_found(const struct key *key)
{
	struct probe_error *error;
	struct buffer text;

	if (!buffer_init(&text))
		return probe_error_no_memory();
	key_print(&text, key);
	buffer_char(&text, '\0');
	error = text.no_memory ? probe_error_no_memory()
			       : probe_error_new(PROBE_ERROR_NOT_FOUND,
					 "no hit has a value for the key '%s'", text.data);
	buffer_deinit(&text);
	return error;
}
