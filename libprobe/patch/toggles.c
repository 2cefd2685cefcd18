/* SPDX-License-Identifier: MIT */
/*
 * OCaml's compiler leaves a comparison without effect at each site, which one byte turns into a
 * call of the probe's handler. A word after SystemTap's semaphore counts the handler's users
 * (transaction.c). A tool that changes it from or to 0 also writes the bytes of all sites.
 * ocaml-probes does so from within the program, and does not know our registry: so we keep no state
 * of handlers, but read the count before writing it, and switch by the new one.
 *
 * A controller that is killed in between leaves handlers on without a count, or off with a count.
 * The next change, by any tool, sets count and byte.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"

static const char overwritten[] =
	"the memory there is neither the comparison nor the call that the file has there: another "
	"tool may have patched it";
static const char is_shared[] =
	"it is mapped shared: to switch it would change the file, and every process that has it "
	"mapped";

bool toggles_asked(const struct select_probe *probe, const struct probe_request *request)
{
	struct plan_order order = plan_order_of(request->plans, request->plan_count);

	return plan_is_asked(&order, &plan_toggle) && arch_host()->toggle &&
	       sdt_is_ocaml(probe->kind);
}

/* ---- Reading ---------------------------------------------------------------------------- */

/* Sets *ret if all sites of a probe are toggles in the file, or it has only a semaphore. */
static struct probe_error *find_plans(
	struct selection *s, const struct select_probe *probe, bool *ret)
{
	static const struct plan_order order = {.plans = {&plan_toggle}, .count = 1};
	AUTO_FREE const struct sdt_note **notes = calloc(probe->site_count + 1, sizeof(*notes));
	AUTO_FREE struct plan *plans = calloc(probe->site_count + 1, sizeof(*plans));
	struct probe_error *error =
		notes && plans ? install_make_plans(s) : probe_error_no_memory();
	size_t count = 0;

	for (size_t i = 0; i < probe->site_count && !error; i++)
		if (s->sites[probe->first_site + i].pc)
			notes[count++] = s->sites[probe->first_site + i].note;
	if (count && !error)
		error = install_plan_notes(probe->module, notes, count, &order, plans);
	*ret = !error;
	count = 0;
	for (size_t i = 0; i < probe->site_count && *ret; i++) {
		struct select_site *site = &s->sites[probe->first_site + i];

		if (!site->pc)
			continue;
		*ret = plans[count].ocaml;
		*site->plan = plans[count++];
	}
	return error;
}

/*
 * Returns the registry's site if our call replaces its toggle, or NULL. Then the count alone
 * switches the handler.
 */
static const struct reg_site *find_call(const struct change *change, const struct select_site *site)
{
	const struct reg_site *reg = registry_site(&change->registry, site->pc);

	return reg && reg->count ? reg : NULL;
}

/* Sets *on if the site calls its handler. Returns NULL, or why the site cannot be switched. */
static const char *look_at(const struct change *change, const struct select_site *site, bool *on)
{
	const struct arch_toggle *toggle = change->arch->toggle;
	const struct reg_site *call = find_call(change, site);
	uint8_t found[PLAN_BYTES];

	if (maps_is_shared(&change->maps, site->pc))
		return is_shared;
	if (memory_read(change->pid, site->pc + toggle->offset, found, toggle->covers) !=
		toggle->covers)
		return overwritten;
	/* OCaml's tools may have written the first byte of our call. */
	if (call && memcmp(found + 1, call->patched + 1, toggle->covers - 1U) == 0)
		return NULL;
	if (!plan_holds_toggle(toggle, site->plan, found))
		return overwritten;
	*on = *on || found[0] == toggle->on;
	return NULL;
}

struct handlers {
	bool on;	/* a site calls its handler, or has a count of users above 0 */
	uint16_t count; /* the highest count of users among the probe's semaphores */
	size_t sites, refused;
	struct select_site *first; /* the first site that was refused */
};

static struct probe_error *look_at_probe(const struct change *change, struct selection *s,
	const struct select_probe *probe, struct handlers *ret)
{
	uint64_t *addresses = calloc(probe->site_count + 1, sizeof(*addresses));
	size_t count = addresses ? semaphores_of_handlers(s, probe, addresses) : 0;

	*ret = (struct handlers){0};
	for (size_t i = 0; i < probe->site_count; i++) {
		struct select_site *site = &s->sites[probe->first_site + i];
		const char *reason = site->pc ? look_at(change, site, &ret->on) : NULL;

		ret->sites += site->pc != 0;
		if (!reason)
			continue;
		select_refuse(site, reason);
		ret->first = ret->first ? ret->first : site;
		ret->refused++;
	}
	for (size_t i = 0; i < count; i++) {
		uint16_t value = 0;

		if (memory_read(change->pid, addresses[i], &value, sizeof(value)) != sizeof(value))
			continue;
		ret->on = ret->on || value;
		if (value > ret->count)
			ret->count = value;
	}
	free(addresses);
	return addresses ? NULL : probe_error_no_memory();
}

