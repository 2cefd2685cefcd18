/* SPDX-License-Identifier: MIT */
/*
 * Functions as probes: their entries and exits become notes like those of static probes.
 *
 *	fn:FILE:NAME		a site at the entry
 *	fn:FILE:NAME:return	sites at each exit: every `ret`, also of the functions that it
 *				jumps to in its place (tail calls)
 *
 * FILE is the short name of the file, NAME a symbol without version and parameters. Functions with
 * the same name in one file (static ones, overloads) are the sites of one probe. A function with
 * several names is one probe, unless patterns name it by one and not by another. A symbol without
 * code of its own is left out: an import, or a name for the function that an IFUNC has chosen.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/map.h"
#include "libprobe/query/query.h"

enum { ALIASES_MAX = 8, CHOSEN_MAX = 1024 };

static const char not_chosen[] =
	"each process chooses the function for this name, and this one has not called it yet";
static const char too_many_chosen[] =
	"each process chooses the function for this name, and the file has too many such names";
static const char inlined[] = "it exists only as inlined copies in its callers";

struct adding {
	const struct modules *modules; /* of the process, or NULL */
	const struct module *module;   /* the one among them that has the object, or NULL */
	const char *path;
	const struct probe_pattern *const *patterns;
	size_t count;
	const struct probe_catalogue *catalogue;
	struct types_function *undescribed; /* functions that nothing describes */
	size_t undescribed_count;
	char *provider;
	struct sdt_functions *functions;
	size_t before; /* number of functions that there were; these are sorted */
	/* The names of the functions that patterns name, by address. */
	struct name {
		const char *symbol; /* owned by the object */
		char *plain;
		struct object_range range;
		bool is_ifunc;	     /* `range` is a resolver's, until the function is found */
		bool is_named;	     /* by a pattern */
		const char *unknown; /* why the function cannot be found, or NULL */
	} * found;
	size_t found_count;
	size_t address_first; /* the first one with the last symbol's address */
	bool *has_name;	      /* for each pattern: a kept name of the function is one of its own */
	/* The function for which notes are added. */
	struct function_code code;
	const char *unknown;
	char *aliases;
	struct probe_error *error;
};

static struct probe_error *too_large(const struct adding *a)
{
	return probe_error_new(PROBE_ERROR_FORMAT,
		"%s: its functions overlap: with their names and exits, they would be more than %d "
		"times as large as the file",
		a->path, FUNCTIONS_OVERLAP_MAX);
}

/* ---- Names ------------------------------------------------------------------------------ */

/* Returns the provider of a file's functions: fn:libc for /lib/libc.so.6. NULL if memory is short.
 */
static char *provider_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	const char *end = strstr(file, ".so");
	size_t length = end && (end[3] == '.' || !end[3]) ? (size_t)(end - file) : strlen(file);
	char *ret;

	return asprintf(&ret, SDT_FUNCTIONS "%.*s", (int)length, file) < 0 ? NULL : ret;
}

/* Does pattern `i` name the function? `name` may be NULL, for any. */
static bool names(const struct adding *a, size_t i, const char *name)
{
	return pattern_names_function(a->patterns[i], a->path, name) &&
	       (pattern_is_exact(a->patterns[i]) || !a->modules || !a->modules->only_enabled);
}

static bool is_named(const struct adding *a, const char *name)
{
	for (size_t i = 0; i < a->count; i++)
		if (names(a, i, name))
			return true;
	return false;
}

static bool wants(const struct adding *a, const char *name, bool is_return)
{
	for (size_t i = 0; i < a->count; i++)
		if (names(a, i, name) && pattern_wants(a->patterns[i], is_return) &&
			!pattern_offset(a->patterns[i]))
			return true;
	return false;
}

/* ---- Notes ------------------------------------------------------------------------------ */

static int compare_notes(const void *a, const void *b)
{
	const struct sdt_note *x = *(const struct sdt_note *const *)a;
	const struct sdt_note *y = *(const struct sdt_note *const *)b;

	return ORDER(x->pc, y->pc) ?: ORDER(x->kind, y->kind) ?: strcmp(x->name, y->name);
}

/* Adds a note, unless there is one. A note that was recalled from a registry has no arguments. */
static struct probe_error *add_note(void *data, const struct sdt_note *note)
{
	struct adding *a = data;
	struct sdt_functions *functions = a->functions;
	struct sdt_note **known = a->before ? bsearch(&note, functions->items, a->before,
						      sizeof(*functions->items), compare_notes)
					    : NULL;
	size_t at = known ? (size_t)(known - functions->items) : 0;
	struct probe_error *error;

