/* SPDX-License-Identifier: MIT */
/*
 * `probectl list` as text: one line for each probe of a module.
 *
 * Operands differ between the sites of a probe: an argument is in a register here and on the stack
 * there. So the line of a probe shows types only, and -v adds a line with operands for each site.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/list/listing.h"
#include "cli/print/print.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "probe/symbol.h"

enum { ALTERNATIVES_MAX = 4, ARGS_MAX = 32 };

/* The different types that one argument has at the sites of a probe. */
struct arg_types {
	const struct probe_arg *types[ALTERNATIVES_MAX];
	size_t count;
};

/* All sites of one probe in one module. They are neighbours in the sorted listing. */
struct group {
	const struct listed_site *items;
	size_t count;
};

struct probe_error *listing_function(const struct probe_site_detail *detail, char **ret)
{
	struct probe_error *error;

	*ret = NULL;
	if (!detail->function)
		return NULL;
	error = probe_demangle(detail->function, ret);
	if (error || *ret)
		return error;
	*ret = strdup(detail->function);
	return *ret ? NULL : probe_error_no_memory();
}

/* ---- The cells -------------------------------------------------------------------- */

static void add_type(struct arg_types *types, const struct probe_arg *arg)
{
	for (size_t i = 0; i < types->count; i++) {
		const struct probe_arg *other = types->types[i];

		if (other->size == arg->size && other->is_signed == arg->is_signed &&
			other->is_float == arg->is_float)
			return;
	}
	if (types->count < ALTERNATIVES_MAX)
		types->types[types->count++] = arg;
}

/* Writes a type: u32, s64, f64. For an aggregate, writes its size in bytes: 16B. */
static void name_type(struct buffer *out, const struct probe_arg *arg)
{
	if (arg->size > 8) {
		buffer_unsigned(out, arg->size);
		buffer_char(out, 'B');
		return;
	}
	buffer_char(out, arg->is_float ? 'f' : arg->is_signed ? 's' : 'u');
	buffer_unsigned(out, arg->size * 8);
}

/*
 * Returns how a function's entry or exits are described; if no file does it, the description of all
 * functions. Returns NULL for a static probe.
 */
static const struct probe_meaning *function_meaning(
	const struct listing *listing, const struct probe_site *site)
{
	return strncmp(site->provider, "fn:", 3) == 0
		       ? probe_catalogue_find(
				 listing->catalogue, site->provider, site->name, SIZE_MAX)
		       : NULL;
}

/*
 * Writes, for each argument, the types that it has at the sites: "u64 s32|u64". For a function,
 * only the described arguments.
 */
static struct probe_error *describe_args(
	const struct group *group, const struct probe_meaning *function, struct buffer *out)
{
	struct arg_types types[ARGS_MAX];
	size_t most = 0, before = out->length;

	for (size_t i = 0; i < group->count; i++) {
		const struct probe_arg *args;
		struct probe_error *error;
		size_t count;

		error = probe_list_args(group->items[i].list, group->items[i].site, &args, &count);
		if (error)
			return error;
		for (; most < count && most < ARGS_MAX; most++)
			types[most].count = 0;
		for (size_t k = 0; k < count && k < ARGS_MAX; k++)
			add_type(&types[k], &args[k]);
	}
	for (size_t k = 0; k < most; k++) {
		if (function && (k >= function->arg_count || function->args[k].is_hidden))
			continue;
		for (size_t i = 0; i < types[k].count; i++) {
			if (i > 0 || out->length > before)
				buffer_char(out, i > 0 ? '|' : ' ');
			name_type(out, types[k].types[i]);
		}
	}
	if (out->length == before)
		buffer_char(out, '-');
	return NULL;
}

/*
 * Writes the state of a probe. "on 2": enabled, with 2 as the highest semaphore. "inconsistent":
 * another program has overwritten a patch. "?": unknown.
 */
