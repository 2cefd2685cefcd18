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
 *
 * A function returns where its code says so. Return addresses are not replaced: unwinders,
 * exceptions, longjmp(3), coroutines and shadow stacks rely on them. So if any exit is unknown, or
 * cannot be patched, the probe of exits is refused.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/lines.h"
#include "libprobe/base/array.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/map.h"
#include "libprobe/query/query.h"
#include "probe/symbol.h"

enum {
	FUNCTION_MAX = 1 << 20,
	EXITS_MAX = 1 << 14,
	OVERLAP_MAX = 64,
	PARTS_MAX = 16,
	TAILS_MAX = 16,
	ALIASES_MAX = 8,
	CHOSEN_MAX = 1024
};

static const char unreadable[] = "its code cannot be read or decoded";
static const char unknown_jump[] = "one of its jumps may lead to any function";
static const char conditional[] = "one of its conditional jumps leads to another function";
static const char circle[] =
	"its tail calls lead back to its name, so that one return would end several calls";
static const char ends_at_once[] = "a function that it tail calls may end at the first instruction";
static const char too_many_tails[] = "its tail calls lead to too many functions";
static const char too_many_parts[] = "it has too many parts";
static const char not_chosen[] =
	"each process chooses the function for this name, and this one has not called it yet";
static const char too_many_chosen[] =
	"each process chooses the function for this name, and the file has too many such names";
static const char outside[] = "the function ends before this offset";
static const char within[] = "no instruction of the function begins at this offset";
static const char inlined[] = "it exists only as inlined copies in its callers";
static const char never_returns[] = "it does not return, by its code";
static const char loop[] = "a jump of its own leads to its first instruction, as in a loop";

struct adding {
	struct object *object;
	const struct modules *modules; /* of the process, or NULL */
	const struct module *module;   /* the one among them that has the object, or NULL */
	const char *path;
	const struct arch *arch;
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
		bool is_kept;	     /* a probe has this name */
		const char *unknown; /* why the function cannot be found, or NULL */
	} * found;
	size_t found_count;
	size_t address_first; /* the first one with the last symbol's address */
	/* The function for which notes are added. */
	struct object_range range;
	const char *name, *unknown;
	char *aliases;
	/* Its entry, and why that cannot be patched, or NULL. */
	struct arch_entry entry;
	const char *entry_refused;
	struct lines *lines; /* NULL if there is no line table, or it was not looked for */
	bool lines_tried;
	struct splits *split; /* what compilers split off, without a name */
	/*
	 * Bytes of names, code and notes that may be read and made: in a hostile file, each
	 * function may have all of the file.
	 */
	uint64_t *budget;
	struct arch_windows *windows; /* for may_branch(); too large for a stack */
	struct probe_error *error;
};

static bool charge(const struct adding *a, size_t bytes)
{
	if (bytes > *a->budget)
		return false;
	*a->budget -= bytes;
	return true;
}

static struct probe_error *too_large(const struct adding *a)
{
	return probe_error_new(PROBE_ERROR_FORMAT,
		"%s: its functions overlap: with their names and exits, they would be more than %d "
		"times as large as the file",
		a->path, OVERLAP_MAX);
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

/*
 * Returns a symbol's name without version, demangled, and without parameters. NULL if memory is
 * short.
 */
static char *plain_name(const char *symbol)
{
	char *name = NULL, *parameters;
	const char *clone;
	int depth = 0;

	probe_error_free(probe_demangle(symbol, &name));
	if (!name)
		return strndup(symbol, strcspn(symbol, "@"));
	for (parameters = name + strlen(name); parameters-- > name;) {
		if (*parameters == ')')
			depth++;
		else if (*parameters == '(' && --depth == 0)
			break;
	}
	/* A part or a copy has its own name: `f(int) [clone .cold]` is f.cold. */
	clone = symbol + (strstr(name, " [clone .") ? strcspn(symbol, ".@") : strlen(symbol));
	if (parameters > name && parameters[-1] != ':')
		snprintf(parameters, strlen(parameters) + 1, "%.*s", (int)strcspn(clone, "@"),
			clone);
	return name;
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

	return x->pc != y->pc	    ? (x->pc < y->pc ? -1 : 1)
	       : x->kind != y->kind ? (x->kind < y->kind ? -1 : 1)
				    : strcmp(x->name, y->name);
}

/* Adds a note, unless there is one. A note that was recalled from a registry has no arguments. */
static struct probe_error *add_note(struct adding *a, const struct sdt_note *note)
{
	struct sdt_functions *functions = a->functions;
	struct sdt_note **known = a->before ? bsearch(&note, functions->items, a->before,
						      sizeof(*functions->items), compare_notes)
					    : NULL;
	size_t at = known ? (size_t)(known - functions->items) : 0;
	struct probe_error *error;

