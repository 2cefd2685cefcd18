/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/map.h"
#include "libprobe/base/nearest.h"
#include "libprobe/query/query.h"

/* Orders notes by provider and name. Notes with equal names stay in the file's order. */
static int compare_notes(const void *a, const void *b)
{
	const struct sdt_note *x = *(const struct sdt_note *const *)a;
	const struct sdt_note *y = *(const struct sdt_note *const *)b;

	return strcmp(x->provider, y->provider) ?: strcmp(x->name, y->name) ?: ORDER(x, y);
}

const struct sdt_note **select_by_name(
	const struct sdt_notes *notes, const struct sdt_functions *functions, size_t *count_ret)
{
	size_t count = notes->count + functions->count;
	const struct sdt_note **sorted = calloc(count + 1, sizeof(*sorted));

	for (size_t i = 0; sorted && i < notes->count; i++)
		sorted[i] = &notes->notes[i];
	for (size_t i = 0; sorted && i < functions->count; i++)
		sorted[notes->count + i] = functions->items[i];
	if (sorted)
		qsort(sorted, count, sizeof(*sorted), compare_notes);
	*count_ret = count;
	return sorted;
}

size_t select_probe_end(const struct sdt_note *const *sorted, size_t count, size_t from)
{
	size_t end = from + 1;

	while (end < count && strcmp(sorted[from]->name, sorted[end]->name) == 0 &&
		strcmp(sorted[from]->provider, sorted[end]->provider) == 0)
		end++;
	return end;
}

/* The inverse of FNV_FACTOR modulo 2^64. */
#define FNV_INVERSE UINT64_C(0xce965057aff6957b)
_Static_assert(FNV_FACTOR *FNV_INVERSE == 1, "the inverse of the factor");

/* Continues a hash with a text and its NUL. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_fnv(hash, text, strlen(text) + 1);
}

static uint64_t hash_back(uint64_t hash, const char *text)
{
	for (size_t i = strlen(text) + 1; i-- > 0;)
		hash = (hash * FNV_INVERSE) ^ (uint8_t)text[i];
	return hash;
}

uint64_t select_key(
	const struct sdt_notes *notes, uint64_t bias, const char *provider, const char *name)
{
	uint64_t where = bias;

	if (notes->first)
		where += notes->first;
	else if (notes->count && notes->notes[0].pc)
		where += notes->notes[0].pc;
	else if (notes->count)
		where += notes->notes[0].semaphore;
	return hash_text(hash_text(where ^ FNV_START, provider), name);
}

uint64_t select_key_place(uint64_t key, const char *provider, const char *name)
{
	return hash_back(hash_back(key, name), provider) ^ FNV_START;
}

bool select_is_exit_of(const struct select_probe *exit, const struct select_probe *entry)
{
	size_t length = strlen(entry->name);

	return exit->kind == SDT_EXIT && entry->kind == SDT_ENTRY &&
	       exit->module == entry->module && strncmp(exit->name, entry->name, length) == 0 &&
	       strcmp(exit->name + length, SDT_RETURN) == 0;
}

const struct select_probe *select_entry_of(
	const struct select_probe *first, const struct select_probe *exit)
{
	const struct select_probe *entry = exit;

	if (exit->kind != SDT_EXIT)
		return NULL;
	while (entry > first && !select_is_exit_of(exit, entry)) {
		entry--;
		if (entry->module != exit->module ||
			strncmp(entry->name, exit->name,
				sdt_function_length(exit->name, strlen(exit->name))))
			return NULL;
	}
	return select_is_exit_of(exit, entry) ? entry : NULL;
}

struct place {
	uint64_t pc;
	const struct sdt_note *note;
};

/* Orders notes by address. Notes with equal addresses stay in the order of file and memory. */
static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return ORDER(x->pc, y->pc) ?: ORDER(x->note, y->note);
}

/*
 * Adds a probe; `notes` are all of its notes. Linkers may fold identical functions (--icf). Notes
 * with the same address then are one site, which is hit once.
 */