static void describe_state(const struct group *group, struct buffer *out)
{
	uint32_t highest = 0;
	bool known = true, enabled = false, inconsistent = false;

	for (size_t i = 0; i < group->count; i++) {
		const struct probe_site *site = group->items[i].site;

		known &= site->state_known;
		enabled |= site->enabled;
		inconsistent |= site->inconsistent;
		if (site->refcount > highest)
			highest = site->refcount;
	}
	if (inconsistent) {
		buffer_string(out, "inconsistent");
		return;
	}
	buffer_string(out, enabled ? "on " : known ? "off" : "?");
	if (enabled)
		buffer_unsigned(out, highest);
}

/* ---- Sites: -v and -vv -------------------------------------------------------------- */

static void describe_why(const char *reason, struct buffer *out)
{
	if (!reason)
		return;
	buffer_string(out, ": ");
	buffer_printable(out, reason);
}

/* Writes the plan of a site. If the site is not enabled, this is the plan that it would get. */
static void describe_plan(
	const struct probe_site *site, const struct probe_site_detail *detail, struct buffer *out)
{
	enum probe_plan plan = site->plan ? site->plan : detail->plan;

	if (!plan)
		return;
	buffer_string(out, probe_plan_name(plan));
	if (plan != detail->plan)
		return;
	if (detail->is_shared)
		buffer_string(out, ", shared");
	describe_why(detail->reason ? detail->reason : detail->instead, out);
	if (!detail->together_reason)
		return;
	buffer_print(out, "; with the others %s", probe_plan_name(detail->together));
	describe_why(detail->together_reason, out);
}

/* Sites in files for another machine, with the plans that they would get there. */
struct foreign {
	const char *machine; /* name of one such machine */
	size_t sites;
};

/* Adds a line below the row of the probe. */
static struct probe_error *add_site(struct grid *grid, const struct listing *listing,
	const struct listed_site *item, struct foreign *foreign)
{
	struct probe_site_detail detail;
	AUTO_FREE char *function = NULL;
	struct buffer *out = &grid->text;
	struct probe_error *error;

	error = probe_list_detail(item->list, item->site, listing->details > 1, &detail)
			?: listing_function(&detail, &function);
	if (error)
		return error;
	if (detail.other_machine) {
		foreign->machine = detail.other_machine;
		foreign->sites++;
	}
	/* In a process, the address in memory, otherwise the one in the file. */
	buffer_hex(out, item->site->pc ? item->site->bias + item->site->pc : 0);
	grid_note_cell(grid, false);
	if (function) {
		buffer_printable(out, function);
		buffer_char(out, '+');
		buffer_hex(out, detail.function_offset);
	}
	grid_note_cell(grid, false);
	if (detail.file) {
		buffer_printable(out, detail.file);
		buffer_char(out, ':');
		buffer_unsigned(out, (uint64_t)detail.line);
	}
	grid_note_cell(grid, false);
	for (size_t i = 0; i < detail.byte_count && listing->details > 1; i++) {
		if (i > 0)
			buffer_char(out, ' ');
		buffer_hex_bytes(out, &detail.bytes[i], 1);
	}
	grid_note_cell(grid, false);
	if (listing->details > 1)
		describe_plan(item->site, &detail, out);
	grid_note_cell(grid, false);
	/* Arguments of functions are the same for all; with -vv, also which ones are lost. */
	if (!item->site->size || listing->details > 1)
		buffer_printable(out, item->site->args_spec);
	grid_note_cell(grid, true);
	return NULL;
}

/* ---- The meaning of a probe: -v ------------------------------------------------------ */

static void add_labelled(struct grid *grid, const char *label, const char *text)
{
	if (!text)
		return;
	buffer_string(&grid->text, label);
	buffer_printable(&grid->text, text);
	grid_note(grid);
}

/* If the catalogue knows the probe, adds the lines that describe it. */
static struct probe_error *add_meaning(
	struct grid *grid, const struct listing *listing, const struct group *group)
{
	const struct probe_site *site = group->items[0].site;
	const struct probe_meaning *meaning;
	struct buffer *out = &grid->text;
	const struct probe_arg *args;
	bool any = false;
	size_t count;
	struct probe_error *error = probe_list_args(group->items[0].list, site, &args, &count);