	if (known && *(*known)->args)
		return NULL;
	if (!charge(a, sizeof(*note) + strlen(note->name) + strlen(note->aliases)))
		return too_large(a);
	error = sdt_functions_add(functions, note);
	if (error || !known)
		return error;
	free(functions->items[at]);
	functions->items[at] = functions->items[--functions->count];
	return NULL;
}

/* Returns the code in a range, which the caller frees; NULL if it cannot be read, or no more. */
static uint8_t *read_code(const struct adding *a, struct object_range range)
{
	size_t size = range.end - range.start;
	uint8_t *bytes = size <= FUNCTION_MAX && charge(a, size) ? malloc(size + 1) : NULL;

	if (bytes && object_read(a->object, range.start, bytes, size) == size)
		return bytes;
	free(bytes);
	return NULL;
}

static void on_branch(void *data, size_t site, uint64_t target)
{
	(void)site;
	(void)target;
	*(bool *)data = true;
}

static void on_constant(void *data, uint64_t at, uint64_t address)
{
	(void)data;
	(void)at;
	(void)address;
}

static void on_label(void *data, uint64_t at)
{
	(void)data;
	(void)at;
}

/* Do some bytes look like a branch or call that leads to the start? Most functions have none. */
static bool may_branch(const struct adding *a, const uint8_t *bytes)
{
	const struct object_range range = a->range;
	const struct arch *arch = a->arch;
	const uint64_t before = range.start - 1;
	size_t size = range.end - range.start;
	bool ret = false;
	uint64_t target;

	arch_windows_init(a->windows, &before, 1, 2);
	arch->scan(bytes, size, range.start,
		&(struct arch_scan){.windows = a->windows,
			.data = &ret,
			.reference = on_branch,
			.constant = on_constant,
			.label = on_label});
	for (size_t i = 0; arch->short_branch && i + 2 <= size && !ret; i++)
		ret = arch->short_branch(bytes + i, range.start + i, &target) &&
		      target == range.start;
	return ret;
}

/* Returns NULL if each thread at the first instruction was called, or why not. */
static const char *find_loop(const struct adding *a)
{
	AUTO_FREE uint8_t *bytes = read_code(a, a->range);
	size_t size = a->range.end - a->range.start;
	struct arch_insn insn;

	if (!bytes)
		return unreadable;
	if (!may_branch(a, bytes))
		return NULL;
	for (size_t at = 0; at < size; at += insn.length) {
		if (!a->arch->decode(bytes + at, size - at, a->range.start + at, &insn))
			return unreadable;
		if ((insn.flow == ARCH_FLOW_JUMP || insn.flow == ARCH_FLOW_BRANCH) &&
			insn.target == a->range.start)
			return loop;
	}
	return NULL;
}

/* Adds where debuggers break by the line table. */
static void add_breaks(struct adding *a, struct arch_entry *inout)
{
	struct lines_function function = {
		a->range, inout->frame ? a->range.start + inout->frame : 0};
	uint64_t breaks;

	if (!a->lines_tried && lines_exist(a->object))
		probe_error_free(lines_open(a->object, &a->lines));
	a->lines_tried = true;
	if (a->lines && lines_breaks(a->lines, &function, &breaks))
		inout->breaks |= breaks;
}

/* Finds out what has to stay at the entry. */
static void find_entry(struct adding *a)
{
	uint8_t bytes[64];
	size_t size = object_read(a->object, a->range.start, bytes, sizeof(bytes));
	struct arch_entry *entry = &a->entry;

	*entry = (struct arch_entry){0};
	a->entry_refused = a->arch->functions->entry(bytes, size, a->range.start, entry);
	if (entry->frame)
		entry->breaks = UINT64_C(1) << entry->frame;
	/* Exits need the breakpoints, even if the entry cannot be patched. */
	add_breaks(a, entry);
	if (!a->entry_refused && entry->breaks)
		a->entry_refused = a->arch->functions->entry(bytes, size, a->range.start, entry);
}

static struct probe_error *add_entry(struct adding *a)
{
	struct sdt_note note = {.provider = a->provider,
		.name = a->name,
		.kind = SDT_ENTRY,
		.pc = a->range.start,
		.args = a->entry.args,
		.frame = a->entry.slot,
		.keep = a->entry.keep,
		.keep_short = a->entry.keep_short,
		.start = a->range.start,
		.breaks = a->entry.breaks,
		.refused = a->unknown ? a->unknown : a->entry_refused,
		.size = a->range.end - a->range.start,
		.aliases = a->aliases};

