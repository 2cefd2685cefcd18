/* SPDX-License-Identifier: MIT */
/*
 * Forecasts: the plan that enabling a site would choose.
 *
 * The file says which plans are allowed. The process decides by its mappings (a pun's page may be
 * in use), its memory and its patches. So a forecast plans like `enable` (choose.c), but without a
 * stop and a lock: it may see half of another controller's change.
 */
#include <stdlib.h>
#include <string.h>

#include "arch/spec.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

/* ==== Forecast ================================================================================ */

static struct forecast_site *find(const struct forecast *forecast, uint64_t pc)
{
	return ARRAY_FIND(forecast->sites, forecast->count, pc, pc);
}

/* Adds the forecasts of sites that were planned alone. */
static struct probe_error *add_all(
	const struct select_site *sites, size_t count, struct forecast *ret)
{
	ret->sites = calloc(count + 1, sizeof(*ret->sites));
	if (!ret->sites)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const struct select_site *site = &sites[i];
		char *why = NULL;

		if (!site->pc || site->note->refused)
			continue;
		if (site->reasons[0]) {
			why = select_reason_text(site);
			if (!why)
				return probe_error_no_memory();
		}
		ret->sites[ret->count++] = (struct forecast_site){.pc = site->pc,
			.plan = site->chosen,
			.is_shared = plan_is_shared(site->plan, site->chosen),
			.reason = site->chosen ? NULL : why,
			.instead = site->chosen ? why : NULL,
			.together = site->chosen};
	}
	ARRAY_SORT(ret->sites, ret->count, pc);
	return NULL;
}

/* Adds the plans that differ if all sites are enabled together. */
static struct probe_error *compare(
	const struct select_site *sites, size_t count, struct forecast *ret)
{
	for (size_t i = 0; i < count; i++) {
		struct forecast_site *to = sites[i].pc ? find(ret, sites[i].pc) : NULL;

		if (!to || sites[i].note->refused || to->together_reason ||
			sites[i].chosen == to->plan)
			continue;
		to->together = sites[i].chosen;
		to->together_reason = select_reason_text(&sites[i]);
		if (!to->together_reason)
			return probe_error_no_memory();
	}
	return NULL;
}

/* ---- In a process ------------------------------------------------------------------ */

/* Plans the sites of a selection, each alone or all together. */
static struct probe_error *plan_once(struct change *change, struct selection *selection, bool alone)
{
	static const struct probe_request request = {.keep_going = true};
	AUTO(transaction_end) struct transaction t = transaction_of(change, TRANSACTION_ADDS);
	AUTO(install_deinit) struct install install = install_of(&t, selection, &request);

	install.alone = alone;
	return install_plan(&install);
}

/*
 * Plans all sites of a process, or its functions that the list has, each alone and all together,
 * without a stop. Sites that are on keep their plans. An unreadable or ended process has no
 * forecast. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
static struct probe_error *forecast_read(
	const struct probe_list *list, pid_t pid, struct forecast *ret)
{
	struct probe_target *target = NULL;
	struct selection selection = {0};
	struct probe_error *error = probe_target_open(pid, NULL, &target);
	struct change change;
	bool is_told;

	error = error ?: change_look(target, &change);
	if (error && error->code != PROBE_ERROR_MEMORY && error->code != PROBE_ERROR_SYSTEM) {
		/* The error explains why no site can be patched. */
		if (error->code != PROBE_ERROR_PERMISSION && error->code != PROBE_ERROR_NOT_FOUND)
			ret->reason = strdup(error->message);
		is_told = ret->reason || error->code == PROBE_ERROR_PERMISSION ||
			  error->code == PROBE_ERROR_NOT_FOUND;
		probe_error_free(error);
		probe_target_close(target);
		return is_told ? NULL : probe_error_no_memory();
	}
	if (error) {
		probe_target_close(target);
		return error;
	}
	error = select_probes(&change.modules, list->patterns, list->pattern_count, &selection)
		?: plan_once(&change, &selection, true)
		?: add_all(selection.sites, selection.site_count, ret)
		?: plan_once(&change, &selection, false)
		?: compare(selection.sites, selection.site_count, ret);
	selection_deinit(&selection);
	change_end(&change);
	probe_target_close(target);
	return error;
}

