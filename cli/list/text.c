/* SPDX-License-Identifier: MIT */
/*
 * `probectl list` as text: one line for each probe of a module.
 *
 * The sites of a probe have different operands. At one site an argument is in a register, at
 * another it is on the stack. Sometimes even the type of an argument differs, because the compiler
 * knew a constant. So the line of a probe shows the types. With -v, there is a line for each site,
 * which shows the operands.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/list/listing.h"
#include "cli/print/out.h"
#include "cli/print/print.h"
#include "libprobe/base/cleanup.h"

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

/* Writes, for each argument, the types that it has at the sites: "u64 s32|u64". */
static struct probe_error *describe_args(const struct group *group, struct buffer *out)
{
	struct arg_types types[ARGS_MAX];
	size_t most = 0;

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
		for (size_t i = 0; i < types[k].count; i++) {
			if (i > 0 || k > 0)
				buffer_char(out, i > 0 ? '|' : ' ');
			name_type(out, types[k].types[i]);
		}
	}
	if (most == 0)
		buffer_char(out, '-');
	return NULL;
}

static const char *describe_semaphores(const struct group *group)
{
	size_t with = 0;

	for (size_t i = 0; i < group->count; i++)
		with += group->items[i].site->semaphore != 0;
	return with == 0 ? "-" : with == group->count ? "yes" : "some";
}

/*
 * Writes the state of a probe. "on 2" means that a site is enabled and that the highest semaphore
 * is 2. "?" means that the state is unknown. "inconsistent" means that another program has
 * overwritten the patch of a site.
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

enum site_cell {
	SITE_ADDRESS,
	SITE_FUNCTION,
	SITE_LINE,
	SITE_BYTES,
	SITE_PLAN,
	SITE_ARGS,
	SITE_CELLS
};

/*
 * Writes the address of a site. In a process, this is the address in memory; otherwise, it is the
 * address in the file.
 */
static void describe_address(const struct probe_site *site, struct buffer *out)
{
	buffer_hex(out, site->pc ? site->bias + site->pc : 0);
}

static void describe_function(
	const struct probe_site_detail *detail, const char *function, struct buffer *out)
{
	if (!function)
		return;
	buffer_string(out, function);
	buffer_char(out, '+');
	buffer_hex(out, detail->function_offset);
}

static void describe_line(const struct probe_site_detail *detail, struct buffer *out)
{
	if (!detail->file)
		return;
	buffer_string(out, detail->file);
	buffer_char(out, ':');
	buffer_unsigned(out, (uint64_t)detail->line);
}

static void describe_bytes(const struct probe_site_detail *detail, struct buffer *out)
{
	for (size_t i = 0; i < detail->byte_count; i++) {
		if (i > 0)
			buffer_char(out, ' ');
		buffer_hex_bytes(out, &detail->bytes[i], 1);
	}
}

static void describe_why(const char *reason, struct buffer *out)
{
	if (!reason)
		return;
	buffer_string(out, ": ");
	buffer_string(out, reason);
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
	buffer_string(out, "; with the others ");
	buffer_string(out, probe_plan_name(detail->together));
	describe_why(detail->together_reason, out);
}

/*
 * The sites in files for another machine. The plans that are shown for such sites are those that
 * they would get on that machine.
 */
struct foreign {
	const char *machine; /* name of one such machine */
	size_t sites;
};

static struct probe_error *add_site(struct table *table, const struct listing *listing,
	const struct listed_site *item, struct buffer *out, struct foreign *foreign)
{
	size_t starts[SITE_CELLS];
	const char *cells[SITE_CELLS];
	struct probe_site_detail detail;
	AUTO_FREE char *function = NULL;
	struct probe_error *error;

	error = probe_list_detail(item->list, item->site, listing->details > 1, &detail);
	if (!error)
		error = listing_function(&detail, &function);
	if (error)
		return error;
	if (detail.other_machine) {
		foreign->machine = detail.other_machine;
		foreign->sites++;
	}
	out->length = 0;
	for (int cell = 0; cell < SITE_CELLS; cell++) {
		starts[cell] = out->length;
		if (cell == SITE_ADDRESS)
			describe_address(item->site, out);
		else if (cell == SITE_FUNCTION)
			describe_function(&detail, function, out);
		else if (cell == SITE_LINE)
			describe_line(&detail, out);
		else if (cell == SITE_BYTES && listing->details > 1)
			describe_bytes(&detail, out);
		else if (cell == SITE_PLAN && listing->details > 1)
			describe_plan(item->site, &detail, out);
		else if (cell == SITE_ARGS)
			buffer_string(out, item->site->args_spec);
		buffer_char(out, '\0');
	}
	if (out->no_memory)
		return probe_error_no_memory();
	for (int cell = 0; cell < SITE_CELLS; cell++)
		cells[cell] = out->data + starts[cell];
	table_add_line(table, cells, SITE_CELLS);
	return NULL;
}