	if (!note.refused)
		note.refused = find_loop(a);
	return add_note(a, &note);
}

/* Adds a site at an instruction inside the function, where arguments are unknown. */
static struct probe_error *add_inside(struct adding *a, uint64_t offset)
{
	size_t size = a->range.end - a->range.start;
	AUTO_FREE uint8_t *bytes = NULL;
	AUTO_FREE char *name = NULL;
	struct sdt_note note = {.provider = a->provider,
		.kind = SDT_ENTRY,
		.pc = a->range.start + offset,
		.args = "",
		.refused = a->unknown,
		.start = a->range.start,
		.size = size,
		.aliases = a->aliases};
	struct arch_insn insn;
	size_t at = 0;

	if (asprintf(&name, "%s+0x%" PRIx64, a->name, offset) < 0)
		return probe_error_no_memory();
	note.name = name;
	if (!note.refused && offset >= size)
		note.refused = outside;
	if (!note.refused && !(bytes = read_code(a, a->range)))
		note.refused = unreadable;
	for (; !note.refused && at < offset; at += insn.length)
		if (!a->arch->decode(bytes + at, size - at, a->range.start + at, &insn))
			note.refused = unreadable;
	if (!note.refused && at > offset)
		note.refused = within;
	return add_note(a, &note);
}

/* ---- Exits ------------------------------------------------------------------------------ */

struct exits {
	/* The functions in which it may end: itself, then those that its tail calls lead to. */
	struct object_range functions[TAILS_MAX];
	char frames[TAILS_MAX][ARCH_ENTRY_SLOT]; /* at their entries */
	size_t function_count;
	/* The one that is searched, and what there was before. */
	size_t function, functions_before, count_before;
	/* That function, then what the compiler split off, and how often their jumps lead there. */
	struct object_range parts[PARTS_MAX];
	uint32_t entered[PARTS_MAX];
	size_t part_count;
	/* Parts that something else enters, too. */
	struct object_range others[PARTS_MAX];
	size_t other_count;
	const char *why;      /* why the exits are unknown, as far as the parts are own */
	struct sdt_note note; /* what its sites have in common */
	struct sdt_note *items;
	size_t count;
};

/* Adds a site in the function that is searched, a->range. Returns NULL, or why it cannot. */
static const char *add_exit(
	const struct adding *a, uint64_t pc, enum sdt_exit exit, struct exits *e)
{
	/* A uprobe may be on the first instruction, whatever that is. */
	bool is_first = pc == a->range.start;
	struct sdt_note *note;

	if (is_first && e->function && exit != SDT_TAIL_ENTRY)
		return ends_at_once;
	if (e->count == EXITS_MAX || !ARRAY_ROOM(e->items, e->count))
		return unreadable;
	note = &e->items[e->count++];
	*note = e->note;
	note->pc = pc;
	note->exit = exit;
	note->start = a->range.start;
	note->breaks = a->entry.breaks;
	note->entry_keep = a->entry_refused ? ARCH_NO_JUMP : a->entry.keep;
	note->refused = is_first ? a->entry_refused : NULL;
	note->keep = is_first ? a->entry.keep : 0;
	note->keep_short = is_first ? a->entry.keep_short : 0;
	return NULL;
}

/*
 * Adds a jump to another function, which returns for e->functions[0]. Where one in another file
 * returns is unknown: the jump is the exit then. Returns NULL, or why the site cannot be added.
 */
static const char *add_jump(const struct adding *a, uint64_t pc, uint64_t target, struct exits *e)
{
	struct object_function function;
	bool is_here =
		object_function_at(a->object, target, &function) && function.range.start == target;
	const char *why;
	size_t i = 0;

	while (i < e->function_count && target != e->functions[i].start)
		i++;
	if (is_here && i < e->function_count)
		e->why = e->why || i ? e->why : circle;
	else if (is_here && e->function_count == TAILS_MAX)
		e->why = e->why ? e->why : too_many_tails;
	else if (is_here)
		e->functions[e->function_count++] = function.range;
	if (is_here)
		return add_exit(a, pc, e->function ? SDT_TAIL_JUMP : SDT_TAIL_CALL, e);
	why = add_exit(a, pc, e->function ? SDT_TAIL_RETURN : SDT_OWN_EXIT, e);
	if (!why)
		e->items[e->count - 1].args = "8@? 8@?";
	return why;
}

static bool is_in(const struct object_range *ranges, size_t count, uint64_t address, size_t *at)
{
	for (*at = 0; *at < count; ++*at)
		if (address >= ranges[*at].start && address < ranges[*at].end)
			return true;
	return false;
}

/* May a jump lead to a part of this function without a name? */
static bool is_split(const struct adding *a, const struct exits *e, uint64_t target)
{
	const struct split *part = splits_at(a->split, target);
	size_t at;

	return part && part->range.end - part->range.start <= FUNCTION_MAX &&
	       !is_in(e->others, e->other_count, target, &at) &&
	       !is_in(&part->range, 1, e->parts[0].start, &at);
}

/*
 * Does a jump leave the function? A part of it (NAME.cold) is no other function; it is searched,
 * too. Returns NULL, or why the exits are unknown.
 */
static const char *leaves(const struct adding *a, const char *symbol, const struct arch_insn *insn,
	struct exits *e, bool *ret)
{
	size_t length = strcspn(symbol, "@"), at;
	bool is_short = a->arch->short_reach && insn->length < a->arch->jump_length;
	uint64_t target = insn->target, start;
	struct object_function part;
	const char *other;

