/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

/* ==== Later =================================================================================== */

/*
 * The target remembers the modules in which probes were enabled, so that a later request can enable
 * only the probes of new libraries and raise no other counts. A library that was closed and opened
 * again is new, unless it has its old address.
 */

static bool is_noted(const struct probe_target *target, const struct module *module)
{
	for (size_t i = 0; i < target->served_count; i++) {
		const struct target_module *served = &target->served[i];

		if (served->start == module->start && served->inode == module->inode &&
			served->dev_major == module->dev_major &&
			served->dev_minor == module->dev_minor)
			return true;
	}
	return false;
}

/* Notes the modules of a successful change. The room for them was allocated before. */
static void note_modules(const struct change *c)
{
	struct probe_target *target = c->target;

	for (size_t i = 0; i < c->modules.count; i++) {
		const struct module *m = &c->modules.items[i];

		if (!is_noted(target, m))
			target->served[target->served_count++] = (struct target_module){
				m->start, m->inode, m->dev_major, m->dev_minor};
	}
}

static struct probe_error *later_room(const struct change *c)
{
	struct probe_target *target = c->target;
	struct target_module *served = reallocarray(
		target->served, target->served_count + c->modules.count + 1, sizeof(*served));

	target->served = served ? served : target->served;
	return served ? NULL : probe_error_no_memory();
}

void later_drop(const struct probe_target *target, const struct probe_request *request,
	struct selection *selection)
{
	if (!request->later)
		return;
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].unwanted = is_noted(target, selection->probes[i].module);
	selection_drop_unwanted(selection);
}

/* ==== Many ==================================================================================== */

/* Sites of one call, at most, and about how much memory each takes in the target, at most. */
enum { SITES_MAX = 100000, SITE_BYTES = 2048 };

/* Counts functions: an entry and its exits are one. */
static size_t count_functions(const struct selection *s)
{
	size_t count = 0;

	for (size_t i = 0; i < s->probe_count; i++) {
		const struct select_probe *probe = &s->probes[i];

		count += probe->kind == SDT_ENTRY ||
			 (probe->kind == SDT_EXIT && !select_entry_of(s->probes, probe));
	}
	return count;
}

struct probe_error *many_check(
	pid_t pid, const struct probe_request *request, const struct selection *selection)
{
	size_t functions = count_functions(selection), sites = selection->site_count;
	size_t mebibytes = (sites * SITE_BYTES >> 20) + 1;

	if (functions && sites > SITES_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"process %d: %zu sites of %zu functions are more than %d: name fewer", pid,
			sites, functions, SITES_MAX);
	if (request->many || functions <= PROBE_FUNCTIONS_MAX)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"process %d: these are %zu functions, more than %d: name fewer, or allow them "
		"(--many), which takes up to %zu MiB in the process",
		pid, functions, PROBE_FUNCTIONS_MAX, mebibytes);
}

/* ==== Enable ================================================================================== */

/* ---- Enabling ---------------------------------------------------------------------- */

static size_t patched_sites(
	const struct registry *r, const struct selection *s, const struct select_probe *probe)
{
	size_t count = 0;

	for (size_t i = 0; i < probe->site_count; i++) {
		uint64_t pc = s->sites[probe->first_site + i].pc;

		count += pc && registry_site(r, pc);
	}
	return count;
}

/*
 * Removes probes that are already on from the selection, and raises their counts; with
 * request->force, sets the counts to 1. Changes all counts, or none.
 */
static struct probe_error *split_known(struct transaction *t, struct selection *s,
	const struct probe_request *request, struct probe_report *report)
{
	const struct registry *r = &t->change->registry;

	for (size_t i = 0; i < s->probe_count; i++) {
		struct select_probe *probe = &s->probes[i];
		const struct reg_probe *persistent = registry_persistent(r, probe->key);
		int by;

		probe->unwanted = persistent;
		if (!persistent)
			continue;
		by = request->force ? 1 - (int)persistent->refcount : select_times(probe);
		if ((int)persistent->refcount + by > UINT16_MAX)
			return probe_error_new(PROBE_ERROR_STATE,
				"%s:%s: its reference count is already at its maximum",
				probe->provider, probe->name);
		if (by && !transaction_count(t, probe->key, by))
			return probe_error_no_memory();
		report->probes++;
		report->sites += patched_sites(r, s, probe);
	}
	selection_drop_unwanted(s);
	return NULL;
}