static struct probe_error *add_probe(struct selection *selection, struct module *module,
	const struct sdt_note *const *notes, size_t count, size_t pattern)
{
	size_t probe_count = selection->probe_count;
	AUTO_FREE struct place *places = calloc(count, sizeof(*places));
	struct select_probe *probe;

	if (!places || !ARRAY_ROOM(selection->probes, probe_count))
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++)
		places[i] = (struct place){notes[i]->pc, notes[i]};
	qsort(places, count, sizeof(*places), compare_places);
	probe = &selection->probes[selection->probe_count++];
	*probe = (struct select_probe){
		.module = module,
		.provider = notes[0]->provider,
		.name = notes[0]->name,
		.kind = notes[0]->kind,
		.first_site = selection->site_count,
		.pattern = pattern,
		.key = select_key(&module->notes, module->bias, notes[0]->provider, notes[0]->name),
	};
	for (size_t i = 0; i < count; i++) {
		const struct sdt_note *note = notes[i];
		const struct sdt_note *first =
			places[ARRAY_SEARCH(places, count, pc, note->pc)].note;
		bool is_again = note->pc && first != note;

		/* If an earlier note has the address, only the semaphore is used. */
		if (is_again && first->semaphore == note->semaphore)
			continue;
		if (!ARRAY_ROOM(selection->sites, selection->site_count))
			return probe_error_no_memory();
		selection->sites[selection->site_count++] = (struct select_site){
			.note = note,
			.pc = note->pc && !is_again ? note->pc + module->bias : 0,
			.semaphore = note->semaphore ? note->semaphore + module->bias : 0,
			.probe = probe_count,
		};
	}
	probe->site_count = selection->site_count - probe->first_site;
	return NULL;
}

/* Finds the highest argument that a pattern names for a probe with `arg_count` arguments, or -1. */
static struct probe_error *highest_argument(const struct probe_pattern *pattern,
	const struct sdt_note *note, size_t arg_count, int *ret)
{
	struct capture captures[CAPTURES_MAX];
	size_t count;
	struct probe_error *error = pattern_captures(
		pattern, note->provider, note->name, arg_count, false, captures, &count);

	*ret = -1;
	for (size_t i = 0; !error && i < count; i++) {
		if (captures[i].arg > *ret)
			*ret = captures[i].arg;
		if (captures[i].has_length && captures[i].length > *ret)
			*ret = captures[i].length;
		if (captures[i].has_index && captures[i].index > *ret)
			*ret = captures[i].index;
	}
	return error;
}

struct probe_error *select_lacking(const struct probe_pattern *pattern, uint16_t machine,
	const struct sdt_note *const *notes, size_t count)
{
	const struct arch *arch = arch_of_machine(machine);
	struct arch_arg specs[ARCH_ARGS_MAX];
	const struct sdt_note *without = NULL;
	char list[ARGUMENT_TEXT];
	size_t lacking = 0;
	int absent = 0;

	for (size_t i = 0; i < count && arch && pattern_has_captures(pattern); i++) {
		size_t args = arch->parse_args(notes[i]->args, specs);
		int highest;
		/* In a pair of one name, the list is about the entry. */
		bool is_other = notes[i]->kind == SDT_EXIT && pattern_wants(pattern, false);
		struct probe_error *error =
			is_other ? NULL : highest_argument(pattern, notes[i], args, &highest);

		if (is_other)
			continue;
		if (error)
			return error;
		if (highest < 0 || args > (size_t)highest)
			continue;
		absent = without ? absent : highest;
		without = without ? without : notes[i];
		lacking++;
	}
	if (!lacking)
		return NULL;
	argument_list(specs, arch->parse_args(without->args, specs), list);
	if (lacking == count)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s:%s: there is no arg%d, the probe has %s", without->provider,
			without->name, absent, list);
	return probe_error_new(PROBE_ERROR_USAGE,
		"%s:%s: %zu of its %zu sites have no arg%d: the one at %#jx has %s",
		without->provider, without->name, lacking, count, absent, (uintmax_t)without->pc,
		list);
}

/* For a pattern: what the matching probes say about the arguments that it names. */
struct wanted {
	struct probe_error *error; /* error for the first matching probe that lacks an argument */
	bool is_there;		   /* a matching probe has all the arguments */
};

/*
 * Returns how precise a pattern is. The most precise pattern that matches a probe decides what is
 * captured: exact names count most, then lists of arguments.
 */
static int precision_of(const struct probe_pattern *pattern)
{
	return 2 * pattern_is_exact(pattern) + pattern_has_captures(pattern);
}

static bool matches(const struct modules *modules, const struct module *module,
	const struct sdt_note *note, const struct probe_pattern *pattern)
{
	AUTO_FREE char *function = NULL;

	if (probe_pattern_matches(pattern, module->path, note->provider, note->name))
		return true;
	/* `disable 'fn:FILE:*'` leaves nothing on. */
	if (!modules->only_enabled || note->kind != SDT_EXIT || pattern_is_exact(pattern))
		return false;
	function = strndup(note->name, sdt_function_length(note->name, strlen(note->name)));
	return function && probe_pattern_matches(pattern, module->path, note->provider, function);
}

