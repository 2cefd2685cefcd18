/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "arch/norm.h"
#include "libprobe/query/query.h"
#include "libprobe/report/report.h"

/* The words that are keys. */
static const struct {
	const char *name;
	enum key_kind kind;
} words[] = {{"tid", KEY_TID}, {"pid", KEY_PID}, {"cpu", KEY_CPU}, {"comm", KEY_COMM},
	{"probe", KEY_PROBE}};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

/* str(argN), sym(argN): three letters before the parenthesis. */
static bool parse_call(const char *name, const char *text, size_t length, struct key *ret)
{
	const char *end = text + length;

	return length > 5 && !memcmp(text, name, 4) && end[-1] == ')' &&
	       argument_parse(text + 4, &ret->arg) == end - 1;
}

struct probe_error *key_parse(const char *text, size_t length,
	const struct probe_catalogue *catalogue, uint8_t index, struct key *ret)
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
	if (parse_call("str(", text, length, ret))
		return NULL;
	ret->kind = KEY_SYMBOL;
	if (parse_call("sym(", text, length, ret))
		return NULL;
	ret->kind = KEY_NORM;
	if (length > 6 && !memcmp(text, "norm(", 5) && end[-1] == ')' &&
		parse_call("str(", text + 5, length - 6, ret))
		return NULL;
	*ret = (struct key){.kind = KEY_NAME, .arg = index};
	if (catalogue && key_name_is(text, length))
		return key_name_create(text, length, catalogue, &ret->name);
	if (length == 6 && !memcmp(text, "ustack", 6))
		return probe_error_new(PROBE_ERROR_USAGE,
			"'ustack' is a key only while a program runs: probectl trace -c -k ustack; "
			"probectl export -F folded --count shows stacks that were recorded");
	return probe_error_new(PROBE_ERROR_USAGE,
		"'%.*s' is not a key (expected argN, str(argN), norm(str(argN)), sym(argN), tid, "
		"pid, cpu, comm or probe%s)",
		(int)(length < 100 ? length : 100), text,
		catalogue ? ", or the name of an argument" : "");
}

void key_deinit(struct key *key)
{
	key_name_free(key->name);
	*key = (struct key){0};
}

bool key_resolve(const struct key *key, const struct probe_event *event, struct key *ret)
{
	*ret = *key;
	return key->kind != KEY_NAME || key_name_find(key->name, event, ret);
}

const struct probe_arg_meaning *key_meaning(
	const struct key *key, const char *provider, const char *name)
{
	return key->kind == KEY_NAME ? key_name_meaning(key->name, provider, name) : NULL;
}

bool key_is_norm(const struct key *key)
{
	return key->kind == KEY_NAME ? key_name_is_norm(key->name) : key->kind == KEY_NORM;
}

bool key_same(const struct key *a, const struct key *b)
{
	return a->kind == b->kind && a->arg == b->arg;
}

void key_print(struct buffer *out, const struct key *key)
{
	if (key->kind == KEY_NAME) {
		buffer_string(out, key_name_text(key->name));
		return;
	}
	for (size_t i = 0; i < WORDS; i++) {
		if (words[i].kind == key->kind) {
			buffer_string(out, words[i].name);
			return;
		}
	}
	buffer_string(out, key->kind == KEY_NORM ? "norm(" : "");
	buffer_string(out, key->kind == KEY_ARG	     ? "arg"
			   : key->kind == KEY_SYMBOL ? "sym(arg"
						     : "str(arg");
	buffer_unsigned(out, key->arg);
	buffer_string(out, key->kind == KEY_ARG ? "" : ")");
	buffer_string(out, key->kind == KEY_NORM ? ")" : "");
}

static struct probe_value signed_value(int64_t value)
{
	return (struct probe_value){.kind = PROBE_VALUE_SIGNED, .i = value};
}

static bool arg_value(
	const struct key *key, const struct probe_event *event, struct probe_value *ret)
{
	const struct probe_value *value = probe_event_arg(event, key->arg, key->kind != KEY_ARG);

	if (!value)
		return false;
	*ret = *value;
	if (ret->kind == PROBE_VALUE_TEXT)
		ret->kind = key->kind == KEY_ARG ? PROBE_VALUE_UNSIGNED : PROBE_VALUE_STRING;
	return key->kind == KEY_ARG ? ret->kind != PROBE_VALUE_NULL
				    : ret->kind == PROBE_VALUE_STRING;
}

static struct probe_value text_of(const char *text)
{
	return (struct probe_value){
		.kind = PROBE_VALUE_STRING, .bytes = text, .length = strlen(text)};
}

bool key_value(const struct key *key, const struct probe_event *event, struct probe_value *ret)
{
	struct key its;

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
		*ret = text_of(event->comm);
		return true;
	case KEY_PROBE: /* key_complete() puts the provider before it */
		*ret = text_of(event->name);
		return true;
	case KEY_NAME:
		return key_resolve(key, event, &its) && arg_value(&its, event, ret);
	default:
		return arg_value(key, event, ret);
	}
}

struct probe_error *key_unknown(const struct key *key)
{
	return key->kind == KEY_NAME ? key_name_missing(key->name) : NULL;
}

struct probe_error *key_not_found(const struct key *key)
{
	struct probe_error *error = key_unknown(key);
	struct buffer text;

	if (error)
		return error;
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

static bool normalize(struct probe_value *value, struct buffer *room)
{
	char *text = buffer_reserve(room, value->length + 1);

	if (!text)
		return false;
	value->length = norm_text((const uint8_t *)value->bytes, value->length, (uint8_t *)text);
	value->bytes = text;
	return true;
}

bool key_complete(const struct key *key, const struct probe_event *event, struct probe_value *value,
	struct buffer *room)
{
	room->length = 0;
	if (key_is_norm(key))
		return normalize(value, room);
	if (key->kind != KEY_PROBE)
		return true;
	buffer_string(room, event->provider);
	buffer_char(room, ':');
	buffer_string(room, event->name);
	value->bytes = room->data;
	value->length = room->length;
	return !room->no_memory;
}
