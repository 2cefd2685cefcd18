/* SPDX-License-Identifier: MIT */
/*
 * Finds the probes that are on, and compares the bytes of their sites, because the registry says
 * what controllers did, not whether it is still so. Needs no stop and no lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/patch/patch.h"

/* ==== Status ================================================================================== */

enum { BUSY_TRIES = 50, BUSY_WAIT_NS = 10000000 };
/*
 * A table of cells may have a million of them (`enable -t count -k ...`), and reading a page for
 * the first time allocates it in the target. So larger tables are left to the commands that show
 * them.
 */
#define CELLS_BYTES_MAX (UINT64_C(4) << 20)

/* Memory of a target that tells its probes' state. */
struct sites_view {
	/* For each probe in turn: semaphores for tracers, then for handlers. */
	struct edits semaphores;
	/* a byte for each OCaml site, in order */
	struct edits toggles;
	/* For each persistent session: all its slots, or NULL if unreadable. */
	uint8_t **counters;
	/* For each session with cells: the hits of each slot, or NULL. */
	uint64_t **gathered;
	struct edits text;
	enum site_state *states; /* the state of each site of the registry */
};

static struct probe_error *read_all_semaphores(
	struct edits *edits, pid_t pid, const struct selection *s)
{
	AUTO_FREE uint64_t *addresses = calloc(s->site_count + 1, sizeof(*addresses));
	bool ok = addresses != NULL;
	struct probe_error *error;

	for (size_t i = 0; i < s->probe_count && ok; i++) {
		size_t count = semaphores_of(s, &s->probes[i], false, addresses);

		for (size_t k = 0; k < count && ok; k++)
			ok = edits_add(edits, addresses[k], sizeof(uint16_t)) != NULL;
		count = semaphores_of(s, &s->probes[i], true, addresses);
		for (size_t k = 0; k < count && ok; k++)
			ok = edits_add(edits, addresses[k], sizeof(uint16_t)) != NULL;
	}
	error = ok ? edits_prepare(edits) : probe_error_no_memory();
	return error ?: edits_read(edits, pid);
}

static bool may_have_toggle(const struct selection *s, const struct select_site *site)
{
	return site->pc && arch_host()->toggle && sdt_is_ocaml(s->probes[site->probe].kind);
}

/* Reads a session's slots, one set after the other. *ret stays NULL if they are unreadable. */
static struct probe_error *read_counters(
	uint8_t **ret, pid_t pid, const struct reg_session *session)
{
	size_t bytes = session->slot_count * sizeof(struct probe_slot), sets = session->cpus + 1;
	AUTO_FREE struct memory_piece *pieces = calloc(sets, sizeof(*pieces));
	struct probe_error *error;

	*ret = calloc(sets, bytes + 1);
	if (!*ret || !pieces)
		return probe_error_no_memory();
	for (size_t i = 0; i < sets; i++)
		pieces[i] = (struct memory_piece){
			session->slots + ((uint64_t)i << session->slots_shift), *ret + i * bytes,
			bytes};
	error = memory_read_pieces(pid, pieces, bytes ? sets : 0);
	if (!error)
		return NULL;
	free(*ret);
	*ret = NULL;
	probe_error_free(error);
	return NULL;
}