static struct probe_error *select_module(const struct modules *modules, struct module *module,
	const struct probe_pattern *const *patterns, size_t pattern_count, struct wanted *wanted,
	struct selection *ret)
{
	struct probe_error *error = module_read_notes(module);
	AUTO_FREE const struct sdt_note **notes = NULL;
	size_t count;

	if (!error)
		error = select_functions(module->object, module->path, patterns, pattern_count,
			modules, modules->catalogue, &module->functions);
	if (error)
		return error;
	notes = select_by_name(&module->notes, &module->functions, &count);
	if (!notes)
		return probe_error_no_memory();
	for (size_t i = 0, end; i < count && !error; i = end) {
		size_t first = pattern_count;
		bool lacking = false, exact = false;

		end = select_probe_end(notes, count, i);
		for (size_t k = 0; k < pattern_count; k++) {
			struct probe_error *lacks = NULL;

			if (!matches(modules, module, notes[i], patterns[k]))
				continue;
			ret->matched[k] = true;
			if (module->object) {
				lacks = select_lacking(patterns[k], object_machine(module->object),
					notes + i, end - i);
				lacking |= lacks && pattern_is_exact(patterns[k]);
				wanted[k].is_there |= !lacks;
			}
			if (wanted[k].error)
				probe_error_free(lacks);
			else
				wanted[k].error = lacks;
			exact |= pattern_is_exact(patterns[k]);
			if (first == pattern_count ||
				precision_of(patterns[k]) > precision_of(patterns[first]))
				first = k;
		}
		if (first < pattern_count || pattern_count == 0)
			error = add_probe(ret, module, notes + i, end - i, first);
		if (error || (!lacking && !exact))
			continue;
		ret->probes[ret->probe_count - 1].lacking = lacking;
		ret->probes[ret->probe_count - 1].exact = exact;
	}
	return error;
}

struct probe_error *select_probes(struct modules *modules,
	const struct probe_pattern *const *patterns, size_t count, struct selection *ret)
{
	AUTO_FREE struct wanted *wanted = calloc(count + 1, sizeof(*wanted));
	struct probe_error *error = NULL;

	*ret = (struct selection){.pattern_count = count};
	ret->matched = calloc(count + 1, sizeof(*ret->matched));
	if (!ret->matched || !wanted)
		error = probe_error_no_memory();
	for (size_t i = 0; i < modules->count && !error; i++)
		error = select_module(modules, &modules->items[i], patterns, count, wanted, ret);
	/*
	 * Keep the first error. For a pattern with wildcards, an error counts only if no matching
	 * probe has all arguments.
	 */
	for (size_t k = 0; wanted && k < count; k++) {
		if (ret->lacking || (wanted[k].is_there && !pattern_is_exact(patterns[k])))
			probe_error_free(wanted[k].error);
		else
			ret->lacking = wanted[k].error;
	}
	if (error)
		selection_deinit(ret);
	return error;
}

void selection_deinit(struct selection *selection)
{
	free(selection->probes);
	free(selection->sites);
	free(selection->plans);
	free(selection->matched);
	probe_error_free(selection->lacking);
	*selection = (struct selection){0};
}

void select_refuse(struct select_site *site, const char *reason)
{
	site->chosen = NULL;
	memset(site->reasons, 0, sizeof(site->reasons));
	site->reasons[0] = reason;
}

void select_add_reason(struct select_site *site, const char *reason)
{
	for (size_t i = 0; i < SELECT_REASONS; i++) {
		if (site->reasons[i] && strcmp(site->reasons[i], reason) != 0)
			continue;
		site->reasons[i] = reason;
		return;
	}
}

char *select_reason_text(const struct select_site *site)
{
	size_t size = 1;
	char *text;

	for (size_t i = 0; i < SELECT_REASONS && site->reasons[i]; i++)
		size += strlen(site->reasons[i]) + strlen(", and ");
	text = calloc(size, 1);
	for (size_t i = 0; text && i < SELECT_REASONS && site->reasons[i]; i++) {
		strcat(text, i ? ", and " : "");
		strcat(text, site->reasons[i]);
	}
	return text;
}

void selection_drop_unwanted(struct selection *selection)
{
	size_t sites = 0, probes = 0;

	for (size_t i = 0; i < selection->probe_count; i++) {
		struct select_probe probe = selection->probes[i];

		if (probe.unwanted)
			continue;
		memmove(selection->sites + sites, selection->sites + probe.first_site,
			probe.site_count * sizeof(*selection->sites));
		for (size_t k = 0; k < probe.site_count; k++)
			selection->sites[sites + k].probe = probes;
		probe.first_site = sites;
		sites += probe.site_count;
		selection->probes[probes++] = probe;
	}
	selection->site_count = sites;
	selection->probe_count = probes;
}

