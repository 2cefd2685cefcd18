/* SPDX-License-Identifier: MIT */
/*
 * Choosing a plan for each site: what the file proves (libprobe/patch/prove.c), what
 * the process has mapped, and what other sites have taken (claims.h).
 *
 * Notes that name the very same address share its patch: see install_site.first.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

static const char is_shared[] =
	"it is mapped shared: a patch would change the file, and every process that has it mapped";
static const char is_copied[] = "the program has copied this code to shared memory: a patch would "
				"change it in every process that has it mapped";
static const char has_shared_semaphore[] = "its semaphore is mapped shared: raising it would "
					   "change the file, and every process that has it mapped";
static const char changed[] =
	"the memory there does not hold what the file holds: another tool may have patched it, or "
	"the file has changed since";

/* ---- Planning --------------------------------------------------------------------- */

/* Why no plan is possible for a site; NULL: it is in private memory. */
static const char *why_shared(const struct install *a, size_t site)
{
	uint64_t pc = a->selection->sites[site].pc;

	if (!maps_is_shared(&a->change->maps, pc))
		return NULL;
	return module_has_mapping(install_module(a, site), maps_find(&a->change->maps, pc))
		       ? is_shared
		       : is_copied;
}

/* Would a patch take the place of more than one instruction? */
static bool has_boundary(
	const struct install *a, const struct select_site *site, const struct plan_way *way)
{
	const uint8_t *bytes;
	struct arch_insn insn;
	size_t size;

	if (way->offset < 0 || !way->length)
		return way->length > 0;
	size = plan_code(site->plan, way->offset, &bytes);
	return !a->change->arch->decode(bytes, size, site->pc + (uint64_t)way->offset, &insn) ||
	       insn.length < way->jump;
}

/*
 * Why a plan that the file allows is not possible in this process; NULL: it is. `found` is what
 * the memory holds from plan.before.length before the site on; NULL: nothing can be read.
 */
static const char *check_plan(struct install *a, const struct claims *claims,
	const struct select_site *site, const struct plan_ops *plan, const uint8_t *found)
{
	struct install_site *as = &a->sites[site - a->selection->sites];
	struct claim claim = claim_of_plan(site, plan);
	const char *reason = NULL;

	as->entry = as->hop = 0;
	as->twin = (struct arch_twin){0};
	if (!claims_have_jump(claims, site, plan) && claims_meet(claims, claim))
		return claims_overlap;
	if (maps_is_shared(&a->change->maps, claim.start))
		return is_shared;
	found += found ? site->plan->before.length - plan_starts_before(site->plan, plan) : 0;
	if (!found || !plan_holds(a->change->arch, site->plan, plan, found)) {
		*(found ? &a->change->differs : &a->change->gone) = true;
		return changed;
	}
	if (page_is_crossed(claim.start, claim.written_end - claim.start))
		return plan_crosses;
	if (has_boundary(a, site, plan_way(site->plan, plan)))
		reason = windows_reason(&a->transaction->windows, a->change);
	return reason || !plan->take ? reason : plan->take(a, claims, site);
}

/* Keeps what the plan that was chosen may write. */
static void keep_claim(struct install *a, const struct select_site *site)
{
	struct claim claim = claim_of_plan(site, site->chosen);
	struct install_site *as = &a->sites[site - a->selection->sites];

	as->write_start = claim.start;
	as->write_end = claim.written_end;
}

/* Decides on a plan for a site that is not patched; for `found` see check_plan(). */
static struct probe_error *choose(struct install *a, struct claims *claims,
	struct select_site *site, const struct plan_order *order, const uint8_t *found)
{
	site->chosen = NULL;
	for (size_t i = 0; i < order->count && !site->chosen; i++) {
		const struct plan_ops *plan = order->plans[i];
		bool is_possible = plan_is_possible(site->plan, plan);
		const char *reason;

		/* It runs the program's own handler: see toggles.c. */
		if (is_possible && plan->is_switch)
			continue;
		reason = is_possible ? check_plan(a, claims, site, plan, found)
				     : plan_reason(site->plan, plan);
		if (is_possible && !reason)
			site->chosen = plan;
		if (reason)
			select_add_reason(site, reason);
	}
	if (site->chosen)
		keep_claim(a, site);
	if (a->alone) {
		a->pun_page_count = 0;
		code_release_all(&a->change->taken);
	} else if (site->chosen) {
		return claims_take(a->change->arch, claims, site,
			       a->sites[site - a->selection->sites].hop)
			       ? NULL
			       : probe_error_no_memory();
	}
	if (!site->chosen && !site->reasons[0])
		select_add_reason(site, plan_impossible(site->plan));
	return NULL;
}

