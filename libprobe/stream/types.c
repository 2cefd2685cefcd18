/* SPDX-License-Identifier: MIT */
/* Types of events: names, their numbers, and sets of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/stream/stream.h"

_Static_assert(PROBE_STREAM_TYPES_END % 64 == 0, "sets consist of whole words");
_Static_assert(PROBE_STREAM_TYPES_END <= STREAM_HASH_SLOTS / 2, "there are always free slots");

/* ---- Names -------------------------------------------------------------------------------- */

/* FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/). */
static size_t slot_of(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash % STREAM_HASH_SLOTS;
}

/* Where a name is in the hash, or would be. */
static uint16_t *find(struct stream_types *types, const char *name)
{
	size_t slot = slot_of(name);

	while (types->hash[slot] && strcmp(types->types[types->hash[slot] - 1].text, name) != 0)
		slot = (slot + 1) % STREAM_HASH_SLOTS;
	return &types->hash[slot];
}

/* A type's text is "provider:name", then "provider", then "name". */
static bool set_names(struct stream_types *types, uint32_t type, const char *provider,
	size_t provider_length, char separator, const char *name)
{
	struct stream_type *t = &types->types[type];
	size_t name_length = strlen(name);
	size_t length = provider_length + (separator != '\0') + name_length;
	char *text = malloc(length + 1 + provider_length + 1 + name_length + 1), *at = text;

	if (!text)
		return false;
	at = mempcpy(at, provider, provider_length);
	if (separator)
		*at++ = separator;
	at = mempcpy(at, name, name_length + 1);
	t->provider = at;
	at = mempcpy(at, provider, provider_length);
	*at++ = '\0';
	t->name = memcpy(at, name, name_length + 1);
	t->text = text;
	*find(types, text) = (uint16_t)(type + 1);
	return true;
}

struct probe_error *stream_types_create(struct stream_types **ret)
{
	struct stream_types *types = calloc(1, sizeof(*types));

	if (!types)
		return probe_error_no_memory();
	types->next = PROBE_STREAM_UNNAMED + 1;
	for (uint32_t i = 0; i < sizeof(system_event_names) / sizeof(*system_event_names); i++) {
		if (system_event_names[i] &&
			!set_names(types, i, system_event_provider, strlen(system_event_provider),
				'_', system_event_names[i])) {
			stream_types_free(types);
			return probe_error_no_memory();
		}
	}
	*ret = types;
	return NULL;
}

void stream_types_free(struct stream_types *types)
{
	for (size_t i = 0; types && i < PROBE_STREAM_TYPES_END; i++)
		free(types->types[i].text);
	free(types);
}

struct probe_error *stream_types_of_name(
	struct stream_types *types, const char *name, uint32_t *ret)
{
	uint16_t *slot = find(types, name);
	const char *colon = strchr(name, ':');
	size_t provider = colon ? (size_t)(colon - name) : 0;

	if (*slot) {
		*ret = *slot - 1u;
		return NULL;
	}
	*ret = PROBE_STREAM_UNNAMED;
	if (types->next == PROBE_STREAM_TYPES_END)
		return NULL;
	if (!set_names(types, types->next, name, provider, colon ? ':' : '\0',
		    colon ? colon + 1 : name))
		return probe_error_no_memory();
	*ret = types->next++;
	return NULL;
}

struct probe_error *stream_types_of_probe(
	struct stream_types *types, const char *provider, const char *name, uint32_t *ret)
{
	char text[PROBE_STREAM_TYPE_NAME_MAX + 1];
	int length = snprintf(text, sizeof(text), "%s:%s", provider, name);

	*ret = PROBE_STREAM_UNNAMED;
	if (length < 0 || length > PROBE_STREAM_TYPE_NAME_MAX)
		return NULL;
	return stream_types_of_name(types, text, ret);
}

/* ---- For users ----------------------------------------------------------------------------- */

struct probe_error *probe_stream_type_open(
	struct probe_stream *stream, const char *name, uint32_t *type_ret)
{
	struct probe_error *error;