struct probe_error *select_check_arguments(struct selection *selection)
{
	struct probe_error *error = selection->lacking;

	selection->lacking = NULL;
	return error;
}

/* Adds to an error that unreadable files may have the probe, with error->err EIO. */
static struct probe_error *or_unread(struct probe_error *error, const struct modules *modules,
	const struct probe_pattern *pattern, pid_t pid, bool any)
{
	const struct module *module = NULL;
	struct probe_error *more;

	for (size_t i = 0; i < modules->count && !module; i++)
		module = modules->items[i].reason ? &modules->items[i] : NULL;
	if (!module)
		return error;
	more = any ? probe_error_new(error->code, "%s (%s: %s)", error->message, module->path,
			     module->reason)
		   : probe_error_new(error->code,
			     "no probe matches '%s' in what can be read of process %d (%s: %s)",
			     probe_pattern_text(pattern), (int)pid, module->path, module->reason);
	probe_error_free(error);
	more->err = EIO;
	return more;
}

/* Returns the error for a pattern of functions that matches none: names those that are like it. */
static struct probe_error *no_function(
	struct modules *modules, const struct probe_pattern *pattern, pid_t pid)
{
	struct probe_pattern *any = NULL;
	AUTO(probe_names_deinit) struct probe_names names = {0};
	char where[PATH_MAX + 32], list[64];
	const char *path = NULL; /* of a file that the pattern names */
	bool is_file = false;	 /* a file has the name that is given for a function */
	struct probe_error *error;

	if (modules->only_enabled && !pattern_is_exact(pattern))
		return probe_error_new(PROBE_ERROR_STATE,
			"'%s' names no function that is enabled in process %d (`probectl status "
			"-p %d` shows what is)",
			probe_pattern_text(pattern), (int)pid, (int)pid);
	error = probe_pattern_parse(SDT_FUNCTIONS "*", &any);
	for (size_t i = 0; i < modules->count && !error; i++) {
		struct module *module = &modules->items[i];
		struct sdt_functions functions = {0};

		if (module->object)
			is_file |= pattern_is_file(pattern, module->path);
		if (!module->object || !pattern_names_function(pattern, module->path, NULL))
			continue;
		path = module->path;
		error = select_functions(module->object, module->path,
			(const struct probe_pattern *const *)&any, 1, NULL, NULL, &functions);
		for (size_t k = 0; k < functions.count; k++)
			probe_names_add(
				&names, functions.items[k]->provider, functions.items[k]->name);
		sdt_functions_deinit(&functions);
	}
	snprintf(where, sizeof(where), "%s%sprocess %d", names.count || !path ? "" : path,
		names.count || !path ? "" : " of ", pid);
	snprintf(list, sizeof(list), "probectl list --functions -p %d", pid);
	if (!error && !path)
		error = probe_error_new(PROBE_ERROR_NOT_FOUND,
			"no probe matches '%s': no file of that name is mapped in %s",
			probe_pattern_text(pattern), where);
	else if (!error && is_file)
		error = probe_error_new(PROBE_ERROR_NOT_FOUND,
			"no probe matches '%s' in %s: it names a file, and no function: %s:NAME, "
			"or %s:* for all",
			probe_pattern_text(pattern), where, probe_pattern_text(pattern),
			probe_pattern_text(pattern));
	else if (!error)
		error = or_unread(probe_pattern_no_match(pattern, where, list,
					  (const char *const *)names.items, names.count),
			modules, pattern, pid, true);
	probe_pattern_free(any);
	return error;
}

struct probe_error *select_unmatched(struct modules *modules, const struct selection *selection,
	const struct probe_pattern *const *patterns, pid_t pid)
{
	AUTO(selection_deinit) struct selection all = {0};
	struct probe_error *error;
	AUTO(probe_names_deinit) struct probe_names names = {0};
	char where[48], list[48];
	size_t first = 0;

	while (first < selection->pattern_count && selection->matched[first])
		first++;
	if (first == selection->pattern_count)
		return NULL;
	if (pattern_is_function(patterns[first]))
		return no_function(modules, patterns[first], pid);
	error = select_probes(modules, NULL, 0, &all);
	if (error)
		return error;
	for (size_t i = 0; i < all.probe_count; i++)
		probe_names_add(&names, all.probes[i].provider, all.probes[i].name);
	snprintf(where, sizeof(where), "process %d", pid);
	snprintf(list, sizeof(list), "probectl list -p %d", pid);
	return or_unread(probe_pattern_no_match(patterns[first], where, list,
				 (const char *const *)names.items, names.count),
		modules, patterns[first], pid, all.probe_count > 0);
}
