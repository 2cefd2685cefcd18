/* SPDX-License-Identifier: MIT */
/*
 * Sites are described in the process that is hit. Its copy (helper.h) generates the stubs,
 * which pass the addresses of these descriptions; the addresses are the same in both. A library
 * may be unloaded or loaded between the two steps: the copy selects sites again, and uses those
 * that both have found.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/patch/attempt.h"
#include "libprobe/patch/install.h"
#include "libprobe/patch/report.h"
#include "libprobe/process/procfs.h"
#include "libprobe/self/enter.h"
#include "libprobe/self/helper.h"
#include "libprobe/self/hook.h"

enum { SPARE_PROBES = 4096 };

/*
 * Hooks that are never freed; protected by the lock. Its address distinguishes this library's
 * sessions from those of another copy of the library in the program.
 */
static struct hook *kept;

/* ---- Describing sites ------------------------------------------------------------------- */

static void sites_free(struct hook_sites *sites)
{
	for (size_t i = 0; sites && i < sites->count; i++) {
		free(sites->items[i].provider);
		free(sites->items[i].name);
		free(sites->items[i].path);
	}
	if (sites) {
		unwind_remove(sites->unwind);
		free(sites->items);
	}
	free(sites);
}

static struct probe_error *describe_site(struct hook *hook, const struct selection *selection,
	size_t index, struct hook_sites *sites)
{
	const struct select_site *selected = &selection->sites[index];
	const struct select_probe *probe = &selection->probes[selected->probe];
	/* Strings are not copied, so there is no reason to truncate them. */
	const struct probe_session_options options = {.string_bytes = PROBE_STRING_BYTES_MAX};
	const struct arch *arch = arch_of_machine(object_machine(probe->module->object));
	struct hook_site *ret = &sites->items[sites->count++];
	struct capture wanted[CAPTURES_MAX];
	struct record_layout_site args;
	struct probe_error *error;
	size_t count;

	if (!arch || !arch->call_unwind)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"no function can be connected to a probe on this processor");
	sites->arch = arch;
	*ret = (struct hook_site){.hook = hook,
		.pc = selected->pc,
		.key = probe->key,
		.provider = strdup(probe->provider),
		.name = strdup(probe->name),
		.path = strdup(probe->module->path)};
	record_layout_site_init(&args, arch, probe->module, selected->note->args);
	error = pattern_captures(
		hook->pattern, probe->provider, probe->name, args.count, true, wanted, &count);
	if (error)
		return error;
	record_layout_init(&ret->layout, &args, pattern_has_captures(hook->pattern) ? wanted : NULL,
		count, &options);
	ret->is_plain = record_layout_is_plain(&ret->layout);
	return ret->provider && ret->name && ret->path ? NULL : probe_error_no_memory();
}

static struct probe_error *describe_sites(
	struct hook *hook, const struct selection *selection, struct hook_sites *ret)
{
	struct probe_error *error = NULL;

	ret->items = calloc(selection->site_count + 1, sizeof(*ret->items));
	if (!ret->items)
		return probe_error_no_memory();
	for (size_t i = 0; i < selection->site_count && !error; i++)
		error = describe_site(hook, selection, i, ret);
	return error;
}

static struct probe_error *find_sites(
	struct hook *hook, bool keep_going, struct probe_report *report, struct hook_sites **ret)
{
	const struct probe_pattern *pattern = hook->pattern;
	struct selection selection = {0};
	struct modules modules = {0};
	struct probe_error *error;

	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return probe_error_no_memory();
	error = procfs_check();
	if (!error)
		error = modules_read(getpid(), NULL, &modules);
	if (!error)
		error = select_probes(&modules, &pattern, 1, &selection);
	if (!error)
		error = keep_going ? report_drop_lacking(&selection, report)
				   : select_check_arguments(&selection);
	if (!error && !hook->counters.session && !hook->waits)
		error = select_unmatched(&modules, &selection, &pattern, getpid());
	if (!error)
		error = describe_sites(hook, &selection, *ret);
	selection_deinit(&selection);
	modules_deinit(&modules);
	return error;
}

/* ---- Ending: in the copy ------------------------------------------------------------------- */

uint64_t hook_caller(void)
{
	return (uintptr_t)&kept;
}

/* Retires sessions that no hook knows, since a copy died just after its work. */
static void retire_unknown(struct registry *registry)
{
	for (size_t i = 0; i < registry->session_count; i++) {
		struct reg_session *session = &registry->sessions[i];

		if (session->flags & REG_SESSION_CALLS && !session->owner &&
			session->owner_start == hook_caller() && !hook_has_session(session->id))
			registry_retire(registry, session);
	}
}

struct probe_error *hook_change_begin(struct probe_target *target, struct change *change)
{
	struct probe_error *error = change_begin(target, change);

	if (error)
		return error;
	retire_unknown(&change->registry);
	return install_heal(change);
}

/* ---- Attaching: in the copy -------------------------------------------------------------- */

/* What the copy reports. */
struct attached {
	struct hook_counters counters;
	struct arch_extent stubs[]; /* of each new site; empty if it has none */
};