/* A site at the same address as one that is planned. */
static void share(const struct selection *s, size_t first, struct select_site *site)
{
	site->chosen = s->sites[first].chosen;
	memcpy(site->reasons, s->sites[first].reasons, sizeof(site->reasons));
}

/* Is a site the first one at its address, and not patched? Then it needs a plan. */
static bool is_to_plan(const struct install *a, size_t site)
{
	return a->sites[site].is_new && a->sites[site].first == site;
}

/* What the memory holds at planned sites, in the order of their addresses. */
static struct probe_error *read_found(const struct install *a, const struct plan *plans,
	const size_t *sites, size_t count, struct edits *found)
{
	struct probe_error *error;

	for (size_t i = 0; i < count; i++)
		if (!edits_add(found, a->selection->sites[sites[i]].pc - plans[i].before.length,
			    plans[i].before.length + plans[i].row + plans[i].byte_count))
			return probe_error_no_memory();
	error = edits_prepare(found);
	return error ? error : edits_read(found, a->change->pid);
}

struct probe_error *install_plan_notes(struct module *module, const struct sdt_note *const *notes,
	size_t count, const struct plan_order *order, struct plan *ret)
{
	/* It can be planned, but the jump would be one of ours: an emulator has mapped it. */
	if (arch_of_machine(object_machine(module->object)) != arch_host())
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"%s: it is code of another machine type than the process: its probes can "
			"be listed, not enabled",
			module->path);
	return module->file ? file_plan_sites(module->file, notes, count, order, ret)
			    : plan_sites(module->object, &module->notes, notes, count, order, ret);
}

/* Chooses plans for `count` unpatched sites of one module, by ascending address. */
static struct probe_error *choose_all(struct install *a, struct claims *claims, const size_t *sites,
	size_t count, const struct plan_order *order)
{
	struct selection *s = a->selection;
	struct module *module = install_module(a, sites[0]);
	AUTO_FREE const struct sdt_note **notes = calloc(count, sizeof(*notes));
	AUTO_FREE struct plan *plans = calloc(count, sizeof(*plans));
	struct edits found = {0};
	struct unfit unfit = {0};
	struct probe_error *error = notes && plans ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < count && !error; i++)
		notes[i] = s->sites[sites[i]].note;
	if (!error)
		error = install_plan_notes(module, notes, count, order, plans);
	if (!error)
		error = read_found(a, plans, sites, count, &found);
	if (!error)
		error = unfit_open(a->change->pid, a->change->arch, module, &unfit);
	for (size_t i = 0; i < count && !error; i++) {
		struct select_site *site = &s->sites[sites[i]];
		size_t before = plans[i].before.length;
		const char *reason = unfit_reason(&unfit, site->pc);

		if (!reason && before)
			reason = unfit_reason(&unfit, site->pc - before);
		if (!reason)
			reason = why_shared(a, sites[i]);
		*site->plan = plans[i];
		if (reason)
			select_add_reason(site, reason);
		else
			error = choose(a, claims, site, order, edits_found(&found, i));
	}
	unfit_close(&unfit);
	edits_deinit(&found);
	return error;
}

/* May this plan still be possible where a better one, which the file allows, is not? */
static bool may_go_last(const struct install *a, size_t site, const struct plan_ops *plan)
{
	const struct select_site *s = &a->selection->sites[site];
	const struct plan_way *way = plan_way(s->plan, plan);

	return !s->chosen && s->plan->short_nop && !s->plan->ocaml && !way->length && !way->cannot;
}

/*
 * Plans that take another search of the whole file, which few sites need: they are proved only for
 * sites for which nothing else was possible in this process. `sites` is overwritten.
 */
