/* SPDX-License-Identifier: MIT */
/*
 * Switches single probes of a session off and on again. The session keeps what it knows of a probe
 * that is off: its counter, the numbers of its sites, and what they are bound to. So its counts
 * continue later.
 *
 * A pair that is gathered is switched as one. If its begins went on without an end, they
 * would fill their stacks, and what begins while it is off would not be known when it
 * ends: so what had begun is forgotten before it is switched on again.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/patch/attempt.h"
#include "libprobe/session/session.h"
#include "libprobe/target/target.h"

/* A record is of one end; only gathering, and spans, need both. */
static bool is_of_pair(const struct probe_session *s, size_t probe)
{
	return session_has_pairs(s) && s->known[probe].part.role != PAIR_NONE;
}

/* Which probes should be on; NULL without memory. */
static bool *find_wanted(const struct probe_session *s, const bool *on)
{
	bool *wanted = calloc(s->probe_count + (size_t)1, 1);
	bool *pair_off = calloc(s->pairs + (size_t)1, 1);

	for (size_t i = 0; wanted && pair_off && i < s->probe_count; i++)
		if (is_of_pair(s, i) && !on[i])
			pair_off[s->known[i].part.pair] = true;
	for (size_t i = 0; wanted && pair_off && i < s->probe_count; i++)
		wanted[i] = is_of_pair(s, i) ? !pair_off[s->known[i].part.pair] : on[i];
	if (!pair_off) {
		free(wanted);
		wanted = NULL;
	}
	free(pair_off);
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
	return error ? error : change_reread_maps(c);
}

/* ---- On --------------------------------------------------------------------------------- */

/* For each probe of a selection, its index in the session; and so on. */
struct again {
	size_t *probes;
	uint32_t *slots;
	uint32_t *numbers; /* of each site */
};

static bool again_init(struct again *again, const struct selection *selection)
{
	*again = (struct again){
		.probes = calloc(selection->probe_count + 1, sizeof(*again->probes)),
		.slots = calloc(selection->probe_count + 1, sizeof(*again->slots)),
		.numbers = calloc(selection->site_count + 1, sizeof(*again->numbers)),
	};
	return again->probes && again->slots && again->numbers;
}

static void again_deinit(struct again *again)
{
	free(again->probes);
	free(again->slots);
	free(again->numbers);
}

/* The session's probe with a key that is off and should be on; SIZE_MAX: none. */
static size_t find_off(const struct probe_session *s, const bool *wanted, uint64_t key)
{
	for (size_t i = 0; i < s->probe_count; i++)
		if (s->known[i].off && wanted[i] && s->known[i].key == key)
			return i;
	return SIZE_MAX;
}

static void keep_wanted(
	const struct probe_session *s, const bool *wanted, struct selection *selection)
{
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].unwanted =
			find_off(s, wanted, selection->probes[i].key) == SIZE_MAX;
	selection_drop_unwanted(selection);
}

/* Sites are bound according to their notes, which must not have changed. */
static struct probe_error *match_sites(const struct probe_session *s,
	const struct selection *selection, size_t index, struct again *again)
{
	const struct select_probe *probe = &selection->probes[index];
	const struct probe_session_probe *known = &s->probes[again->probes[index]];
	size_t at = 0, matched = 0;

	while (at < s->site_count && s->sites[at].probe != again->probes[index])
		at++;
	for (; matched < probe->site_count && at + matched < s->site_count; matched++) {
		const struct session_site *site = &s->sites[at + matched];

		if (site->probe != again->probes[index] ||
			site->pc != selection->sites[probe->first_site + matched].pc)
			break;
		again->numbers[probe->first_site + matched] = site->number;
	}
	if (matched == probe->site_count && strcmp(probe->module->path, known->path) == 0)
		return NULL;
	return probe_error_new(PROBE_ERROR_STATE, "%s:%s: %s is another file now", probe->provider,
		probe->name, probe->module->path);
}

static struct probe_error *match_all(const struct probe_session *s, const bool *wanted,
	const struct selection *selection, struct again *again)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < selection->probe_count && !error; i++) {
		again->probes[i] = find_off(s, wanted, selection->probes[i].key);
		again->slots[i] = s->known[again->probes[i]].slot;
		error = match_sites(s, selection, i, again);
	}
	return error;
}