	if (known && *(*known)->args)
		return NULL;
	if (!function_code_charge(
		    &a->code, sizeof(*note) + strlen(note->name) + strlen(note->aliases)))
		return too_large(a);
	error = sdt_functions_add(functions, note);
	if (error || !known)
		return error;
	free(functions->items[at]);
	functions->items[at] = functions->items[--functions->count];
	return NULL;
}

static struct probe_error *add_entry(struct adding *a)
{
	struct sdt_note note = {.provider = a->provider,
		.name = a->code.name,
		.kind = SDT_ENTRY,
		.pc = a->code.range.start,
		.args = a->code.entry.args,
		.frame = a->code.entry.slot,
		.keep = a->code.entry.keep,
		.keep_short = a->code.entry.keep_short,
		.start = a->code.range.start,
		.breaks = a->code.entry.breaks,
		.refused = a->unknown ? a->unknown : a->code.entry_refused,
		.size = a->code.range.end - a->code.range.start,
		.aliases = a->aliases};

	if (!note.refused)
		note.refused = function_code_loop(&a->code);
	return add_note(a, &note);
}

/* Adds a site at an instruction inside the function, where arguments are unknown. */
static struct probe_error *add_inside(struct adding *a, uint64_t offset)
{
	AUTO_FREE char *name = NULL;
	struct sdt_note note = {.provider = a->provider,
		.kind = SDT_ENTRY,
		.pc = a->code.range.start + offset,
		.args = "",
		.refused = a->unknown ? a->unknown : function_code_inside(&a->code, offset),
		.start = a->code.range.start,
		.size = a->code.range.end - a->code.range.start,
		.aliases = a->aliases};

	if (asprintf(&name, "%s+0x%" PRIx64, a->code.name, offset) < 0)
		return probe_error_no_memory();
	note.name = name;
	return add_note(a, &note);
}

static struct probe_error *add_exits(struct adding *a, const char *symbol)
{
	AUTO_FREE char *name = NULL;
	struct sdt_note note = {.provider = a->provider,
		.pc = a->code.range.start,
		.start = a->code.range.start,
		.size = a->code.range.end - a->code.range.start,
		.aliases = a->aliases,
		.refused = a->unknown};

	if (asprintf(&name, "%s" SDT_RETURN, a->code.name) < 0)
		return probe_error_no_memory();
	note.name = name;
	return function_code_exits(&a->code, symbol, &note, add_note, a);
}

/* ---- IFUNCs ----------------------------------------------------------------------------- */

/*
 * A symbol of type STT_GNU_IFUNC is the address of a resolver, which chooses among functions
 * (memcpy() by the processor) when the process starts. The result is in slots: those of the file
 * itself, whose relocations name the resolver, and those of files that import the symbol.
 */
struct chosen {
	const struct adding *a;
	const struct module *module; /* whose slots are searched */
	const char *name;
	uint64_t address; /* of the function, link-time; 0 if none was found */
};

static bool on_relocation(const struct object_relocation *relocation, void *data)
{
	struct chosen *chosen = data;
	const struct arch *arch = chosen->a->code.arch;
	const struct module *own = chosen->a->module;
	const struct object_segment *segment;
	bool is_import = relocation->type == arch->functions->jump_slot ||
			 relocation->type == arch->functions->glob_dat;
	uint64_t value;

	if (!(is_import && strcmp(relocation->symbol, chosen->name) == 0) &&
		!(relocation->type == arch->functions->irelative && chosen->module == own &&
			(uint64_t)relocation->addend == chosen->a->code.range.start))
		return true;
	if (memory_read(chosen->a->modules->pid, relocation->address + chosen->module->bias, &value,
		    sizeof(value)) != sizeof(value))
		return true;
	/* Until the first call, a slot leads to code of its own file that finds the function. */
	segment = object_segment_of(own->object, value - own->bias);
	if (!segment || !segment->executable || value - own->bias == chosen->a->code.range.start)
		return true;
	chosen->address = value - own->bias;
	return false;
}

