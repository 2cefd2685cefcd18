/* SPDX-License-Identifier: MIT */
/*
 * A file's bytes say which plans a site allows. Whether one of them is possible in a process
 * depends on what it has mapped (the page that a pun needs may be in use), on what its memory
 * holds, and on what is patched already. So the same planning is done as by `enable`
 * (libprobe/patch/choose.c), on the state of the process as it is now. Neither is the process
 * stopped nor the lock taken, so what another controller does meanwhile may show.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

void forecast_deinit(struct forecast *forecast)
{
	for (size_t i = 0; i < forecast->count; i++) {
		free(forecast->sites[i].reason);
		free(forecast->sites[i].instead);
		free(forecast->sites[i].together_reason);
	}
	free(forecast->sites);
	free(forecast->reason);
	*forecast = (struct forecast){0};
}

static struct forecast_site *find(const struct forecast *forecast, uint64_t pc)
{
	return ARRAY_FIND(forecast->sites, forecast->count, pc, pc);
}

const struct forecast_site *forecast_find(const struct forecast *forecast, uint64_t pc)
{
	return find(forecast, pc);
}

/* Adds a site that was planned alone. */
static struct probe_error *add(const struct select_site *site, struct forecast *ret)
{
	struct forecast_site *to = &ret->sites[ret->count];
	bool refused = !site->chosen;
	char *why = NULL;

	if (site->reasons[0]) {
		why = select_reason_text(site);
		if (!why)
			return probe_error_no_memory();
	}
	ret->count++;
	*to = (struct forecast_site){.pc = site->pc,
		.plan = site->chosen,
		.is_shared = plan_is_shared(site->plan, site->chosen),
		.reason = refused ? why : NULL,
		.instead = refused ? NULL : why,
		.together = site->chosen};
	return NULL;
}

static struct probe_error *add_all(
	const struct select_site *sites, size_t count, struct forecast *ret)
{
	struct probe_error *error = NULL;

	ret->sites = calloc(count + 1, sizeof(*ret->sites));
	if (!ret->sites)
		return probe_error_no_memory();
	for (size_t i = 0; i < count && !error; i++)
		if (sites[i].pc)
			error = add(&sites[i], ret);
	ARRAY_SORT(ret->sites, ret->count, pc);
	return error;
}

/* The same sites, planned together. */
static struct probe_error *compare(
	const struct select_site *sites, size_t count, struct forecast *ret)
{
	for (size_t i = 0; i < count; i++) {
		struct forecast_site *to = sites[i].pc ? find(ret, sites[i].pc) : NULL;

		if (!to || to->together_reason || sites[i].chosen == to->plan)
			continue;
		to->together = sites[i].chosen;
		to->together_reason = select_reason_text(&sites[i]);
		if (!to->together_reason)
			return probe_error_no_memory();
	}
	return NULL;
}

/* ---- In a process ------------------------------------------------------------------ */

/* Plans a selection, each site as if there were no other, or all together. */
static struct probe_error *plan_once(struct change *change, struct selection *selection, bool alone)
{
	static const struct probe_request request = {.keep_going = true};
	struct transaction t = transaction_of(change, TRANSACTION_ADDS);
	struct install install = install_of(&t, selection, &request);
	struct probe_error *error;

	install.persistent = true;
	install.alone = alone;
	error = install_plan(&install);
	code_release_all(&change->taken);
	install_deinit(&install);
	transaction_end(&t);
	return error;
}

static struct probe_error *plan(struct change *change, struct forecast *ret)
{
	struct selection selection = {0};
	struct probe_error *error = select_probes(&change->modules, NULL, 0, &selection);

	if (!error)
		error = plan_once(change, &selection, true);
	if (!error)
		error = add_all(selection.sites, selection.site_count, ret);
	if (!error)
		error = plan_once(change, &selection, false);
	if (!error)
		error = compare(selection.sites, selection.site_count, ret);
	selection_deinit(&selection);
	return error;
}

/* Why nothing can be patched in a process is what to say of its sites. */
static struct probe_error *no_plans(struct probe_error *error, struct forecast *ret)
{
	if (error->code == PROBE_ERROR_MEMORY || error->code == PROBE_ERROR_SYSTEM)
		return error;
	if (error->code != PROBE_ERROR_PERMISSION && error->code != PROBE_ERROR_NOT_FOUND) {
		ret->reason = strdup(error->message);
		if (!ret->reason) {
			probe_error_free(error);
			return probe_error_no_memory();
		}
	}
	probe_error_free(error);
	return NULL;
}

