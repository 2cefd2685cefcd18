/* SPDX-License-Identifier: MIT */
/*
 * Recalls the names of enabled probes whose files have changed: a mapped library is upgraded,
 * deleted, or written to. Notes are in no segment, so the process has no copy, but we must still
 * show enabled probes and switch them off. A file is trusted only while it agrees with the
 * registry; otherwise the registry's probes replace its notes.
 *
 * The registry has names, and for each probe a key: a hash (FNV-1a) of the address of the module's
 * first note, the provider and the name. Its steps can be undone, so a key and a name yield the
 * address, which tells the module.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/query/query.h"
#include "libprobe/registry/registry.h"

/* ==== Registry names ========================================================================== */

/*
 * The names of a registry's probes, for when their files are unreadable.
 *
 * They are the text of session 0, which does not exist, so that controllers that know no names keep
 * them, and find the image's layout unchanged.
 *
 * The text is a sequence of entries: key, provider, name; both strings end with a NUL. An empty
 * provider is that of the previous entry.
 */

enum { NAMES_SESSION = 0 };

/* Reads the string at *at, and moves *at behind it. NULL if it does not end before `end`. */
static const char *take_text(const char **at, const char *end)
{
	const char *text = *at, *zero = memchr(text, 0, (size_t)(end - text));

	*at = zero ? zero + 1 : end;
	return zero ? text : NULL;
}

struct probe_error *registry_names(const struct registry *registry, struct registry_names *ret)
{
	size_t size;
	const char *at, *end, *provider = "";

