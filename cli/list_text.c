/* SPDX-License-Identifier: MIT */
/*
 * `probectl list` for people: one line for each probe of a module.
 *
 * A probe's sites differ in their operands (a register here, the stack there),
 * sometimes even in an argument's type, when a compiler knows a constant. So
 * the line shows the types, and -v shows each site's operands.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/listing.h"
#include "cli/print.h"

enum { TYPE_ROOM = 16, ALTERNATIVES_MAX = 4, ARGS_MAX = 32 };

/* The different types that one argument has at the sites of a probe. */
struct arg_types {
	char types[ALTERNATIVES_MAX][TYPE_ROOM];
	size_t count;
};

/* All sites of one probe of one module: a part of the sorted listing. */
struct group {
	const struct listed_site *items;
	size_t count;
};

/* ---- The cells -------------------------------------------------------------------- */

/* A string being written into a fixed room; what does not fit is cut. */
struct text {
	char *at;
	size_t room;
};

static void append(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void append(struct text *text, const char *format, ...)
{
	va_list ap;
	int length;

	va_start(ap, format);
	length = vsnprintf(text->at, text->room, format, ap);
	va_end(ap);
	if (length < 0)
		return;
	if ((size_t)length >= text->room)
		length = text->room > 0 ? (int)text->room - 1 : 0;
	text->at += length;
	text->room -= (size_t)length;
}

static void name_type(const struct probe_arg *arg, char ret[TYPE_ROOM])
{
	if (arg->size > 8)
		snprintf(ret, TYPE_ROOM, "%" PRIu32 "B", arg->size);
	else
		snprintf(ret, TYPE_ROOM, "%c%" PRIu32,
			arg->is_float	 ? 'f'
			: arg->is_signed ? 's'
					 : 'u',
			arg->size * 8);
}

static void add_type(struct arg_types *types, const struct probe_arg *arg)
{
	char name[TYPE_ROOM];

	name_type(arg, name);
	for (size_t i = 0; i < types->count; i++) {
		if (strcmp(types->types[i], name) == 0)
			return;
	}
	if (types->count < ALTERNATIVES_MAX)
		memcpy(types->types[types->count++], name, TYPE_ROOM);
}

/* "u64 s32|u64": the types of each argument, over all sites. */
static struct probe_error *describe_args(const struct group *group, char *text, size_t room)
{
	struct arg_types types[ARGS_MAX] = {0};
	struct text out = {text, room};
	size_t most = 0;

	for (size_t i = 0; i < group->count; i++) {
		const struct probe_arg *args;
		struct probe_error *error;
		size_t count;

		error = probe_list_args(group->items[i].list, group->items[i].site, &args, &count);
		if (error)
			return error;
		for (size_t k = 0; k < count && k < ARGS_MAX; k++)
			add_type(&types[k], &args[k]);
		if (count > most)
			most = count < ARGS_MAX ? count : ARGS_MAX;
	}
	text[0] = '\0';
	for (size_t k = 0; k < most; k++) {
		for (size_t i = 0; i < types[k].count; i++)
			append(&out, "%s%s", i > 0 ? "|" : k > 0 ? " " : "", types[k].types[i]);
	}
	if (most == 0)
		append(&out, "-");
	return NULL;
}

static const char *describe_semaphores(const struct group *group)
{
	size_t with = 0;

	for (size_t i = 0; i < group->count; i++)
		with += group->items[i].site->semaphore != 0;
	return with == 0 ? "-" : with == group->count ? "yes" : "some";
}

/* "on 2": some site is on, and the highest count of its semaphores; "?": not known. */
static void describe_state(const struct group *group, char *text, size_t room)
{
	uint32_t highest = 0;
	bool known = true, enabled = false;

	for (size_t i = 0; i < group->count; i++) {
		const struct probe_site *site = group->items[i].site;

		known &= site->state_known;
		enabled |= site->enabled;
		if (site->refcount > highest)
			highest = site->refcount;
	}
	if (enabled)
		snprintf(text, room, "on %" PRIu32, highest);
	else
		snprintf(text, room, "%s", known ? "off" : "?");
}

/* ---- Sites: -v and -vv -------------------------------------------------------------- */

static void describe_plan(const struct probe_site_detail *detail, char *text, size_t room)
{
	struct text out = {text, room};

	text[0] = '\0';
	if (detail->plan == PROBE_PLAN_NONE)
		return;
	append(&out, "%s", probe_plan_name(detail->plan));
	if (detail->reason)
		append(&out, ": %s", detail->reason);
}

static struct probe_error *add_site(
	struct table *table, const struct listing *listing, const struct listed_site *item)
{
	const struct probe_site *site = item->site;
	char address[24], function[512] = "", line[512] = "", bytes[64] = "", plan[512] = "";
	struct probe_site_detail detail;
	struct probe_error *error;

	error = probe_list_detail(item->list, site, listing->details > 1, &detail);
	if (error)
		return error;
	snprintf(address, sizeof(address), "0x%" PRIx64,
		site->pc ? site->bias + site->pc : site->pc);
	if (detail.function)
		snprintf(function, sizeof(function), "%s+0x%" PRIx64, detail.function,
			detail.function_offset);
	if (detail.file)
		snprintf(line, sizeof(line), "%s:%d", detail.file, detail.line);
	if (listing->details > 1) {
		struct text out = {bytes, sizeof(bytes)};

		for (size_t i = 0; i < detail.byte_count; i++)
			append(&out, "%s%02x", i > 0 ? " " : "", detail.bytes[i]);
		describe_plan(&detail, plan, sizeof(plan));
	}
	table_add_line(
		table, (const char *[]){address, function, line, bytes, plan, site->args_spec}, 6);
	return NULL;
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

/* The columns that are always there come last in this order; PID and STATE may be left out. */
static struct probe_error *add_group(
	struct table *table, const struct listing *listing, const struct group *group)
{
	const struct probe_site *site = group->items[0].site;
	char args[512], sites[24], state[24], pid[16];
	const char *cells[7];
	size_t count = 0;
	struct probe_error *error = describe_args(group, args, sizeof(args));
	char *probe;

	if (error)
		return error;
	if (asprintf(&probe, "%s:%s", site->provider, site->name) < 0)
		return probe_error_no_memory();
	snprintf(sites, sizeof(sites), "%zu", group->count);
	snprintf(pid, sizeof(pid), "%d", site->pid);
	describe_state(group, state, sizeof(state));
	if (listing->show_pid)
		cells[count++] = pid;
	cells[count++] = probe;
	cells[count++] = sites;
	if (listing->is_process)
		cells[count++] = state;
	cells[count++] = args;
	cells[count++] = describe_semaphores(group);
	cells[count++] = site->path;
	table_add(table, cells);
	free(probe);
	for (size_t i = 0; i < group->count && listing->details > 0 && !error; i++)
		error = add_site(table, listing, &group->items[i]);
	return error;
}

static struct table *make_table(const struct listing *listing, struct table_column columns[7])
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
	struct table_column columns[7];
	struct table *table = make_table(listing, columns);
	struct probe_error *error = NULL;
	struct group group;

	if (listing->count > 0)
		qsort(listing->items, listing->count, sizeof(*listing->items), compare);
	for (size_t i = 0; i < listing->count && !error; i += group.count) {
		group = (struct group){.items = &listing->items[i], .count = 1};
		while (i + group.count < listing->count &&
			same_probe(group.items, group.items + group.count))
			group.count++;
		error = add_group(table, listing, &group);
	}
	if (!error)
		error = table_print(table);
	table_free(table);
	return error;
}