static struct probe_error *choose_last(struct install *a, struct claims *claims, size_t *sites,
	size_t count, const struct plan_order *order)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < order->count && !error; i++) {
		size_t again = 0;
		struct plan_order only = {.plans = {order->plans[i]}, .count = 1};

		if (!order->plans[i]->is_last)
			continue;
		for (size_t k = 0; k < count; k++)
			if (may_go_last(a, sites[k], order->plans[i]))
				sites[again++] = sites[k];
		if (again)
			error = choose_all(a, claims, sites, again, &only);
		count = again;
	}
	return error;
}

/* Plans the unpatched sites among order[first..end), which are of one module. */
static struct probe_error *plan_module(
	struct install *a, struct claims *claims, size_t first, size_t end)
{
	struct selection *s = a->selection;
	struct plan_order order = plan_order_of(a->request->plans, a->request->plan_count);
	AUTO_FREE size_t *sites = calloc(end - first, sizeof(*sites));
	struct module *module = install_module(a, a->order[first]);
	struct probe_error *error = module_read_notes(module);
	size_t count = 0;

	if (!error && !sites)
		error = probe_error_no_memory();
	for (size_t i = first; !error && i < end; i++) {
		if (!is_to_plan(a, a->order[i]))
			continue;
		sites[count++] = a->order[i];
		select_refuse(&s->sites[a->order[i]], module->reason);
	}
	count = module->object ? count : 0;
	if (!error && count)
		error = choose_all(a, claims, sites, count, &order);
	if (!error)
		error = choose_last(a, claims, sites, count, &order);
	for (size_t i = first; !error && i < end; i++) {
		const struct install_site *as = &a->sites[a->order[i]];

		if (as->is_new && as->first != a->order[i])
			share(s, as->first, &s->sites[a->order[i]]);
	}
	return error;
}

static struct probe_error *plan_modules(struct install *a)
{
	const struct registry *r = &a->change->registry;
	struct probe_error *error = NULL;
	struct claims claims = {0};

	for (size_t i = 0; i < r->site_count && !error; i++)
		if (!claims_add_site(&claims, a->change->arch, &r->sites[i]))
			error = probe_error_no_memory();
	for (size_t i = 0, end; i < a->order_count && !error; i = end) {
		end = install_module_end(a, i);
		error = plan_module(a, &claims, i, end);
	}
	claims_deinit(&claims);
	return error;
}

/* What the registry knows of a site decides whether it is new; `states` see site_read_all(). */
static void look_up(struct install *a, size_t i, const enum site_state *states)
{
	struct select_site *site = &a->selection->sites[i];
	struct reg_site *known = site->pc ? registry_site(&a->change->registry, site->pc) : NULL;

	a->sites[i].wanted = site->pc != 0;
	a->sites[i].is_new = !known;
	if (!known)
		return;
	a->sites[i].reg = *known;
	site->chosen = plan_of(known->plan);
	if (states[known - a->change->registry.sites] != SITE_PATCHED)
		select_refuse(
			site, "something else has overwritten its patch (see probectl status)");
	else if (why_shared(a, i))
		select_refuse(site, why_shared(a, i));
}

struct probe_error *install_make_plans(struct selection *selection)
{
	if (!selection->plans)
		selection->plans = calloc(selection->site_count + 1, sizeof(*selection->plans));
	if (!selection->plans)
		return probe_error_no_memory();
	for (size_t i = 0; i < selection->site_count; i++)
		selection->sites[i].plan = &selection->plans[i];
	return NULL;
}

static struct probe_error *look_up_all(struct install *a)
{
	enum site_state *states = NULL;
	struct edits edits = {0};
	struct probe_error *error = install_make_plans(a->selection);

	if (!error)
		error = site_read_all(&a->change->registry, a->change->pid, &edits, &states);

	for (size_t i = 0; i < a->selection->site_count && !error; i++)
		look_up(a, i, states);
	edits_deinit(&edits);
	free(states);
	return error;
}