/* ---- The meaning of a probe: -v ------------------------------------------------------ */

/* Writes the names and types of a probe's arguments: "arguments: query: string, lxid". */
static void describe_meaning_args(const struct probe_meaning *meaning, struct buffer *out)
{
	buffer_string(out, "arguments: ");
	for (size_t i = 0; i < meaning->arg_count; i++) {
		buffer_string(out, i > 0 ? ", " : "");
		buffer_string(out, meaning->args[i].name);
		if (meaning->args[i].type) {
			buffer_string(out, ": ");
			buffer_string(out, meaning->args[i].type);
		}
	}
	buffer_string(out, meaning->open ? " ..." : "");
}

/* Writes what the numbers of a type mean: "LockMode: 1 AccessShareLock, 2 RowShareLock". */
static void describe_words(const struct probe_arg_meaning *arg, struct buffer *out)
{
	buffer_string(out, arg->type);
	for (size_t i = 0; i < arg->word_count; i++) {
		buffer_string(out, i > 0 ? ", " : ": ");
		buffer_signed(out, arg->words[i].number);
		buffer_char(out, ' ');
		buffer_string(out, arg->words[i].word);
	}
}

static void add_text(struct table *table, struct buffer *out)
{
	const char *text;

	buffer_char(out, '\0');
	text = out->no_memory ? "" : out->data;
	table_add_line(table, &text, 1);
	out->length = 0;
}

static void add_labelled(
	struct table *table, const char *label, const char *text, struct buffer *out)
{
	if (!text)
		return;
	buffer_string(out, label);
	buffer_string(out, text);
	add_text(table, out);
}

/* If the catalogue knows the probe, adds the lines that describe it. */
static struct probe_error *add_meaning(struct table *table, const struct listing *listing,
	const struct group *group, struct buffer *out)
{
	const struct probe_site *site = group->items[0].site;
	const struct probe_meaning *meaning;
	const struct probe_arg *args;
	struct probe_error *error;
	size_t count;

	error = probe_list_args(group->items[0].list, site, &args, &count);
	if (error)
		return error;
	meaning = probe_catalogue_find(listing->catalogue, site->provider, site->name, count);
	if (!meaning)
		return NULL;
	out->length = 0;
	add_labelled(table, "", meaning->means, out);
	if (meaning->arg_count) {
		describe_meaning_args(meaning, out);
		add_text(table, out);
	}
	for (size_t i = 0; i < meaning->arg_count && listing->details > 1; i++) {
		if (!meaning->args[i].words)
			continue;
		describe_words(&meaning->args[i], out);
		add_text(table, out);
	}
	add_labelled(table, "needs: ", meaning->needs, out);
	add_labelled(table, "raises the semaphore, too, of: ", meaning->with, out);
	add_labelled(table, "as a begin, can have the arguments of: ", meaning->takes, out);
	for (size_t i = 0; i < meaning->same_count; i++)
		add_labelled(table, "its end has the same: ", meaning->same[i], out);
	for (size_t i = 0; i < meaning->end_count; i++)
		add_labelled(table, "ends with: ", meaning->ends[i], out);
	return out->no_memory ? probe_error_no_memory() : NULL;
}

