/* SPDX-License-Identifier: MIT */
/*
 * Choosing a plan for each site: what the file proves (libprobe/plan.c), what
 * the process has mapped, and what other sites have taken.
 *
 * Sites may stand closer together than a jump is long. The bytes that a patch
 * writes, and those that a pun only reads (the displacement is made of them),
 * must not meet the bytes that another patch writes.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/attach.h"
#include "libprobe/report.h"
#include "libprobe/space.h"

enum { FAR_JUMP_BYTES = 14, JUMP_BYTES = 5 };

static const char crosses[] = "the jump would cross a page, and could not be written in one step";
static const char overlaps[] = "its bytes are also those of another site that is patched";
static const char pun_taken[] =
	"the address that its bytes would jump to is in use, or where the heap or the stack grows";

/* ---- Bytes of patches --------------------------------------------------------------- */

/* [start, end) belongs to a patch; what is written in it begins at start. */
struct claim {
	uint64_t start, end;
	uint64_t written_end;
};

/* Sorted by start. */
struct claims {
	struct claim *items;
	size_t count, room;
};

static struct claim claim_of(uint64_t patch, unsigned int length)
{
	/* A patch of one byte, a pun or a toggle, relies on the four bytes behind it. */
	return (struct claim){
		patch, patch + (length < JUMP_BYTES ? JUMP_BYTES : length), patch + length};
}