struct attaching {
	struct hook *hook;
	const struct hook_sites *sites;
	bool keep_going;
	const struct selection *selection;
};

/* The description of a site, or NULL. */
static const struct hook_site *find_site(
	const struct hook_sites *sites, const struct selection *selection, size_t index)
{
	const struct select_site *selected = &selection->sites[index];
	uint64_t key = selection->probes[selected->probe].key;

	for (size_t i = 0; i < sites->count; i++)
		if (sites->items[i].pc == selected->pc && sites->items[i].key == key)
			return &sites->items[i];
	return NULL;
}

/* Keeps the probes that have a description and no stubs of the session yet. */
static void keep_new(
	const struct attaching *a, const struct registry *registry, struct selection *selection)
{
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].unwanted = registry_probe(
			registry, selection->probes[i].key, a->hook->counters.session);
	/* The caller that connects a function gets an error, and nothing else: see connect.c. */
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].exact = true;
	for (size_t i = 0; i < selection->site_count; i++)
		if (!find_site(a->sites, selection, i))
			selection->probes[selection->sites[i].probe].unwanted = true;
	selection_drop_unwanted(selection);
}

/* See struct install. Sites are numbered as in the selection. */
static void describe_stub(const void *data, const struct reg_session *session, uint32_t slot,
	uint32_t number, struct arch_stub *stub)
{
	const struct attaching *a = data;
	const struct hook_site *described = find_site(a->sites, a->selection, number);
	static const uint32_t always = 1;

	(void)session;
	(void)slot;
	stub->kind = ARCH_STUB_CALL;
	/* A forked child has the functions, too. */
	stub->guard = (uintptr_t)&always;
	stub->call = (uintptr_t)enter_called;
	stub->call_data = (uintptr_t)described;
	stub->pc = described->pc;
	stub->captures = described->layout.captures;
	stub->capture_count = described->layout.capture_count;
	stub->recorded = described->layout.recorded;
}

/* See struct install. */
static bool comes_before(const void *data, uint32_t session)
{
	return hook_comes_after(((const struct attaching *)data)->hook, session);
}

struct hook_counters hook_counters_of(const struct registry *registry, uint32_t id)
{
	const struct reg_session *session = registry_session(registry, id);

	return (struct hook_counters){.session = id,
		.cpus = session->cpus,
		.slot_count = session->slot_count,
		.slots_shift = session->slots_shift,
		.slots = session->slots};
}

/* What the process needs to know from the registry. */
static void report_attached(const struct attaching *a, const struct registry *registry, uint32_t id,
	struct attached *ret)
{
	ret->counters = hook_counters_of(registry, id);
	for (size_t i = 0; i < a->sites->count; i++) {
		size_t count;
		const struct reg_stub *stubs =
			registry_stubs(registry, a->sites->items[i].pc, &count);

		for (size_t k = 0; k < count; k++)
			if (stubs[k].session == id && stubs[k].key == a->sites->items[i].key)
				ret->stubs[i] = (struct arch_extent){stubs[k].start, stubs[k].size};
	}
}

static struct probe_error *install_selected(struct attaching *a, struct change *change,
	struct selection *selection, struct probe_report *report, struct attached *ret)
{
	const struct probe_pattern *pattern = a->hook->pattern;
	const struct probe_request request = {
		.patterns = &pattern, .pattern_count = 1, .keep_going = a->keep_going};
	struct transaction t = transaction_of(change, TRANSACTION_ADDS);
	struct install install = install_of(&t, selection, &request);
	struct probe_error *error = NULL;

	install.describe = describe_stub;
	install.describe_data = a;
	install.comes_before = comes_before;
	install.session = a->hook->counters.session;
	install.spare_probes = SPARE_PROBES;
	install.caller = hook_caller();
	keep_new(a, &change->registry, selection);
	a->selection = selection;
	if (selection->probe_count || !install.session)
		error = install_all(&install, report);
	if (!error)
		report_attached(a, &change->registry, install.session, ret);
	install_deinit(&install);
	transaction_end(&t);
	return error;
}

static struct probe_error *install_once(
	struct probe_target *target, void *data, struct probe_report *report, void *result)
{
	struct attaching *a = data;
	const struct probe_pattern *pattern = a->hook->pattern;
	struct selection selection = {0};
	struct probe_error *error;
	struct change change;

	error = hook_change_begin(target, &change);
	if (!error)
		error = select_probes(&change.modules, &pattern, 1, &selection);
	if (!error)
		error = install_selected(a, &change, &selection, report, result);
	selection_deinit(&selection);
	change_end(&change);
	return error;
}

static struct probe_error *install_act(
	struct probe_target *target, void *data, struct probe_report *report, void *result)
{
	struct attempt attempt = attempt_begin(target, report);

	while (attempt_next(&attempt))
		attempt.error = install_once(target, data, report, result);
	return attempt.error;
}

/* ---- Attaching: in the process ------------------------------------------------------------ */

