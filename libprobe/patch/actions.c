/* SPDX-License-Identifier: MIT */
/*
 * Several changes in one call. Their result is computed before anything is changed: the actions are
 * first applied, in order, to copies of the counts, which finds impossible ones (a probe that is
 * off cannot be disabled, even if a later action enables it). Then one transaction raises counts,
 * which may find sites that cannot be patched. Only then does a second one lower the others; if it
 * fails, the first is undone. The target stays locked against other controllers throughout.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"
#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"

/* What a list of actions does to a probe. */
struct outcome {
	uint64_t key;
	uint32_t before, after; /* its count */
	bool named, enables;	/* by some action; by the last one */
	bool is_end;		/* of a pair */
	bool exact;		/* an action names it, and not only wildcards do */
};

struct update {
	struct change *change;
	const struct probe_action *actions;
	size_t count;
	const struct probe_request *request;
	struct probe_report *report;
	struct selection all;
	struct outcome *outcomes; /* of each of its probes */
};

/* ---- What was asked --------------------------------------------------------------------- */

static struct probe_error *check_request(
	const struct probe_action *actions, size_t count, const struct probe_request *request)
{
	if (request->pattern_count || request->pairs)
		return probe_error_new(PROBE_ERROR_USAGE,
			"the actions name what is to be changed: the request has no patterns");
	for (size_t i = 0; i < count; i++)
		if (actions[i].end && !actions[i].pattern)
			return probe_error_new(
				PROBE_ERROR_USAGE, "a pair has an end, but no start");
	return NULL;
}

/* Each pattern must match, as in a request. */
static struct probe_error *check_patterns(const struct update *u)
{
	const struct probe_pattern **patterns = calloc(2 * u->count + 1, sizeof(*patterns));
	struct probe_request request = {.patterns = patterns};
	struct selection named = {0};
	struct probe_error *error = NULL;

	if (!patterns)
		return probe_error_no_memory();
	for (size_t i = 0; i < u->count; i++) {
		if (u->actions[i].pattern)
			patterns[request.pattern_count++] = u->actions[i].pattern;
		if (u->actions[i].end)
			patterns[request.pattern_count++] = u->actions[i].end;
	}
	error = enable_select(u->change, &request, &named);
	selection_deinit(&named);
	free(patterns);
	return error;
}

static struct probe_error *count_before(struct update *u)
{
	struct probe_error *error = NULL;

	u->outcomes = calloc(u->all.probe_count + 1, sizeof(*u->outcomes));
	if (!u->outcomes)
		return probe_error_no_memory();
	for (size_t i = 0; i < u->all.probe_count && !error; i++) {
		const struct select_probe *probe = &u->all.probes[i];
		const struct reg_probe *known =
			registry_persistent(&u->change->registry, probe->key);
		struct outcome *outcome = &u->outcomes[i];
		bool is_toggle;
		uint16_t count;

		outcome->key = probe->key;
		error = toggles_count(u->change, &u->all, probe, u->request, &is_toggle, &count);
		if (!error)
			outcome->before = is_toggle && (count || !known) ? count
					  : known			 ? known->refcount
									 : 0;
		outcome->after = outcome->before;
	}
	return error;
}

/* ---- Carried out on copies -------------------------------------------------------------- */

static struct probe_error *act_on(const struct update *u, size_t i, bool disable)
{
	const struct select_probe *probe = &u->all.probes[i];
	struct outcome *outcome = &u->outcomes[i];

	if (disable && !outcome->after &&
		(u->request->keep_going || (probe->refused && !outcome->exact)))
		return NULL;
	outcome->named = true;
	outcome->enables = !disable;
	if (u->request->force) {
		outcome->after = !disable;
		return NULL;
	}
	if (disable && !outcome->after)
		return probe_error_new(PROBE_ERROR_STATE,
			"%s:%s is not enabled in process %d, so nothing is changed (`probectl "
			"status -p %d` shows what is; --keep-going does the rest)",
			probe->provider, probe->name, u->change->pid, u->change->pid);
	if (!disable && outcome->after == UINT16_MAX)
		return probe_error_new(PROBE_ERROR_STATE,
			"%s:%s: its reference count is already at its maximum", probe->provider,
			probe->name);
	outcome->after += disable ? -1 : 1;
	return NULL;
}

static bool matches(const struct probe_pattern *pattern, const struct select_probe *probe)
{
	return probe_pattern_matches(pattern, probe->module->path, probe->provider, probe->name);
}

/* Notes which probes are named. Is one of those off that wildcards disable? */
static bool note_names(const struct update *u)
{
	bool any_off = false;

	for (size_t i = 0; i < u->all.probe_count; i++) {
		const struct select_probe *probe = &u->all.probes[i];
		struct outcome *outcome = &u->outcomes[i];
		bool disables = false;

		for (size_t k = 0; k < u->count; k++) {
			const struct probe_action *action = &u->actions[k];
			bool start = !action->pattern || matches(action->pattern, probe);
			bool end = action->end && matches(action->end, probe);

			outcome->exact |=
				start && action->pattern && pattern_is_exact(action->pattern);
			outcome->exact |= end && pattern_is_exact(action->end);
			disables |= (start || end) && action->disable;
		}
		any_off |= disables && !outcome->before && !outcome->exact;
	}
	return any_off;
}

/* What wildcards left out when they enabled probes is left out again. */
static struct probe_error *find_refused(struct update *u)
{
	struct transaction t = transaction_of(u->change, TRANSACTION_ENDS);
	struct probe_error *error =
		note_names(u) ? enable_mark_refused(&t, &u->all, u->request) : NULL;