/* The first claim that starts at or above an address. */
static size_t claims_from(const struct claims *claims, uint64_t address)
{
	size_t low = 0, high = claims->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (claims->items[middle].start < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool claims_meet(const struct claims *claims, struct claim c)
{
	for (size_t i = claims_from(claims, c.start - JUMP_BYTES);
		i < claims->count && claims->items[i].start < c.end; i++) {
		const struct claim *other = &claims->items[i];

		if ((other->start < c.written_end && c.start < other->end) ||
			(other->start < c.end && c.start < other->written_end))
			return true;
	}
	return false;
}

static bool claims_add(struct claims *claims, struct claim c)
{
	size_t at = claims_from(claims, c.start);

	if (claims->count == claims->room) {
		size_t room = claims->room ? 2 * claims->room : 64;
		struct claim *items = reallocarray(claims->items, room, sizeof(*items));

		if (!items)
			return false;
		claims->items = items;
		claims->room = room;
	}
	memmove(claims->items + at + 1, claims->items + at,
		(claims->count++ - at) * sizeof(*claims->items));
	claims->items[at] = c;
	return true;
}

/* ---- Planning --------------------------------------------------------------------- */

static bool crosses_page(uint64_t address, uint64_t length)
{
	return address / SPACE_PAGE != (address + length - 1) / SPACE_PAGE;
}

/* Where the bytes at a punned site will jump to. */
static uint64_t pun_target(const struct select_site *site)
{
	int32_t distance;

	memcpy(&distance, site->plan.bytes + 1, sizeof(distance));
	return site->pc + 5 + (int64_t)distance;
}

static bool has_pun_page(const struct attach *a, uint64_t page)
{
	for (size_t i = 0; i < a->pun_page_count; i++)
		if (a->pun_pages[i] == page)
			return true;
	return false;
}

/* Is the pun's page free? Notes it as taken. Puns do not share pages. */
static const char *take_pun_page(struct attach *a, const struct select_site *site)
{
	uint64_t target = pun_target(site), page = target & ~(uint64_t)(SPACE_PAGE - 1);
	uint64_t *pages;

	if (site->plan.byte_count < 5)
		return "the code ends behind the nop";
	if (crosses_page(target, FAR_JUMP_BYTES) || has_pun_page(a, page) ||
		!space_is_free(&a->change->maps, page, page + SPACE_PAGE))
		return pun_taken;
	pages = reallocarray(a->pun_pages, a->pun_page_count + 1, sizeof(*pages));
	if (!pages)
		return "out of memory";
	a->pun_pages = pages;
	pages[a->pun_page_count++] = page;
	return NULL;
}

/* What a plan would write at a site. */
static struct claim plan_claim(const struct select_site *site, enum probe_plan plan)
{
	switch (plan) {
	case PROBE_PLAN_TOGGLE:
		return claim_of(site->pc + 1, 1);
	case PROBE_PLAN_PUN:
		return claim_of(site->pc, 1);
	case PROBE_PLAN_LONG_NOP:
		return claim_of(site->pc + site->plan.nop_offset, JUMP_BYTES);
	default:
		return claim_of(site->pc, JUMP_BYTES);
	}
}

/* Why a plan that the file allows is not possible in this process; NULL: it is. */
static const char *check_plan(struct attach *a, const struct claims *claims,
	const struct select_site *site, enum probe_plan plan)
{
	struct claim claim = plan_claim(site, plan);

	if (claims_meet(claims, claim))
		return overlaps;
	if (crosses_page(claim.start, claim.written_end - claim.start))
		return crosses;
	return plan == PROBE_PLAN_PUN ? take_pun_page(a, site) : NULL;
}

/* Decides on a plan for a site that nobody has patched. */
static struct probe_error *choose(struct attach *a, struct claims *claims, struct select_site *site)
{
	const enum probe_plan *order = a->request->plans ? a->request->plans : plan_default_order;
	size_t count = a->request->plans ? a->request->plan_count : 4;
	const char *possible = NULL; /* why the first plan that the file allows cannot be */

	site->chosen = PROBE_PLAN_REFUSED;
	for (size_t i = 0; i < count && site->chosen == PROBE_PLAN_REFUSED; i++) {
		const char *reason;
		enum probe_plan plan = plan_choose(&site->plan, &order[i], 1, &reason);

		/* A toggle runs the program's own handler: it is no way to trace. */
		if (plan == PROBE_PLAN_REFUSED || (plan == PROBE_PLAN_TOGGLE && !a->persistent))
			continue;
		reason = check_plan(a, claims, site, plan);
		if (!reason)
			site->chosen = plan;
		else if (!possible)
			possible = reason;
	}
	if (site->chosen != PROBE_PLAN_REFUSED)
		return claims_add(claims, plan_claim(site, site->chosen)) ? NULL
									  : probe_error_no_memory();
	plan_choose(&site->plan, order, 0, &site->reason);
	if (possible && (!site->plan.cannot_move || possible == overlaps))
		site->reason = possible;
	return NULL;
}

/* Plans the unpatched sites of one module. */
static struct probe_error *plan_module(
	struct attach *a, struct claims *claims, struct module *module)
{
	struct selection *s = a->selection;
	const struct sdt_note **notes = calloc(s->site_count, sizeof(*notes));
	size_t *index = calloc(s->site_count, sizeof(*index));
	struct plan *plans = calloc(s->site_count, sizeof(*plans));
	struct probe_error *error = NULL;
	size_t count = 0;

	if (!notes || !index || !plans)
		error = probe_error_no_memory();
	for (size_t i = 0; !error && i < s->site_count; i++) {
		if (s->probes[s->sites[i].probe].module != module || !a->sites[i].wanted ||
			!a->sites[i].is_new)
			continue;
		notes[count] = s->sites[i].note;
		index[count++] = i;
	}
	if (!error && count)
		error = plan_sites(module->object, notes, count, true, plans);
	for (size_t i = 0; !error && i < count; i++) {
		s->sites[index[i]].plan = plans[i];
		error = choose(a, claims, &s->sites[index[i]]);
	}
	free(notes);
	free(index);
	free(plans);
	return error;
}

/* What the registry knows of a site decides whether it is new. */
static void look_up(struct attach *a, size_t i)
{
	struct select_site *site = &a->selection->sites[i];
	struct reg_site *known = site->pc ? registry_site(&a->change->registry, site->pc) : NULL;

	a->sites[i].wanted = site->pc != 0;
	a->sites[i].is_new = !known;
	if (!known)
		return;
	a->sites[i].reg = *known;
	site->chosen = known->plan;
	if (a->persistent && known->plan != PROBE_PLAN_TOGGLE &&
		plan_is_ocaml(site->note->provider)) {
		site->chosen = PROBE_PLAN_REFUSED;
		site->reason = "it is being traced: its own handler cannot be switched on now";
	}
	if (known->plan == PROBE_PLAN_TOGGLE) {
		site->chosen = PROBE_PLAN_REFUSED;
		site->reason = "its own handler is switched on: disable it first";
	}
}

/* A probe all of whose sites are refused is not switched on. */
static void mark_refused(struct attach *a)
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

struct probe_error *attach_plan(struct attach *attach, struct probe_report *report)
{
	struct selection *s = attach->selection;
	struct modules *modules = &attach->change->modules;
	const struct registry *r = &attach->change->registry;
	struct probe_error *error = NULL;
	struct claims claims = {0};
	size_t refused = SIZE_MAX, refusals = 0;

	attach->sites = calloc(s->site_count + 1, sizeof(*attach->sites));
	if (!attach->sites)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->site_count; i++)
		look_up(attach, i);
	for (size_t i = 0; i < r->site_count && !error; i++)
		if (!claims_add(&claims, claim_of(r->sites[i].patch, r->sites[i].length)))
			error = probe_error_no_memory();
	for (size_t i = 0; i < modules->count && !error; i++)
		error = plan_module(attach, &claims, &modules->items[i]);
	free(claims.items);
	for (size_t i = 0; i < s->site_count && !error; i++) {
		const struct select_probe *probe = &s->probes[s->sites[i].probe];

		if (!attach->sites[i].wanted || s->sites[i].chosen != PROBE_PLAN_REFUSED)
			continue;
		attach->sites[i].wanted = false;
		refused = refused == SIZE_MAX ? i : refused;
		refusals++;
		error = report_refusal(report, probe, &s->sites[i]);
	}
	mark_refused(attach);
	if (error || refused == SIZE_MAX || attach->request->keep_going)
		return error;
	return probe_error_new(PROBE_ERROR_REFUSED,
		"%s:%s cannot be patched at %#jx in %s: %s%s (--keep-going does the rest)",
		s->probes[s->sites[refused].probe].provider,
		s->probes[s->sites[refused].probe].name, (uintmax_t)s->sites[refused].pc,
		s->probes[s->sites[refused].probe].module->path, s->sites[refused].reason,
		refusals > 1 ? "; other sites are refused, too" : "");
}
