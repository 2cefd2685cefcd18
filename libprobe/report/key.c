/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "arch/norm.h"
#include "libprobe/query/query.h"
#include "libprobe/report/report.h"

/* ==== Names of keys =========================================================================== */

/*
 * Versions of a probe in the catalogue differ in the note's number of arguments. A hit has all of
 * them, or a user's list; then the number is unknown, and a name must mean the same in all
 * versions. A list of the first arguments is taken for all.
 */

enum { PROBES = 256 }; /* size of the cache, a power of two */

/* A name's meaning for a probe. */
struct known {
	char *provider, *probe; /* names of the probe; NULL if the entry is free */
	/* of the note; SIZE_MAX if hits have a list */
	size_t arg_count;
	bool has;
	struct key key;
};

struct key_name {
	const struct probe_catalogue *catalogue;
	char *text, *word; /* the text as typed; the text without norm() and str() */
	bool is_norm, is_str;
	struct known known[PROBES]; /* cache indexed by hash; a new entry replaces the old one */
	/*
	 * The error that no argument has this name, for the first such probe in the catalogue or,
	 * without any, of all.
	 */
	struct probe_error *missing;
	bool missing_known;
	bool found; /* some probe has an argument with this name */
};

/* ---- Text ------------------------------------------------------------------------------- */

/* Removes `WORD(` and `)`. */
static bool unwrap(const char **text, size_t *length, const char *word)
{
	size_t prefix = strlen(word);

	if (*length <= prefix || memcmp(*text, word, prefix) != 0 || (*text)[*length - 1] != ')')
		return false;
	*text += prefix;
	*length -= prefix + 1;
	return true;
}

/* Is it NAME, str(NAME), norm(NAME) or norm(str(NAME))? Only hits show if a probe has NAME. */
static bool key_name_is(const char *text, size_t length)
{
	unwrap(&text, &length, "norm(");
	unwrap(&text, &length, "str(");
	if (!length || isdigit((unsigned char)*text) || catalogue_is_reserved(text, length))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return false;
	return true;
}

static void key_name_free(struct key_name *name);

/*
 * Creates a name from "norm(str(NAME))" or the like. The catalogue is borrowed. Errors:
 * PROBE_ERROR_MEMORY.
 */
static struct probe_error *key_name_create(const char *text, size_t length,
	const struct probe_catalogue *catalogue, struct key_name **ret)
{
	struct key_name *name = calloc(1, sizeof(*name));

	if (!name)
		return probe_error_no_memory();
	name->catalogue = catalogue;
	name->text = strndup(text, length);
	name->is_norm = unwrap(&text, &length, "norm(");
	name->is_str = unwrap(&text, &length, "str(");
	name->word = strndup(text, length);
	if (!name->text || !name->word) {
		key_name_free(name);
		return probe_error_no_memory();
	}
	*ret = name;
	return NULL;
}

static void forget(struct known *known)
{
	free(known->provider);
	free(known->probe);
	*known = (struct known){0};
}

static void key_name_free(struct key_name *name)
{
	if (!name)
		return;
	for (size_t i = 0; i < PROBES; i++)
		forget(&name->known[i]);
	probe_error_free(name->missing);
	free(name->text);
	free(name->word);
	free(name);
}

static const char *key_name_text(const struct key_name *name)
{
	return name->text;
}

static bool key_name_is_norm(const struct key_name *name)
{
	return name->is_norm;
}

/* ---- Probes ----------------------------------------------------------------------------- */

static const struct probe_arg_meaning *arg_of(
	const struct key_name *name, const struct probe_meaning *meaning)
{
	for (size_t i = 0; meaning && i < meaning->arg_count; i++)
		if (strcmp(meaning->args[i].name, name->word) == 0)
			return &meaning->args[i];
	return NULL;
}

static struct key key_of(const struct key_name *name, const struct probe_meaning *meaning,
	const struct probe_arg_meaning *arg)
{
	bool is_string = name->is_str || arg->kind == PROBE_ARG_STRING ||
			 arg->kind == PROBE_ARG_SIZED_STRING;

	return (struct key){.kind = name->is_norm ? KEY_NORM
				    : is_string	  ? KEY_STRING
						  : KEY_ARG,
		.arg = (uint8_t)(arg - meaning->args)};
}

