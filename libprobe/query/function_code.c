/* SPDX-License-Identifier: MIT */
/*
 * The code of a function: what stays at its entry, and where it returns.
 *
 * A function returns where its code says so. Return addresses are not replaced: unwinders,
 * exceptions, longjmp(3), coroutines and shadow stacks rely on them. So if any exit is unknown, or
 * cannot be patched, the probe of exits is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/lines.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/query/query.h"
#include "probe/symbol.h"

enum { CODE_MAX = 1 << 20, EXITS_MAX = 1 << 14, PARTS_MAX = 16, TAILS_MAX = 16 };

static const char unreadable[] = "its code cannot be read or decoded";
static const char unknown_jump[] = "one of its jumps may lead to any function";
static const char conditional[] = "one of its conditional jumps leads to another function";
static const char runs_on[] = "it runs on into what is behind it";
static const char circle[] =
	"its tail calls lead back to its name, so that one return would end several calls";
static const char ends_at_once[] = "a function that it tail calls may end at the first instruction";
static const char too_many_tails[] = "its tail calls lead to too many functions";
static const char too_many_parts[] = "it has too many parts";
static const char outside[] = "the function ends before this offset";
static const char within[] = "no instruction of the function begins at this offset";
static const char never_returns[] = "it does not return, by its code";
static const char loop[] = "a jump of its own leads to its first instruction, as in a loop";

char *function_plain_name(const char *symbol)
{
	char *name = NULL, *parameters;
	const char *clone;
	bool is_rust;
	int depth = 0;

	probe_error_free(demangle_symbol(symbol, &is_rust, &name));
	if (!name)
		return strndup(symbol, strcspn(symbol, "@"));
	if (is_rust)
		return name;
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

bool function_code_init(struct function_code *code, struct object *object, const struct arch *arch)
{
	*code = (struct function_code){.object = object,
		.arch = arch,
		.budget = CODE_MAX + FUNCTIONS_OVERLAP_MAX * object_size(object),
		.windows = malloc(sizeof(*code->windows))};
	return code->windows;
}

void function_code_deinit(struct function_code *code)
{
	lines_close(code->lines);
	splits_deinit(&code->split);
	free(code->windows);
}

bool function_code_charge(struct function_code *code, size_t bytes)
{
	if (bytes > code->budget)
		return false;
	code->budget -= bytes;
	return true;
}

uint8_t *function_code_read(struct function_code *code, struct object_range range)
{
	size_t size = range.end - range.start;
	uint8_t *bytes =
		size <= CODE_MAX && function_code_charge(code, size) ? malloc(size + 1) : NULL;

	if (bytes && object_read(code->object, range.start, bytes, size) == size)
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

/* Decodes an instruction of a function. A guard is a branch. */
static bool decode(const struct function_code *code, const uint8_t *bytes, size_t length,
	uint64_t address, struct arch_insn *ret)
{
	size_t count;
	const struct sdt_guard *guards = sdt_guards(code->object, &count);
	const struct sdt_guard *guard = ARRAY_FIND(guards, count, pc, address);

	if (!code->arch->decode(bytes, length, address, ret))
		return false;
	if (guard) {
		ret->flow = ARCH_FLOW_BRANCH;
		ret->target = guard->label;
	}
	return true;
}

/* Do some bytes look like a branch or call that leads to the start? Most functions have none. */
static bool may_branch(struct function_code *code, const uint8_t *bytes)
{
	const struct object_range range = code->range;
	const struct arch *arch = code->arch;
	const uint64_t before = range.start - 1;
	size_t size = range.end - range.start;
	bool ret = false;
	uint64_t target;

	arch_windows_init(code->windows, &before, 1, 2);
	arch->scan(bytes, size, range.start,
		&(struct arch_scan){
			.windows = code->windows, .data = &ret, .reference = on_branch});
	for (size_t i = 0; arch->short_branch && i + 2 <= size && !ret; i++)
		ret = arch->short_branch(bytes + i, range.start + i, &target) &&
		      target == range.start;
	return ret;
}

const char *function_code_loop(struct function_code *code)
{
	AUTO_FREE uint8_t *bytes = function_code_read(code, code->range);
	size_t size = code->range.end - code->range.start;
	struct arch_insn insn;
	size_t guards;

	if (!bytes)
		return unreadable;
	sdt_guards(code->object, &guards);
	if (!guards && !may_branch(code, bytes))
		return NULL;
	for (size_t at = 0; at < size; at += insn.length) {
		if (!decode(code, bytes + at, size - at, code->range.start + at, &insn))
			return unreadable;
		if ((insn.flow == ARCH_FLOW_JUMP || insn.flow == ARCH_FLOW_BRANCH) &&
			insn.target == code->range.start)
			return loop;
	}
	return NULL;
}