/* Orders the probes of end events (odd patterns) before those of start events. */
static int compare_pair_ends(const void *a, const void *b)
{
	const struct select_probe *x = a, *y = b;
	size_t end_x = x->pattern % 2, end_y = y->pattern % 2;

	if (end_x != end_y)
		return end_x ? -1 : 1;
	return x->first_site < y->first_site ? -1 : x->first_site > y->first_site;
}

/* Puts end events first, so that a start event is never on without its end event. */
static struct probe_error *enable_order_pairs(struct selection *s)
{
	struct select_site *sites = calloc(s->site_count + 1, sizeof(*sites));
	size_t at = 0;

	if (!sites)
		return probe_error_no_memory();
	qsort(s->probes, s->probe_count, sizeof(*s->probes), compare_pair_ends);
	for (size_t i = 0; i < s->probe_count; i++) {
		struct select_probe *probe = &s->probes[i];

		memcpy(sites + at, s->sites + probe->first_site,
			probe->site_count * sizeof(*sites));
		for (size_t k = 0; k < probe->site_count; k++)
			sites[at + k].probe = i;
		probe->first_site = at;
		at += probe->site_count;
	}
	free(s->sites);
	s->sites = sites;
	return NULL;
}

/*
 * Selects the probes of a request, each of whose patterns must match. If it disables them,
 * wildcards name only functions that are enabled: the others are too many to be asked about.
 * Errors: as select_probes() and select_unmatched(), PROBE_ERROR_USAGE (an odd number of patterns
 * for pairs).
 */
static struct probe_error *enable_select(
	struct change *c, const struct probe_request *request, bool disables, struct selection *ret)
{
	struct probe_error *error;

	if (request->pairs && request->pattern_count % 2)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%zu patterns are no pairs: each start needs an end",
			request->pattern_count);
	error = recall_probes(&c->modules, c->pid, &c->maps, &c->registry);
	c->modules.only_enabled = disables;
	error = error
		?: select_probes(&c->modules, request->patterns, request->pattern_count, ret)
		?: select_check_arguments(ret);
	/* Nothing is left to do for wildcards that name no enabled function. */
	for (size_t i = 0; i < request->pattern_count && !error; i++)
		if (disables && (request->force || request->keep_going) &&
			pattern_is_function(request->patterns[i]) &&
			!pattern_is_exact(request->patterns[i]))
			ret->matched[i] = true;
	error = error ?: select_unmatched(&c->modules, ret, request->patterns, c->pid);
	if (!error && request->pairs)
		error = enable_order_pairs(ret);
	if (!error && !disables)
		error = many_check(c->pid, request, ret);
	return error;
}

/* Returns an error if only handlers were requested, and all of them were refused. */
static struct probe_error *check_any(const struct change *c, const struct probe_request *request,
	const struct probe_report *before, const struct probe_report *report)
{
	size_t refused = report->refusal_count - before->refusal_count;

	if (request->keep_going || !refused || report->probes > before->probes)
		return NULL;
	return probe_error_new(PROBE_ERROR_REFUSED,
		"process %d: %zu of %zu sites cannot be switched (%s:%s%s), so nothing is changed",
		c->pid, refused, refused, report->refusals[before->refusal_count].provider,
		report->refusals[before->refusal_count].name, refused > 1 ? ", ..." : "");
}

/*
 * Raises each probe's count by probe->times; with request->force, sets it to 1. May change the
 * selection. Undoes everything after an error.
 */
static struct probe_error *enable_selected(struct change *c, struct selection *s,
	const struct probe_request *request, struct probe_report *report)
{
	AUTO(transaction_end) struct transaction t = transaction_of(c, TRANSACTION_ADDS);
	AUTO(install_deinit) struct install install = install_of(&t, s, request);
	struct probe_report before = *report;
	struct probe_error *error;

	t.atomic = request->atomic;
	install.persistent = true;
	error = report_drop_unread(s, request, false, c->pid, report)
		?: toggles_take(&t, s, request, true, report)
		?: split_known(&t, s, request, report);
	install.served = report->probes > before.probes;
	if (!error && s->probe_count)
		error = install_add(&install, report);
	else if (!error)
		error = check_any(c, request, &before, report);
	return error ?: install_commit(&t);
}

