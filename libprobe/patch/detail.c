/* SPDX-License-Identifier: MIT */
/*
 * Details that are looked up for single sites only: arguments, function, source line, the bytes
 * of the code, and the plan that enabling would choose.
 */
#include <stdlib.h>
#include <string.h>

#include <elf.h>

#include "arch/arch.h"
#include "arch/spec.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

/* ---- Arguments ---------------------------------------------------------------- */

/* Sizes and signs are the same on every ISA; only the operands differ. */
static bool no_operand(struct spec_text *text, struct arch_arg *arg)
{
	(void)text;
	(void)arg;
	return false;
}

static size_t parse_args(uint16_t machine, const char *spec, struct arch_arg ret[ARCH_ARGS_MAX])
{
	const struct arch *arch = arch_of_args(machine);

	return arch ? arch->parse_args(spec, ret) : spec_parse_args(spec, no_operand, ret);
}

/* One allocation: the arguments, followed by the text of their specs. */
static struct probe_arg *copy_args(const struct arch_arg *args, size_t count)
{
	size_t bytes = 0;
	struct probe_arg *copies;
	char *text;

	for (size_t i = 0; i < count; i++)
		bytes += sizeof(*copies) + args[i].spec_length + 1;
	/* At least one byte: NULL means "not parsed". */
	copies = malloc(bytes + 1);
	if (!copies)
		return NULL;
	text = (char *)(copies + count);
	for (size_t i = 0; i < count; i++) {
		copies[i] = (struct probe_arg){
			.spec = text,
			.size = args[i].size,
			.is_signed = args[i].is_signed,
			.is_float = args[i].is_float,
		};
		memcpy(text, args[i].spec, args[i].spec_length);
		text[args[i].spec_length] = '\0';
		text += args[i].spec_length + 1;
	}
	return copies;
}

struct probe_error *probe_list_args(struct probe_list *list, const struct probe_site *site,
	const struct probe_arg **ret, size_t *count_ret)
{
	struct list_site *more = &list->more[site - list->sites];

	if (!more->args) {
		struct arch_arg args[ARCH_ARGS_MAX];
		size_t count = parse_args(list->files[more->file].machine, site->args_spec, args);

		more->args = copy_args(args, count);
		if (!more->args)
			return probe_error_no_memory();
		more->arg_count = count;
	}
	*ret = more->args;
	*count_ret = more->arg_count;
	return NULL;
}

/* ---- Details ------------------------------------------------------------------- */

/* If the file is gone or has changed since its notes were read, there are no details. */
static void open_object(struct list_file *file)
{
	if (file->object || file->object_tried)
		return;
	file->object_tried = true;
	probe_error_free(object_open(file->path, &file->object));
	if (file->object && strcmp(object_build_id(file->object), file->build_id) != 0) {
		object_close(file->object);
		file->object = NULL;
	}
}

/* Source lines are optional: without libdw, or debug information, there are none. */
static void open_lines(struct list_file *file)
{
	if (file->lines || file->lines_tried)
		return;
	file->lines_tried = true;
	probe_error_free(lines_open(file->object, &file->lines));
}

/*
 * Asks for the line of a site, and beside it for those of others that are not known: for as many
 * as have been asked for before it. So who wants one is not kept waiting for all, and who wants all
 * has them soon, in whatever order.
 */
static void ask_lines(struct probe_list *list, struct list_file *file, size_t site)
{
	uint64_t addresses[LINES_AT_ONCE] = {list->sites[site].pc};
	size_t sites[LINES_AT_ONCE] = {site}, count = 1, i = file->lines_next;
	struct line found[LINES_AT_ONCE];

	for (; i < list->site_count && list->more[i].file == list->more[site].file &&
		count <= file->lines_asked && count < LINES_AT_ONCE;
		i++) {
		if (i == site || list->more[i].line_known)
			continue;
		addresses[count] = list->sites[i].pc;
		sites[count++] = i;
	}
	file->lines_next = i;
	file->lines_asked++;
	lines_find(file->lines, addresses, count, found);
	for (i = 0; i < count; i++) {
		list->more[sites[i]].line = found[i];
		list->more[sites[i]].line_known = true;
	}
}