	transaction_end(&t);
	return error;
}

static struct probe_error *act(const struct update *u, const struct probe_action *action)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < u->all.probe_count && !error; i++) {
		const struct select_probe *probe = &u->all.probes[i];

		if (!action->pattern || matches(action->pattern, probe))
			error = act_on(u, i, action->disable);
		if (!error && action->end && matches(action->end, probe)) {
			u->outcomes[i].is_end = true;
			error = act_on(u, i, action->disable);
		}
	}
	return error;
}

/* ---- Done ------------------------------------------------------------------------------- */

/*
 * Is it one of the probes whose count rises (or that --force switches on); or, without `rise`,
 * falls?
 */
static bool is_of(const struct update *u, const struct outcome *outcome, bool rise)
{
	if (!outcome->named)
		return false;
	if (u->request->force)
		return outcome->enables == rise;
	return rise ? outcome->after > outcome->before : outcome->after < outcome->before;
}

/* Selects the probes again, pairs in their order: a selection is used only once. */
static struct probe_error *pick(const struct update *u, bool rise, struct selection *ret)
{
	struct probe_error *error = select_probes(&u->change->modules, NULL, 0, ret);

	for (size_t i = 0; i < ret->probe_count && !error; i++) {
		struct select_probe *probe = &ret->probes[i];
		const struct outcome *outcome = &u->outcomes[i];

		probe->unwanted = !is_of(u, outcome, rise);
		probe->pattern = outcome->is_end;
		probe->exact = outcome->exact;
		probe->times = (uint16_t)(rise ? outcome->after - outcome->before
					       : outcome->before - outcome->after);
	}
	if (!error)
		selection_drop_unwanted(ret);
	return error ? error : enable_order_pairs(ret);
}

/*
 * May all of the rising probes be refused? Yes, if only wildcards match them, and other probes that
 * these wildcards match are on and stay as they are.
 */
static bool is_served(const struct update *u, const struct selection *selection)
{
	bool served = false;

	for (size_t i = 0; i < u->all.probe_count; i++)
		served |= u->outcomes[i].named && u->outcomes[i].after &&
			  !is_of(u, &u->outcomes[i], true);
	for (size_t i = 0; i < selection->probe_count; i++)
		served &= !selection->probes[i].exact;
	return served;
}

static struct probe_error *switch_part(const struct update *u, bool rise)
{
	struct probe_request request = *u->request;
	struct selection selection = {0};
	struct probe_error *error = pick(u, rise, &selection);

	request.keep_going |= !error && rise && is_served(u, &selection);
	if (!error && selection.probe_count)
		error = rise ? enable_selected(u->change, &selection, &request, u->report)
			     : disable_selected(u->change, &selection, &request, u->report);
	selection_deinit(&selection);
	return error;
}

/* Restores the counts that have been raised. */
static void undo(const struct update *u)
{
	struct probe_request request = *u->request;
	struct probe_report unused = {0};
	struct update back = *u;

	for (size_t i = 0; i < u->all.probe_count; i++) {
		struct outcome *outcome = &u->outcomes[i];
		uint32_t before = outcome->before;

		outcome->named = is_of(u, outcome, true);
		outcome->before = outcome->after;
		outcome->after = before;
	}
	request.force = false;
	request.keep_going = true;
	back.request = &request;
	back.report = &unused;
	probe_error_free(switch_part(&back, false));
	/* Counts that were forced from a higher value to 1. */
	probe_error_free(switch_part(&back, true));
	probe_report_deinit(&unused);
}

static struct probe_error *run(struct update *u)
{
	struct probe_error *error = check_patterns(u);

	if (!error)
		error = select_probes(&u->change->modules, NULL, 0, &u->all);
	if (!error)
		error = count_before(u);
	if (!error)
		error = find_refused(u);
	for (size_t i = 0; i < u->count && !error; i++)
		error = act(u, &u->actions[i]);
	if (!error)
		error = switch_part(u, true);
	if (error)
		return error;
	error = switch_part(u, false);
	if (error)
		undo(u);
	return error;
}

static struct probe_error *update_once(struct probe_target *target,
	const struct probe_action *actions, size_t count, const struct probe_request *request,
	struct probe_report *report)
{
	struct probe_report before = *report;
	struct probe_error *error;
	struct change c;
	struct update u = {.change = &c,
		.actions = actions,
		.count = count,
		.request = request,
		.report = report};

	error = change_begin(target, &c);
	if (error)
		return error;
	error = install_heal(&c);
	if (!error)
		error = run(&u);
	if (error)
		enable_forget(report, &before);
	if (c.stop_ns > report->stop_ns)
		report->stop_ns = c.stop_ns;
	selection_deinit(&u.all);
	free(u.outcomes);
	change_end(&c);
	return error;
}

struct probe_error *probe_target_switch(struct probe_target *target,
	const struct probe_action *actions, size_t count, const struct probe_request *request,
	struct probe_report *report)
{
	struct probe_error *error = check_request(actions, count, request), *released;
	struct attempt attempt = attempt_begin(target, report);
	bool hold = request->atomic && !target->held;

	if (!error && hold)
		error = probe_target_attach(target);
	if (error)
		return error;
	while (attempt_next(&attempt))
		attempt.error = update_once(target, actions, count, request, report);
	released = hold ? probe_target_release(target) : NULL;
	if (!attempt.error)
		return released;
	probe_error_free(released);
	return attempt.error;
}