/* Resets a report's counts to those in `before`. Refused sites stay in the report. */
static void enable_forget(struct probe_report *report, const struct probe_report *before)
{
	report->probes = before->probes;
	report->sites = before->sites;
	memcpy(report->plans, before->plans, sizeof(report->plans));
}

static struct probe_error *enable_once(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report)
{
	struct probe_report before = *report;
	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(target, &c);
	AUTO(selection_deinit) struct selection selection = {0};

	if (error)
		return error;
	error = install_heal(&c)
		?: report_memory(report, &c)
		?: enable_select(&c, request, false, &selection)
		?: later_room(&c);
	if (!error) {
		later_drop(target, request, &selection);
		error = enable_selected(&c, &selection, request, report);
	}
	if (error)
		enable_forget(report, &before);
	else
		note_modules(&c);
	if (c.stop_ns > report->stop_ns)
		report->stop_ns = c.stop_ns;
	return error;
}

struct probe_error *probe_target_enable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report)
{
	struct attempt attempt = attempt_begin(target, report);

	while (attempt_next(&attempt))
		attempt.error = enable_once(target, request, report);
	return attempt.error;
}

/* ---- Disabling ----------------------------------------------------------------------- */

/* Switches off, because of --force, a probe that only other tools have switched on. */
static struct probe_error *force_off(struct transaction *t, const struct selection *s,
	const struct select_probe *probe, bool *was_on_ret)
{
	AUTO_FREE uint64_t *addresses = calloc(probe->site_count + 1, sizeof(*addresses));
	size_t count = addresses ? semaphores_of(s, probe, false, addresses) : 0;
	bool ok = addresses != NULL;

	for (size_t i = 0; i < count && ok; i++) {
		uint16_t value = 0;

		if (memory_read(t->change->pid, addresses[i], &value, sizeof(value)) ==
				sizeof(value) &&
			value)
			*was_on_ret = true;
		ok = semaphores_add(&t->semaphores, addresses[i], 0, 0);
	}
	return ok ? NULL : probe_error_no_memory();
}

/*
 * Sets `refused` for probes that cannot be patched now, which wildcards leave out. Errors: as
 * install_plan().
 */
static struct probe_error *enable_mark_refused(
	struct transaction *t, struct selection *s, const struct probe_request *request)
{
	AUTO(install_deinit) struct install install = install_of(t, s, request);

	install.alone = true;
	return install_plan(&install);
}

/*
 * Checks that all counts can be lowered, before one is lowered. A probe that is off is an error,
 * unless only wildcards match it and it cannot be patched: then enabling has left it out.
 */
static struct probe_error *check_enabled(
	struct transaction *t, struct selection *s, const struct probe_request *request)
{
	const struct change *c = t->change;
	struct probe_error *error = NULL;
	bool planned = false, any = false;

	for (size_t i = 0; i < s->probe_count; i++)
		any = any || registry_persistent(&c->registry, s->probes[i].key);
	for (size_t i = 0; i < s->probe_count && !error; i++) {
		const struct select_probe *probe = &s->probes[i];

		if (registry_persistent(&c->registry, probe->key))
			continue;
		if (any && !probe->exact && !planned)
			error = enable_mark_refused(t, s, request);
		planned = planned || (any && !probe->exact);
		if (!error && !(planned && !probe->exact && probe->refused))
			error = probe_error_new(PROBE_ERROR_STATE,
				"%s:%s is not enabled in process %d (`probectl status -p %d` shows "
				"what is; --keep-going does the rest)",
				probe->provider, probe->name, c->pid, c->pid);
	}
	return error;
}

static struct probe_error *lower_all(struct transaction *t, const struct selection *s,
	const struct probe_request *request, struct probe_report *report)
{
	const struct registry *r = &t->change->registry;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < s->probe_count && !error; i++) {
		const struct select_probe *probe = &s->probes[i];
		struct reg_probe *known = registry_persistent(r, probe->key);
		uint16_t times = select_times(probe);
		bool was_on = known != NULL;

		if (!known) {
			/* Without --force, check_enabled() has reported it. */
			if (request->force)
				error = force_off(t, s, probe, &was_on);
		} else if (!request->force && known->refcount > times) {
			if (!transaction_count(t, known->key, -(int)times))
				error = probe_error_no_memory();
		} else {
			/* The probe ends; with --force, in each persistent session. */
			do
				known->refcount = 0;
			while (request->force &&
				(known = registry_persistent(r, known->key))->refcount);
		}
		report->probes += was_on;
		report->sites += was_on ? patched_sites(r, s, probe) : 0;
	}
	return error;
}