/* Plans all sites of a file at once, because the proofs search its whole code. */
static struct probe_error *make_plans(struct list_file *file)
{
	struct probe_error *error = forecast_file(file->object, &file->notes, &file->forecast);

	file->plans_tried = true;
	/* A file for an ISA that cannot be patched can still be listed. */
	if (error && error->code == PROBE_ERROR_UNSUPPORTED) {
		probe_error_free(error);
		return NULL;
	}
	return error;
}

static void take_forecast(const struct forecast_site *found, struct probe_site_detail *ret)
{
	ret->plan = plan_id(found->plan);
	ret->reason = found->reason;
	ret->is_shared = found->is_shared;
	ret->instead = found->instead;
	ret->together = plan_id(found->together);
	ret->together_reason = found->together_reason;
}

/* Fills in what the file says about the plan of a site. */
static struct probe_error *detail_plan(
	struct list_file *file, uint64_t pc, struct probe_site_detail *ret)
{
	struct probe_error *error = file->plans_tried ? NULL : make_plans(file);
	const struct forecast_site *found = error ? NULL : forecast_find(&file->forecast, pc);

	if (found)
		take_forecast(found, ret);
	return error;
}

static struct probe_error *forecast_of(
	struct probe_list *list, pid_t pid, const struct forecast **ret)
{
	struct list_process *process;

	for (size_t i = 0; i < list->process_count; i++) {
		*ret = &list->processes[i].forecast;
		if (list->processes[i].pid == pid)
			return NULL;
	}
	if (!ARRAY_ROOM(list->processes, list->process_count))
		return probe_error_no_memory();
	process = &list->processes[list->process_count++];
	*process = (struct list_process){.pid = pid};
	*ret = &process->forecast;
	return forecast_read(pid, &process->forecast);
}

/* What enabling the site in its process would do; *known_ret is false if that is unknown. */
static struct probe_error *detail_forecast(struct probe_list *list, const struct probe_site *site,
	struct probe_site_detail *ret, bool *known_ret)
{
	const struct forecast *forecast;
	const struct forecast_site *found;
	struct probe_error *error = forecast_of(list, site->pid, &forecast);

	*known_ret = false;
	if (error)
		return error;
	found = forecast_find(forecast, site->pc + site->bias);
	if (forecast->reason) {
		ret->plan = plan_id(NULL);
		ret->reason = forecast->reason;
	} else if (found) {
		take_forecast(found, ret);
	}
	*known_ret = forecast->reason || found;
	return NULL;
}

static const char *other_machine(uint16_t machine)
{
	const struct arch *arch = arch_of_args(machine);

	if (arch == arch_host())
		return NULL;
	return arch ? arch->name : "an unknown one";
}

struct probe_error *probe_list_detail(struct probe_list *list, const struct probe_site *site,
	bool with_plan, struct probe_site_detail *ret)
{
	const struct list_site *more = &list->more[site - list->sites];
	struct list_file *file = &list->files[more->file];
	uint64_t start;
	bool is_known;

	*ret = (struct probe_site_detail){.other_machine = other_machine(file->machine)};
	/* OCaml: a note without an address is only a semaphore. */
	if (site->pc == 0)
		return NULL;
	open_object(file);
	if (!file->object)
		return NULL;
	ret->function = object_symbol_at(file->object, site->pc, &start);
	if (ret->function)
		ret->function_offset = site->pc - start;
	ret->byte_count = object_read(file->object, site->pc, ret->bytes, sizeof(ret->bytes));
	open_lines(file);
	if (file->lines && !more->line_known)
		ask_lines(list, file, (size_t)(more - list->more));
	ret->file = more->line.file;
	ret->line = more->line.number;
	if (!with_plan)
		return NULL;
	if (site->pid) {
		struct probe_error *error = detail_forecast(list, site, ret, &is_known);

		if (error || is_known)
			return error;
	}
	return detail_plan(file, site->pc, ret);
}
