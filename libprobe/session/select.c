/* SPDX-License-Identifier: MIT */
/*
 * Switches a session's single probes off and on again. Data about a probe that is off, or whose
 * library was closed, stays: counter, sites' numbers, bindings, so counts continue.
 *
 * A gathered pair is switched as a whole: without end events, start events would fill threads'
 * stacks. Its open pairs are forgotten before it is switched on again.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/session/session.h"

/* Is a probe switched only with its pair? Gathering and spans need both events. */
static bool is_of_pair(const struct probe_session *s, size_t probe)
{
	return session_has_pairs(s) && s->known[probe].part.role != PAIR_NONE;
}

/* Finds the probes that should be on; NULL if memory is short. */
static bool *find_wanted(const struct probe_session *s, const bool *on)
{
	AUTO_FREE bool *pair_off = calloc(s->pairs.count + (size_t)1, 1);
	bool *wanted = pair_off ? calloc(s->probe_count + (size_t)1, 1) : NULL;

	if (!wanted)
		return NULL;
	for (size_t i = 0; i < s->probe_count; i++)
		if (is_of_pair(s, i) && !on[i])
			pair_off[s->known[i].part.pair] = true;
	for (size_t i = 0; i < s->probe_count; i++)
		wanted[i] = is_of_pair(s, i) ? !pair_off[s->known[i].part.pair] : on[i];
	return wanted;
}

/* ---- Off -------------------------------------------------------------------------------- */

static struct probe_error *switch_off(struct probe_session *s, struct change *c, const bool *wanted)
{
	struct probe_error *error;
	size_t count = 0;

	for (size_t i = 0; i < s->probe_count; i++) {
		struct reg_probe *probe = registry_probe(&c->registry, s->known[i].key, s->id);

		if (wanted[i] || s->known[i].off)
			continue;
		if (probe)
			probe->refcount = 0;
		count++;
	}
	if (!count)
		return NULL;
	error = uninstall_unreferenced(c);
	for (size_t i = 0; i < s->probe_count && !error; i++)
		s->known[i].off = s->known[i].off || !wanted[i];
	return error ?: change_reread_maps(c);
}

/* ---- On --------------------------------------------------------------------------------- */

/* For each selected probe, the session's probe and the counter. */
struct again {
	size_t *probes;
	uint32_t *slots;
	uint32_t *numbers; /* a site's number in records */
};

/*
 * Finds the session's probe with a key, only among the marked ones unless `marked` is NULL; or
 * SIZE_MAX. If several files were mapped at its address one after the other, the last one counts.
 */
static size_t find_marked(const struct probe_session *s, const bool *marked, uint64_t key)
{
	for (size_t i = s->probe_count; i-- > 0;)
		if ((!marked || marked[i]) && s->known[i].key == key)
			return i;
	return SIZE_MAX;
}

/* Returns the first site of a session's probe. Its other sites follow. */
static size_t first_site(const struct probe_session *s, size_t known)
{
	size_t at = 0;

	while (at < s->site_count && s->sites[at].probe != known)
		at++;
	return at;
}

/* Returns true if the selected probe is the session's probe `known`, with unchanged notes. */
static bool is_same(const struct probe_session *s, size_t known, const struct selection *selection,
	const struct select_probe *probe)
{
	size_t at = first_site(s, known), count = 0;

	while (at + count < s->site_count && s->sites[at + count].probe == known)
		count++;
	if (count != probe->site_count || strcmp(probe->module->path, s->probes[known].path) != 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct select_site *site = &selection->sites[probe->first_site + i];

		if (s->sites[at + i].pc != site->pc ||
			strcmp(s->sites[at + i].args, site->note->args) != 0)
			return false;
	}
	return true;
}

/* Finds, for each selected probe, the marked probe of the session. */
static struct probe_error *match_all(const struct probe_session *s, const bool *marked,
	const struct selection *selection, struct again *again)
{
	for (size_t i = 0; i < selection->probe_count; i++) {
		const struct select_probe *probe = &selection->probes[i];
		size_t known = find_marked(s, marked, probe->key), first = first_site(s, known);

		if (!is_same(s, known, selection, probe))
			return probe_error_new(PROBE_ERROR_STATE, "%s:%s: %s is another file now",
				probe->provider, probe->name, probe->module->path);
		again->probes[i] = known;
		again->slots[i] = s->known[known].slot;
		for (size_t k = 0; k < probe->site_count; k++)
			again->numbers[probe->first_site + k] = s->sites[first + k].number;
	}
	return NULL;
}