/*
 * Reports probes that stay on: not even --force ends sessions of other controllers, or of the
 * process itself.
 */
static struct probe_error *note_users(
	const struct change *c, const struct selection *s, struct probe_report *report)
{
	const struct reg_session *user = NULL;
	const struct select_probe *first = NULL;
	char who[64] = "functions of the program are connected to it";
	size_t count = 0;

	for (size_t i = 0; i < s->probe_count; i++) {
		const struct reg_session *its = NULL;
		size_t users;
		const struct reg_probe *probes =
			registry_probes(&c->registry, s->probes[i].key, &users);

		for (size_t k = 0; k < users && !its; k++)
			if (probes[k].refcount)
				its = registry_session(&c->registry, probes[k].session);
		count += its != NULL;
		first = its && !first ? &s->probes[i] : first;
		user = user ? user : its;
	}
	if (!user)
		return NULL;
	if (!(user->flags & REG_SESSION_CALLS))
		snprintf(who, sizeof(who), "process %d traces it", (int)user->owner);
	if (count == 1)
		return report_note(report, "process %d: %s:%s stays on: %s", c->pid,
			first->provider, first->name, who);
	return report_note(report, "process %d: %zu of the probes stay on: of %s:%s, %s", c->pid,
		count, first->provider, first->name, who);
}

static struct probe_error *disable_selected(struct change *c, struct selection *s,
	const struct probe_request *request, struct probe_report *report)
{
	AUTO(transaction_end) struct transaction t = transaction_of(c, TRANSACTION_ENDS);
	struct probe_report before = *report;
	struct probe_error *error;

	t.atomic = request->atomic;
	uninstall_find_stale(c); /* stale sessions end in the same change */
	error = toggles_take(&t, s, request, false, report);
	if (!error && !request->force && !request->keep_going)
		error = check_enabled(&t, s, request);
	error = error
		?: lower_all(&t, s, request, report)
		?: check_any(c, request, &before, report)
		?: transaction_keep_way_back(&t)
		?: uninstall(&t);
	if (error)
		transaction_go_back(&t);
	else if (request->force)
		error = note_users(c, s, report);
	/* Sites that hold another tool's bytes are not restored. */
	report->left = 0;
	for (size_t i = 0; i < c->registry.site_count; i++) {
		const struct reg_site *site = &c->registry.sites[i];

		report->left += site->pc && !site_is_bare(&c->registry, site) &&
				!site_is_wanted(&c->registry, site);
	}
	c->target->dropped = true;
	return error;
}

/* Switches off the enabled probes whose keys are not in `keys`, because their names are unknown. */
static void drop_others(
	struct registry *r, const uint64_t *keys, size_t count, struct probe_report *report)
{
	uint64_t last = 0;

	for (size_t i = 0; i < r->probe_count; i++) {
		struct reg_probe *probe = &r->probes[i];
		const struct reg_session *session = registry_session(r, probe->session);

		if (!probe->refcount || !(session->flags & REG_SESSION_PERSISTENT) ||
			array_find(keys, count, sizeof(*keys), 0, probe->key))
			continue;
		report->probes += !i || probe->key != last;
		last = probe->key;
		probe->refcount = 0;
	}
	last = 0;
	for (size_t i = 0; i < r->stub_count; i++) {
		const struct reg_stub *stub = &r->stubs[i];
		const struct reg_probe *probe = registry_probe(r, stub->key, stub->session);

		if (!probe || probe->refcount || stub->pc == last ||
			array_find(keys, count, sizeof(*keys), 0, stub->key))
			continue;
		report->sites++;
		last = stub->pc;
	}
}

/*
 * For --force without patterns: selects all probes that controllers have enabled, even probes
 * without names. Leaves out probes that only other tools have enabled, because the user has not
 * named them.
 */
static struct probe_error *take_all(
	struct change *c, struct selection *s, struct probe_report *report)
{
	AUTO_FREE uint64_t *keys = calloc(s->probe_count + 1, sizeof(*keys));