	if (error)
		return error;
	meaning = probe_catalogue_find(listing->catalogue, site->provider, site->name, count);
	if (!meaning)
		return NULL;
	add_labelled(grid, "", meaning->means);
	/* The names and types of arguments: "arguments: query: string, lxid". */
	for (size_t i = 0; i < meaning->arg_count; i++) {
		if (meaning->args[i].is_hidden)
			continue;
		buffer_string(out, any ? ", " : "arguments: ");
		buffer_printable(out, meaning->args[i].name);
		buffer_string(out, meaning->args[i].type ? ": " : "");
		buffer_printable(out, meaning->args[i].type ? meaning->args[i].type : "");
		any = true;
	}
	if (any) {
		buffer_string(out, meaning->open ? " ..." : "");
		grid_note(grid);
	}
	/* The meanings of a type's numbers: "LockMode: 1 AccessShareLock, 2 RowShareLock". */
	for (size_t i = 0; i < meaning->arg_count && listing->details > 1; i++) {
		const struct probe_arg_meaning *arg = &meaning->args[i];

		if (!arg->words)
			continue;
		buffer_printable(out, arg->type);
		for (size_t k = 0; k < arg->word_count; k++) {
			buffer_string(out, k > 0 ? ", " : ": ");
			buffer_signed(out, arg->words[k].number);
			buffer_char(out, ' ');
			buffer_printable(out, arg->words[k].word);
		}
		grid_note(grid);
	}
	add_labelled(grid, "needs: ", meaning->needs);
	add_labelled(grid, "", meaning->inlined);
	add_labelled(grid, "raises the semaphore, too, of: ", meaning->with);
	add_labelled(grid, "as a begin, can have the arguments of: ", meaning->takes);
	for (size_t i = 0; i < meaning->same_count; i++)
		add_labelled(grid, "its end has the same: ", meaning->same[i]);
	for (size_t i = 0; i < meaning->end_count; i++)
		add_labelled(grid, "ends with: ", meaning->ends[i]);
	return NULL;
}

/* ---- Rows --------------------------------------------------------------------------- */

static const char exits_suffix[] = ":return";

static bool is_exit(const struct probe_site *site)
{
	size_t length = strlen(site->name), suffix = sizeof(exits_suffix) - 1;

	return site->size && length > suffix &&
	       strcmp(site->name + length - suffix, exits_suffix) == 0;
}

/* Returns the bytes of a name, for exits those of the function's. */
static size_t name_length(const struct probe_site *site)
{
	return strlen(site->name) - (is_exit(site) ? sizeof(exits_suffix) - 1 : 0);
}

/* Compares names. The exits of a function are listed with its entry. */
static int compare_probes(const struct listed_site *a, const struct listed_site *b)
{
	size_t left = name_length(a->site), right = name_length(b->site);

	return ORDER(a->module, b->module) ?: strcmp(a->site->provider, b->site->provider)
		?: memcmp(a->site->name, b->site->name, left < right ? left : right)
		?: ORDER(left, right);
}

static int compare(const void *left, const void *right)
{
	const struct listed_site *a = left, *b = right;

	return compare_probes(a, b) ?: ORDER(a->order, b->order);
}

/*
 * Adds the cells of a function's entries or exits: how many can be patched, or that they cannot.
 * *why_ret is the reason, or NULL; the list owns it.
 */
static struct probe_error *add_ends(
	struct grid *grid, const struct group *group, bool exits, const char **why_ret)
{
	size_t count = 0;
	struct probe_error *error = NULL;

	*why_ret = NULL;
	for (size_t i = 0; i < group->count && !error; i++) {
		const struct listed_site *item = &group->items[i];
		struct probe_site_detail detail;

		if (is_exit(item->site) != exits)
			continue;
		count++;
		error = probe_list_detail(item->list, item->site, true, &detail);
		if (!error && !item->site->plan && detail.reason)
			*why_ret = detail.reason;
	}
	if (*why_ret || !count)
		buffer_string(&grid->text, count ? "no" : "-");
	else
		buffer_unsigned(&grid->text, count);
	grid_end(grid);
	return error;
}

