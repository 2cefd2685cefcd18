/* SPDX-License-Identifier: MIT */
/*
 * The names of a registry's probes, for when their files can no longer be read.
 *
 * They are the text of session 0, which does not exist, so the layout of the image is the same with
 * and without names. A controller that does not know of names keeps them unchanged. A controller
 * that finds no names knows the probes only by their keys.
 *
 * The text is a sequence of entries: the key, the provider and the name; both strings end with a
 * NUL. An empty provider stands for the provider of the previous entry.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/buffer.h"
#include "libprobe/registry/registry.h"

enum { NAMES_SESSION = 0, PART_BYTES = sizeof(((struct reg_text *)0)->bytes) };

/*
 * Reads the string at *at, and moves *at behind it. Returns NULL if it does not end before `end`.
 */
static const char *take_text(const char **at, const char *end)
{
	const char *text = *at, *zero = memchr(text, 0, (size_t)(end - text));

	*at = zero ? zero + 1 : end;
	return zero ? text : NULL;
}

/* Joins the parts of the text; zeros follow its end. Returns NULL if there is no memory. */
static char *join_parts(const struct registry *r, size_t *size_ret)
{
	size_t count = 0;
	char *text;

	for (size_t i = 0; i < r->text_count; i++)
		count += r->texts[i].session == NAMES_SESSION;
	text = calloc(count + 1, PART_BYTES);
	/* The index comes from the target, so it may be any number. */
	for (size_t i = 0; text && i < r->text_count; i++)
		if (r->texts[i].session == NAMES_SESSION && r->texts[i].index < count)
			memcpy(text + (size_t)r->texts[i].index * PART_BYTES, r->texts[i].bytes,
				PART_BYTES);
	*size_ret = count * PART_BYTES;
	return text;
}

static bool add_name(struct registry_names *names, struct reg_name name)
{
	if (!ARRAY_ROOM(names->items, names->count))
		return false;
	names->items[names->count++] = name;
	return true;
}

struct probe_error *registry_names(const struct registry *registry, struct registry_names *ret)
{
	size_t size;
	const char *at, *end, *provider = "";

	*ret = (struct registry_names){.text = join_parts(registry, &size)};
	if (!ret->text)
		return probe_error_no_memory();
	at = ret->text;
	end = at + size;
	while ((size_t)(end - at) > sizeof(uint64_t)) {
		struct reg_name name;
		const char *its;

		memcpy(&name.key, at, sizeof(name.key));
		at += sizeof(name.key);
		its = take_text(&at, end);
		name.name = its ? take_text(&at, end) : NULL;
		/* An empty name: the text has ended, and zeros fill the rest. */
		if (!name.name || !*name.name)
			break;
		name.provider = provider = *its ? its : provider;
		if (!add_name(ret, name)) {
			registry_names_deinit(ret);
			return probe_error_no_memory();
		}
	}
	ARRAY_SORT(ret->items, ret->count, key);
	return NULL;
}

void registry_names_deinit(struct registry_names *names)
{
	free(names->items);
	free(names->text);
	*names = (struct registry_names){0};
}

const struct reg_name *registry_names_find(const struct registry_names *names, uint64_t key)
{
	return ARRAY_FIND(names->items, names->count, key, key);
}

static void forget_parts(struct registry *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->text_count; i++)
		if (r->texts[i].session != NAMES_SESSION)
			r->texts[kept++] = r->texts[i];
	r->text_count = kept;
}

static bool set_parts(struct registry *r, const struct buffer *text)
{
	forget_parts(r);
	for (size_t at = 0; at < text->length; at += PART_BYTES) {
		size_t left = text->length - at;
		struct reg_text *part = registry_add_text(r);

		if (!part)
			return false;
		part->session = NAMES_SESSION;
		part->index = (uint32_t)(at / PART_BYTES);
		memcpy(part->bytes, text->data + at, left < PART_BYTES ? left : PART_BYTES);
	}
	return true;
}

static void put_name(struct buffer *out, const struct reg_name *name, const char **provider)
{
	bool same = strcmp(*provider, name->provider) == 0;

	buffer_bytes(out, &name->key, sizeof(name->key));
	buffer_bytes(out, same ? "" : name->provider, same ? 1 : strlen(name->provider) + 1);
	buffer_bytes(out, name->name, strlen(name->name) + 1);
	*provider = name->provider;
}

struct probe_error *registry_add_names(
	struct registry *registry, const struct reg_name *added, size_t count)
{
	struct registry_names names;
	struct probe_error *error = registry_names(registry, &names);
	const char *provider = "";
	struct buffer out = {0};
	uint64_t last = 0;
	bool ok = true;

	if (error)
		return error;
	for (size_t i = 0; i < count && ok; i++)
		ok = add_name(&names, added[i]);
	ARRAY_SORT(names.items, names.count, key);
	/*
	 * The probes are sorted by key. A probe that several sessions use appears once for each
	 * session.
	 */
	for (size_t i = 0; i < registry->probe_count && ok; i++) {
		uint64_t key = registry->probes[i].key;
		const struct reg_name *name = registry_names_find(&names, key);

		if (name && (!i || key != last))
			put_name(&out, name, &provider);
		last = key;
	}
	ok = ok && !out.no_memory && set_parts(registry, &out);
	buffer_deinit(&out);
	registry_names_deinit(&names);
	return ok ? NULL : probe_error_no_memory();
}