	if (!keys)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->probe_count; i++) {
		struct select_probe *probe = &s->probes[i];

		keys[i] = probe->key;
		probe->unwanted = !registry_persistent(&c->registry, probe->key) &&
				  !sdt_is_ocaml(probe->kind);
	}
	array_sort(keys, s->probe_count, sizeof(*keys), 0);
	drop_others(&c->registry, keys, s->probe_count, report);
	selection_drop_unwanted(s);
	return NULL;
}

struct probe_error *probe_target_disable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report)
{
	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(target, &c);
	AUTO(selection_deinit) struct selection selection = {0};
	struct orphans orphans;

	if (error)
		return error;
	error = orphans_remove(&c, &orphans);
	/* Some jumps lead to unmapped code: restore their sites, whatever the request is about. */
	if (!error && c.lost)
		error = uninstall_unreferenced(&c);
	error = error ?: enable_select(&c, request, true, &selection);
	if (!error && request->force && !request->pattern_count)
		error = take_all(&c, &selection, report);
	error = error ?: disable_selected(&c, &selection, request, report);
	error = probe_error_first(error, report_memory(report, &c));
	report->stop_ns = c.stop_ns;
	return error;
}

/* ==== Actions ================================================================================= */

/*
 * Changes the states of several probes in one call: all or none. First, the actions are applied in
 * order to copies of the counts, to find impossible ones before anything is changed: a probe that
 * is off cannot be disabled, even if a later action enables it. Then one transaction raises counts;
 * it may find sites that cannot be patched. After that, another one lowers counts; if it fails, the
 * first one is undone. The target stays locked.
 *
 * In a new program and in new libraries, all probes are off, so a list that disables one there asks
 * for nothing.
 */

/* The effect of the actions on a probe. */
struct outcome {
	uint64_t key;
	uint32_t before, after; /* count of the probe before and after the actions */
	/* `named`: an action applies to the probe; `enables`: the last of them enables it. */
	bool named, enables;
	bool is_end; /* the probe is the end event of a pair */
	bool exact;  /* an action names the probe without wildcards */
};

struct update {
	struct change *change;
	const struct probe_action *actions;
	size_t count;
	const struct probe_request *request;
	struct probe_report *report;
	bool is_new; /* the program has just started, or only new libraries change */
	struct selection all;
	struct outcome *outcomes; /* the outcome for each probe of `all` */
};

/* ---- The request ------------------------------------------------------------------------ */

/* Checks that the patterns of all actions match. */
static struct probe_error *check_patterns(const struct update *u)
{
	AUTO_FREE const struct probe_pattern **patterns =
		calloc(2 * u->count + 1, sizeof(*patterns));
	struct probe_request request = {.patterns = patterns};
	AUTO(selection_deinit) struct selection named = {0};

	if (!patterns)
		return probe_error_no_memory();
	for (size_t i = 0; i < u->count; i++) {
		if (u->is_new && u->actions[i].disable)
			continue;
		if (u->actions[i].pattern)
			patterns[request.pattern_count++] = u->actions[i].pattern;
		if (u->actions[i].end)
			patterns[request.pattern_count++] = u->actions[i].end;
	}
	return enable_select(u->change, &request, false, &named);
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

/* ---- On copies of the counts ------------------------------------------------------------ */

static struct probe_error *act_on(const struct update *u, size_t i, bool disable)
{
	const struct select_probe *probe = &u->all.probes[i];
	struct outcome *outcome = &u->outcomes[i];

	if (disable && !outcome->after &&
		(u->request->keep_going || u->is_new || (probe->refused && !outcome->exact)))
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

/*
 * Sets `exact` for probes that an action names without wildcards. Returns true if wildcards disable
 * a probe that is off.
 */
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

/* ---- On the target ---------------------------------------------------------------------- */

/*
 * Returns true if the count rises (`rise`) or falls (not `rise`), or if --force switches the probe
 * on or off.
 */
static bool is_of(const struct update *u, const struct outcome *outcome, bool rise)
{
	if (!outcome->named)
		return false;
	if (u->request->force)
		return outcome->enables == rise;
	return rise ? outcome->after > outcome->before : outcome->after < outcome->before;
}

/* Switches the probes whose counts rise or fall, end events first. */
static struct probe_error *switch_part(const struct update *u, bool rise)
{
	struct probe_request request = *u->request;
	AUTO(selection_deinit) struct selection selection = {0};
	struct probe_error *error = select_probes(&u->change->modules, NULL, 0, &selection);
	bool served = false;

