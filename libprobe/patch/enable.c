/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/patch/attempt.h"
#include "libprobe/patch/install.h"
#include "libprobe/patch/orphans.h"
#include "libprobe/process/memory.h"
#include "libprobe/target/target.h"

/* ---- Enabling ---------------------------------------------------------------------- */

static const char *probe_label(const struct select_probe *probe, char buffer[256])
{
	snprintf(buffer, 256, "%s:%s", probe->provider, probe->name);
	return buffer;
}

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
 * Takes the probes that are on already out of the selection: they are counted up, all of them
 * or none, unless the state is what counts.
 */
static struct probe_error *split_known(struct transaction *t, struct selection *s,
	const struct probe_request *request, struct probe_report *report)
{
	const struct registry *r = &t->change->registry;
	char label[256];

	for (size_t i = 0; i < s->probe_count; i++) {
		struct select_probe *probe = &s->probes[i];
		const struct reg_probe *persistent = registry_persistent(r, probe->key);

		probe->unwanted = persistent;
		if (!persistent)
			continue;
		if (persistent->refcount >= UINT16_MAX)
			return probe_error_new(PROBE_ERROR_STATE,
				"%s: its reference count is at its largest value already",
				probe_label(probe, label));
		if (!request->force && !transaction_count(t, probe->key, 1))
			return probe_error_no_memory();
		report->probes++;
		report->sites += patched_sites(r, s, probe);
	}
	selection_drop_unwanted(s);
	return NULL;
}

/* Pairs name starts at even places and ends at odd ones: the ends go first. */
static int compare_pair_ends(const void *a, const void *b)
{
	const struct select_probe *x = a, *y = b;
	size_t end_x = x->pattern % 2, end_y = y->pattern % 2;

	if (end_x != end_y)
		return end_x ? -1 : 1;
	return x->first_site < y->first_site ? -1 : x->first_site > y->first_site;
}

static struct probe_error *order_pairs(struct selection *s)
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

/* What a request names; each of its patterns has to match. */
static struct probe_error *select_asked(
	struct change *c, const struct probe_request *request, struct selection *ret)
{
	struct probe_error *error =
		select_probes(&c->modules, request->patterns, request->pattern_count, ret);

	if (!error)
		error = select_unmatched(&c->modules, ret, request->patterns, c->pid);
	if (!error && request->pairs)
		error = order_pairs(ret);
	return error;
}

static struct probe_error *enable_once(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report)
{
	size_t probes = report->probes, sites = report->sites;
	struct selection selection = {0};
	struct transaction t;
	struct install install;
	struct probe_error *error;
	struct change c;

	error = change_begin(target, &c);
	if (error)
		return error;
	t = transaction_of(&c, TRANSACTION_ADDS);
	t.atomic = request->atomic;
	install = install_of(&t, &selection, request);
	install.persistent = true;
	error = install_heal(&c);
	if (!error)
		error = select_asked(&c, request, &selection);
	if (!error)
		error = split_known(&t, &selection, request, report);
	if (!error && selection.probe_count)
		error = install_add(&install, report);
	if (!error)
		error = install_commit(&t);
	if (error) {
		report->probes = probes;
		report->sites = sites;
	}
	if (c.stop_ns > report->stop_ns)
		report->stop_ns = c.stop_ns;
	install_deinit(&install);
	transaction_end(&t);
	selection_deinit(&selection);
	change_end(&c);
	return error;
}

struct probe_error *probe_target_enable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report)
{
	struct attempt attempt = attempt_begin(target, report);
	struct probe_error *error;

	do {
		error = enable_once(target, request, report);
	} while (attempt_again(&attempt, &error));
	return error;
}

/* ---- Disabling ----------------------------------------------------------------------- */

/* A probe that only other tools hold: --force ends that. */
static struct probe_error *force_off(struct transaction *t, const struct selection *s,
	const struct select_probe *probe, bool *was_on_ret)
{
	uint64_t *addresses = calloc(probe->site_count + 1, sizeof(*addresses));
	size_t count = addresses ? semaphores_of(s, probe, addresses) : 0;
	bool ok = addresses != NULL;

	for (size_t i = 0; i < count && ok; i++) {
		uint16_t value = 0;

		if (memory_read(t->change->pid, addresses[i], &value, sizeof(value)) ==
				sizeof(value) &&
			value)
			*was_on_ret = true;
		ok = semaphores_add(&t->semaphores, addresses[i], 0);
	}
	free(addresses);
	return ok ? NULL : probe_error_no_memory();
}

/* Takes one reference off a probe; at 0, it ends. Several persistent sessions may have it. */
static struct probe_error *drop_reference(
	struct transaction *t, struct reg_probe *known, const struct probe_request *request)
{
	if (!request->force && known->refcount > 1)
		return transaction_count(t, known->key, -1) ? NULL : probe_error_no_memory();
	do
		known->refcount = 0;
	while (request->force &&
		(known = registry_persistent(&t->change->registry, known->key))->refcount);
	return NULL;
}

/* All or nothing: looks whether every probe can be lowered before any is. */
static struct probe_error *check_enabled(const struct change *c, const struct selection *s)
{
	char label[256];

	for (size_t i = 0; i < s->probe_count; i++)
		if (!registry_persistent(&c->registry, s->probes[i].key))
			return probe_error_new(PROBE_ERROR_STATE,
				"%s is not enabled in process %d (`probectl status -p %d` shows "
				"what is; --keep-going does the rest)",
				probe_label(&s->probes[i], label), c->pid, c->pid);
	return NULL;
}

static struct probe_error *lower_all(struct transaction *t, const struct selection *s,
	const struct probe_request *request, struct probe_report *report)
{
	const struct registry *r = &t->change->registry;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < s->probe_count && !error; i++) {
		const struct select_probe *probe = &s->probes[i];
		struct reg_probe *known = registry_persistent(r, probe->key);
		bool was_on = known != NULL;

		if (known)
			error = drop_reference(t, known, request);
		else if (request->force) /* else see check_enabled() */
			error = force_off(t, s, probe, &was_on);
		report->probes += was_on;
		report->sites += was_on ? patched_sites(r, s, probe) : 0;
	}
	return error;
}

struct probe_error *probe_target_disable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report)
{
	struct selection selection = {0};
	struct transaction t;
	struct orphans orphans;
	struct probe_error *error;
	struct change c;

	error = change_begin(target, &c);
	if (error)
		return error;
	t = transaction_of(&c, TRANSACTION_ENDS);
	t.atomic = request->atomic;
	error = orphans_remove(&c, &orphans);
	uninstall_find_stale(&c); /* what is stale ends together with the rest */
	if (!error)
		error = select_asked(&c, request, &selection);
	if (!error && !request->force && !request->keep_going)
		error = check_enabled(&c, &selection);
	if (!error)
		error = lower_all(&t, &selection, request, report);
	if (!error)
		error = transaction_keep_way_back(&t);
	if (!error)
		error = uninstall(&t);
	if (error)
		transaction_go_back(&t);
	report->left = uninstall_count_left(&c.registry);
	target->dropped = true;
	report->stop_ns = c.stop_ns;
	transaction_end(&t);
	selection_deinit(&selection);
	change_end(&c);
	return error;
}