	*ret = (struct registry_names){.text = registry_text(registry, NAMES_SESSION, &size)};
	if (!ret->text)
		return size ? probe_error_no_memory() : NULL;
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
		if (!ARRAY_ADD(ret->items, ret->count, name)) {
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

struct probe_error *registry_add_names(
	struct registry *registry, const struct reg_name *added, size_t count)
{
	AUTO(registry_names_deinit) struct registry_names names = {0};
	struct probe_error *error = registry_names(registry, &names);
	const char *provider = "";
	AUTO(buffer_deinit) struct buffer out = {0};
	uint64_t last = 0;
	bool ok = true;

	if (error)
		return error;
	for (size_t i = 0; i < count && ok; i++)
		ok = ARRAY_ADD(names.items, names.count, added[i]);
	ARRAY_SORT(names.items, names.count, key);
	/* A probe has an element for each of its sessions, sorted by key. */
	for (size_t i = 0; i < registry->probe_count && ok; i++) {
		uint64_t key = registry->probes[i].key;
		const struct reg_name *name = registry_names_find(&names, key);

		if (name && (!i || key != last)) {
			bool same = strcmp(provider, name->provider) == 0;

			provider = name->provider;
			buffer_bytes(&out, &name->key, sizeof(name->key));
			buffer_bytes(&out, same ? "" : provider, same ? 1 : strlen(provider) + 1);
			buffer_bytes(&out, name->name, strlen(name->name) + 1);
		}
		last = key;
	}
	ok = ok && !out.no_memory &&
	     registry_set_text(registry, NAMES_SESSION, out.data, out.length);
	return ok ? NULL : probe_error_no_memory();
}

/* ==== Recall ================================================================================== */

static const char has_changed[] =
	"the file has changed since the process mapped it; restart the program to probe it";

/* ---- Files that contradict the registry ------------------------------------------------------ */

/* A site, from a file's notes or the registry's stubs. */
struct fact {
	uint64_t pc, key; /* run-time address of the site, and key of its probe */
};

static int compare_facts(const void *a, const void *b)
{
	const struct fact *x = a, *y = b;

	return ORDER(x->pc, y->pc) ?: ORDER(x->key, y->key);
}

/* Does a stub belong to an enabled probe? A gate is in no file; its key equals its address. */
static bool is_probed(const struct registry *r, const struct reg_stub *stub)
{
	return stub->pc && stub->key != stub->pc && registry_refcount(r, stub->key, false) > 0;
}

/*
 * Returns true if our jump is at the site of a stub. Another library may have been mapped at the
 * addresses of a closed one.
 */
static bool is_patched(pid_t pid, const struct registry *r, const struct reg_stub *stub)
{
	const struct reg_site *site = registry_site(r, stub->pc);
	uint8_t bytes[sizeof(site->original)];
	enum site_state state;

	if (!site || memory_read(pid, site->patch, bytes, site->length) != site->length)
		return false;
	state = site_state(r, site, bytes);
	return state == SITE_PATCHED || state == SITE_COVERED;
}

/*
 * Adds the functions of a module that are enabled. Functions have no notes in the file; the
 * registry has their names.
 */
static struct probe_error *recall_functions(const struct registry *r,
	const struct registry_names *names, size_t first, size_t end, struct module *module)
{
	struct probe_error *error = NULL;

	for (size_t i = first; i < end && !error; i++) {
		const struct reg_stub *stub = &r->stubs[i];
		const struct reg_name *name =
			is_probed(r, stub) ? registry_names_find(names, stub->key) : NULL;
		bool is_known = false;

		/* A site has an element for each session. */
		for (size_t k = i; k > first && r->stubs[k - 1].pc == stub->pc && !is_known; k--)
			is_known = r->stubs[k - 1].key == stub->key;
		if (name && event_is_of_function(name->provider) && !is_known)
			error = sdt_functions_add(&module->functions,
				&(struct sdt_note){.provider = name->provider,
					.name = name->name,
					.args = "",
					.kind = sdt_kind_of(name->provider, name->name),
					.pc = stub->pc - module->bias});
	}
	return error;
}

static struct probe_error *check_module(pid_t pid, const struct registry *r,
	const struct registry_names *names, struct module *module)
{
	size_t first = ARRAY_SEARCH(r->stubs, r->stub_count, pc, module->start);
	size_t end = ARRAY_SEARCH(r->stubs, r->stub_count, pc, module->end);
	struct probe_error *error = first < end ? module_read_notes(module) : NULL;
	const struct sdt_notes *notes = &module->notes;
	AUTO_FREE struct fact *facts = NULL; /* the sites of the file, sorted */
	size_t count;
	bool changed = false;

	if (error || first == end || !module->object)
		return error;
	error = recall_functions(r, names, first, end, module);
	if (error)
		return error;
	count = notes->count + module->functions.count;
	facts = calloc(count + 1, sizeof(*facts));
	if (!facts)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const struct sdt_note *note = i < notes->count
						      ? &notes->notes[i]
						      : module->functions.items[i - notes->count];

		facts[i] = (struct fact){note->pc + module->bias,
			select_key(notes, module->bias, note->provider, note->name)};
	}
	qsort(facts, count, sizeof(*facts), compare_facts);
	for (size_t i = first; i < end && !changed; i++) {
		const struct reg_stub *stub = &r->stubs[i];
		const struct fact fact = {stub->pc, stub->key};

		changed = is_probed(r, stub) &&
			  !bsearch(&fact, facts, count, sizeof(*facts), compare_facts) &&
			  is_patched(pid, r, stub);
	}
	return changed ? module_distrust(module, has_changed) : NULL;
}

/* ---- Names ----------------------------------------------------------------------------------- */

struct recall {
	struct module *module;
	const struct registry *registry;
	const struct registry_names *names;
	const struct fact *sites; /* the sites, sorted by key */
	size_t site_count;
	struct sdt_notes notes;
	char *at; /* the first free byte in the storage of the notes */
};

static const char *store(struct recall *recall, const char *text)
{
	const char *copy = recall->at;

	recall->at = stpcpy(recall->at, text) + 1;
	return copy;
}

/* Returns true if the key and this name yield an address in the module. */
static bool fits(struct recall *recall, uint64_t key, const char *provider, const char *name)
{
	uint64_t place = select_key_place(key, provider, name);

	if (place < recall->module->start || place >= recall->module->end ||
		(recall->notes.first && recall->notes.first != place))
		return false;
	recall->notes.first = place;
	return true;
}

static bool add_note(
	struct recall *recall, const struct reg_name *name, uint64_t pc, uint64_t semaphore)
{
	struct sdt_notes *notes = &recall->notes;