static int compare_sites(const void *a, const void *b, void *data)
{
	const struct select_site *sites = data;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	if (sites[x].pc != sites[y].pc)
		return sites[x].pc < sites[y].pc ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Puts the sites into the order of their addresses, and finds those that share one. */
static void order_sites(struct install *a)
{
	const struct selection *s = a->selection;

	for (size_t i = 0; i < s->site_count; i++)
		if (a->sites[i].wanted)
			a->order[a->order_count++] = i;
	qsort_r(a->order, a->order_count, sizeof(*a->order), compare_sites, s->sites);
	for (size_t i = 0; i < a->order_count; i++) {
		size_t site = a->order[i], before = i ? a->order[i - 1] : site;
		bool shares = i && s->sites[before].pc == s->sites[site].pc;

		a->sites[site].first = shares ? a->sites[before].first : site;
	}
}

/*
 * A site whose semaphore cannot be raised is refused, and the semaphore is none of ours. A note
 * that is a semaphore alone has no site to be refused.
 */
static struct probe_error *refuse_shared_semaphores(const struct install *a)
{
	const struct selection *s = a->selection;

	for (size_t i = 0; i < s->site_count; i++) {
		struct select_site *site = &s->sites[i];
		const struct select_probe *probe = &s->probes[site->probe];

		if (!site->semaphore || !maps_is_shared(&a->change->maps, site->semaphore))
			continue;
		if (!site->pc)
			return probe_error_new(PROBE_ERROR_REFUSED, "%s:%s: %s", probe->provider,
				probe->name, has_shared_semaphore);
		site->semaphore = 0;
		select_refuse(site, has_shared_semaphore);
	}
	return NULL;
}

/* A probe all of whose sites are refused is not switched on. */
static void mark_refused(struct install *a)
{
	struct selection *s = a->selection;

	for (size_t i = 0; i < s->probe_count; i++) {
		struct select_probe *probe = &s->probes[i];
		size_t sites = 0, wanted = 0;

		for (size_t k = 0; k < probe->site_count; k++) {
			sites += s->sites[probe->first_site + k].pc != 0;
			wanted += a->sites[probe->first_site + k].wanted;
		}
		probe->refused = sites > 0 && wanted == 0;
	}
}

struct probe_error *install_plan(struct install *install)
{
	struct selection *s = install->selection;
	struct probe_error *error;

	install->order_count = 0;
	free(install->order);
	free(install->sites);
	install->sites = calloc(s->site_count + 1, sizeof(*install->sites));
	install->order = calloc(s->site_count + 1, sizeof(*install->order));
	if (!install->sites || !install->order)
		return probe_error_no_memory();
	error = look_up_all(install);
	if (!error)
		order_sites(install);
	if (!error)
		error = plan_modules(install);
	if (!error)
		error = refuse_shared_semaphores(install);
	for (size_t i = 0; i < s->site_count; i++)
		if (!s->sites[i].chosen)
			install->sites[i].wanted = false;
	mark_refused(install);
	return error;
}

/* `first` of the refused sites is named. */
static struct probe_error *refusal_error(
	const struct install *install, const struct select_site *first, size_t refused)
{
	const struct select_probe *probe = &install->selection->probes[first->probe];

	return probe_error_new(PROBE_ERROR_REFUSED,
		"process %d: %zu of %zu sites cannot be patched (%s:%s%s), so nothing is changed%s",
		install->change->pid, refused, install->order_count, probe->provider, probe->name,
		refused > 1 ? ", ..." : "",
		refused < install->order_count ? " (--keep-going does the rest)" : "");
}

struct probe_error *install_refusals(const struct install *install, struct probe_report *report)
{
	const struct selection *s = install->selection;
	const struct select_site *first = NULL, *named = NULL;
	struct probe_error *error = NULL;
	size_t refused = 0;

	for (size_t i = 0; i < s->site_count && !error; i++) {
		if (!s->sites[i].pc || s->sites[i].chosen)
			continue;
		first = refused++ ? first : &s->sites[i];
		named = !named && s->probes[s->sites[i].probe].exact ? &s->sites[i] : named;
		error = report_refusal(report, &s->probes[s->sites[i].probe], &s->sites[i]);
	}
	if (error || !first || install->request->keep_going ||
		(!named && (install->served || refused < install->order_count)))
		return error;
	return refusal_error(install, named ? named : first, refused);
}