	*ret = false;
	if (is_in(e->parts, e->part_count, target, &at)) {
		e->entered[at] += !is_short;
		return NULL;
	}
	other = object_symbol_at(a->object, target, &start);
	*ret = (!other || strncmp(other, symbol, length) != 0 ||
		       strncmp(other + length, ".cold", 5) != 0) &&
	       !is_split(a, e, target);
	if (*ret)
		return NULL;
	if (!object_function_at(a->object, target, &part))
		return unreadable;
	if (e->part_count == PARTS_MAX)
		return too_many_parts;
	e->entered[e->part_count] = !is_short;
	e->parts[e->part_count++] = part.range;
	return NULL;
}

/* Does the jump that ends `length` bytes of a part stay in the function? */
static bool is_switch(
	const struct adding *a, const struct exits *e, const uint8_t *bytes, size_t length)
{
	uint64_t table, first;
	size_t at;

	return a->arch->functions->is_switch(bytes, length, &table) &&
	       (!table || (object_read(a->object, table, &first, sizeof(first)) == sizeof(first) &&
				  first != e->parts[0].start &&
				  is_in(e->parts, e->part_count, first, &at)));
}

static const char *find_in_part(const struct adding *a, const char *symbol,
	struct object_range part, const uint8_t *bytes, struct exits *e)
{
	size_t size = part.end - part.start;
	bool is_behind_call = false;

