/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/attach.h"
#include "libprobe/memory.h"
#include "libprobe/procfs.h"
#include "libprobe/report.h"
#include "libprobe/space.h"
#include "libprobe/threads.h"

enum { FAR_JUMP_BYTES = 14, SLOT_BYTES = sizeof(struct probe_slot), ROUGH_STUB_BYTES = 512 };

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
		return "the address that its bytes would jump to is in use";
	pages = reallocarray(a->pun_pages, a->pun_page_count + 1, sizeof(*pages));
	if (!pages)
		return "out of memory";
	a->pun_pages = pages;
	pages[a->pun_page_count++] = page;
	return NULL;
}

/* Decides on a plan for a site that nobody has patched. */
static void choose(struct attach *a, struct select_site *site)
{
	const enum probe_plan *order = a->request->plans ? a->request->plans : plan_default_order;
	size_t count = a->request->plans ? a->request->plan_count : 4;
	const char *first_reason = NULL;

	site->chosen = PROBE_PLAN_REFUSED;
	for (size_t i = 0; i < count && site->chosen == PROBE_PLAN_REFUSED; i++) {
		const char *reason;
		enum probe_plan plan = plan_choose(&site->plan, &order[i], 1, &reason);
		uint64_t patch = site->pc + site->plan.nop_offset;

		if (plan == PROBE_PLAN_TOGGLE && !a->persistent)
			plan = PROBE_PLAN_REFUSED; /* a toggle runs the program's own handler */
		else if (plan == PROBE_PLAN_RELOCATE && crosses_page(site->pc, 5))
			plan = PROBE_PLAN_REFUSED, reason = "the jump would cross a page, and "
							    "could not be written in one step";
		else if (plan == PROBE_PLAN_LONG_NOP && crosses_page(patch, 5))
			plan = PROBE_PLAN_REFUSED, reason = "the jump would cross a page, and "
							    "could not be written in one step";
		else if (plan == PROBE_PLAN_PUN && (reason = take_pun_page(a, site)))
			plan = PROBE_PLAN_REFUSED;
		site->chosen = plan;
		/* The reason of the plan before the pun says more than the pun's. */
		if (plan == PROBE_PLAN_REFUSED && (!first_reason || site->plan.cannot_move))
			first_reason = site->plan.cannot_move ? site->plan.cannot_move : reason;
	}
	if (site->chosen == PROBE_PLAN_REFUSED)
		site->reason = first_reason ? first_reason : "no plan was asked for";
}

/* Plans the unpatched sites of one module. */
static struct probe_error *plan_module(struct attach *a, struct module *module)
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
		choose(a, &s->sites[index[i]]);
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
	if (known->plan == PROBE_PLAN_TOGGLE) {
		site->chosen = PROBE_PLAN_REFUSED;
		site->reason = "its own handler is switched on: disable it first";
	}
}

struct probe_error *attach_plan(struct attach *attach, struct probe_report *report)
{
	struct selection *s = attach->selection;
	struct modules *modules = &attach->change->modules;
	struct probe_error *error = NULL;
	size_t refused = SIZE_MAX, refusals = 0;

	attach->sites = calloc(s->site_count + 1, sizeof(*attach->sites));
	if (!attach->sites)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->site_count; i++)
		look_up(attach, i);
	for (size_t i = 0; i < modules->count && !error; i++)
		error = plan_module(attach, &modules->items[i]);
	for (size_t i = 0; i < s->site_count && !error; i++) {
		const struct select_probe *probe = &s->probes[s->sites[i].probe];

		if (!attach->sites[i].wanted || s->sites[i].chosen != PROBE_PLAN_REFUSED)
			continue;
		attach->sites[i].wanted = false;
		refused = refused == SIZE_MAX ? i : refused;
		refusals++;
		error = report_refusal(report, probe, &s->sites[i]);
	}
	if (error || refused == SIZE_MAX || attach->request->keep_going)
		return error;
	return probe_error_new(PROBE_ERROR_REFUSED,
		"%s:%s cannot be patched at %#jx in %s: %s%s (--keep-going does the rest)",
		s->probes[s->sites[refused].probe].provider,
		s->probes[s->sites[refused].probe].name, (uintmax_t)s->sites[refused].pc,
		s->probes[s->sites[refused].probe].module->path, s->sites[refused].reason,
		refusals > 1 ? "; other sites are refused, too" : "");
}