/* No stub of these pairs runs now. */
static void forget_flights(const struct probe_session *s, const struct again *again, size_t count)
{
	const struct reg_session *l = &s->rings.layout;
	size_t bytes = data_flight_bytes(l->flight_depth, l->flight_keep);

	for (size_t k = 0; k < count; k++) {
		const struct pair_part *part = &s->known[again->probes[k]].part;

		if (part->role != PAIR_NONE && part->pair < s->left_count)
			s->left[part->pair] = 0;
	}
	for (uint32_t i = 0; l->flights && i < l->flight_entries; i++) {
		struct probe_flight *flight =
			(struct probe_flight *)(s->rings.base + (l->flights - l->data) + i * bytes);

		for (size_t k = 0; k < count; k++) {
			const struct pair_part *part = &s->known[again->probes[k]].part;

			if (part->role != PAIR_NONE && flight->state == FLIGHT_PAIR + part->pair)
				flight->depth = 0;
		}
	}
}

static struct probe_error *install_again(struct probe_session *s, struct change *c,
	struct selection *selection, const struct again *again, struct probe_report *report)
{
	struct transaction t = transaction_of(c, TRANSACTION_ADDS);
	struct install install = session_attach(s, &t, selection);
	struct probe_error *error;

	install.numbers = again->numbers;
	install.slots = again->slots;
	forget_flights(s, again, selection->probe_count);
	error = install_all(&install, report);
	for (size_t i = 0; i < selection->probe_count && !error; i++)
		s->known[again->probes[i]].off = false;
	install_deinit(&install);
	transaction_end(&t);
	return error;
}

/* Are some wanted probes off? */
static bool any_to_switch_on(const struct probe_session *s, const bool *wanted)
{
	for (size_t i = 0; i < s->probe_count; i++)
		if (s->known[i].off && wanted[i])
			return true;
	return false;
}

static struct probe_error *switch_on(
	struct probe_session *s, struct change *c, const bool *wanted, struct probe_report *report)
{
	struct selection selection = {0};
	struct again again = {0};
	struct probe_error *error;

	if (!any_to_switch_on(s, wanted))
		return NULL;
	/* Probes are selected by their keys: the patterns may have been freed. */
	error = select_probes(&c->modules, NULL, 0, &selection);
	if (!error)
		keep_wanted(s, wanted, &selection);
	if (!error && !again_init(&again, &selection))
		error = probe_error_no_memory();
	if (!error)
		error = match_all(s, wanted, &selection, &again);
	if (!error && !selection.probe_count)
		error = probe_error_new(
			PROBE_ERROR_STATE, "process %d no longer has the library", s->target->pid);
	if (!error)
		error = install_again(s, c, &selection, &again, report);
	again_deinit(&again);
	selection_deinit(&selection);
	return error;
}

/* ---- Both ------------------------------------------------------------------------------- */

static struct probe_error *check_session(const struct probe_session *s, const struct change *c)
{
	const struct reg_session *session = registry_session(&c->registry, s->id);

	if (session && session->stamp == s->rings.layout.stamp)
		return NULL;
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d has become another program, or another controller has ended the "
		"session",
		s->target->pid);
}

static struct probe_error *select_once(
	struct probe_session *session, const bool *wanted, struct probe_report *report)
{
	AUTO_CHANGE struct change c;
	struct probe_error *error = change_begin(session->target, &c);

	if (!error)
		error = check_session(session, &c);
	if (!error)
		error = switch_off(session, &c, wanted);
	if (!error)
		error = switch_on(session, &c, wanted, report);
	if (!error)
		error = session_watch(session, &c.registry);
	if (c.stop_ns > report->stop_ns)
		report->stop_ns = c.stop_ns;
	return error;
}

struct probe_error *probe_session_select(
	struct probe_session *session, const bool *on, struct probe_report *report)
{
	struct attempt attempt = attempt_begin(session->target, report);
	bool *wanted;

	if (session->stopped || session->opened)
		return probe_error_new(PROBE_ERROR_STATE,
			"the session has ended, or belongs to another controller");
	wanted = find_wanted(session, on);
	if (!wanted)
		return probe_error_no_memory();
	/* See follow(): a child of vfork(2) at the gate would keep its parent running. */
	gate_arm(&session->exec_gate.gate, false);
	while (attempt_next(&attempt))
		attempt.error = select_once(session, wanted, report);
	gate_arm(&session->exec_gate.gate, true);
	free(wanted);
	return attempt.error;
}

bool probe_session_is_selected(const struct probe_session *session, size_t probe)
{
	return !session->stopped && probe < session->probe_count && !session->known[probe].off;
}