const char *function_code_inside(struct function_code *code, uint64_t offset)
{
	size_t size = code->range.end - code->range.start, at = 0;
	AUTO_FREE uint8_t *bytes = offset < size ? function_code_read(code, code->range) : NULL;
	struct arch_insn insn;

	if (offset >= size)
		return outside;
	if (!bytes)
		return unreadable;
	for (; at < offset; at += insn.length)
		if (!decode(code, bytes + at, size - at, code->range.start + at, &insn))
			return unreadable;
	return at > offset ? within : NULL;
}

/* Adds where debuggers break by the line table. */
static void add_breaks(struct function_code *code, struct arch_entry *inout)
{
	struct lines_function function = {
		code->range, inout->frame ? code->range.start + inout->frame : 0};
	uint64_t breaks;

	if (!code->lines_tried && lines_exist(code->object))
		probe_error_free(lines_open(code->object, &code->lines));
	code->lines_tried = true;
	if (code->lines && lines_breaks(code->lines, &function, &breaks))
		inout->breaks |= breaks;
}

void function_code_entry(struct function_code *code)
{
	uint8_t bytes[64];
	size_t size = object_read(code->object, code->range.start, bytes, sizeof(bytes));
	struct arch_entry *entry = &code->entry;

	*entry = (struct arch_entry){0};
	code->entry_refused = code->arch->functions->entry(bytes, size, code->range.start, entry);
	if (entry->frame)
		entry->breaks = UINT64_C(1) << entry->frame;
	/* Exits need the breakpoints, even if the entry cannot be patched. */
	add_breaks(code, entry);
	if (!code->entry_refused && entry->breaks)
		code->entry_refused =
			code->arch->functions->entry(bytes, size, code->range.start, entry);
}

/* ---- Exits ------------------------------------------------------------------------------ */

struct exits {
	/* The functions in which it may end: itself, then those that its tail calls lead to. */
	struct object_range functions[TAILS_MAX];
	char frames[TAILS_MAX][ARCH_ENTRY_SLOT]; /* operands: the frame at each entry */
	size_t function_count;
	/* The index of the function that is searched, and what was counted before it. */
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

/* Adds a site in the function that is searched, code->range. Returns NULL, or why it cannot. */
static const char *add_exit(
	struct function_code *code, uint64_t pc, enum sdt_exit exit, struct exits *e)
{
	/* A uprobe may be on the first instruction, whatever that is. */
	bool is_first = pc == code->range.start;
	struct sdt_note *note;

	if (is_first && e->function && exit != SDT_TAIL_ENTRY)
		return ends_at_once;
	if (e->count == EXITS_MAX || !ARRAY_ROOM(e->items, e->count))
		return unreadable;
	note = &e->items[e->count++];
	*note = e->note;
	note->pc = pc;
	note->exit = exit;
	note->start = code->range.start;
	note->breaks = code->entry.breaks;
	note->entry_keep = code->entry_refused ? ARCH_NO_JUMP : code->entry.keep;
	note->refused = is_first ? code->entry_refused : NULL;
	note->keep = is_first ? code->entry.keep : 0;
	note->keep_short = is_first ? code->entry.keep_short : 0;
	return NULL;
}

/*
 * Adds a jump to another function, which returns for e->functions[0]. Where one in another file
 * returns is unknown: the jump is the exit then. Returns NULL, or why the site cannot be added.
 */
static const char *add_jump(
	struct function_code *code, uint64_t pc, uint64_t target, struct exits *e)
{
	struct object_function function;
	bool is_here = object_function_at(code->object, target, &function) &&
		       function.range.start == target;
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
		return add_exit(code, pc, e->function ? SDT_TAIL_JUMP : SDT_TAIL_CALL, e);
	why = add_exit(code, pc, e->function ? SDT_TAIL_RETURN : SDT_OWN_EXIT, e);
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
static bool is_split(struct function_code *code, const struct exits *e, uint64_t target)
{
	const struct split *part = splits_at(&code->split, target);
	size_t at;

	return part && part->range.end - part->range.start <= CODE_MAX &&
	       !is_in(e->others, e->other_count, target, &at) &&
	       !is_in(&part->range, 1, e->parts[0].start, &at);
}

/*
 * Does a jump leave the function? A part of it (NAME.cold) is no other function; it is searched,
 * too. Returns NULL, or why the exits are unknown.
 */
static const char *leaves(struct function_code *code, const char *symbol,
	const struct arch_insn *insn, struct exits *e, bool *ret)
{
	size_t length = strcspn(symbol, "@"), at;
	bool is_short = code->arch->short_reach && insn->length < code->arch->jump_length;
	uint64_t target = insn->target, start;
	struct object_function part;
	const char *other;

	*ret = false;
	if (is_in(e->parts, e->part_count, target, &at)) {
		e->entered[at] += !is_short;
		return NULL;
	}
	other = object_symbol_at(code->object, target, &start);
	*ret = (!other || strncmp(other, symbol, length) != 0 ||
		       strncmp(other + length, ".cold", 5) != 0) &&
	       !is_split(code, e, target);
	if (*ret)
		return NULL;
	if (!object_function_at(code->object, target, &part))
		return unreadable;
	if (e->part_count == PARTS_MAX)
		return too_many_parts;
	e->entered[e->part_count] = !is_short;
	e->parts[e->part_count++] = part.range;
	return NULL;
}

/* Does the jump that ends `length` bytes of a part stay in the function? */
static bool is_switch(
	struct function_code *code, const struct exits *e, const uint8_t *bytes, size_t length)
{
	uint64_t table, first;
	size_t at;