	for (size_t at = 0; at < size;) {
		struct arch_insn insn;
		const char *why = NULL;
		bool leads_out = false;

		if (!a->arch->decode(bytes + at, size - at, part.start + at, &insn))
			return unreadable;
		if (insn.flow == ARCH_FLOW_RETURN)
			why = add_exit(a, part.start + at,
				e->function ? SDT_TAIL_RETURN : SDT_OWN_EXIT, e);
		else if (insn.flow == ARCH_FLOW_JUMP || insn.flow == ARCH_FLOW_BRANCH)
			why = leaves(a, symbol, &insn, e, &leads_out);
		/*
		 * Behind a call that the source says not to return, compilers may jump from a part
		 * to the end of the function. This is no tail call: the frame still stands.
		 */
		if (is_behind_call && part.start != e->parts[0].start &&
			insn.target == e->parts[0].end && insn.flow == ARCH_FLOW_JUMP)
			leads_out = false;
		is_behind_call = insn.flow == ARCH_FLOW_CALL;
		if (leads_out && insn.flow == ARCH_FLOW_JUMP)
			why = add_jump(a, part.start + at, insn.target, e);
		if (why)
			return why;
		/* All jumps are counted before it is known which parts are the function's. */
		if (insn.flow == ARCH_FLOW_INDIRECT_JUMP &&
			!is_switch(a, e, bytes, at + insn.length))
			e->why = unknown_jump;
		else if (leads_out && insn.flow == ARCH_FLOW_BRANCH && !e->why)
			e->why = conditional;
		at += insn.length;
	}
	return NULL;
}

/* Does code outside the function's parts, near one of them, have a short branch into it? */
static bool is_entered_shortly(const struct adding *a, const struct exits *e, size_t part)
{
	struct object_range range = e->parts[part];
	uint64_t reach = a->arch->short_reach;

	for (uint64_t at = range.start - reach; reach && at < range.end + reach; at++) {
		struct object_function near;
		AUTO_FREE uint8_t *bytes = NULL;
		uint8_t unknown[2];
		uint64_t target;
		size_t size, own;

		if (!object_function_at(a->object, at, &near) || near.range.end <= at) {
			if (object_read(a->object, at, unknown, 2) == 2 &&
				a->arch->short_branch(unknown, at, &target) &&
				is_in(&range, 1, target, &own))
				return true;
			continue;
		}
		at = near.range.end - 1;
		if (is_in(e->parts, e->part_count, near.range.start, &own))
			continue;
		size = near.range.end - near.range.start;
		bytes = read_code(a, near.range);
		if (!bytes)
			return true;
		for (size_t i = 0; i < size;) {
			struct arch_insn insn;

			if (!a->arch->decode(bytes + i, size - i, near.range.start + i, &insn) ||
				((insn.flow == ARCH_FLOW_JUMP || insn.flow == ARCH_FLOW_BRANCH) &&
					is_in(&range, 1, insn.target, &own)))
				return true;
			i += insn.length;
		}
	}
	return false;
}

/*
 * Checks that only jumps of this function lead to its parts without a name. Otherwise, lists the
 * first of the others, and forgets all that was found.
 */
static bool are_own(const struct adding *a, struct exits *e)
{
	for (size_t i = 1; i < e->part_count; i++) {
		const struct split *part = splits_at(a->split, e->parts[i].start);

		if (!part || (part->references == e->entered[i] && !is_entered_shortly(a, e, i)))
			continue;
		e->others[e->other_count++] = e->parts[i];
		e->part_count = 1;
		e->entered[0] = 0;
		e->count = e->count_before;
		e->function_count = e->functions_before;
		return false;
	}
	return true;
}

static const char *search_parts(const struct adding *a, const char *symbol, struct exits *e)
{
	for (size_t i = 0; i < e->part_count; i++) {
		AUTO_FREE uint8_t *bytes = read_code(a, e->parts[i]);
		const char *why;

		if (!bytes)
			return unreadable;
		why = find_in_part(a, symbol, e->parts[i], bytes, e);
		if (why)
			return why;
	}
	return NULL;
}

/* Finds the exits in e->functions[e->function]. Returns NULL, or why they are unknown. */
static const char *find_in_function(const struct adding *a, const char *symbol, struct exits *e)
{
	const char *why;

	e->parts[0] = a->range;
	e->part_count = 1;
	e->entered[0] = 0;
	e->other_count = 0;
	e->functions_before = e->function_count;
	e->count_before = e->count;
	do {
		e->why = NULL;
		why = e->other_count < PARTS_MAX ? search_parts(a, symbol, e) : too_many_parts;
		if (why)
			return why;
	} while (!are_own(a, e));
	return e->why;
}

/* Makes a function that returns for another one the one that is searched; adds its entry. */
static const char *enter_tail(struct adding *a, const char **symbol_ret, struct exits *e)
{
	const char *symbol, *why;
	AUTO_FREE char *plain = NULL;
	uint64_t start;

	a->range = e->functions[e->function];
	symbol = object_symbol_at(a->object, a->range.start, &start);
	*symbol_ret = symbol && start == a->range.start ? symbol : "";
	plain = plain_name(*symbol_ret);
	if (!plain || strcmp(plain, a->name) == 0)
		return plain ? circle : unreadable;
	find_entry(a);
	memcpy(e->frames[e->function], a->entry.slot, sizeof(a->entry.slot));
	why = add_exit(a, a->range.start, SDT_TAIL_ENTRY, e);
	if (why)
		return why;
	e->items[e->count - 1].frame = e->frames[e->function];
	return find_loop(a);
}

/* Finds the exits of a function. Returns NULL, or why they are unknown. */
static const char *find_exits(struct adding *a, const char *symbol, struct exits *e)
{
	const char *why = NULL;

	for (; e->function < e->function_count && !why; e->function++) {
		if (e->function)
			why = enter_tail(a, &symbol, e);
		if (!why)
			why = find_in_function(a, symbol, e);
	}
	a->range = e->functions[0];
	for (size_t i = 0; i < e->count && !why; i++)
		if (e->items[i].exit == SDT_OWN_EXIT || e->items[i].exit == SDT_TAIL_RETURN)
			return NULL;
	return why ? why : never_returns;
}

static struct probe_error *add_exits(struct adding *a, const char *symbol)
{
	AUTO_FREE char *name = NULL;
	struct exits e = {.functions = {a->range},
		.function_count = 1,
		.note = {.provider = a->provider,
			.kind = SDT_EXIT,
			.pc = a->range.start,
			.size = a->range.end - a->range.start,
			.aliases = a->aliases,
			.start = a->range.start,
			.breaks = a->entry.breaks,
			.args = a->arch->functions->return_args,
			.frame = a->arch->functions->return_frame}};
	struct probe_error *error = NULL;