/* Finds the function that the process has chosen for the IFUNC at a->code.range. */
static bool find_chosen(struct adding *a, const char *symbol)
{
	AUTO_FREE char *name = strndup(symbol, strcspn(symbol, "@"));
	struct chosen chosen = {.a = a, .name = name};
	struct object_function function;

	for (size_t i = 0; name && a->module && i < a->modules->count && !chosen.address; i++) {
		chosen.module = &a->modules->items[i];
		if (chosen.module->object)
			object_visit_relocations(chosen.module->object, on_relocation, &chosen);
	}
	if (!chosen.address || !object_function_at(a->code.object, chosen.address, &function) ||
		function.range.start != chosen.address)
		return false;
	a->code.range = function.range;
	return true;
}

/* ---- Symbols ---------------------------------------------------------------------------- */

static struct name *add_name(
	struct adding *a, const char *symbol, struct object_range range, char *plain)
{
	if (plain && !function_code_charge(&a->code, sizeof(*a->found) + strlen(plain)))
		a->error = too_large(a);
	else if (!plain || !ARRAY_ROOM(a->found, a->found_count))
		a->error = probe_error_no_memory();
	if (a->error) {
		free(plain);
		return NULL;
	}
	a->found[a->found_count] = (struct name){.symbol = symbol, .range = range, .plain = plain};
	return &a->found[a->found_count++];
}

static void drop_names(struct adding *a, size_t from)
{
	while (a->found_count > from)
		free(a->found[--a->found_count].plain);
}

/* Forgets the names at the last symbol's address if no pattern names one of them. */
static void end_address(struct adding *a)
{
	for (size_t i = a->address_first; i < a->found_count; i++)
		if (a->found[i].is_named) {
			a->address_first = a->found_count;
			return;
		}
	drop_names(a, a->address_first);
}

/* Is an address in the part of the file that is mapped? A program may map a part a second time. */
static bool is_mapped(const struct adding *a, uint64_t address)
{
	return !a->module ||
	       address + a->module->bias - a->module->start < a->module->end - a->module->start;
}

static bool on_symbol(const struct object_symbol *symbol, void *data)
{
	struct adding *a = data;
	const struct object_segment *segment =
		object_segment_of(a->code.object, symbol->range.start);
	struct name *name;

	if (a->found_count > a->address_first &&
		a->found[a->address_first].range.start != symbol->range.start)
		end_address(a);
	if (!segment || !segment->executable || !is_mapped(a, symbol->range.start))
		return true;
	name = add_name(a, symbol->name, symbol->range, function_plain_name(symbol->name));
	if (!name)
		return false;
	name->is_ifunc = symbol->is_ifunc;
	/* A symbol may be a version and nothing else. */
	name->is_named = *name->plain && is_named(a, name->plain);
	return true;
}

/* Finds the functions that the process has chosen for the names of IFUNCs. */
static void find_all_chosen(struct adding *a)
{
	/* Each name is searched for in all files. */
	size_t left = CHOSEN_MAX;

	for (size_t i = 0, count = a->found_count; i < count && !a->error; i++) {
		struct name *name = &a->found[i];
		const char *other;
		uint64_t start;

		if (!name->is_ifunc || !name->is_named)
			continue;
		a->code.range = name->range;
		if (!left) {
			name->unknown = too_many_chosen;
			continue;
		}
		left--;
		if (!find_chosen(a, name->symbol)) {
			name->unknown = not_chosen;
			continue;
		}
		name->range = a->code.range;
		/* Its own name. This may move a->found. */
		other = object_symbol_at(a->code.object, a->code.range.start, &start);
		if (other && start == a->code.range.start)
			add_name(a, other, a->code.range, function_plain_name(other));
	}
}

/*
 * By function. If a function has several names, those that users write come first: without leading
 * underscores, then the shorter ones.
 */
static int compare_names(const void *left, const void *right)
{
	const struct name *a = left, *b = right;

	return ORDER(a->range.start, b->range.start) ?: !b->unknown - !a->unknown
		?: ORDER(strspn(a->plain, "_"), strspn(b->plain, "_"))
		?: ORDER(strlen(a->plain), strlen(b->plain)) ?: strcmp(a->plain, b->plain);
}

static bool is_same_function(const struct name *a, const struct name *b)
{
	return a->range.start == b->range.start && !a->unknown == !b->unknown;
}

/*
 * Returns true if a pattern names this name and none of those kept of its function, whose patterns
 * are in a->has_name. It is kept then.
 */