/* ---- In a file ---------------------------------------------------------------------- */

/* Returns the nearest spare that a site's short jump reaches and no other site uses, or 0. */
static uint64_t spare_of(
	const struct arch *arch, const struct claims *claims, const struct select_site *site)
{
	if (claims_have_jump(claims, site, &plan_hop))
		return claims->shared_hop;
	for (size_t i = 0; i < site->plan->spare_count; i++)
		if (!claims_meet(
			    claims, claim_of_hop(arch, site->plan->spares[i], site->plan->made[i])))
			return site->plan->spares[i];
	return 0;
}

static void choose(const struct arch *arch, const struct claims *claims, struct select_site *site)
{
	select_refuse(site, NULL);
	for (size_t i = 0; i < plan_defaults.count; i++) {
		const struct plan_ops *plan = plan_defaults.plans[i];
		const char *reason = plan_reason(site->plan, plan);

		if (plan_is_possible(site->plan, plan)) {
			reason = NULL;
			/* Another site's patch may be in the way. */
			if (!plan->is_switch && !claims_have_jump(claims, site, plan))
				reason = claims_meet(claims, claim_of_plan(site, plan));
			if (!reason && plan_is_short(arch, site->plan, plan) &&
				!spare_of(arch, claims, site))
				reason = claims_no_spare;
			site->chosen = reason ? NULL : plan;
		}
		if (site->chosen)
			return;
		if (reason)
			select_add_reason(site, reason);
	}
	if (!site->reasons[0])
		select_add_reason(site, plan_impossible(site->plan));
}

/* Chooses for a site that is not planned yet, beside those that are. */
static struct probe_error *choose_beside(
	const struct arch *arch, struct claims *claims, struct select_site *site)
{
	choose(arch, claims, site);
	return !site->chosen || site->chosen->is_switch ||
			       claims_take(arch, claims, site,
				       plan_is_short(arch, site->plan, site->chosen)
					       ? spare_of(arch, claims, site)
					       : 0)
		       ? NULL
		       : probe_error_no_memory();
}

/* Chooses for all sites together, in the order of choose.c. */
static struct probe_error *choose_together(
	const struct arch *arch, struct claims *claims, struct select_site *sites, size_t count)
{
	struct probe_error *error = NULL;

	for (size_t k = 0; k < 2 * count && !error; k++) {
		size_t i = k % count;

		/* Only the first of several notes for an address is planned. */
		if ((!i || sites[i - 1].pc != sites[i].pc) &&
			plan_takes_spare(arch, sites[i].plan, &plan_defaults) == (k >= count))
			error = choose_beside(arch, claims, &sites[i]);
	}
	return error;
}

/* Tries the plan `before` for exits that others are in the way of, as choose.c does. */
static struct probe_error *choose_last(struct object *object, const struct sdt_notes *notes,
	const struct arch *arch, struct claims *claims, struct select_site *sites, size_t count)
{
	static const struct plan_order last = {.plans = {&plan_before}, .count = 1};
	AUTO_FREE const struct sdt_note **asked = calloc(count + 1, sizeof(*asked));
	AUTO_FREE size_t *at = calloc(count + 1, sizeof(*at));
	AUTO_FREE struct plan *plans = calloc(count + 1, sizeof(*plans));
	struct probe_error *error = NULL;
	size_t found = 0;

	if (!asked || !at || !plans)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		if (sites[i].chosen || !sites[i].plan->is_exit || sites[i].plan->before.cannot ||
			(i && sites[i - 1].pc == sites[i].pc))
			continue;
		asked[found] = sites[i].note;
		at[found++] = i;
	}
	if (found)
		error = plan_sites(object, notes, asked, found, &last, plans);
	for (size_t i = 0; i < found && !error; i++) {
		*sites[at[i]].plan = plans[i];
		error = choose_beside(arch, claims, &sites[at[i]]);
	}
	return error;
}