	later_drop(u->change->target, u->request, &selection);
	for (size_t i = 0; i < selection.probe_count && !error; i++) {
		struct select_probe *probe = &selection.probes[i];
		const struct outcome *outcome = &u->outcomes[i];

		probe->unwanted = !is_of(u, outcome, rise);
		probe->pattern = outcome->is_end;
		probe->exact = outcome->exact;
		probe->times = (uint16_t)(rise ? outcome->after - outcome->before
					       : outcome->before - outcome->after);
	}
	if (!error) {
		selection_drop_unwanted(&selection);
		error = enable_order_pairs(&selection);
	}
	/*
	 * All probes to enable may be refused if only wildcards match them, and other named probes
	 * stay on.
	 */
	for (size_t i = 0; i < u->all.probe_count; i++)
		served |= u->outcomes[i].named && u->outcomes[i].after &&
			  !is_of(u, &u->outcomes[i], true);
	for (size_t i = 0; i < selection.probe_count; i++)
		served &= !selection.probes[i].exact;
	request.keep_going |= rise && served;
	if (!error && selection.probe_count)
		error = rise ? enable_selected(u->change, &selection, &request, u->report)
			     : disable_selected(u->change, &selection, &request, u->report);
	return error;
}

static void undo(const struct update *u)
{
	struct probe_request request = *u->request;
	AUTO(probe_report_deinit) struct probe_report unused = {0};
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
	/* --force had lowered these counts to 1. */
	probe_error_free(switch_part(&back, true));
}

static struct probe_error *update_once(struct probe_target *target,
	const struct probe_action *actions, size_t count, const struct probe_request *request,
	struct probe_report *report)
{
	struct probe_report before = *report;
	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(target, &c);
	struct update u = {.change = &c,
		.actions = actions,
		.count = count,
		.request = request,
		.report = report,
		.is_new = request->later || (target->held && !target->attached)};

	if (error)
		return error;
	error = install_heal(&c)
		?: check_patterns(&u)
		?: select_probes(&c.modules, NULL, 0, &u.all);
	if (!error && request->later)
		error = later_room(&c);
	later_drop(target, request, &u.all);
	error = error ?: count_before(&u);
	/* Wildcards leave out the same probes in disabling as in enabling. */
	if (!error && note_names(&u)) {
		AUTO(transaction_end) struct transaction t = transaction_of(&c, TRANSACTION_ENDS);

		error = enable_mark_refused(&t, &u.all, request);
	}
	for (size_t i = 0; i < count && !error; i++)
		error = act(&u, &actions[i]);
	error = error ?: switch_part(&u, true);
	if (!error) {
		error = switch_part(&u, false);
		if (error)
			undo(&u);
	}
	if (error)
		enable_forget(report, &before);
	else if (request->later)
		note_modules(&c);
	if (c.stop_ns > report->stop_ns)
		report->stop_ns = c.stop_ns;
	selection_deinit(&u.all);
	free(u.outcomes);
	return error;
}

struct probe_error *probe_target_switch(struct probe_target *target,
	const struct probe_action *actions, size_t count, const struct probe_request *request,
	struct probe_report *report)
{
	struct probe_error *error = NULL, *released;
	struct attempt attempt = attempt_begin(target, report);
	bool hold = request->atomic && !target->held;

	if (request->pattern_count || request->pairs)
		return probe_error_new(PROBE_ERROR_USAGE,
			"the actions name what is to be changed: the request has no patterns");
	for (size_t i = 0; i < count; i++)
		if (actions[i].end && !actions[i].pattern)
			return probe_error_new(
				PROBE_ERROR_USAGE, "a pair has an end, but no start");
	if (hold)
		error = probe_target_attach(target);
	if (error)
		return error;
	while (attempt_next(&attempt))
		attempt.error = update_once(target, actions, count, request, report);
	released = hold ? probe_target_release(target) : NULL;
	if (hold && target->held_ns > report->stop_ns)
		report->stop_ns = target->held_ns;
	return probe_error_first(attempt.error, released);
}