	if (!name || !*name)
		return error_numbered(PROBE_ERROR_USAGE, EINVAL, "an event type needs a name");
	if (strlen(name) > PROBE_STREAM_TYPE_NAME_MAX)
		return error_numbered(PROBE_ERROR_USAGE, ENAMETOOLONG,
			"the name of an event type has at most %d bytes, not %zu",
			PROBE_STREAM_TYPE_NAME_MAX, strlen(name));
	error = stream_enter(stream, STREAM_ACTIVE, "open types");
	if (error)
		return error;
	error = stream_types_of_name(stream->index.types, name, type_ret);
	stream_leave(stream);
	return error;
}

struct probe_error *probe_stream_type_name(
	struct probe_stream *stream, uint32_t type, const char **ret)
{
	struct probe_error *error = stream_enter(stream, STREAM_ANY, NULL);

	if (error)
		return error;
	if (stream_types_has(stream->index.types, type))
		*ret = stream->index.types->types[type].text;
	else
		error = error_numbered(
			PROBE_ERROR_USAGE, EINVAL, "the stream has no event type %u", type);
	stream_leave(stream);
	return error;
}

struct probe_error *probe_stream_type_next(
	struct probe_stream *stream, uint32_t from, uint32_t *type_ret, bool *there_ret)
{
	struct probe_error *error = stream_enter(stream, STREAM_ANY, NULL);

	if (error)
		return error;
	while (from < PROBE_STREAM_TYPES_END && !stream_types_has(stream->index.types, from))
		from++;
	*there_ret = from < PROBE_STREAM_TYPES_END;
	if (*there_ret)
		*type_ret = from;
	stream_leave(stream);
	return NULL;
}

/* ---- Sets ------------------------------------------------------------------------------------ */

struct probe_error *probe_stream_set_fill(struct probe_stream_set *set, enum probe_stream_fill what)
{
	switch (what) {
	case PROBE_STREAM_WOPID_TYPES:
		*set = (struct probe_stream_set){0};
		return NULL;
	case PROBE_STREAM_OWN_TYPES:
		*set = (struct probe_stream_set){0};
		set->words[0] = (UINT64_C(1) << PROBE_STREAM_SYSTEM_TYPES) - 1;
		return NULL;
	case PROBE_STREAM_ALL_TYPES:
		memset(set, 0xff, sizeof(*set));
		return NULL;
	}
	return error_numbered(
		PROBE_ERROR_USAGE, EINVAL, "there is no such content of a set: %d", (int)what);
}

static struct probe_error *check_type(uint32_t type)
{
	if (type < PROBE_STREAM_TYPES_END)
		return NULL;
	return error_numbered(PROBE_ERROR_USAGE, EINVAL, "there can be no type of events %u", type);
}

struct probe_error *probe_stream_set_put(struct probe_stream_set *set, uint32_t type, bool in)
{
	struct probe_error *error = check_type(type);
	uint64_t bit = UINT64_C(1) << (type % 64);

	if (!error && in)
		set->words[type / 64] |= bit;
	else if (!error)
		set->words[type / 64] &= ~bit;
	return error;
}

struct probe_error *probe_stream_set_has(
	const struct probe_stream_set *set, uint32_t type, bool *ret)
{
	struct probe_error *error = check_type(type);

	if (!error)
		*ret = stream_set_has(set, type);
	return error;
}

struct probe_value stream_set_value(const struct probe_stream_set *set)
{
	const char *bytes = (const char *)set->words;
	size_t length = sizeof(set->words);

	while (length && !bytes[length - 1])
		length--;
	return (struct probe_value){.kind = PROBE_VALUE_BYTES, .bytes = bytes, .length = length};
}

struct probe_error *probe_stream_set_read(
	const struct probe_value *value, struct probe_stream_set *ret)
{
	if (value->kind != PROBE_VALUE_BYTES || value->truncated ||
		value->length > sizeof(ret->words))
		return error_numbered(PROBE_ERROR_USAGE, EINVAL, "the value is not a set of types");
	*ret = (struct probe_stream_set){0};
	if (value->length)
		memcpy(ret->words, value->bytes, value->length);
	return NULL;
}