/*
 * Forecasts for a file, independent of what processes have mapped. Errors: PROBE_ERROR_MEMORY,
 * PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (its probes can only be listed).
 */
static struct probe_error *forecast_file(struct object *object, const struct sdt_notes *notes,
	const struct sdt_functions *functions, struct forecast *ret)
{
	size_t room = notes->count + functions->count + 1, count = 0;
	AUTO_FREE const struct sdt_note **asked = calloc(room, sizeof(*asked));
	AUTO_FREE struct plan *plans = calloc(room, sizeof(*plans));
	AUTO_FREE struct select_site *sites = calloc(room, sizeof(*sites));
	const struct arch *arch = arch_of_machine(object_machine(object));
	AUTO(claims_deinit) struct claims claims = {0};
	struct probe_error *error;

	if (!asked || !plans || !sites)
		return probe_error_no_memory();
	for (size_t i = 0; i < notes->count; i++)
		if (notes->notes[i].pc)
			asked[count++] = &notes->notes[i];
	for (size_t i = 0; i < functions->count; i++)
		if (!functions->items[i]->refused)
			asked[count++] = functions->items[i];
	error = plan_sites(object, notes, asked, count, &plan_defaults, plans);
	if (error)
		return error;
	for (size_t i = 0; i < count; i++)
		sites[i] = (struct select_site){
			.note = asked[i], .pc = asked[i]->pc, .plan = &plans[i]};
	ARRAY_SORT(sites, count, pc);
	/* Choose for each site alone, and then for all together. */
	for (size_t i = 0; i < count; i++)
		choose(arch, &claims, &sites[i]);
	return add_all(sites, count, ret)
		?: choose_together(arch, &claims, sites, count)
		?: choose_last(object, notes, arch, &claims, sites, count)
		?: compare(sites, count, ret);
}

/* ==== Detail ================================================================================== */

/*
 * Details of single sites, on demand: arguments, function, source line, code, and the plan that
 * enabling would choose.
 */

/* ---- Arguments ---------------------------------------------------------------- */

/*
 * For an unknown ISA: sizes and signs of arguments can be parsed, because their syntax is the same
 * everywhere, but operands cannot.
 */
static bool no_operand(struct spec_text *text, struct arch_arg *arg)
{
	(void)text;
	(void)arg;
	return false;
}

struct probe_error *probe_list_args(struct probe_list *list, const struct probe_site *site,
	const struct probe_arg **ret, size_t *count_ret)
{
	struct list_site *more = &list->more[site - list->sites];

	if (!more->args) {
		const struct arch *arch = arch_of_args(list->files[more->file].machine);
		struct arch_arg args[ARCH_ARGS_MAX];
		size_t count = arch ? arch->parse_args(site->args_spec, args)
				    : spec_parse_args(site->args_spec, no_operand, args);
		size_t bytes = 1; /* without arguments, too, because NULL means "not parsed yet" */
		char *text;

		/* Arguments and their specs are in one allocation. */
		for (size_t i = 0; i < count; i++)
			bytes += sizeof(*more->args) + args[i].spec_length + 1;
		more->args = malloc(bytes);
		if (!more->args)
			return probe_error_no_memory();
		more->arg_count = count;
		text = (char *)(more->args + count);
		for (size_t i = 0; i < count; i++) {
			more->args[i] = (struct probe_arg){
				.spec = text,
				.size = args[i].size,
				.is_signed = args[i].is_signed,
				.is_float = args[i].is_float,
			};
			memcpy(text, args[i].spec, args[i].spec_length);
			text[args[i].spec_length] = '\0';
			text += args[i].spec_length + 1;
		}
	}
	*ret = more->args;
	*count_ret = more->arg_count;
	return NULL;
}