/* Forgets open pairs of probes whose stubs are off. */
static void forget_flights(const struct probe_session *s, const struct again *again, size_t count)
{
	const struct reg_session *l = &s->data.rings.layout;
	size_t bytes = data_flight_bytes(l);

	for (size_t k = 0; k < count; k++) {
		const struct pair_part *part = &s->known[again->probes[k]].part;

		if (part->role != PAIR_NONE && part->pair < s->pairs.left_count)
			s->pairs.left[part->pair] = 0;
	}
	for (uint32_t i = 0; l->flights && i < l->flight_entries; i++) {
		struct probe_flight *flight =
			(struct probe_flight *)(s->data.rings.base + (l->flights - l->data) +
						i * bytes);

		for (size_t k = 0; k < count; k++) {
			const struct pair_part *part = &s->known[again->probes[k]].part;

			if (part->role != PAIR_NONE && flight->state == FLIGHT_PAIR + part->pair)
				flight->depth = 0;
		}
	}
}

/* Installs probes again. With `served`, all of them may be refused. */
static struct probe_error *install_again(struct probe_session *s, struct change *c,
	struct selection *selection, const struct again *again, bool served,
	struct probe_report *report)
{
	AUTO(transaction_end) struct transaction t = transaction_of(c, TRANSACTION_ADDS);
	AUTO(install_deinit) struct install install = session_attach(s, &t, selection);
	struct probe_error *error;

	install.stubs.numbers = again->numbers;
	install.stubs.slots = again->slots;
	install.served = served;
	error = install_all(&install, report);
	for (size_t i = 0; i < selection->probe_count && !error; i++)
		s->known[again->probes[i]].off = false;
	for (size_t i = 0; i < selection->site_count && !error; i++)
		s->sites[again->numbers[i]].is_apart &= install.is_copy;
	return error;
}

/* After AGAIN_WAS_CLOSED, open pairs continue. */
enum again_why { AGAIN_WAS_OFF, AGAIN_WAS_CLOSED };

/* Installs those marked probes again that are mapped. */
static struct probe_error *install_marked(struct probe_session *s, struct change *c,
	const bool *marked, enum again_why why, struct probe_report *report)
{
	AUTO(selection_deinit) struct selection selection = {0};
	/* Select by keys: the patterns may have been freed. */
	struct probe_error *error = select_probes(&c->modules, NULL, 0, &selection);
	AUTO_FREE uint32_t *slots = NULL, *numbers = NULL;
	AUTO_FREE size_t *probes = NULL;
	struct again again;

	if (error)
		return error;
	for (size_t i = 0; i < selection.probe_count; i++)
		selection.probes[i].unwanted =
			find_marked(s, marked, selection.probes[i].key) == SIZE_MAX;
	selection_drop_unwanted(&selection);
	probes = calloc(selection.probe_count + 1, sizeof(*probes));
	slots = calloc(selection.probe_count + 1, sizeof(*slots));
	numbers = calloc(selection.site_count + 1, sizeof(*numbers));
	if (!probes || !slots || !numbers)
		return probe_error_no_memory();
	again = (struct again){probes, slots, numbers};
	error = match_all(s, marked, &selection, &again);
	if (error)
		return error;
	if (!selection.probe_count)
		return probe_error_new(
			PROBE_ERROR_STATE, "process %d no longer has the library", s->target->pid);
	if (why == AGAIN_WAS_OFF)
		forget_flights(s, &again, selection.probe_count);
	return install_again(s, c, &selection, &again, why == AGAIN_WAS_CLOSED, report);
}

/* ---- Libraries opened again ------------------------------------------------------------- */

struct probe_error *session_install_returned(struct probe_session *s, struct change *c,
	struct selection *selection, struct probe_report *report)
{
	AUTO_FREE bool *marked = calloc(s->probe_count + (size_t)1, 1);
	struct probe_error *error = NULL;
	bool any = false;

	if (!marked)
		return probe_error_no_memory();
	for (size_t i = 0; i < selection->probe_count; i++) {
		struct select_probe *probe = &selection->probes[i];
		size_t known = find_marked(s, NULL, probe->key);

		probe->unwanted = known != SIZE_MAX && is_same(s, known, selection, probe);
		if (probe->unwanted)
			any = marked[known] = true;
	}
	if (any)
		error = install_marked(s, c, marked, AGAIN_WAS_CLOSED, report);
	if (any && !error && c->target == s->target)
		error = session_watch(s, &c->registry);
	if (!error)
		selection_drop_unwanted(selection);
	return error;
}