static bool keep_name(struct adding *a, const struct name *name)
{
	bool is_kept = false;

	for (size_t k = 0; k < a->count; k++)
		if (!a->has_name[k] && names(a, k, name->plain))
			is_kept = a->has_name[k] = true;
	return is_kept;
}

/* Joins other names of the function of name `self` in a->aliases. */
static bool join_aliases(struct adding *a, size_t from, size_t end, size_t self)
{
	struct buffer names = {0};
	size_t count = 0;

	for (size_t i = from; i < end && count < ALIASES_MAX; i++) {
		const char *plain = a->found[i].plain;

		if (strcmp(plain, a->found[self].plain) == 0 ||
			(i > from && strcmp(plain, a->found[i - 1].plain) == 0))
			continue;
		buffer_print(&names, "%s%s", count++ ? ", " : "", plain);
	}
	free(a->aliases);
	a->aliases = buffer_take(&names, NULL);
	return a->aliases;
}

/* Remembers a function that nothing describes, to learn of it from debug information. */
static struct probe_error *remember(struct adding *a, const char *symbol)
{
	struct types_function *function;

	if (probe_catalogue_find(a->catalogue, a->provider, a->code.name, SIZE_MAX) !=
		catalogue_any_function(false))
		return NULL;
	if (!ARRAY_ROOM(a->undescribed, a->undescribed_count))
		return probe_error_no_memory();
	function = &a->undescribed[a->undescribed_count++];
	*function =
		(struct types_function){a->code.range.start, strdup(symbol), strdup(a->code.name)};
	return function->symbol && function->name ? NULL : probe_error_no_memory();
}

/* Gives the notes the sizes of arguments that are known by now. */
static struct probe_error *set_sizes(struct adding *a)
{
	struct sdt_functions *functions = a->functions;

	for (size_t i = 0; i < functions->count; i++) {
		struct sdt_note note = *functions->items[i];
		char args[ARCH_FUNCTION_TEXT];
		struct probe_error *error;

		note.args = catalogue_sized(
			probe_catalogue_find(a->catalogue, note.provider, note.name, SIZE_MAX),
			note.args, args);
		if (strcmp(note.args, functions->items[i]->args) == 0)
			continue;
		error = sdt_functions_add(functions, &note);
		if (error)
			return error;
		free(functions->items[i]);
		functions->items[i] = functions->items[--functions->count];
	}
	return NULL;
}

static struct probe_error *describe(struct adding *a)
{
	struct probe_error *error = NULL;

	if (a->undescribed_count)
		error = catalogue_learn(a->catalogue, a->code.object, a->provider, a->undescribed,
			a->undescribed_count);
	return error ?: set_sizes(a);
}

/* Adds what patterns want of the function with name `i`. */
static void add_function(struct adding *a, size_t i)
{
	const struct name *name = &a->found[i];
	bool entry = wants(a, name->plain, false), exits = wants(a, name->plain, true);

	a->code.name = name->plain;
	a->code.range = name->range;
	a->unknown = name->unknown;
	/* It may start a process that reads the line table. */
	if (entry || exits)
		function_code_entry(&a->code);
	if (!a->error && a->catalogue)
		a->error = remember(a, name->symbol);
	if (!a->error && entry)
		a->error = add_entry(a);
	if (!a->error && exits)
		a->error = add_exits(a, name->symbol);
	for (size_t k = 0; k < a->count && !a->error; k++) {
		uint64_t offset = pattern_offset(a->patterns[k]);

		if (offset && names(a, k, a->code.name))
			a->error = add_inside(a, offset);
	}
}

static void add_functions(struct adding *a)
{
	if (a->found_count)
		qsort(a->found, a->found_count, sizeof(*a->found), compare_names);
	for (size_t from = 0, end; from < a->found_count && !a->error; from = end) {
		for (end = from + 1; end < a->found_count; end++)
			if (!is_same_function(&a->found[from], &a->found[end]))
				break;
		memset(a->has_name, 0, a->count);
		for (size_t i = from; i < end && !a->error; i++) {
			if (!a->found[i].is_named || !keep_name(a, &a->found[i]))
				continue;
			if (!join_aliases(a, from, end, i))
				a->error = probe_error_no_memory();
			add_function(a, i);
		}
	}
}