	if (asprintf(&name, "%s" SDT_RETURN, a->name) < 0)
		return probe_error_no_memory();
	if (!a->split->known)
		error = splits_read(a->object, a->arch, a->split);
	if (error)
		return error;
	e.note.name = name;
	e.note.refused = a->unknown ? a->unknown : find_exits(a, symbol, &e);
	if (e.note.refused)
		error = add_note(a, &e.note);
	for (size_t i = 0; i < e.count && !e.note.refused && !error; i++)
		error = add_note(a, &e.items[i]);
	free(e.items);
	return error;
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
	const struct arch *arch = chosen->a->arch;
	const struct module *own = chosen->a->module;
	const struct object_segment *segment;
	bool is_import = relocation->type == arch->functions->jump_slot ||
			 relocation->type == arch->functions->glob_dat;
	uint64_t value;

	if (!(is_import && strcmp(relocation->symbol, chosen->name) == 0) &&
		!(relocation->type == arch->functions->irelative && chosen->module == own &&
			(uint64_t)relocation->addend == chosen->a->range.start))
		return true;
	if (memory_read(chosen->a->modules->pid, relocation->address + chosen->module->bias, &value,
		    sizeof(value)) != sizeof(value))
		return true;
	/* Until the first call, a slot leads to code of its own file that finds the function. */
	segment = object_segment_of(own->object, value - own->bias);
	if (!segment || !segment->executable || value - own->bias == chosen->a->range.start)
		return true;
	chosen->address = value - own->bias;
	return false;
}

/* Finds the function that the process has chosen for the IFUNC at a->range. */
static bool find_chosen(struct adding *a, const char *symbol)
{
	char *name = strndup(symbol, strcspn(symbol, "@"));
	struct chosen chosen = {.a = a, .name = name};
	struct object_function function;

	for (size_t i = 0; name && a->module && i < a->modules->count && !chosen.address; i++) {
		chosen.module = &a->modules->items[i];
		if (chosen.module->object)
			object_visit_relocations(chosen.module->object, on_relocation, &chosen);
	}
	free(name);
	if (!chosen.address || !object_function_at(a->object, chosen.address, &function) ||
		function.range.start != chosen.address)
		return false;
	a->range = function.range;
	return true;
}

/* ---- Symbols ---------------------------------------------------------------------------- */

/* Adds a name. Its function is at `range`. */
static struct name *add_name(
	struct adding *a, const char *symbol, struct object_range range, char *plain)
{
	if (plain && !charge(a, sizeof(*a->found) + strlen(plain)))
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
	const struct object_segment *segment = object_segment_of(a->object, symbol->range.start);
	struct name *name;