/* ---- Changing --------------------------------------------------------------------------- */

static struct probe_error *add_probe(struct transaction *t, const struct selection *s,
	const struct select_probe *probe, const struct probe_request *request, bool on)
{
	const struct arch_toggle *toggle = t->change->arch->toggle;
	struct toggles *toggles = &t->toggles;
	AUTO_FREE uint64_t *addresses = calloc(probe->site_count + 1, sizeof(*addresses));
	size_t count = addresses ? semaphores_of_handlers(s, probe, addresses) : 0;
	uint64_t offset = semaphore_offset(probe->kind);
	int times = select_times(probe);
	bool ok = addresses != NULL;

	for (size_t i = 0; i < count && ok; i++)
		ok = request->force
			     ? semaphores_set(&t->semaphores, addresses[i], on)
			     : semaphores_add(&t->semaphores, addresses[i], on ? times : -times);
	for (size_t i = 0; i < probe->site_count && ok; i++) {
		const struct select_site *site = &s->sites[probe->first_site + i];

		if (!site->pc || site->reasons[0] || find_call(t->change, site))
			continue;
		ok = ARRAY_ROOM(toggles->items, toggles->count) &&
		     edits_add(&toggles->edits, site->pc + toggle->offset, sizeof(toggle->on));
		if (ok)
			toggles->items[toggles->count++] = (struct toggle){
				.semaphore = site->semaphore ? site->semaphore + offset : 0,
				.on = on};
	}
	return ok ? NULL : probe_error_no_memory();
}

static struct probe_error *report_refused(const struct change *change, const struct selection *s,
	const struct select_probe *probe, const struct handlers *handlers, bool keep_going,
	struct probe_report *report)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < probe->site_count && !error; i++) {
		const struct select_site *site = &s->sites[probe->first_site + i];

		if (site->reasons[0])
			error = report_refusal(report, probe, site);
	}
	report->plans[plan_id(NULL)] = report->refusal_count;
	if (error || keep_going || !probe->exact)
		return error;
	return probe_error_new(PROBE_ERROR_REFUSED,
		"process %d: %zu of %zu sites of %s:%s cannot be switched, so nothing is changed%s",
		change->pid, handlers->refused, handlers->sites, probe->provider, probe->name,
		handlers->refused < handlers->sites ? " (--keep-going does the rest)" : "");
}

static struct probe_error *take_probe(struct transaction *t, struct selection *s,
	struct select_probe *probe, const struct probe_request *request, bool on,
	struct probe_report *report)
{
	struct handlers handlers;
	struct probe_error *error = look_at_probe(t->change, s, probe, &handlers);

	if (error || (!on && !handlers.on && !request->force))
		return error;
	probe->unwanted = true;
	if (handlers.refused)
		error = report_refused(t->change, s, probe, &handlers, request->keep_going, report);
	if (!error && on && !request->force && handlers.count + select_times(probe) > UINT16_MAX)
		error = probe_error_new(PROBE_ERROR_STATE,
			"%s:%s: its reference count is already at its maximum", probe->provider,
			probe->name);
	if (error || (handlers.sites && handlers.refused == handlers.sites))
		return error;
	report->probes += on || handlers.on;
	report->sites += on || handlers.on ? handlers.sites - handlers.refused : 0;
	report->plans[plan_toggle.id] += handlers.sites - handlers.refused;
	return add_probe(t, s, probe, request, on);
}

struct probe_error *toggles_count(const struct change *change, struct selection *s,
	const struct select_probe *probe, const struct probe_request *request, bool *ret,
	uint16_t *count_ret)
{
	struct handlers handlers;
	struct probe_error *error = NULL;

	*ret = toggles_asked(probe, request);
	if (*ret)
		error = find_plans(s, probe, ret);
	if (error || !*ret)
		return error;
	error = look_at_probe(change, s, probe, &handlers);
	/*
	 * A tool may have died after switching the handler on. Count one user, so that the caller
	 * switches it off.
	 */
	*count_ret = handlers.on && !handlers.count ? 1 : handlers.count;
	return error;
}

struct probe_error *toggles_take(struct transaction *t, struct selection *s,
	const struct probe_request *request, bool on, struct probe_report *report)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < s->probe_count && !error; i++) {
		struct select_probe *probe = &s->probes[i];
		bool is_toggle = false;

		if (!toggles_asked(probe, request))
			continue;
		error = find_plans(s, probe, &is_toggle);
		if (!error && is_toggle)
			error = take_probe(t, s, probe, request, on, report);
	}
	if (!error)
		selection_drop_unwanted(s);
	return error;
}