struct probe_error *forecast_read(pid_t pid, struct forecast *ret)
{
	struct probe_target *target = NULL;
	struct probe_error *error = probe_target_open(pid, NULL, &target);
	struct change change;

	if (!error)
		error = change_look(target, &change);
	if (error) {
		error = no_plans(error, ret);
	} else {
		error = plan(&change, ret);
		change_end(&change);
	}
	probe_target_close(target);
	return error;
}

/* ---- In a file ---------------------------------------------------------------------- */

/* Where the short jump of a site leads: to bytes that no other has; 0: all are taken. */
static uint64_t spare_of(
	const struct arch *arch, const struct claims *claims, const struct select_site *site)
{
	if (claims_have_jump(claims, site, &plan_hop))
		return claims->shared_hop;
	for (size_t i = 0; i < site->plan->spare_count; i++)
		if (!claims_meet(claims, claim_of_hop(arch, site->plan->spares[i])))
			return site->plan->spares[i];
	return 0;
}

/* Why a plan that the file allows is not possible beside those of other sites; NULL: it is. */
static const char *conflict(const struct arch *arch, const struct claims *claims,
	const struct select_site *site, const struct plan_ops *plan)
{
	if (plan->is_switch)
		return NULL;
	if (!claims_have_jump(claims, site, plan) && claims_meet(claims, claim_of_plan(site, plan)))
		return claims_overlap;
	return plan == &plan_hop && !spare_of(arch, claims, site) ? claims_no_spare : NULL;
}

static void choose(const struct arch *arch, const struct claims *claims, struct select_site *site)
{
	select_refuse(site, NULL);
	for (size_t i = 0; i < PLAN_COUNT; i++) {
		const struct plan_ops *plan = plan_table[i];
		const char *reason;

		if (!plan_is_possible(site->plan, plan))
			reason = plan_reason(site->plan, plan);
		else if (!(reason = conflict(arch, claims, site, plan)))
			site->chosen = plan;
		if (site->chosen)
			return;
		if (reason)
			select_add_reason(site, reason);
	}
	if (!site->reasons[0])
		select_add_reason(site, plan_impossible(site->plan));
}

/* Chooses for each site alone, then for all, by ascending address. */
static struct probe_error *choose_all(
	const struct arch *arch, struct select_site *sites, size_t count, struct forecast *ret)
{
	struct claims claims = {0};
	struct probe_error *error;

	for (size_t i = 0; i < count; i++)
		choose(arch, &claims, &sites[i]);
	error = add_all(sites, count, ret);
	for (size_t i = 0; i < count && !error; i++) {
		struct select_site *site = &sites[i];
		bool hops;

		/* Notes of one address share its patch. */
		if (i && sites[i - 1].pc == site->pc)
			continue;
		choose(arch, &claims, site);
		hops = site->chosen == &plan_hop;
		if (site->chosen && !site->chosen->is_switch &&
			!claims_take(arch, &claims, site, hops ? spare_of(arch, &claims, site) : 0))
			error = probe_error_no_memory();
	}
	claims_deinit(&claims);
	return error ? error : compare(sites, count, ret);
}

struct probe_error *forecast_file(
	struct object *object, const struct sdt_notes *notes, struct forecast *ret)
{
	AUTO_FREE const struct sdt_note **asked = calloc(notes->count + 1, sizeof(*asked));
	AUTO_FREE struct plan *plans = calloc(notes->count + 1, sizeof(*plans));
	AUTO_FREE struct select_site *sites = calloc(notes->count + 1, sizeof(*sites));
	struct probe_error *error;
	size_t count = 0;

	if (!asked || !plans || !sites)
		return probe_error_no_memory();
	for (size_t i = 0; i < notes->count; i++)
		if (notes->notes[i].pc)
			asked[count++] = &notes->notes[i];
	error = plan_sites(object, notes, asked, count, &plan_defaults, plans);
	if (error)
		return error;
	for (size_t i = 0; i < count; i++)
		sites[i] = (struct select_site){
			.note = asked[i], .pc = asked[i]->pc, .plan = &plans[i]};
	array_sort(sites, count, sizeof(*sites), offsetof(struct select_site, pc));
	return choose_all(arch_of_machine(object_machine(object)), sites, count, ret);
}
