/* SPDX-License-Identifier: MIT */
/*
 * The classes of events that are added to a record one by one: what their probe is called, and
 * which types their arguments have. Those of a site's last hit are kept beside the site.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

enum { CACHE_ENTRIES = 1024 /* a power of two */ };

bool ctf_classes_init(struct probe_ctf *ctf)
{
	ctf->sites = calloc(CACHE_ENTRIES, sizeof(*ctf->sites));
	return ctf->sites && buffer_init(&ctf->description.classes);
}

static void free_names(struct ctf_class *class)
{
	free((void *)class->provider);
	free((void *)class->name);
	free((void *)class->path);
}

void ctf_classes_deinit(struct probe_ctf *ctf)
{
	if (ctf->description.classes.c_locale)
		buffer_deinit(&ctf->description.classes);
	for (size_t i = 0; i < ctf->class_count; i++)
		free_names(&ctf->classes[i]);
	free(ctf->classes);
	free(ctf->sites);
}

void ctf_classes_forget(struct probe_ctf *ctf, const struct probe_session *session)
{
	for (size_t i = 0; i < CACHE_ENTRIES; i++)
		if (ctf->sites[i].session == session)
			ctf->sites[i] = (struct ctf_site){0};
}

static uint8_t code_of(const struct probe_value *value, uint8_t size)
{
	uint8_t truncated = value->truncated ? CTF_TRUNCATED : 0;
	uint8_t number = (uint8_t)(size << CTF_SIZE_SHIFT);

	switch (value->kind) {
	case PROBE_VALUE_SIGNED:
		return (uint8_t)(CTF_SIGNED | number);
	case PROBE_VALUE_UNSIGNED:
		return (uint8_t)(CTF_UNSIGNED | number);
	case PROBE_VALUE_FLOAT:
		return (uint8_t)(CTF_FLOAT | number);
	case PROBE_VALUE_STRING:
		return (uint8_t)(CTF_STRING | truncated);
	case PROBE_VALUE_TEXT:
		return (uint8_t)((value->known ? CTF_KNOWN : CTF_TEXT) | number | truncated);
	case PROBE_VALUE_BYTES:
		return (uint8_t)(CTF_BYTES | truncated);
	case PROBE_VALUE_OTHER:
	case PROBE_VALUE_STACK: /* a key of rows, and no argument */
	case PROBE_VALUE_NULL:
		break;
	}
	return CTF_UNREADABLE;
}

/* The size in bytes of a number, as declared in the site's note. */
static uint8_t size_of(const struct session_site *site, size_t arg)
{
	uint8_t size = site && arg < site->layout.arg_count ? site->layout.args[arg].size : 8;

	return size == 1 || size == 2 || size == 4 ? size : 8;
}

/* Arguments of a hit have other numbers than those of its probe if only some were asked for. */
static uint8_t number_of(const struct session_site *site, size_t arg)
{
	return site && arg < site->layout.arg_count ? site->layout.args[arg].number : (uint8_t)arg;
}

static const struct session_site *find_site(
	const struct probe_session *session, const struct probe_hit *hit)
{
	for (size_t i = 0; i < session->site_count; i++)
		if (session->sites[i].pc == hit->pc && session->sites[i].probe == hit->probe)
			return &session->sites[i];
	return NULL;
}

static bool same_probe(const struct ctf_class *a, const struct ctf_class *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->provider, b->provider) == 0 &&
	       strcmp(a->path, b->path) == 0;
}

/* The session that a class was first seen in may end before the record does. */
static struct probe_error *add_class(struct probe_ctf *ctf, const struct ctf_class *class)
{
	struct ctf_class copy = *class;

	copy.provider = strdup(class->provider);
	copy.name = strdup(class->name);
	copy.path = strdup(class->path);
	if (!copy.provider || !copy.name || !copy.path ||
		!ARRAY_ROOM(ctf->classes, ctf->class_count)) {
		free_names(&copy);
		return probe_error_no_memory();
	}
	ctf->classes[ctf->class_count] = copy;
	ctf_describe_class(&ctf->description.classes, &copy, (uint32_t)ctf->class_count++);
	return NULL;
}

/* The number of a class; many processes may share it. */
static struct probe_error *find_class(
	struct probe_ctf *ctf, const struct ctf_class *class, uint32_t *ret)
{
	size_t i = 0;

	while (i < ctf->class_count &&
		!(ctf->classes[i].arg_count == class->arg_count &&
			memcmp(ctf->classes[i].codes, class->codes, class->arg_count) == 0 &&
			memcmp(ctf->classes[i].numbers, class->numbers, class->arg_count) == 0 &&
			same_probe(&ctf->classes[i], class)))
		i++;
	*ret = (uint32_t)i;
	return i < ctf->class_count ? NULL : add_class(ctf, class);
}

/* Whether the arguments have the same codes as at the site's last hit. */
static bool same_codes(const struct ctf_class *class, const struct probe_hit *hit)
{
	for (size_t i = 0; i < hit->arg_count; i++)
		if (class->codes[i] != code_of(&hit->args[i], class->codes[i] >> CTF_SIZE_SHIFT))
			return false;
	return true;
}

struct probe_error *ctf_class_of(struct probe_ctf *ctf, const struct probe_session *session,
	const struct probe_hit *hit, const struct ctf_site **ret)
{
	struct ctf_site *seen = &ctf->sites[(hit->pc ^ hit->pc >> 10) % CACHE_ENTRIES];
	const struct probe_session_probe *probe = &session->probes[hit->probe];
	const struct session_site *site;

	*ret = seen;
	if (seen->pc == hit->pc && seen->session == session && seen->probe == hit->probe &&
		seen->class.arg_count == hit->arg_count && same_codes(&seen->class, hit))
		return NULL;
	site = find_site(session, hit);
	*seen = (struct ctf_site){.pc = hit->pc,
		.session = session,
		.probe = hit->probe,
		.class = {.provider = probe->provider,
			.name = probe->name,
			.path = probe->path,
			.arg_count = (uint8_t)hit->arg_count}};
	for (size_t i = 0; i < hit->arg_count; i++) {
		seen->class.codes[i] = code_of(&hit->args[i], size_of(site, i));
		seen->class.numbers[i] = number_of(site, i);
	}
	return find_class(ctf, &seen->class, &seen->id);
}