	return ARRAY_ADD(notes->notes, notes->count,
		(struct sdt_note){.provider = name->provider,
			.kind = sdt_kind_of(name->provider, name->name),
			.name = name->name,
			.args = "",
			.pc = pc,
			.semaphore = semaphore});
}

/*
 * Adds a note for each site of a probe. If the probe has no site, adds one note with its semaphore.
 */
static bool add_notes(struct recall *recall, const struct reg_name *name, uint64_t key)
{
	const struct reg_semaphore *semaphores;
	size_t count, before = recall->notes.count;
	uint64_t semaphore = 0, last = 0;

	semaphores = registry_semaphores(recall->registry, key, &count);
	for (size_t i = 0; i < count && !semaphore; i++)
		semaphore = semaphores[i].label ? 0 : semaphores[i].address;
	/* A site has an element for each session; they are adjacent. */
	for (size_t i = ARRAY_SEARCH(recall->sites, recall->site_count, key, key);
		i < recall->site_count && recall->sites[i].key == key; i++) {
		if (recall->sites[i].pc == last)
			continue;
		last = recall->sites[i].pc;
		if (!add_note(recall, name, last, semaphore))
			return false;
	}
	return recall->notes.count > before || add_note(recall, name, 0, semaphore);
}

static bool recall_all(struct recall *recall)
{
	const struct registry *r = recall->registry;
	struct module *module = recall->module;

	for (size_t i = 0; i < r->probe_count; i++) {
		uint64_t key = r->probes[i].key;
		const struct reg_name *known = registry_names_find(recall->names, key);
		bool is_in_module = false;

		/* A probe has an element for each of its sessions. */
		if ((i && r->probes[i - 1].key == key) || !registry_refcount(r, key, false))
			continue;
		if (known && fits(recall, key, known->provider, known->name)) {
			struct reg_name name = {.provider = store(recall, known->provider)};

			name.name = store(recall, known->name);
			if (!add_notes(recall, &name, key))
				return false;
			continue;
		}
		for (size_t k = ARRAY_SEARCH(recall->sites, recall->site_count, key, key);
			k < recall->site_count && recall->sites[k].key == key; k++)
			is_in_module |= recall->sites[k].pc >= module->start &&
					recall->sites[k].pc < module->end;
		module->unnamed += is_in_module && registry_refcount(r, key, true);
	}
	return true;
}

static int compare_by_key(const void *a, const void *b)
{
	const struct fact *x = a, *y = b;

	return ORDER(x->key, y->key) ?: ORDER(x->pc, y->pc);
}

static struct probe_error *recall_unread(struct modules *modules, const struct registry *registry)
{
	AUTO(registry_names_deinit) struct registry_names names = {0};
	struct probe_error *error = registry_names(registry, &names);
	/* The sites of all probes, sorted by key. */
	AUTO_FREE struct fact *sites = calloc(registry->stub_count + 1, sizeof(*sites));
	size_t site_count = 0, bytes = 1;
	bool ok = sites != NULL;

	if (error)
		return error;
	for (size_t i = 0; i < names.count; i++)
		bytes += strlen(names.items[i].provider) + strlen(names.items[i].name) + 2;
	for (size_t i = 0; ok && i < registry->stub_count; i++)
		if (registry->stubs[i].pc)
			sites[site_count++] =
				(struct fact){registry->stubs[i].pc, registry->stubs[i].key};
	if (ok)
		qsort(sites, site_count, sizeof(*sites), compare_by_key);
	for (size_t i = 0; i < modules->count && ok; i++) {
		struct recall recall = {
			.module = &modules->items[i], .registry = registry, .names = &names};

		if (recall.module->object || recall.module->notes_read)
			continue;
		recall.sites = sites;
		recall.site_count = site_count;
		recall.notes.storage = recall.at = malloc(bytes);
		ok = recall.at && recall_all(&recall);
		/* The module owns the notes. */
		recall.module->notes = recall.notes;
		recall.module->notes_read = true;
	}
	return ok ? NULL : probe_error_no_memory();
}

struct probe_error *recall_probes(struct modules *modules, pid_t pid, const struct maps *maps,
	const struct registry *registry)
{
	AUTO(registry_names_deinit) struct registry_names names = {0};
	struct probe_error *error;

	if (!registry->probe_count)
		return NULL;
	error = registry_names(registry, &names);
	if (error)
		return error;
	for (size_t i = 0; i < modules->count && !error; i++)
		error = check_module(pid, registry, &names, &modules->items[i]);
	/* Add files whose ELF header in memory was overwritten: they are not recognised any more.
	 */
	for (size_t i = 0; i < registry->stub_count && !error; i++) {
		const struct reg_stub *stub = &registry->stubs[i];

		if (is_probed(registry, stub) && !modules_find(modules, stub->pc) &&
			is_patched(pid, registry, stub))
			error = modules_add_unread(modules, maps, stub->pc, has_changed);
	}
	return error ?: recall_unread(modules, registry);
}
