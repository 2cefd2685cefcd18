/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "arch/norm.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/map.h"
#include "libprobe/query/query.h"
#include "libprobe/report/report.h"

/* ==== Names of keys =========================================================================== */

/*
 * Versions of a probe in the catalogue differ in the note's number of arguments. A hit has all of
 * them, or a user's list; then the number is unknown, and a name must mean the same in all
 * versions. A list of the first arguments is mistaken for all arguments.
 */

enum { KNOWN_MAX = 4096 }; /* at this number of probes, the table of known probes is emptied */

/* A name's meaning for a probe. */
struct known {
	bool has;
	struct key key;
};

struct key_name {
	const struct probe_catalogue *catalogue;
	char *text, *word; /* the text as typed; the text without norm() and str() */
	bool is_norm, is_str;
	struct map known; /* struct known by number of arguments, provider and name */
	/*
	 * The error that no argument has this name. It is about the first such probe in the
	 * catalogue; if no probe is in the catalogue, about all.
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

/* Is this a name, perhaps of a member, such as order->id? */
static bool is_name(const char *text, size_t length)
{
	size_t name = expr_word_length(text);

	return name && !isdigit((unsigned char)*text) && !catalogue_is_reserved(text, name) &&
	       name + expr_members_length(text + name) == length;
}

/* Does a record call a member by this label? It has `_` for the other characters (ctf_labels()). */
static bool is_label(const char *label, const char *word)
{
	while (*label && (*label == *word || (*label == '_' && !isalnum((unsigned char)*word)))) {
		label++;
		word++;
	}
	return !*label && !*word;
}

static void name_free(struct key_name *name)
{
	if (!name)
		return;
	map_clear(&name->known);
	probe_error_free(name->missing);
	free(name->text);
	free(name->word);
	free(name);
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

/* Keeps the error that the probe lacks the argument. Keeps nothing if out of memory. */
static void note_missing(
	struct key_name *name, const char *provider, const char *probe, size_t arg_count)
{
	const struct probe_meaning *meaning =
		probe_catalogue_find(name->catalogue, provider, probe, arg_count);
	struct probe_error *error;
	AUTO_FREE char *replaced = NULL;

	if (name->missing && (name->missing_known || !meaning))
		return;
	error = meaning_replace("the key", name->text, meaning, NULL, NULL, &replaced);
	if (!error)
		error = probe_error_new(PROBE_ERROR_USAGE,
			"the key '%s': this name is not the same argument in all versions of the "
			"program; use argN",
			name->text);
	probe_error_free(name->missing);
	name->missing = probe_error_prefix(error, "%s:%s", provider, probe);
	name->missing_known = meaning != NULL;
}

static struct known learn(struct key_name *name, const struct probe_event *event, size_t arg_count)
{
	const struct probe_meaning *meaning =
		arg_count == SIZE_MAX ? NULL
				      : probe_catalogue_find(name->catalogue, event->provider,
						event->name, arg_count);
	const struct probe_arg_meaning *arg = arg_of(name, meaning);
	struct known known = {.has = arg != NULL};

	if (arg)
		known.key = key_of(name, meaning, arg);
	else if (arg_count == SIZE_MAX)
		known.has = find_in_all(name, event->provider, event->name, &known.key);
	if (!known.has)
		note_missing(name, event->provider, event->name, arg_count);
	name->found |= known.has;
	return known;
}

/* Gets the argument that the name means for a hit. Returns false if the hit has none. */
static bool name_find(struct key_name *name, const struct probe_event *event, struct key *ret)
{
	size_t arg_count = event->arg_count; /* the note's number; SIZE_MAX for a list */
	const struct map_part key[] = {
		MAP_OBJECT(arg_count), map_text(event->provider), map_text(event->name)};
	const struct known *known;
	struct known fresh, *added;

	for (size_t i = 0; event->labels && i < event->arg_count; i++)
		if (event->labels[i] && is_label(event->labels[i], name->word)) {
			*ret = (struct key){.kind = KEY_ARG, .arg = (uint8_t)(PROBE_ARGS_MAX + i)};
			if (name->is_norm || event->args[i].kind == PROBE_VALUE_STRING)
				ret->kind = name->is_norm ? KEY_NORM : KEY_STRING;
			return name->found = true;
		}
	for (size_t i = 0; i < event->arg_count; i++)
		if (event->args[i].number && event->args[i].number != i + 1)
			arg_count = SIZE_MAX;
	known = map_find(&name->known, key, 3);
	if (!known) {
		fresh = learn(name, event, arg_count);
		known = &fresh;
		if (name->known.count == KNOWN_MAX)
			map_clear(&name->known);
		/* If out of memory, the next hit tries again. */
		added = map_add(&name->known, sizeof(*added), key, 3);
		if (added)
			*added = fresh;
	}
	*ret = known->key;
	return known->has;
}

/* ==== Keys ==================================================================================== */

static const char *const words[] = {[KEY_TID] = "tid",
	[KEY_PID] = "pid",
	[KEY_CPU] = "cpu",
	[KEY_COMM] = "comm",
	[KEY_PROBE] = "probe"};

/* Gets the key that an expression is. Returns false if it is no key, or if out of memory. */
static bool is_key(const struct expr *expr, struct key *ret)
{
	const struct expr_node *node = expr->nodes;
	struct buffer out = {0};
	AUTO_FREE char *spelled = NULL;

	*ret = (struct key){.arg = node->arg,
		.kind = node->is_norm		      ? KEY_NORM
			: node->is_symbol	      ? KEY_SYMBOL
			: node->word == EXPR_COMM     ? KEY_COMM
			: node->word == EXPR_PROBE    ? KEY_PROBE
			: node->is_string	      ? KEY_STRING
			: node->kind == ARCH_EXPR_TID ? KEY_TID
			: node->kind == ARCH_EXPR_PID ? KEY_PID
			: node->kind == ARCH_EXPR_CPU ? KEY_CPU
						      : KEY_ARG};
	/* A key is one operand, and is spelled in one way. Any other text is spelled differently.
	 */
	key_print(&out, ret);
	spelled = buffer_take(&out, NULL);
	return spelled && strcmp(spelled, expr->text) == 0;
}

/*
 * Makes the key NAME, str(NAME), norm(NAME) or norm(str(NAME)); leaves *ret if the text has another
 * form. Whether a probe has an argument of this name is known only at hits.
 */
static struct probe_error *parse_name(
	const char *text, const struct probe_catalogue *catalogue, uint8_t index, struct key *ret)
{
	const char *word = text;
	size_t length = strlen(text);
	bool is_norm = unwrap(&word, &length, "norm("), is_str = unwrap(&word, &length, "str(");
	struct key_name *name;

	if (!is_name(word, length))
		return NULL;
	name = calloc(1, sizeof(*name));
	if (!name)
		return probe_error_no_memory();
	*name = (struct key_name){.catalogue = catalogue,
		.text = strdup(text),
		.word = strndup(word, length),
		.is_norm = is_norm,
		.is_str = is_str};
	if (!name->text || !name->word) {
		name_free(name);
		return probe_error_no_memory();
	}
	*ret = (struct key){.kind = KEY_NAME, .arg = index, .name = name};
	return NULL;
}

static struct probe_error *parse(
	const char *text, const struct probe_catalogue *catalogue, uint8_t index, struct key *ret)
{
	struct expr *expr;
	struct probe_error *error = expr_parse("the key", text, &expr);
	bool is_done = !error && is_key(expr, ret);

	expr_free(expr);
	if (is_done || (error && error->code == PROBE_ERROR_MEMORY))
		return error;
	/* Few expressions are keys, so the message names these. */
	probe_error_free(error);
	*ret = (struct key){0};
	error = catalogue ? parse_name(text, catalogue, index, ret) : NULL;
	if (error || ret->name)
		return error;
	if (strcmp(text, "ustack") == 0)
		return probe_error_new(PROBE_ERROR_USAGE,
			"'ustack' is a key only while a program runs: probectl trace -c -k ustack; "
			"probectl export -F folded --count shows stacks that were recorded");
	return probe_error_new(PROBE_ERROR_USAGE,
		"'%.100s' is not a key (expected argN, str(argN), norm(str(argN)), sym(argN), tid, "
		"pid, cpu, comm or probe%s)",
		text, catalogue ? ", or the name of an argument" : "");
}

struct probe_error *key_parse(const char *text, size_t length,
	const struct probe_catalogue *catalogue, uint8_t index, struct key *ret)
{
	AUTO_FREE char *copy = strndup(text, length);
	struct probe_error *error =
		copy ? parse(copy, catalogue, index, ret) : probe_error_no_memory();

	return error;
}

void key_deinit(struct key *key)
{
	name_free(key->name);
	*key = (struct key){0};
}

bool key_resolve(const struct key *key, const struct probe_event *event, struct key *ret)
{
	*ret = *key;
	return key->kind != KEY_NAME || name_find(key->name, event, ret);
}

const struct probe_arg_meaning *key_meaning(
	const struct key *key, const char *provider, const char *name)
{
	const struct key_name *its = key->name;

	/* With norm() or str() around it, the value is a text. */
	if (!its || its->is_norm || its->is_str)
		return NULL;
	return arg_of(its, probe_catalogue_find(its->catalogue, provider, name, SIZE_MAX));
}

bool key_is_norm(const struct key *key)
{
	return key->kind == KEY_NAME ? key->name->is_norm : key->kind == KEY_NORM;
}

bool key_same(const struct key *a, const struct key *b)
{
	return a->kind == b->kind && a->arg == b->arg;
}

void key_print(struct buffer *out, const struct key *key)
{
	if (key->kind == KEY_NAME) {
		buffer_string(out, key->name->text);
		return;
	}
	if (key->kind < sizeof(words) / sizeof(words[0]) && words[key->kind]) {
		buffer_string(out, words[key->kind]);
		return;
	}
	if (key->label) {
		buffer_string(out, key->label);
		return;
	}
	buffer_print(out,
		key->kind == KEY_ARG	  ? "arg%u"
		: key->kind == KEY_SYMBOL ? "sym(arg%u)"
		: key->kind == KEY_NORM	  ? "norm(str(arg%u))"
					  : "str(arg%u)",
		key->arg);
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
	const struct probe_error *missing =
		key->name && !key->name->found ? key->name->missing : NULL;

	return missing ? probe_error_new(missing->code, "%s", missing->message) : NULL;
}

struct probe_error *key_not_found(const struct key *key)
{
	struct probe_error *error = key_unknown(key);
	struct buffer out = {0};
	AUTO_FREE char *text = NULL;

	if (error)
		return error;
	key_print(&out, key);
	text = buffer_take(&out, NULL);
	return text ? probe_error_new(
			      PROBE_ERROR_NOT_FOUND, "no hit has a value for the key '%s'", text)
		    : probe_error_no_memory();
}

bool key_complete(const struct key *key, const struct probe_event *event, struct probe_value *value,
	struct buffer *room)
{
	char *text;

	room->length = 0;
	if (key_is_norm(key)) {
		text = buffer_reserve(room, value->length + 1);
		if (!text)
			return false;
		value->length =
			norm_text((const uint8_t *)value->bytes, value->length, (uint8_t *)text);
		value->bytes = text;
		return true;
	}
	if (key->kind != KEY_PROBE)
		return true;
	buffer_string(room, event->provider);
	buffer_char(room, ':');
	buffer_string(room, event->name);
	value->bytes = room->data;
	value->length = room->length;
	return !room->no_memory;
}
