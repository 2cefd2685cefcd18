/* SPDX-License-Identifier: MIT */
/*
 * Choosing a plan for each site: what the file proves (libprobe/plan.c), what
 * the process has mapped, and what other sites have taken.
 *
 * Sites may stand closer together than a jump is long. The bytes that a patch
 * writes, those that a pun only reads (the displacement is made of them), and
 * those that are moved (nothing runs there any more) must not meet the bytes
 * that another patch writes.
 *
 * Notes that name the very same address share its patch: see attach_site.first.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/array.h"
#include "libprobe/attach.h"
#include "libprobe/report.h"
#include "libprobe/space.h"

enum { FAR_JUMP_BYTES = 14, JUMP_BYTES = 5, CLAIM_MAX = UINT8_MAX };

static const char crosses[] = "the jump would cross a page, and could not be written in one step";
static const char overlaps[] = "its bytes are also those of another site that is patched";
static const char pun_taken[] =
	"the address that its bytes would jump to is in use, or where the heap or the stack grows";

/* ---- Bytes of patches --------------------------------------------------------------- */

/* [start, end) belongs to a patch; what is written in it begins at start. */
struct claim {
	uint64_t start, end;
	uint64_t written_end;
	bool is_left; /* there is no patch any more, but a thread will come back to its end */
};

/* Sorted by start. */
struct claims {
	struct claim *items;
	size_t count;
};

/* `covers` bytes from the patch on are replaced or relied on; `length` of them are written. */
static struct claim claim_of(uint64_t patch, unsigned int length, unsigned int covers)
{
	return (struct claim){
		patch, patch + (covers < length ? length : covers), patch + length, false};
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
	for (size_t i = claims_from(claims, c.start - CLAIM_MAX);
		i < claims->count && claims->items[i].start < c.end; i++) {
		const struct claim *other = &claims->items[i];

		/* The same patch again ends where the thread will come to. */
		if (other->is_left && other->start == c.start && other->end == c.end)
			continue;
		if ((other->start < c.written_end && c.start < other->end) ||
			(other->start < c.end && c.start < other->written_end))
			return true;
	}
	return false;
}