	return code->arch->functions->is_switch(bytes, length, &table) &&
	       (!table ||
		       (object_read(code->object, table, &first, sizeof(first)) == sizeof(first) &&
			       first != e->parts[0].start &&
			       is_in(e->parts, e->part_count, first, &at)));
}

static const char *find_in_part(struct function_code *code, const char *symbol,
	struct object_range part, const uint8_t *bytes, struct exits *e)
{
	size_t size = part.end - part.start;
	bool is_behind_call = false, falls_through = false;

	for (size_t at = 0; at < size;) {
		struct arch_insn insn;
		const char *why = NULL;
		bool leads_out = false;

		if (!decode(code, bytes + at, size - at, part.start + at, &insn))
			return unreadable;
		if (insn.flow == ARCH_FLOW_RETURN)
			why = add_exit(code, part.start + at,
				e->function ? SDT_TAIL_RETURN : SDT_OWN_EXIT, e);
		else if (insn.flow == ARCH_FLOW_JUMP || insn.flow == ARCH_FLOW_BRANCH)
			why = leaves(code, symbol, &insn, e, &leads_out);
		/*
		 * Behind a call that the source says not to return, compilers may jump from a part
		 * to the end of the function. This is no tail call: the frame still stands.
		 */
		if (is_behind_call && part.start != e->parts[0].start &&
			insn.target == e->parts[0].end && insn.flow == ARCH_FLOW_JUMP)
			leads_out = false;
		is_behind_call = insn.flow == ARCH_FLOW_CALL;
		if (leads_out && insn.flow == ARCH_FLOW_JUMP)
			why = add_jump(code, part.start + at, insn.target, e);
		if (why)
			return why;
		/* All jumps are counted before it is known which parts are the function's. */
		if (insn.flow == ARCH_FLOW_INDIRECT_JUMP &&
			!is_switch(code, e, bytes, at + insn.length))
			e->why = unknown_jump;
		else if (leads_out && insn.flow == ARCH_FLOW_BRANCH && !e->why)
			e->why = conditional;
		/* A call may not return. Padding is not the function's. */
		if (!code->arch->nop_length(bytes + at, size - at))
			falls_through =
				insn.flow == ARCH_FLOW_NONE || insn.flow == ARCH_FLOW_BRANCH;
		at += insn.length;
	}
	if (falls_through)
		e->why = runs_on;
	return NULL;
}

/* Does code outside the function's parts, near one of them, have a short branch into it? */
static bool is_entered_shortly(struct function_code *code, const struct exits *e, size_t part)
{
	struct object_range range = e->parts[part];
	uint64_t reach = code->arch->short_reach;

	for (uint64_t at = range.start - reach; reach && at < range.end + reach; at++) {
		struct object_function near;
		AUTO_FREE uint8_t *bytes = NULL;
		uint8_t unknown[2];
		uint64_t target;
		size_t size, own;

		if (!object_function_at(code->object, at, &near) || near.range.end <= at) {
			if (object_read(code->object, at, unknown, 2) == 2 &&
				code->arch->short_branch(unknown, at, &target) &&
				is_in(&range, 1, target, &own))
				return true;
			continue;
		}
		at = near.range.end - 1;
		if (is_in(e->parts, e->part_count, near.range.start, &own))
			continue;
		size = near.range.end - near.range.start;
		bytes = function_code_read(code, near.range);
		if (!bytes)
			return true;
		for (size_t i = 0; i < size;) {
			struct arch_insn insn;

			if (!decode(code, bytes + i, size - i, near.range.start + i, &insn) ||
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
static bool are_own(struct function_code *code, struct exits *e)
{
	for (size_t i = 1; i < e->part_count; i++) {
		const struct split *part = splits_at(&code->split, e->parts[i].start);

		if (!part || (part->references == e->entered[i] && !is_entered_shortly(code, e, i)))
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

static const char *search_parts(struct function_code *code, const char *symbol, struct exits *e)
{
	for (size_t i = 0; i < e->part_count; i++) {
		AUTO_FREE uint8_t *bytes = function_code_read(code, e->parts[i]);
		const char *why;

		if (!bytes)
			return unreadable;
		why = find_in_part(code, symbol, e->parts[i], bytes, e);
		if (why)
			return why;
	}
	return NULL;
}

/* Finds the exits in e->functions[e->function]. Returns NULL, or why they are unknown. */
static const char *find_in_function(struct function_code *code, const char *symbol, struct exits *e)
{
	const char *why;

	e->parts[0] = code->range;
	e->part_count = 1;
	e->entered[0] = 0;
	e->other_count = 0;
	e->functions_before = e->function_count;
	e->count_before = e->count;
	do {
		e->why = NULL;
		why = e->other_count < PARTS_MAX ? search_parts(code, symbol, e) : too_many_parts;
		if (why)
			return why;
	} while (!are_own(code, e));
	return e->why;
}

/* Makes a function that returns for another one the one that is searched; adds its entry. */
static const char *enter_tail(struct function_code *code, const char **symbol_ret, struct exits *e)
{
	const char *symbol, *why;
	AUTO_FREE char *plain = NULL;
	uint64_t start;

	code->range = e->functions[e->function];
	symbol = object_symbol_at(code->object, code->range.start, &start);
	*symbol_ret = symbol && start == code->range.start ? symbol : "";
	plain = function_plain_name(*symbol_ret);
	if (!plain || strcmp(plain, code->name) == 0)
		return plain ? circle : unreadable;
	function_code_entry(code);
	memcpy(e->frames[e->function], code->entry.slot, sizeof(code->entry.slot));
	why = add_exit(code, code->range.start, SDT_TAIL_ENTRY, e);
	if (why)
		return why;
	e->items[e->count - 1].frame = e->frames[e->function];
	return function_code_loop(code);
}

/* Finds the exits of a function. Returns NULL, or why they are unknown. */
static const char *find_exits(struct function_code *code, const char *symbol, struct exits *e)
{
	const char *why = NULL;

	for (; e->function < e->function_count && !why; e->function++) {
		if (e->function)
			why = enter_tail(code, &symbol, e);
		if (!why)
			why = find_in_function(code, symbol, e);
	}
	code->range = e->functions[0];
	for (size_t i = 0; i < e->count && !why; i++)
		if (e->items[i].exit == SDT_OWN_EXIT || e->items[i].exit == SDT_TAIL_RETURN)
			return NULL;
	return why ? why : never_returns;
}

struct probe_error *function_code_exits(struct function_code *code, const char *symbol,
	struct sdt_note *inout, struct probe_error *(*add)(void *data, const struct sdt_note *note),
	void *data)
{
	struct exits e = {.functions = {code->range}, .function_count = 1};
	struct probe_error *error =
		code->split.known ? NULL : splits_read(code->object, code->arch, &code->split);

	if (error)
		return error;
	inout->kind = SDT_EXIT;
	inout->breaks = code->entry.breaks;
	inout->args = code->arch->functions->return_args;
	inout->frame = code->arch->functions->return_frame;
	e.note = *inout;
	if (!inout->refused)
		inout->refused = find_exits(code, symbol, &e);
	if (inout->refused) {
		e.count = 0;
		error = add(data, inout);
	}
	for (size_t i = 0; i < e.count && !error; i++) {
		e.items[i].tails = (uint8_t)e.function_count;
		error = add(data, e.items + i);
	}
	free(e.items);
	return error;
}