static struct probe_error *sites_view_read(struct sites_view *view, pid_t pid,
	const struct maps *maps, const struct registry *r, const struct selection *s)
{
	AUTO(served_end) struct served served = served_of(pid);
	struct probe_error *error = read_all_semaphores(&view->semaphores, pid, s);

	for (size_t i = 0; i < s->site_count && !error; i++)
		if (may_have_toggle(s, &s->sites[i]) &&
			!edits_add(&view->toggles, s->sites[i].pc + arch_host()->toggle->offset, 1))
			error = probe_error_no_memory();
	error = error
		?: edits_prepare(&view->toggles)
		?: edits_read(&view->toggles, pid)
		?: site_read_all(r, pid, &view->text, &view->states);
	view->counters = calloc(r->session_count + 1, sizeof(*view->counters));
	view->gathered = calloc(r->session_count + 1, sizeof(*view->gathered));
	if (!error && !(view->counters && view->gathered))
		error = probe_error_no_memory();
	for (size_t i = 0; i < r->session_count && !error; i++) {
		const struct reg_session *session = &r->sessions[i];
		uint64_t cells;

		/* The program may have mapped other memory over the data. */
		if (!(session->flags & REG_SESSION_PERSISTENT) || !own_has_data(maps, session))
			continue;
		cells = data_has_table(session) ? session->entries : session->slot_capacity;
		if (!session->cell_bytes)
			error = read_counters(&view->counters[i], pid, session);
		else if (cells * session->cell_bytes <=
			 CELLS_BYTES_MAX / (session->cpus + UINT64_C(1)))
			view->gathered[i] = snapshot_hits(&(struct snapshot){.fd = -1,
								  .pid = pid,
								  .served = &served,
								  .layout = *session},
				&(struct view_keys){0});
	}
	return error;
}

/* All data that is read from a target at one time. */
struct look {
	struct maps maps;
	struct modules modules;
	struct registry registry;
	struct selection selection;
	struct sites_view view;
};

static void look_deinit(struct look *look)
{
	struct sites_view *view = &look->view;

	for (size_t i = 0; view->counters && i < look->registry.session_count; i++)
		free(view->counters[i]);
	for (size_t i = 0; view->gathered && i < look->registry.session_count; i++)
		free(view->gathered[i]);
	free(view->counters);
	free(view->gathered);
	edits_deinit(&view->semaphores);
	edits_deinit(&view->toggles);
	edits_deinit(&view->text);
	free(view->states);
	selection_deinit(&look->selection);
	registry_deinit(&look->registry);
	modules_deinit(&look->modules);
	maps_deinit(&look->maps);
	*look = (struct look){0};
}

/*
 * Reads a target. Reads it again if a controller is changing it, because then the registry names
 * sites that are not patched.
 */
static struct probe_error *look_at(pid_t pid, struct look *look)
{
	for (int i = 0;; i++) {
		bool busy = lock_is_taken(pid), any_inconsistent = false;
		struct probe_error *error;

		error = maps_read(pid, &look->maps)
			?: modules_read_mapped(
				procfs_living(pid), &look->maps, NULL, &look->modules)
			?: registry_load(pid, &look->maps, &look->registry)
			?: recall_probes(&look->modules, pid, &look->maps, &look->registry)
			?: select_probes(&look->modules, NULL, 0, &look->selection)
			?: sites_view_read(
				&look->view, pid, &look->maps, &look->registry, &look->selection);
		for (size_t k = 0; k < look->registry.site_count && !error; k++)
			any_inconsistent |=
				look->registry.sites[k].pc && look->view.states[k] != SITE_PATCHED;
		if (error || i == BUSY_TRIES || !any_inconsistent ||
			!(busy || lock_is_taken(pid) || registry_is_stale(&look->registry, pid)))
			return error;
		look_deinit(look);
		nanosleep(&(struct timespec){.tv_nsec = BUSY_WAIT_NS}, NULL);
	}
}

/* ---- Probes --------------------------------------------------------------------------- */

/* Finds a probe's hits in a persistent session. Returns false if unknown. */
static bool find_hits(const struct sites_view *view, const struct registry *r,
	const struct reg_probe *probe, uint64_t *ret)
{
	const struct reg_session *session = registry_session(r, probe->session);
	const uint8_t *counters = view->counters[session - r->sessions];
	const uint64_t *gathered = view->gathered[session - r->sessions];

	*ret = 0;
	if (!session->cell_bytes) {
		for (uint32_t set = 0; counters && set <= session->cpus; set++) {
			struct probe_slot slot;

			memcpy(&slot,
				counters + ((size_t)set * session->slot_count + probe->slot) *
						   sizeof(slot),
				sizeof(slot));
			*ret += slot.hits;
		}
		return counters != NULL;
	}
	/* For pairs, cells count only end events whose start event was found. */
	if (!gathered || probe->part || probe->slot >= session->slot_capacity)
		return false;
	*ret = gathered[probe->slot];
	return true;
}

