/* SPDX-License-Identifier: MIT */
/*
 * A library is upgraded while processes have the old file mapped. Nothing leads to that file any
 * more (/proc/PID/map_files does, with CAP_CHECKPOINT_RESTORE), and notes are in no segment, so
 * what probes it has is unknown. Those that are on must still be shown, and be switched off.
 *
 * The registry knows their sites, but not their names: it has a key, which is a hash of the address
 * of the module's first note, the provider and the name. Each step of that hash (FNV-1a) can be
 * undone. So for a name that might be the probe's, the key tells the address; if that lies in the
 * module, the name is right, as any other name would lead somewhere among 2^64 addresses. The names
 * to try are those that the user has typed, and those in the file that is at the path now, which as
 * a rule is the next version of the same library.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/names/pattern.h"
#include "libprobe/names/recall.h"
#include "libprobe/names/select.h"

struct candidate {
	const char *provider, *name; /* in the storage of the notes to come */
};

struct recall {
	struct module *module;
	const struct registry *registry;
	struct candidate *candidates;
	size_t candidate_count;
	struct sdt_notes notes;
};

static const char *store(char **at, const char *text)
{
	const char *copy = *at;

	*at = stpcpy(*at, text) + 1;
	return copy;
}

static void add_candidate(struct recall *recall, char **at, const char *provider, const char *name)
{
	struct candidate *candidate = &recall->candidates[recall->candidate_count++];

	candidate->provider = store(at, provider);
	candidate->name = store(at, name);
}

/* The notes of the file that is there now; none if it is no such file. */
static void read_successor(const struct module *module, struct sdt_notes *ret)
{
	struct object *object = NULL;
	struct probe_error *error;

	*ret = (struct sdt_notes){0};
	if (module->successor < 0)
		return;
	error = object_open_fd(module->successor, module->path, &object);
	if (!error)
		error = sdt_read(object, ret);
	object_close(object);
	probe_error_free(error);
}

static bool find_candidates(
	struct recall *recall, const struct probe_pattern *const *patterns, size_t count)
{
	const char *provider, *name;
	struct sdt_notes now;
	size_t bytes = 1;
	char *at;

	read_successor(recall->module, &now);
	for (size_t i = 0; i < count; i++)
		if (pattern_names(patterns[i], &provider, &name))
			bytes += strlen(provider) + strlen(name) + 2;
	for (size_t i = 0; i < now.count; i++)
		bytes += strlen(now.notes[i].provider) + strlen(now.notes[i].name) + 2;
	recall->candidates = calloc(count + now.count + 1, sizeof(*recall->candidates));
	recall->notes.storage = at = malloc(bytes);
	if (recall->candidates && at) {
		for (size_t i = 0; i < count; i++)
			if (pattern_names(patterns[i], &provider, &name))
				add_candidate(recall, &at, provider, name);
		for (size_t i = 0; i < now.count; i++)
			add_candidate(recall, &at, now.notes[i].provider, now.notes[i].name);
	}
	sdt_notes_deinit(&now);
	return recall->candidates && at;
}

/* The candidate whose name leads from the key to an address of the module, or NULL. */
static const struct candidate *find_name(struct recall *recall, uint64_t key)
{
	const struct module *module = recall->module;

	for (size_t i = 0; i < recall->candidate_count; i++) {
		const struct candidate *candidate = &recall->candidates[i];
		uint64_t place = select_key_place(key, candidate->provider, candidate->name);

		if (place < module->start || place >= module->end ||
			(recall->notes.first && recall->notes.first != place))
			continue;
		recall->notes.first = place;
		return candidate;
	}
	return NULL;
}

static bool add_note(
	struct recall *recall, const struct candidate *candidate, uint64_t pc, uint64_t semaphore)
{
	struct sdt_notes *notes = &recall->notes;

	if (!ARRAY_ROOM(notes->notes, notes->count))
		return false;
	notes->notes[notes->count++] = (struct sdt_note){.provider = candidate->provider,
		.name = candidate->name,
		.args = "",
		.pc = pc,
		.semaphore = semaphore};
	return true;
}

/* A note for each site of a probe; for one without sites, one that has its semaphore. */
static bool add_notes(struct recall *recall, const struct candidate *candidate, uint64_t key)
{
	const struct registry *r = recall->registry;
	size_t count, before = recall->notes.count;
	const struct reg_semaphore *semaphores = registry_semaphores(r, key, &count);
	uint64_t semaphore = count ? semaphores[0].address : 0, last = 0;

	/* Those of one site stand together: one for each session. */
	for (size_t i = 0; i < r->stub_count; i++) {
		if (r->stubs[i].key != key || !r->stubs[i].pc || r->stubs[i].pc == last)
			continue;
		last = r->stubs[i].pc;
		if (!add_note(recall, candidate, last, semaphore))
			return false;
	}
	return recall->notes.count > before || add_note(recall, candidate, 0, semaphore);
}

/* Has a probe whose name is unknown a site in the module? */
static bool is_in_module(const struct recall *recall, uint64_t key)
{
	const struct registry *r = recall->registry;
	const struct module *module = recall->module;

	for (size_t i = 0; i < r->stub_count; i++)
		if (r->stubs[i].key == key && r->stubs[i].pc >= module->start &&
			r->stubs[i].pc < module->end)
			return true;
	return false;
}

static bool recall_all(struct recall *recall)
{
	const struct registry *r = recall->registry;

	for (size_t i = 0; i < r->probe_count; i++) {
		uint64_t key = r->probes[i].key;
		const struct candidate *candidate;

		/* One that several sessions want stands there for each of them. */
		if ((i && r->probes[i - 1].key == key) || !registry_refcount(r, key, false))
			continue;
		candidate = find_name(recall, key);
		if (candidate && !add_notes(recall, candidate, key))
			return false;
		recall->module->unnamed +=
			!candidate && registry_refcount(r, key, true) && is_in_module(recall, key);
	}
	return true;
}

struct probe_error *recall_probes(struct modules *modules, const struct registry *registry,
	const struct probe_pattern *const *patterns, size_t count)
{
	for (size_t i = 0; i < modules->count && registry->probe_count; i++) {
		struct recall recall = {.module = &modules->items[i], .registry = registry};
		bool ok;

		if (recall.module->object || recall.module->notes_read)
			continue;
		ok = find_candidates(&recall, patterns, count) && recall_all(&recall);
		free(recall.candidates);
		/* Modules own them. */
		recall.module->notes = recall.notes;
		recall.module->notes_read = true;
		if (!ok)
			return probe_error_no_memory();
	}
	return NULL;
}