/* ---- The session -------------------------------------------------------------------- */

static uint8_t log2_up(uint64_t value)
{
	uint8_t bits = 0;

	while ((UINT64_C(1) << bits) < value)
		bits++;
	return bits;
}

/* The layout of a session's data; see arch/layout.h. */
static void lay_out(struct reg_session *session, size_t probes, size_t ring_bytes)
{
	uint64_t sets = session->cpus + 1;

	session->slot_capacity = probes;
	/* CPUs share no cache line. */
	session->slots_shift = log2_up(probes * SLOT_BYTES < 64 ? 64 : probes * SLOT_BYTES);
	session->data_size = SPACE_PAGE + (sets << session->slots_shift);
	session->data_size = (session->data_size + SPACE_PAGE - 1) & ~(uint64_t)(SPACE_PAGE - 1);
	if (!ring_bytes)
		return;
	session->ring_bytes = UINT32_C(1) << log2_up(ring_bytes);
	session->rings_shift =
		log2_up(session->ring_bytes + sizeof(struct ring_header) + RING_RECORD_MAX);
	session->rings = session->data_size; /* an offset, until the address is known */
	session->data_size += (uint64_t)2 * session->cpus << session->rings_shift;
}

/* Home has to be somewhere before there is data: near the first site. */
static struct probe_error *make_home(struct attach *a)
{
	const struct selection *s = a->selection;
	const struct module *near =
		s->probe_count ? s->probes[0].module : &a->change->modules.items[0];
	struct probe_error *error;
	uint64_t unused;

	if (a->change->registry.home)
		return NULL;
	error = change_alloc_code(a->change, s->site_count * ROUGH_STUB_BYTES + SPACE_PAGE,
		near->start, near->end, &unused);
	a->change->taken.count = 0;
	return error;
}

struct probe_error *attach_session(struct attach *attach, size_t ring_bytes)
{
	struct change *c = attach->change;
	struct reg_session session = {
		.id = c->registry.next_session++,
		.flags = ring_bytes ? REG_SESSION_RECORDS : 0,
		.owner = getpid(), /* also of a persistent one, until it is committed */
		.owner_start = procfs_start_time(getpid()),
		.cpus = sysconf(_SC_NPROCESSORS_CONF),
	};
	struct data_header header = {.magic = DATA_MAGIC, .session = session.id, .guard = 1};
	struct probe_error *error;
	struct reg_session *added;

	lay_out(&session, attach->selection->probe_count + attach->spare_probes, ring_bytes);
	error = make_home(attach);
	if (!error)
		error = change_map_data(c, session.data_size, &session.data, &attach->fd);
	if (error)
		return error;
	session.slots = session.data + SPACE_PAGE;
	if (session.rings)
		session.rings += session.data;
	header.home = c->registry.home;
	if (pwrite(attach->fd, &header, sizeof(header), 0) != sizeof(header))
		return probe_error_new(PROBE_ERROR_SYSTEM, "cannot write shared memory");
	added = registry_add_session(&c->registry);
	if (!added)
		return probe_error_no_memory();
	*added = session;
	attach->session = session.id;
	attach->data_size = session.data_size;
	return NULL;
}

void attach_deinit(struct attach *attach)
{
	if (attach->fd >= 0)
		close(attach->fd);
	free(attach->sites);
	free(attach->pun_pages);
	attach->fd = -1;
	attach->sites = NULL;
	attach->pun_pages = NULL;
}

void attach_report(const struct attach *attach, struct probe_report *report)
{
	const struct selection *s = attach->selection;

	report->probes += s->probe_count;
	for (size_t i = 0; i < s->site_count; i++) {
		if (!attach->sites[i].wanted)
			continue;
		report->sites++;
		report->plans[s->sites[i].chosen]++;
	}
	report->plans[PROBE_PLAN_REFUSED] = report->refusal_count;
	if (attach->change->stop_ns > report->stop_ns)
		report->stop_ns = attach->change->stop_ns;
}