/* Adds a function that the compiler has put into its callers, at its first copy: it is refused. */
static void add_inlined(struct adding *a, const char *name)
{
	struct sdt_note note = {.provider = a->provider,
		.name = name,
		.kind = SDT_ENTRY,
		.args = "",
		.aliases = "",
		.refused = inlined};
	AUTO_FREE char *exits = NULL;
	struct object_range copy;

	a->error = types_inlined(a->code.object, name, function_plain_name, &copy);
	if (a->error || copy.start >= copy.end)
		return;
	note.pc = note.start = copy.start;
	note.size = copy.end - copy.start;
	if (wants(a, name, false))
		a->error = add_note(a, &note);
	if (a->error || !wants(a, name, true))
		return;
	note.kind = SDT_EXIT;
	if (asprintf(&exits, "%s" SDT_RETURN, name) < 0) {
		a->error = probe_error_no_memory();
		return;
	}
	note.name = exits;
	a->error = add_note(a, &note);
}

/* Adds the functions that patterns name, but no symbol. */
static void add_without_symbol(struct adding *a)
{
	for (size_t k = 0; k < a->count && !a->error; k++) {
		const char *name = pattern_function(a->patterns[k], !a->modules);
		bool has = !name || !names(a, k, name) || (a->modules && a->modules->only_enabled);

		for (size_t i = 0; i < a->found_count && !has; i++)
			has = names(a, k, a->found[i].plain);
		if (!has)
			add_inlined(a, name);
	}
}

/* Drops names whose function is unknown, if another version of the name has one. */
static struct probe_error *drop_unknown(struct sdt_functions *functions, size_t from)
{
	AUTO(map_clear) struct map known = {0};
	bool ok = true, any = false;
	size_t kept = from;

	for (size_t i = from; i < functions->count; i++)
		any |= functions->items[i]->refused == not_chosen;
	for (size_t i = 0; i < functions->count && any && ok; i++)
		if (!functions->items[i]->refused)
			ok = map_add(&known, 0, MAP_KEY(map_text(functions->items[i]->name)));
	for (size_t i = from; i < functions->count; i++) {
		struct sdt_note *note = functions->items[i];

		if (note->refused == not_chosen && map_find(&known, MAP_KEY(map_text(note->name))))
			free(note);
		else
			functions->items[kept++] = note;
	}
	functions->count = kept;
	return ok ? NULL : probe_error_no_memory();
}

struct probe_error *select_functions(struct object *object, const char *path,
	const struct probe_pattern *const *patterns, size_t count, const struct modules *modules,
	const struct probe_catalogue *catalogue, struct sdt_functions *inout)
{
	struct adding a = {.modules = modules,
		.path = path,
		.patterns = patterns,
		.count = count,
		.catalogue = catalogue,
		.functions = inout,
		.before = inout->count};
	const struct arch *arch;
	AUTO_FREE bool *has_name = NULL;
	bool is_wanted = false;

	for (size_t i = 0; i < count; i++)
		is_wanted |= names(&a, i, NULL);
	arch = is_wanted && object ? arch_of_machine(object_machine(object)) : NULL;
	if (!arch || !arch->functions)
		return NULL;
	for (size_t i = 0; modules && i < modules->count; i++)
		if (modules->items[i].object == object)
			a.module = &modules->items[i];
	a.provider = provider_of(path);
	a.has_name = has_name = calloc(count, sizeof(*has_name));
	if (!function_code_init(&a.code, object, arch) || !a.provider || !has_name) {
		function_code_deinit(&a.code);
		free(a.provider);
		return probe_error_no_memory();
	}
	if (a.before)
		qsort(inout->items, a.before, sizeof(*inout->items), compare_notes);
	if (!object_visit_functions(object, on_symbol, &a) && !a.error)
		a.error = probe_error_no_memory();
	end_address(&a);
	if (!a.error)
		find_all_chosen(&a);
	if (!a.error)
		add_functions(&a);
	if (!a.error)
		add_without_symbol(&a);
	drop_names(&a, 0);
	free(a.found);
	free(a.aliases);
	if (!a.error)
		a.error = drop_unknown(inout, a.before);
	if (!a.error && catalogue)
		a.error = describe(&a);
	for (size_t i = 0; i < a.undescribed_count; i++) {
		free(a.undescribed[i].symbol);
		free(a.undescribed[i].name);
	}
	free(a.undescribed);
	function_code_deinit(&a.code);
	free(a.provider);
	return a.error;
}