/* ---- Off and on ------------------------------------------------------------------------- */

static struct probe_error *select_once(
	struct probe_session *session, const bool *wanted, struct probe_report *report)
{
	AUTO_FREE bool *marked = calloc(session->probe_count + (size_t)1, 1);
	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(session->target, &c);
	const struct reg_session *listed;
	bool any = false;

	if (!error) {
		listed = registry_session(&c.registry, session->id);
		if (!listed || listed->stamp != session->data.rings.layout.stamp)
			error = probe_error_new(PROBE_ERROR_STATE,
				"process %d has become another program, or another controller has "
				"ended the session",
				session->target->pid);
		else if (!marked)
			error = probe_error_no_memory();
	}
	error = error ?: switch_off(session, &c, wanted);
	for (size_t i = 0; i < session->probe_count && !error; i++)
		any |= marked[i] = session->known[i].off && wanted[i];
	if (any)
		error = install_marked(session, &c, marked, AGAIN_WAS_OFF, report);
	error = error ?: session_watch(session, &c.registry);
	if (c.stop_ns > report->stop_ns)
		report->stop_ns = c.stop_ns;
	return error;
}

struct probe_error *probe_session_select(
	struct probe_session *session, const bool *on, struct probe_report *report)
{
	struct attempt attempt = attempt_begin(session->target, report);
	AUTO_FREE bool *wanted = NULL;

	if (session->stopped || session->opened)
		return probe_error_new(PROBE_ERROR_STATE,
			"the session has ended, or belongs to another controller");
	if (session->group.leader || session->group.member_count)
		return probe_error_new(PROBE_ERROR_STATE,
			"the session shares its stubs with others (probe_sessions_start())");
	wanted = find_wanted(session, on);
	if (!wanted)
		return probe_error_no_memory();
	/* A child of vfork(2) at the gate would keep its parent from being stopped. */
	gate_arm(&session->gates.exec.gate, false);
	while (attempt_next(&attempt))
		attempt.error = select_once(session, wanted, report);
	gate_arm(&session->gates.exec.gate, true);
	return attempt.error;
}

bool probe_session_is_selected(const struct probe_session *session, size_t probe)
{
	return !session->stopped && probe < session->probe_count && !session->known[probe].off;
}

/* ==== Switch ================================================================================== */

/*
 * Switches records on and off while stubs run, by words that stubs test (arch_stub.on and .off). No
 * thread is stopped. Hits that have already passed the test complete.
 */

static _Atomic uint32_t *switch_of(const struct probe_session *s)
{
	return (_Atomic uint32_t *)(s->data.rings.base + DATA_SWITCH_OFFSET);
}

/* Set by a hit that finds no room in its ring, with options->until_full. */
static _Atomic uint32_t *full_of(const struct probe_session *s)
{
	return switch_of(s) + 1;
}

/* The target can write the switch, so its value may be anything. */
bool probe_session_is_on(const struct probe_session *session)
{
	return session->options.switched && session->data.rings.base &&
	       atomic_load_explicit(switch_of(session), memory_order_relaxed) &&
	       !atomic_load_explicit(full_of(session), memory_order_relaxed);
}

void probe_session_switch(struct probe_session *session, size_t probe, bool on)
{
	const struct reg_session *l = &session->data.rings.layout;
	uint64_t offset;

	if (!session->options.switched || !session->data.rings.base)
		return;
	if (probe == SIZE_MAX) {
		/* Clear the switch first: a hit could find it on although no ring is full. */
		if (!on)
			atomic_store_explicit(switch_of(session), false, memory_order_seq_cst);
		atomic_store_explicit(full_of(session), 0, memory_order_seq_cst);
		if (on)
			atomic_store_explicit(switch_of(session), true, memory_order_seq_cst);
		return;
	}
	if (probe >= session->probe_count)
		return;
	offset = l->slots - l->data + ((uint64_t)l->cpus << l->slots_shift) +
		 session->known[probe].slot * sizeof(struct probe_slot) +
		 offsetof(struct probe_slot, off);
	atomic_store_explicit(
		(_Atomic uint64_t *)(session->data.rings.base + offset), !on, memory_order_relaxed);
}