	if (a->found_count > a->address_first &&
		a->found[a->address_first].range.start != symbol->range.start)
		end_address(a);
	if (!segment || !segment->executable || !is_mapped(a, symbol->range.start))
		return true;
	name = add_name(a, symbol->name, symbol->range, plain_name(symbol->name));
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
	/* Each one is searched in all files. */
	size_t left = CHOSEN_MAX;

	for (size_t i = 0, count = a->found_count; i < count && !a->error; i++) {
		struct name *name = &a->found[i];
		const char *other;
		uint64_t start;

		if (!name->is_ifunc || !name->is_named)
			continue;
		a->range = name->range;
		if (!left) {
			name->unknown = too_many_chosen;
			continue;
		}
		left--;
		if (!find_chosen(a, name->symbol)) {
			name->unknown = not_chosen;
			continue;
		}
		name->range = a->range;
		/* Its own name. This may move a->found. */
		other = object_symbol_at(a->object, a->range.start, &start);
		if (other && start == a->range.start)
			add_name(a, other, a->range, plain_name(other));
	}
}

/*
 * By function. If a function has several names, those that users write come first: without leading
 * underscores, then the shorter ones.
 */
static int compare_names(const void *left, const void *right)
{
	const struct name *a = left, *b = right;
	size_t lines_a = strspn(a->plain, "_"), lines_b = strspn(b->plain, "_");
	size_t length_a = strlen(a->plain), length_b = strlen(b->plain);

	if (a->range.start != b->range.start)
		return a->range.start < b->range.start ? -1 : 1;
	if (!a->unknown != !b->unknown)
		return a->unknown ? 1 : -1;
	if (lines_a != lines_b)
		return lines_a < lines_b ? -1 : 1;
	if (length_a != length_b)
		return length_a < length_b ? -1 : 1;
	return strcmp(a->plain, b->plain);
}

static bool is_same_function(const struct name *a, const struct name *b)
{
	return a->range.start == b->range.start && !a->unknown == !b->unknown;
}

/* Does each pattern that names name `i` also name one of those kept, from `from` on? */
static bool is_other_name(const struct adding *a, size_t from, size_t i)
{
	for (size_t k = 0; k < a->count; k++) {
		bool has = false;

		if (!names(a, k, a->found[i].plain))
			continue;
		for (size_t m = from; m < i && !has; m++)
			has = a->found[m].is_kept && names(a, k, a->found[m].plain);
		if (!has)
			return false;
	}
	return true;
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
		buffer_string(&names, count++ ? ", " : "");
		buffer_string(&names, plain);
	}
	free(a->aliases);
	a->aliases = buffer_take(&names, NULL);
	return a->aliases;
}

