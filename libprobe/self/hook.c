/* SPDX-License-Identifier: MIT */
/*
 * Sites are described in the process that is hit. Its controller (attach.c) generates the stubs,
 * which pass the addresses of these descriptions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/enter.h"
#include "libprobe/query/query.h"
#include "libprobe/patch/patch.h"
#include "libprobe/base/procfs.h"
#include "libprobe/self/helper/helper.h"
#include "libprobe/self/hook.h"

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
	if (!error && pattern_has_symbols(hook->pattern))
		error = probe_error_new(PROBE_ERROR_USAGE,
			"'%s': a function gets addresses, not their names: argN instead of "
			"sym(argN)",
			probe_pattern_text(hook->pattern));
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

struct probe_error *hook_check_processor(void)
{
	if (enter_init(true))
		return NULL;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"no function can be connected to a probe: the state of this processor cannot be "
		"saved");
}

struct attach_call attach_call_of_process(void)
{
	/* A forked child has the functions, too. */
	static const uint32_t always = 1;

	return (struct attach_call){(uintptr_t)enter_called, (uintptr_t)&always};
}

uint64_t hook_caller(void)
{
	return (uintptr_t)&kept;
}

/* ---- Attaching ----------------------------------------------------------------------------- */

/* Takes over what the controller reported about the sites. */
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

/* Symbols and texts of an argument are of no use in another process, and resolved by now. */
static void add_capture(struct buffer *request, const struct arch_capture *capture)
{
	struct arch_capture copy = *capture;

	copy.arg.symbol = copy.arg.spec = NULL;
	copy.length.symbol = copy.length.spec = NULL;
	buffer_bytes(request, &copy, sizeof(copy));
}

static void add_site(struct buffer *request, const struct hook_site *site)
{
	const struct attach_site described = {.pc = site->pc,
		.key = site->key,
		.data = (uintptr_t)site,
		.capture_count = site->layout.capture_count,
		.recorded = site->layout.recorded};

	buffer_bytes(request, &described, sizeof(described));
	for (size_t i = 0; i < described.capture_count; i++)
		add_capture(request, &site->layout.captures[i]);
}

/* Begins a request with what the controller needs to know of all hooks. */
static struct probe_error *begin_request(const struct hook *hook, struct buffer *request)
{
	struct attach_known known;

	if (!attach_know(hook, &known))
		return probe_error_no_memory();
	attach_known_add(request, &known);
	attach_known_deinit(&known);
	return NULL;
}

static struct probe_error *attach(struct hook *hook, const struct hook_sites *sites,
	bool keep_going, struct helper_work *work)
{
	const struct attach_head head = {.call = attach_call_of_process(),
		.session = hook->counters.session,
		.keep_going = keep_going,
		.site_count = sites->count};
	struct probe_error *error = begin_request(hook, &work->request);

	if (error)
		return error;
	buffer_bytes(&work->request, &head, sizeof(head));
	message_add_text(&work->request, hook->text);
	for (size_t i = 0; i < sites->count; i++)
		add_site(&work->request, &sites->items[i]);
	work->result_bytes = sizeof(struct attached) + sites->count * sizeof(struct arch_extent);
	work->result = calloc(1, work->result_bytes);
	if (!work->result) {
		buffer_deinit(&work->request);
		return probe_error_no_memory();
	}
	return helper_run(work);
}

struct probe_error *hook_attach(struct hook *hook, bool keep_going, struct probe_report *report)
{
	struct hook_sites *sites = NULL;
	struct helper_work work = {.act = CONTROLLER_ATTACH, .report = report};
	struct probe_error *error = hook_check_processor();

	if (!error)
		error = find_sites(hook, keep_going, report, &sites);
	if (!error && !sites->count) { /* it waits, or its libraries are gone */
		sites_free(sites);
		return NULL;
	}
	if (!error)
		error = attach(hook, sites, keep_going, &work);
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
	struct helper_work work = {.act = CONTROLLER_DETACH,
		.report = &report,
		.result = gone_ret,
		.result_bytes = sizeof(*gone_ret)};
	uint32_t session = hook->counters.session;
	struct probe_error *error;

	*gone_ret = !session;
	error = session ? begin_request(hook, &work.request) : NULL;
	if (!error && session) {
		buffer_bytes(&work.request, &session, sizeof(session));
		error = helper_run(&work);
	}
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