static struct probe_error *add_function(struct grid *grid, const struct listing *listing,
	const struct group *group, struct foreign *foreign)
{
	const struct probe_site *site = group->items[0].site;
	const char *entry = NULL, *exits = NULL;
	struct probe_error *error;
	AUTO_FREE char *name = strndup(site->name, name_length(site));
	uint64_t size = 0;

	if (!name)
		return probe_error_no_memory();
	for (size_t i = 0; i < group->count; i++)
		if (!is_exit(group->items[i].site))
			size += group->items[i].site->size;
	if (listing->show_pid)
		grid_signed(grid, site->pid);
	event_put_probe(&grid->text, site->provider, name);
	grid_end(grid);
	grid_number(grid, size ? size : site->size);
	if (listing->is_process) {
		describe_state(group, &grid->text);
		grid_end(grid);
	}
	error = add_ends(grid, group, false, &entry) ?: add_ends(grid, group, true, &exits);
	grid_text(grid, site->path);
	if (listing->details == 0 || error)
		return error;
	add_labelled(grid, "also named: ", *site->aliases ? site->aliases : NULL);
	add_labelled(grid, "entry: ", entry);
	add_labelled(grid, "exits: ", exits);
	if (listing->catalogue)
		error = add_meaning(grid, listing, group);
	for (size_t i = 0; i < group->count && !error; i++)
		error = add_site(grid, listing, &group->items[i], foreign);
	return error;
}

/* Writes the cells in the order of the titles. Some tables have no PID or STATE. */
static struct probe_error *add_group(struct grid *grid, const struct listing *listing,
	const struct group *group, struct foreign *foreign)
{
	const struct probe_site *site = group->items[0].site;
	struct probe_error *error;
	size_t with = 0;
	const struct probe_meaning *function = function_meaning(listing, site);
	/* true if no file describes the function */
	bool is_unknown = function && strcmp(function->provider, site->provider) != 0;

	if (listing->show_pid)
		grid_signed(grid, site->pid);
	event_put_probe(&grid->text, site->provider, site->name);
	grid_end(grid);
	grid_number(grid, group->count);
	if (listing->is_process) {
		describe_state(group, &grid->text);
		grid_end(grid);
	}
	error = is_unknown ? NULL : describe_args(group, function, &grid->text);
	if (error)
		return error;
	buffer_string(&grid->text, is_unknown ? "?" : "");
	grid_end(grid);
	for (size_t i = 0; i < group->count; i++)
		with += group->items[i].site->semaphore != 0;
	grid_text(grid, with == 0 ? "-" : with == group->count ? "yes" : "some");
	grid_text(grid, site->path);
	if (listing->details && !is_unknown)
		error = add_meaning(grid, listing, group);
	for (size_t i = 0; i < group->count && listing->details > 0 && !error; i++)
		error = add_site(grid, listing, &group->items[i], foreign);
	return error;
}

struct probe_error *listing_print_text(struct listing *listing)
{
	struct probe_error *error = NULL;
	struct foreign foreign = {0};
	AUTO(grid_deinit) struct grid grid = {0};
	struct group group;

	grid_titles(&grid, listing->show_pid ? "PID>PROBE<" : "PROBE<");
	grid_titles(&grid, listing->functions ? "SIZE>" : "SITES>");
	grid_titles(&grid, listing->is_process ? "STATE<" : "");
	grid_titles(&grid, listing->functions ? "ENTRY>EXITS>" : "ARGUMENTS~SEMAPHORE<");
	grid_titles(&grid, "MODULE<");
	if (listing->count > 0)
		qsort(listing->items, listing->count, sizeof(*listing->items), compare);
	for (size_t i = 0; i < listing->count && !error; i += group.count) {
		group = (struct group){.items = &listing->items[i], .count = 1};
		while (i + group.count < listing->count &&
			compare_probes(group.items, group.items + group.count) == 0)
			group.count++;
		error = (listing->functions ? add_function : add_group)(
			&grid, listing, &group, &foreign);
	}
	error = error ?: out_grid(&grid);
	if (!error && foreign.sites && listing->details > 1)
		fprintf(stderr,
			"probectl: %zu site%s for another machine (%s): the plans are those there, "
			"and none can be switched on here\n",
			foreign.sites, foreign.sites == 1 ? " is" : "s are", foreign.machine);
	return error;
}