/* Remembers a function that nothing describes, to learn of it from debug information. */
static struct probe_error *remember(struct adding *a, const char *symbol)
{
	struct types_function *function;

	if (probe_catalogue_find(a->catalogue, a->provider, a->name, SIZE_MAX) !=
		catalogue_any_function(false))
		return NULL;
	if (!ARRAY_ROOM(a->undescribed, a->undescribed_count))
		return probe_error_no_memory();
	function = &a->undescribed[a->undescribed_count++];
	*function = (struct types_function){a->range.start, strdup(symbol), strdup(a->name)};
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
		error = catalogue_learn(
			a->catalogue, a->object, a->provider, a->undescribed, a->undescribed_count);
	return error ? error : set_sizes(a);
}

/* Adds what patterns want of the function with name `i`. */
static void add_function(struct adding *a, size_t i)
{
	const struct name *name = &a->found[i];

	a->name = name->plain;
	a->range = name->range;
	a->unknown = name->unknown;
	find_entry(a);
	if (!a->error && a->catalogue)
		a->error = remember(a, name->symbol);
	if (!a->error && wants(a, a->name, false))
		a->error = add_entry(a);
	if (!a->error && wants(a, a->name, true))
		a->error = add_exits(a, name->symbol);
	for (size_t k = 0; k < a->count && !a->error; k++) {
		uint64_t offset = pattern_offset(a->patterns[k]);

		if (offset && names(a, k, a->name))
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
		for (size_t i = from; i < end && !a->error; i++) {
			struct name *name = &a->found[i];

			name->is_kept = name->is_named && !is_other_name(a, from, i);
			if (!name->is_kept)
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

	a->error = types_inlined(a->object, name, plain_name, &copy);
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
	struct map known = {0};
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
	map_clear(&known);
	return ok ? NULL : probe_error_no_memory();
}

struct probe_error *select_functions(struct object *object, const char *path,
	const struct probe_pattern *const *patterns, size_t count, const struct modules *modules,
	const struct probe_catalogue *catalogue, struct sdt_functions *inout)
{
	struct adding a = {.object = object,
		.modules = modules,
		.path = path,
		.patterns = patterns,
		.count = count,
		.catalogue = catalogue,
		.functions = inout,
		.before = inout->count};
	uint64_t budget;
	bool is_wanted = false;
	struct splits split = {0};

	a.split = &split;
	for (size_t i = 0; i < count; i++)
		is_wanted |= names(&a, i, NULL);
	a.arch = is_wanted && object ? arch_of_machine(object_machine(object)) : NULL;
	if (!a.arch || !a.arch->functions)
		return NULL;
	for (size_t i = 0; modules && i < modules->count; i++)
		if (modules->items[i].object == object)
			a.module = &modules->items[i];
	budget = FUNCTION_MAX + OVERLAP_MAX * object_size(object);
	a.budget = &budget;
	a.provider = provider_of(path);
	a.windows = malloc(sizeof(*a.windows));
	if (!a.provider || !a.windows) {
		free(a.provider);
		free(a.windows);
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
	lines_close(a.lines);
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
	splits_deinit(&split);
	free(a.windows);
	free(a.provider);
	return a.error;
}