/* Takes over what the copy reported about the sites. */
static void take_sites(struct hook *hook, struct hook_sites *sites, const struct attached *attached)
{
	struct arch_extent *stubs = calloc(sites->count + 1, sizeof(*stubs));
	size_t count = 0;

	for (size_t i = 0; stubs && i < sites->count; i++)
		if (attached->stubs[i].size)
			stubs[count++] = attached->stubs[i];
	hook->counters = attached->counters;
	if (count)
		sites->unwind = unwind_add(sites->arch, stubs, count);
	free(stubs);
}

static void add_sites(struct hook *hook, struct hook_sites *sites)
{
	if (!sites)
		return;
	sites->next = hook->sites;
	hook->sites = sites;
}

struct probe_error *hook_attach(struct hook *hook, bool keep_going, struct probe_report *report)
{
	struct hook_sites *sites = NULL;
	struct attaching attaching = {.hook = hook, .keep_going = keep_going};
	struct helper_work work = {.act = install_act, .data = &attaching, .report = report};
	struct probe_error *error = enter_init(true);

	if (!error)
		error = find_sites(hook, keep_going, report, &sites);
	if (!error && !sites->count) { /* it waits, or its libraries are gone */
		sites_free(sites);
		return NULL;
	}
	if (!error) {
		attaching.sites = sites;
		work.result_bytes =
			sizeof(struct attached) + sites->count * sizeof(struct arch_extent);
		work.result = calloc(1, work.result_bytes);
		error = work.result ? helper_run(&work) : probe_error_no_memory();
	}
	/*
	 * The sites may stay patched until the next change undoes that, and threads may stay in
	 * the stubs indefinitely.
	 */
	hook->is_kept = hook->is_kept || work.died;
	if (!error)
		take_sites(hook, sites, work.result);
	if (!error || work.died)
		add_sites(hook, sites);
	else
		sites_free(sites);
	free(work.result);
	return error;
}

/* ---- Detaching ----------------------------------------------------------------------------- */

static struct probe_error *detach_act(
	struct probe_target *target, void *data, struct probe_report *report, void *result)
{
	uint32_t id = ((const struct hook *)data)->counters.session;
	struct reg_session *session;
	struct probe_error *error;
	struct change change;
	bool *gone = result;

	(void)report;
	error = change_begin(target, &change);
	if (error)
		return error;
	retire_unknown(&change.registry);
	session = registry_session(&change.registry, id);
	if (session)
		registry_retire(&change.registry, session);
	if (change.registry.home)
		error = uninstall_unreferenced(&change);
	*gone = !error && !registry_session(&change.registry, id);
	change_end(&change);
	return error;
}

static void forget_unwinding(struct hook *hook)
{
	for (struct hook_sites *sites = hook->sites; sites; sites = sites->next) {
		unwind_remove(sites->unwind);
		sites->unwind = NULL;
	}
}

struct probe_error *hook_detach(struct hook *hook, bool *gone_ret)
{
	struct probe_report report = {0};
	struct helper_work work = {.act = detach_act,
		.data = hook,
		.report = &report,
		.result = gone_ret,
		.result_bytes = sizeof(*gone_ret)};
	struct probe_error *error;

	*gone_ret = !hook->counters.session;
	error = *gone_ret ? NULL : helper_run(&work);
	/* Other code may soon be where the stubs were, and no function is called any more. */
	if (error)
		forget_unwinding(hook);
	probe_report_deinit(&report);
	return error;
}

/* ---- Life ---------------------------------------------------------------------------------- */

struct probe_error *hook_create(const char *text, int priority, struct hook **ret)
{
	struct hook *hook = calloc(1, sizeof(*hook));
	struct probe_error *error;

	if (!hook)
		return probe_error_no_memory();
	hook->priority = priority;
	hook->text = strdup(text);
	error = hook->text ? probe_pattern_parse(text, &hook->pattern) : probe_error_no_memory();
	if (error)
		hook_free(hook);
	else
		*ret = hook;
	return error;
}

void hook_free(struct hook *hook)
{
	if (hook->is_kept) {
		forget_unwinding(hook);
		hook->next_kept = kept;
		kept = hook;
		return;
	}
	while (hook->sites) {
		struct hook_sites *next = hook->sites->next;

		sites_free(hook->sites);
		hook->sites = next;
	}
	functions_deinit(&hook->functions);
	if (hook->pattern)
		probe_pattern_free(hook->pattern);
	free(hook->text);
	free(hook);
}

/* The start of a set's slots, which are in this process's own memory. */
static struct probe_slot *slots_of(const struct hook_counters *c, uint32_t set)
{
	uint64_t at = c->slots + ((uint64_t)set << c->slots_shift);

	return (struct probe_slot *)(uintptr_t)at;
}

void hook_after_fork(struct hook *hook)
{
	const struct hook_counters *c = &hook->counters;
	uint64_t gone = 0;

	functions_after_fork(&hook->functions);
	for (uint32_t set = 0; c->session && set <= c->cpus; set++)
		for (uint32_t i = 0; i < c->slot_count; i++)
			gone += slots_of(c, set)[i].hits - slots_of(c, set)[i].seen;
	for (const struct running *r = functions_running; r; r = r->outer)
		gone -= r->hook == hook;
	if (c->session)
		slots_of(c, c->cpus)->seen += gone;
}