static bool claims_add(struct claims *claims, struct claim c)
{
	struct claim *items = array_grow(claims->items, claims->count, sizeof(*items));
	size_t at;

	if (!items)
		return false;
	claims->items = items;
	at = claims_from(claims, c.start);
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

/* Where a page is among the taken ones, which are sorted, or would be. */
static size_t pun_page_index(const struct attach *a, uint64_t page)
{
	size_t low = 0, high = a->pun_page_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (a->pun_pages[middle] < page)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Is the pun's page free? Notes it as taken. Puns do not share pages. */
static const char *take_pun_page(struct attach *a, const struct select_site *site)
{
	uint64_t target = pun_target(site), page = target & ~(uint64_t)(SPACE_PAGE - 1);
	size_t at = pun_page_index(a, page);
	uint64_t *pages = a->pun_pages;

	if (site->plan.byte_count < 5)
		return "the code ends behind the nop";
	if (crosses_page(target, FAR_JUMP_BYTES) || (at < a->pun_page_count && pages[at] == page) ||
		!space_is_free(&a->change->maps, page, page + SPACE_PAGE))
		return pun_taken;
	pages = reallocarray(pages, a->pun_page_count + 1, sizeof(*pages));
	if (!pages)
		return "out of memory";
	a->pun_pages = pages;
	memmove(pages + at + 1, pages + at, (a->pun_page_count++ - at) * sizeof(*pages));
	pages[at] = page;
	return NULL;
}

/* What a plan would write at a site. A patch of one byte relies on the four behind it. */
static struct claim plan_claim(const struct select_site *site, enum probe_plan plan)
{
	switch (plan) {
	case PROBE_PLAN_TOGGLE:
		return claim_of(site->pc + 1, 1, JUMP_BYTES);
	case PROBE_PLAN_PUN:
		return claim_of(site->pc, 1, JUMP_BYTES);
	case PROBE_PLAN_LONG_NOP:
		return claim_of(site->pc + site->plan.nop_offset, JUMP_BYTES, JUMP_BYTES);
	default:
		return claim_of(site->pc, JUMP_BYTES, site->plan.moved_length);
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

/* A site at the same address as one that is planned. A toggle serves only one probe. */
static void share(const struct selection *s, size_t first, struct select_site *site)
{
	site->chosen = s->sites[first].chosen;
	site->reason = s->sites[first].reason;
	if (site->chosen != PROBE_PLAN_TOGGLE || site->probe == s->sites[first].probe)
		return;
	site->chosen = PROBE_PLAN_REFUSED;
	site->reason = "another note names this address";
}

/*
 * Plans the unpatched sites among order[first..end), which are of one module,
 * by ascending address.
 */
static struct probe_error *plan_module(
	struct attach *a, struct claims *claims, size_t first, size_t end)
{
	struct selection *s = a->selection;
	const struct sdt_note **notes = calloc(end - first, sizeof(*notes));
	struct plan *plans = calloc(end - first, sizeof(*plans));
	struct probe_error *error = NULL;
	size_t count = 0;

	if (!notes || !plans)
		error = probe_error_no_memory();
	for (size_t i = first; !error && i < end; i++)
		if (a->sites[a->order[i]].is_new && a->sites[a->order[i]].first == a->order[i])
			notes[count++] = s->sites[a->order[i]].note;
	if (!error && count)
		error = plan_sites(
			attach_module(a, a->order[first])->object, notes, count, true, plans);
	count = 0;
	for (size_t i = first; !error && i < end; i++) {
		struct attach_site *as = &a->sites[a->order[i]];
		struct select_site *site = &s->sites[a->order[i]];

		if (as->is_new && as->first == a->order[i]) {
			site->plan = plans[count++];
			error = choose(a, claims, site);
		} else if (as->is_new) {
			share(s, as->first, site);
		}
	}
	free(notes);
	free(plans);
	return error;
}

static struct probe_error *plan_modules(struct attach *a)
{
	const struct registry *r = &a->change->registry;
	struct probe_error *error = NULL;
	struct claims claims = {0};

	for (size_t i = 0; i < r->site_count && !error; i++) {
		const struct reg_site *site = &r->sites[i];
		struct claim claim = claim_of(site->patch, site->length, site->covers);

		claim.is_left = site->pc == 0;
		if (!claims_add(&claims, claim))
			error = probe_error_no_memory();
	}
	for (size_t i = 0, end; i < a->order_count && !error; i = end) {
		end = attach_module_end(a, i);
		error = plan_module(a, &claims, i, end);
	}
	free(claims.items);
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

static int compare_sites(const void *a, const void *b, void *data)
{
	const struct select_site *sites = data;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	if (sites[x].pc != sites[y].pc)
		return sites[x].pc < sites[y].pc ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Puts the sites into the order of their addresses, and finds those that share one. */
static struct probe_error *order_sites(struct attach *a)
{
	const struct selection *s = a->selection;

	a->order = calloc(s->site_count + 1, sizeof(*a->order));
	if (!a->order)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->site_count; i++)
		if (a->sites[i].wanted)
			a->order[a->order_count++] = i;
	qsort_r(a->order, a->order_count, sizeof(*a->order), compare_sites, s->sites);
	for (size_t i = 0; i < a->order_count; i++) {
		size_t site = a->order[i], before = i ? a->order[i - 1] : site;
		bool shares = i && s->sites[before].pc == s->sites[site].pc;

		a->sites[site].first = shares ? a->sites[before].first : site;
	}
	return NULL;
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
	struct probe_error *error = NULL;
	size_t refused = SIZE_MAX, refusals = 0;

	attach->sites = calloc(s->site_count + 1, sizeof(*attach->sites));
	if (!attach->sites)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->site_count; i++)
		look_up(attach, i);
	error = order_sites(attach);
	if (!error)
		error = plan_modules(attach);
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
