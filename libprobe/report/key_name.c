/* SPDX-License-Identifier: MIT */
/*
 * What the catalogue knows of a probe depends on how many arguments its note has. A hit has all of
 * them, or those of a list: then the note is not known, and all versions of the program have to
 * agree. A list of the first arguments, in order, looks like all of them, and is taken for these.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"
#include "libprobe/report/report.h"

enum { PROBES = 256 }; /* that are remembered: a power of two */

/* What the name is for a probe. */
struct known {
	char *provider, *probe; /* or NULL: nothing is known here yet */
	size_t arg_count;	/* SIZE_MAX: a list */
	bool has;
	struct key key;
};

struct key_name {
	const struct probe_catalogue *catalogue;
	char *text, *word; /* as it was typed; without norm() and str() */
	bool is_norm, is_str;
	struct known known[PROBES]; /* by hash; the last one stays */
	/* Of the first probe without such an argument, or of the first that the catalogue knows. */
	struct probe_error *missing;
	bool missing_known;
	bool found; /* some probe has such an argument */
};

/* ---- The text --------------------------------------------------------------------------- */

/* Removes `WORD(` and `)`, if they are there. */
static bool unwrap(const char **text, size_t *length, const char *word)
{
	size_t prefix = strlen(word);

	if (*length <= prefix || memcmp(*text, word, prefix) != 0 || (*text)[*length - 1] != ')')
		return false;
	*text += prefix;
	*length -= prefix + 1;
	return true;
}

bool key_name_is(const char *text, size_t length)
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

struct probe_error *key_name_create(const char *text, size_t length,
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

void key_name_free(struct key_name *name)
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

const char *key_name_text(const struct key_name *name)
{
	return name->text;
}

bool key_name_is_norm(const struct key_name *name)
{
	return name->is_norm;
}

/* ---- Probes ----------------------------------------------------------------------------- */

/* The argument of that name, or NULL. */
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

/* All that is known of a probe; false unless the name is the same argument everywhere. */
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

			/* A later file may say something else of it. */
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

/* How many arguments the note has; SIZE_MAX: there was a list. */
static size_t count_args(const struct probe_event *event)
{
	for (size_t i = 0; i < event->arg_count; i++)
		if (event->args[i].number && event->args[i].number != i + 1)
			return SIZE_MAX;
	return event->arg_count;
}

/* Keeps why the probe has no such argument; without memory, nothing. */
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
		hash = (hash ^ (unsigned char)*text++) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}

bool key_name_find(struct key_name *name, const struct probe_event *event, struct key *ret)
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
		/* Without memory, it is looked up again. */
		known->provider = strdup(event->provider);
		known->probe = known->provider ? strdup(event->name) : NULL;
	}
	*ret = known->key;
	return known->has;
}

const struct probe_arg_meaning *key_name_meaning(
	const struct key_name *name, const char *provider, const char *probe)
{
	return arg_of(name, name->is_norm || name->is_str ? NULL
							  : probe_catalogue_find(name->catalogue,
								    provider, probe, SIZE_MAX));
}

struct probe_error *key_name_missing(const struct key_name *name)
{
	const struct probe_error *missing = name->found ? NULL : name->missing;

	return missing ? probe_error_new(missing->code, "%s", missing->message) : NULL;
}