/* ---- Details ------------------------------------------------------------------- */

/*
 * Looks up a site's source line and those of some other sites, more in each call. So a single line
 * is fast, and all lines take few look-ups, in any order.
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

static void take_forecast(const struct forecast_site *found, struct probe_site_detail *ret)
{
	ret->plan = plan_id(found->plan);
	ret->reason = found->reason;
	ret->is_shared = found->is_shared;
	ret->instead = found->instead;
	ret->together = plan_id(found->together);
	ret->together_reason = found->together_reason;
}

/* Fills in the plan that enabling would choose. *known_ret is false if the site has no forecast. */
static struct probe_error *detail_forecast(struct probe_list *list, const struct probe_site *site,
	struct probe_site_detail *ret, bool *known_ret)
{
	const struct forecast *forecast = NULL;
	const struct forecast_site *found;
	struct probe_error *error = NULL;

	*known_ret = false;
	for (size_t i = 0; i < list->process_count && !forecast; i++)
		if (list->processes[i].pid == site->pid)
			forecast = &list->processes[i].forecast;
	if (!forecast) {
		struct list_process *process;

		if (!ARRAY_ROOM(list->processes, list->process_count))
			return probe_error_no_memory();
		process = &list->processes[list->process_count++];
		*process = (struct list_process){.pid = site->pid};
		forecast = &process->forecast;
		error = forecast_read(list, site->pid, &process->forecast);
	}
	if (error)
		return error;
	found = find(forecast, site->pc + site->bias);
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
	const struct forecast_site *found;
	struct probe_error *error = NULL;
	uint64_t start;
	bool is_known;

	*ret = (struct probe_site_detail){.other_machine = other_machine(file->machine)};
	/* An OCaml note without an address describes only a semaphore. */
	if (site->pc == 0)
		return NULL;
	/* A file that has changed since its notes were read gives no details. */
	if (!file->object && !file->object_tried) {
		file->object_tried = true;
		probe_error_free(object_open(file->path, &file->object));
		if (file->object && strcmp(object_build_id(file->object), file->build_id) != 0) {
			object_close(file->object);
			file->object = NULL;
		}
	}
	if (!file->object)
		return NULL;
	ret->function = object_symbol_at(file->object, site->pc, &start);
	if (ret->function)
		ret->function_offset = site->pc - start;
	ret->byte_count = object_read(file->object, site->pc, ret->bytes, sizeof(ret->bytes));
	/* Ignore errors: libdw or debug data may be missing. */
	if (!file->lines && !file->lines_tried)
		probe_error_free(lines_open(file->object, &file->lines));
	file->lines_tried = true;
	if (file->lines && !more->line_known)
		ask_lines(list, file, (size_t)(more - list->more));
	ret->file = more->line.file;
	ret->line = more->line.number;
	if (!with_plan)
		return NULL;
	if (more->refused) {
		ret->plan = plan_id(NULL);
		ret->together = ret->plan;
		ret->reason = more->refused;
		return NULL;
	}
	if (site->pid) {
		error = detail_forecast(list, site, ret, &is_known);
		if (error || is_known)
			return error;
	}
	/* Plan all sites of a file at once, because the proofs search all its code. */
	if (!file->plans_tried)
		error = forecast_file(
			file->object, &file->notes, &file->functions, &file->forecast);
	file->plans_tried = true;
	/* A file of another ISA can be listed, so this error only means that it has no plans. */
	if (error && error->code == PROBE_ERROR_UNSUPPORTED) {
		probe_error_free(error);
		error = NULL;
	}
	found = error ? NULL : find(&file->forecast, site->pc);
	if (found)
		take_forecast(found, ret);
	return error;
}