/* Returns the part of a semaphore's value that ending sessions have added. */
static uint32_t ending_part(const struct registry *r, uint64_t key, uint64_t address)
{
	size_t count;
	const struct reg_semaphore *items = registry_semaphores(r, key, &count);
	uint32_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		const struct reg_probe *probe = registry_probe(r, key, items[i].session);

		if (items[i].address == address && (!probe || !probe->refcount))
			sum += items[i].added;
	}
	return sum;
}

/*
 * Returns the highest of a probe's semaphores, from index *at on. Other tools may have raised one.
 */
static uint32_t highest_semaphore(
	const struct edits *edits, size_t *at, size_t count, const struct registry *r, uint64_t key)
{
	uint32_t highest = 0, ending;

	for (size_t i = 0; i < count; i++) {
		const uint8_t *found = edits_found(edits, *at);
		uint16_t value;

		ending = ending_part(r, key, edits->items[(*at)++].address);
		if (!found)
			continue;
		memcpy(&value, found, sizeof(value));
		if (value > ending && value - ending > highest)
			highest = value - ending;
	}
	return highest;
}

/*
 * Counts an OCaml site as patched or inconsistent. It is inconsistent if its handler is called
 * without users, or has users but is not called.
 */
static void add_toggle(const struct sites_view *view, size_t toggle, uint32_t handlers,
	bool patched, struct probe_status *ret)
{
	const uint8_t *found = edits_found(&view->toggles, toggle);
	bool on = found && *found == arch_host()->toggle->on;

	if (!on && !handlers)
		return;
	ret->patched += on && !patched;
	if (on == (handlers > 0))
		ret->plans[plan_toggle.id]++;
	else
		ret->inconsistent++;
}

/*
 * Finds a probe's state. `handlers` is the number of its handlers' users, *toggle the next index in
 * view->toggles.
 */
static struct probe_error *probe_state(struct probe_target *target, const struct registry *r,
	const struct sites_view *view, const struct selection *s, const struct select_probe *probe,
	uint32_t handlers, size_t *toggle, struct probe_status *ret)
{
	*ret = (struct probe_status){.provider = target_string(target, probe->provider),
		.name = target_string(target, probe->name),
		.path = target_string(target, probe->module->path),
		.sites = probe->site_count};
	if (!ret->provider || !ret->name || !ret->path)
		return probe_error_no_memory();
	for (size_t i = 0; i < probe->site_count; i++) {
		uint64_t pc = s->sites[probe->first_site + i].pc;
		const struct reg_site *site = pc ? registry_site(r, pc) : NULL;

		/* An unwanted site is kept only until another tool's bytes are gone. */
		bool wanted = site && site_is_wanted(r, site);

		bool patched = wanted && view->states[site - r->sites] == SITE_PATCHED;

		ret->inconsistent += wanted && !patched;
		ret->patched += patched;
		if (patched)
			ret->plans[site->plan]++;
		if (!may_have_toggle(s, &s->sites[probe->first_site + i]))
			continue;
		/* our call replaces the toggle, and calls the handler if it has users */
		if (wanted && site->count)
			ret->plans[plan_toggle.id] += patched && handlers > 0;
		else
			add_toggle(view, *toggle, handlers, patched, ret);
		++*toggle;
	}
	return NULL;
}

static struct probe_error *probe_states(
	struct probe_target *target, const struct look *look, struct probe_status *states)
{
	const struct registry *r = &look->registry;
	const struct selection *s = &look->selection;
	const struct sites_view *view = &look->view;
	AUTO_FREE uint64_t *addresses = calloc(s->site_count + 1, sizeof(*addresses));
	struct probe_error *error = addresses ? NULL : probe_error_no_memory();
	size_t at = 0, toggle = 0;