/* ---- Rows --------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
	const struct listed_site *a = left, *b = right;
	int order;

	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	order = strcmp(a->site->provider, b->site->provider);
	if (order == 0)
		order = strcmp(a->site->name, b->site->name);
	if (order == 0)
		order = a->order < b->order ? -1 : a->order > b->order;
	return order;
}

static bool same_probe(const struct listed_site *a, const struct listed_site *b)
{
	return a->module == b->module && strcmp(a->site->name, b->site->name) == 0 &&
	       strcmp(a->site->provider, b->site->provider) == 0;
}

/* The cells of a row, in the order of make_table()'s columns. Some tables have no PID or STATE. */
enum { COLUMNS_MAX = 7 };

struct cells {
	struct buffer *out;
	size_t starts[COLUMNS_MAX];
	size_t count;
};

static void end_cell(struct cells *cells, size_t start)
{
	buffer_char(cells->out, '\0');
	cells->starts[cells->count++] = start;
}

static void add_probe_cells(
	struct cells *cells, const struct listing *listing, const struct group *group)
{
	const struct probe_site *site = group->items[0].site;
	struct buffer *out = cells->out;
	size_t start = out->length;

	if (listing->show_pid) {
		buffer_unsigned(out, (uint64_t)site->pid);
		end_cell(cells, start);
		start = out->length;
	}
	buffer_string(out, site->provider);
	buffer_char(out, ':');
	buffer_string(out, site->name);
	end_cell(cells, start);
	start = out->length;
	buffer_unsigned(out, group->count);
	end_cell(cells, start);
	start = out->length;
	if (listing->is_process) {
		describe_state(group, out);
		end_cell(cells, start);
	}
}

static struct probe_error *add_group(struct table *table, const struct listing *listing,
	const struct group *group, struct buffer *out, struct foreign *foreign)
{
	struct cells cells = {.out = out};
	const char *texts[COLUMNS_MAX];
	struct probe_error *error;
	size_t start;

	out->length = 0;
	add_probe_cells(&cells, listing, group);
	start = out->length;
	error = describe_args(group, out);
	if (error)
		return error;
	end_cell(&cells, start);
	if (out->no_memory)
		return probe_error_no_memory();
	for (size_t i = 0; i < cells.count; i++)
		texts[i] = out->data + cells.starts[i];
	texts[cells.count++] = describe_semaphores(group);
	texts[cells.count] = group->items[0].site->path;
	table_add(table, texts);
	if (listing->catalogue)
		error = add_meaning(table, listing, group, out);
	for (size_t i = 0; i < group->count && listing->details > 0 && !error; i++)
		error = add_site(table, listing, &group->items[i], out, foreign);
	return error;
}

static struct table *make_table(
	const struct listing *listing, struct table_column columns[COLUMNS_MAX])
{
	size_t count = 0;

	if (listing->show_pid)
		columns[count++] = (struct table_column){.title = "PID", .is_number = true};
	columns[count++] = (struct table_column){.title = "PROBE"};
	columns[count++] = (struct table_column){.title = "SITES", .is_number = true};
	if (listing->is_process)
		columns[count++] = (struct table_column){.title = "STATE"};
	columns[count++] = (struct table_column){.title = "ARGUMENTS", .shrinks = true};
	columns[count++] = (struct table_column){.title = "SEMAPHORE"};
	columns[count++] = (struct table_column){.title = "MODULE"};
	return table_create(columns, count);
}

struct probe_error *listing_print_text(struct listing *listing)
{
	struct table_column columns[COLUMNS_MAX];
	struct table *table = make_table(listing, columns);
	struct probe_error *error = NULL;
	struct buffer out = {0};
	struct foreign foreign = {0};
	struct group group;

	if (listing->count > 0)
		qsort(listing->items, listing->count, sizeof(*listing->items), compare);
	for (size_t i = 0; i < listing->count && !error; i += group.count) {
		group = (struct group){.items = &listing->items[i], .count = 1};
		while (i + group.count < listing->count &&
			same_probe(group.items, group.items + group.count))
			group.count++;
		error = add_group(table, listing, &group, &out, &foreign);
	}
	if (!error)
		error = table_print(table);
	if (!error && foreign.sites && listing->details > 1)
		fprintf(stderr,
			"probectl: %zu site%s for another machine (%s): the plans are those there, "
			"and none can be switched on here\n",
			foreign.sites, foreign.sites == 1 ? " is" : "s are", foreign.machine);
	buffer_deinit(&out);
	table_free(table);
	return error;
}