/* Looks at all versions of a probe. Returns false if the name does not mean one argument. */
static bool find_in_all(
	const struct key_name *name, const char *provider, const char *probe, struct key *ret)
{
	bool any = false;

	for (size_t i = 0; i < name->catalogue->source_count; i++) {
		const struct catalogue_file *file = catalogue_file_of(name->catalogue, i, provider);

		for (size_t k = 0; file && k < file->probe_count; k++) {
			const struct probe_meaning *meaning = &file->probes[k];
			const struct probe_arg_meaning *arg = arg_of(name, meaning);
			struct key key;

			/* A later file overrides this entry. */
			if (strcmp(meaning->provider, provider) != 0 ||
				!catalogue_name_matches(meaning->name, probe) ||
				probe_catalogue_find(name->catalogue, provider, probe,
					meaning->arg_count) != meaning)
				continue;
			if (!arg)
				return false;
			key = key_of(name, meaning, arg);
			if (any && !key_same(&key, ret))
				return false;
			*ret = key;
			any = true;
		}
	}
	return any;
}

/* The note's number of arguments; SIZE_MAX for a list. */
static size_t count_args(const struct probe_event *event)
{
	for (size_t i = 0; i < event->arg_count; i++)
		if (event->args[i].number && event->args[i].number != i + 1)
			return SIZE_MAX;
	return event->arg_count;
}

/* Keeps the error that the probe lacks the argument, unless out of memory. */
static void note_missing(
	struct key_name *name, const char *provider, const char *probe, size_t arg_count)
{
	const struct probe_meaning *meaning =
		probe_catalogue_find(name->catalogue, provider, probe, arg_count);
	struct probe_error *error;
	char *replaced = NULL;

	if (name->missing && (name->missing_known || !meaning))
		return;
	error = meaning_replace("the key", name->text, meaning, NULL, NULL, &replaced);
	if (!error)
		error = probe_error_new(PROBE_ERROR_USAGE,
			"the key '%s': this name is not the same argument in all versions of the "
			"program; use argN",
			name->text);
	free(replaced);
	probe_error_free(name->missing);
	name->missing = probe_error_prefix(error, "%s:%s", provider, probe);
	name->missing_known = meaning != NULL;
}

static uint64_t hash_of(const char *text, uint64_t hash)
{
	while (*text)
		/* FNV-1a */
		hash = (hash ^ (unsigned char)*text++) * UINT64_C(0x100000001b3);
	return hash;
}

/* Gets the argument that the name means for a hit's probe. Returns false if it has none. */
static bool key_name_find(struct key_name *name, const struct probe_event *event, struct key *ret)
{
	uint64_t hash =
		hash_of(event->name, hash_of(event->provider, UINT64_C(0xcbf29ce484222325)));
	struct known *known = &name->known[(hash ^ hash >> 32) & (PROBES - 1)];
	size_t arg_count = count_args(event);

	if (!known->probe || known->arg_count != arg_count ||
		strcmp(known->probe, event->name) != 0 ||
		strcmp(known->provider, event->provider) != 0) {
		const struct probe_meaning *meaning = NULL;
		const struct probe_arg_meaning *arg;

		forget(known);
		if (arg_count != SIZE_MAX)
			meaning = probe_catalogue_find(
				name->catalogue, event->provider, event->name, arg_count);
		arg = arg_of(name, meaning);
		known->has = arg != NULL;
		if (arg)
			known->key = key_of(name, meaning, arg);
		else if (arg_count == SIZE_MAX)
			known->has = find_in_all(name, event->provider, event->name, &known->key);
		if (!known->has)
			note_missing(name, event->provider, event->name, arg_count);
		name->found |= known->has;
		known->arg_count = arg_count;
		/* If out of memory, the next hit tries again. */
		known->provider = strdup(event->provider);
		known->probe = known->provider ? strdup(event->name) : NULL;
	}
	*ret = known->key;
	return known->has;
}

/* The argument's meaning, for a name without norm() and str(); or NULL. */
static const struct probe_arg_meaning *key_name_meaning(
	const struct key_name *name, const char *provider, const char *probe)
{
	return arg_of(name, name->is_norm || name->is_str ? NULL
							  : probe_catalogue_find(name->catalogue,
								    provider, probe, SIZE_MAX));
}

/* Returns an error if key_name_find() was called but never found an argument; or NULL. */
static struct probe_error *key_name_missing(const struct key_name *name)
{
	const struct probe_error *missing = name->found ? NULL : name->missing;

	return missing ? probe_error_new(missing->code, "%s", missing->message) : NULL;
}

/* ==== Keys ==================================================================================== */

static const struct {
	const char *name;
	enum key_kind kind;
} words[] = {{"tid", KEY_TID}, {"pid", KEY_PID}, {"cpu", KEY_CPU}, {"comm", KEY_COMM},
	{"probe", KEY_PROBE}};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

/* Parses str(argN) or sym(argN): `name` is the letters and the parenthesis. */
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
	case KEY_PROBE: /* key_complete() adds the provider to the probe's name */
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