	for (size_t i = 0; i < s->probe_count && !error; i++) {
		const struct select_probe *probe = &s->probes[i];
		uint32_t ours = registry_refcount(r, probe->key, false);
		uint32_t raised = highest_semaphore(&view->semaphores, &at,
			semaphores_of(s, probe, false, addresses), r, probe->key);
		uint32_t handlers = highest_semaphore(&view->semaphores, &at,
			semaphores_of(s, probe, true, addresses), r, probe->key);
		const struct reg_probe *known = registry_persistent(r, probe->key);

		error = probe_state(target, r, view, s, probe, handlers, &toggle, &states[i]);
		states[i].refcount = (ours > raised ? ours : raised) + handlers;
		states[i].enabled = states[i].refcount > 0;
		/* Hits of traces and other tools are not read. */
		states[i].uncounted = known ? !find_hits(view, r, known, &states[i].hits)
					    : states[i].enabled || states[i].patched;
	}
	return error;
}

struct probe_error *probe_target_status(
	struct probe_target *target, struct probe_status **ret, size_t *count_ret)
{
	struct probe_status *states = NULL;
	AUTO(look_deinit) struct look look = {0};
	struct probe_error *error = look_at(target->pid, &look);

	if (!error) {
		states = calloc(look.selection.probe_count + 1, sizeof(*states));
		error = states ? probe_states(target, &look, states) : probe_error_no_memory();
	}
	if (error) {
		free(states);
	} else {
		*ret = states;
		*count_ret = look.selection.probe_count;
	}
	return error;
}

/* ---- Sites with wrong bytes ----------------------------------------------------------- */

void probe_fault_text(char text[PROBE_FAULT_BYTES], enum probe_site_fault fault,
	const uint8_t *bytes, size_t length)
{
	static const char *const words[] = {
		[PROBE_SITE_RESTORED] = ", as before it was patched",
		[PROBE_SITE_COVERED] = ": a breakpoint covers our jump",
		[PROBE_SITE_OVERWRITTEN] = ", which something else has written",
	};
	size_t used = (size_t)snprintf(text, PROBE_FAULT_BYTES, "it holds");

	for (size_t i = 0; i < length && i < sizeof(((struct reg_site *)0)->patched); i++)
		used += (size_t)snprintf(text + used, PROBE_FAULT_BYTES - used, " %02x", bytes[i]);
	snprintf(text + used, PROBE_FAULT_BYTES - used, "%s", words[fault]);
}

/* Calls `visit` for each probe of a bad site, or once for a gate, which has no probe. */
static void hand_over(const struct look *look, struct probe_bad_site *bad,
	void (*visit)(const struct probe_bad_site *site, void *data), void *data)
{
	const struct selection *s = &look->selection;
	bool any = false;

	for (size_t i = 0; i < s->site_count; i++) {
		const struct select_probe *probe = &s->probes[s->sites[i].probe];

		if (s->sites[i].pc != bad->pc)
			continue;
		bad->provider = probe->provider;
		bad->name = probe->name;
		visit(bad, data);
		any = true;
	}
	if (!any)
		visit(bad, data);
}

struct probe_error *probe_target_bad_sites(struct probe_target *target,
	void (*visit)(const struct probe_bad_site *site, void *data), void *data)
{
	AUTO(look_deinit) struct look look = {0};
	struct probe_error *error = look_at(target->pid, &look);

	for (size_t i = 0; i < look.registry.site_count && !error; i++) {
		const struct reg_site *site = &look.registry.sites[i];
		const struct module *module = modules_find(&look.modules, site->patch);
		struct probe_bad_site bad = {.pc = site->pc,
			.patch = site->patch,
			.bytes = edits_found(&look.view.text, i),
			.length = site->length,
			.left = !site_is_wanted(&look.registry, site)};

		if (!site->pc || site_is_bare(&look.registry, site) || !module ||
			!site_fault(look.view.states[i], &bad.fault) ||
			(bad.left && bad.fault == PROBE_SITE_RESTORED) ||
			!site_is_in_file(&look.modules, site))
			continue;
		bad.path = module->path;
		hand_over(&look, &bad, visit, data);
	}
	return error;
}
