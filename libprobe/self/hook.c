/* SPDX-License-Identifier: MIT */
/*
 * The process that is hit describes its sites. The controller generates stubs that pass the address
 * of a description to enter_called().
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/enter.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/follow/follow.h"
#include "libprobe/patch/patch.h"
#include "libprobe/query/query.h"
#include "libprobe/self/self.h"
#include "libprobe/self/helper/helper.h"

/* ==== Attach ================================================================================== */

/*
 * The controller installs and removes stubs that call functions of the process. It selects the
 * sites again, because libraries may have been opened or closed, and uses only sites that the
 * process has described.
 */

enum { SPARE_PROBES = 4096 };

struct site {
	struct attach_site fixed;
	struct arch_capture captures[ARCH_ARGS_MAX];
};

struct attaching {
	struct attach_known known;
	struct attach_head head;
	struct probe_pattern *pattern;
	struct site *sites;
	const struct selection *selection;
};

/* ---- Sessions ------------------------------------------------------------------------------ */

void attach_known_deinit(struct attach_known *known)
{
	free(known->sessions);
	*known = (struct attach_known){0};
}

void attach_known_add(struct buffer *request, const struct attach_known *known)
{
	struct attach_known fixed = *known;

	fixed.sessions = NULL;
	buffer_bytes(request, &fixed, sizeof(fixed));
	buffer_bytes(request, known->sessions, known->count * sizeof(*known->sessions));
}

bool attach_known_read(struct message *request, struct attach_known *ret)
{
	message_read(request, ret, sizeof(*ret));
	ret->count = (uint32_t)message_count(request, ret->count, sizeof(*ret->sessions));
	request->is_bad = request->is_bad || ret->before > ret->count;
	ret->sessions = calloc(ret->count + 1, sizeof(*ret->sessions));
	if (ret->sessions)
		message_read(request, ret->sessions, ret->count * sizeof(*ret->sessions));
	return ret->sessions && !request->is_bad;
}

static bool has_session(const struct attach_known *known, size_t count, uint32_t id)
{
	for (size_t i = 0; i < count; i++)
		if (known->sessions[i] == id)
			return true;
	return false;
}

/* Retires sessions that no hook knows: their controller died just after its work. */
static void retire_unknown(const struct attach_known *known, struct registry *registry)
{
	for (size_t i = 0; i < registry->session_count; i++) {
		struct reg_session *session = &registry->sessions[i];

		if (session->flags & REG_SESSION_CALLS && !session->owner &&
			session->owner_start == known->caller &&
			!has_session(known, known->count, session->id))
			registry_retire(registry, session);
	}
}

/*
 * Begins a change that installs stubs, after repairing what dead controllers have left. Call
 * change_end() even after an error. Errors: as change_begin(), install_heal().
 */
static struct probe_error *attach_begin(
	struct probe_target *target, const struct attach_known *known, struct change *change)
{
	struct probe_error *error = change_begin(target, change);

	if (error)
		return error;
	retire_unknown(known, &change->registry);
	return install_heal(change);
}

static struct hook_counters attach_counters(const struct registry *registry, uint32_t id)
{
	const struct reg_session *session = registry_session(registry, id);

	return (struct hook_counters){.session = id,
		.cpus = session->cpus,
		.slot_count = session->slot_count,
		.slots_shift = session->slots_shift,
		.slots = session->slots};
}

/* ---- Attaching ------------------------------------------------------------------------------ */

/* Returns the process's description of a site, or NULL. */
static const struct site *find_site(
	const struct attaching *a, const struct selection *selection, size_t index)
{
	const struct select_site *selected = &selection->sites[index];
	uint64_t key = selection->probes[selected->probe].key;

	for (size_t i = 0; i < a->head.site_count; i++)
		if (a->sites[i].fixed.pc == selected->pc && a->sites[i].fixed.key == key)
			return &a->sites[i];
	return NULL;
}

/* Keeps the probes that the process has described and that have no stubs of the session yet. */
static void keep_new(
	const struct attaching *a, const struct registry *registry, struct selection *selection)
{
	for (size_t i = 0; i < selection->probe_count; i++) {
		selection->probes[i].unwanted =
			registry_probe(registry, selection->probes[i].key, a->head.session);
		/* Fail if a probe cannot be patched, because the function would never be called. */
		selection->probes[i].exact = true;
	}
	for (size_t i = 0; i < selection->site_count; i++)
		if (!find_site(a, selection, i))
			selection->probes[selection->sites[i].probe].unwanted = true;
	selection_drop_unwanted(selection);
}

/* For struct install: describes a stub. A site's number is its index in the selection. */
static void describe_stub(const void *data, const struct reg_session *session, uint32_t slot,
	uint32_t number, struct arch_stub *stub)
{
	const struct attaching *a = data;
	const struct site *described = find_site(a, a->selection, number);

	(void)session;
	(void)slot;
	stub->guard = a->head.call.guard;
	stub->actions[0].kind = ARCH_ACTION_CALL;
	stub->actions[0].call = (struct arch_call){.function = a->head.call.function,
		.data = described->fixed.data,
		.pc = described->fixed.pc};
	stub->captures = described->captures;
	stub->capture_count = described->fixed.capture_count;
	stub->recorded = described->fixed.recorded;
}

/* For struct install. Returns true if a hit runs the session's stub before the hook's. */
static bool comes_before(const void *data, uint32_t session)
{
	const struct attaching *a = data;

	return has_session(&a->known, a->known.before, session);
}

static struct probe_error *install_selected(struct attaching *a, struct change *change,
	struct selection *selection, struct probe_report *report, struct attached *ret)
{
	const struct probe_pattern *pattern = a->pattern;
	const struct probe_request request = {
		.patterns = &pattern, .pattern_count = 1, .keep_going = a->head.keep_going};
	AUTO(transaction_end) struct transaction t = transaction_of(change, TRANSACTION_ADDS);
	AUTO(install_deinit) struct install install = install_of(&t, selection, &request);
	struct probe_error *error = NULL;
	struct registry *registry = &change->registry;

	install.stubs.describe = describe_stub;
	install.stubs.data = a;
	install.stubs.comes_before = comes_before;
	install.session = a->head.session;
	install.data.spare_probes = SPARE_PROBES;
	install.caller = a->known.caller;
	keep_new(a, registry, selection);
	a->selection = selection;
	if (selection->probe_count || !install.session)
		error = install_all(&install, report);
	if (!error)
		ret->counters = attach_counters(registry, install.session);
	for (size_t i = 0; i < a->head.site_count && !error; i++) {
		const struct attach_site *site = &a->sites[i].fixed;
		size_t count;
		const struct reg_stub *stubs = registry_stubs(registry, site->pc, &count);

		for (size_t k = 0; k < count; k++)
			if (stubs[k].session == install.session && stubs[k].key == site->key)
				ret->stubs[i] = (struct arch_extent){stubs[k].start, stubs[k].size};
	}
	return error;
}

static struct probe_error *install_once(struct probe_target *target, struct attaching *a,
	struct probe_report *report, struct attached *ret)
{
	const struct probe_pattern *pattern = a->pattern;
	AUTO(change_end) struct change change;
	AUTO(selection_deinit) struct selection selection = {0};

	return attach_begin(target, &a->known, &change)
		?: select_probes(&change.modules, &pattern, 1, &selection)
		?: install_selected(a, &change, &selection, report, ret);
}

static struct probe_error *read_request(
	struct message *request, size_t result_bytes, struct attaching *ret)
{
	const char *text;

	if (!attach_known_read(request, &ret->known))
		return request->is_bad ? controller_bad_request() : probe_error_no_memory();
	message_read(request, &ret->head, sizeof(ret->head));
	text = message_text(request);
	ret->head.site_count =
		message_count(request, ret->head.site_count, sizeof(struct attach_site));
	ret->sites = calloc(ret->head.site_count + 1, sizeof(*ret->sites));
	if (!ret->sites)
		return probe_error_no_memory();
	for (size_t i = 0; i < ret->head.site_count; i++) {
		struct site *site = &ret->sites[i];
		size_t count;

		message_read(request, &site->fixed, sizeof(site->fixed));
		count = message_count(request, site->fixed.capture_count, sizeof(*site->captures));
		request->is_bad = request->is_bad || count > ARCH_ARGS_MAX;
		if (!request->is_bad)
			message_read(request, site->captures, count * sizeof(*site->captures));
	}
	if (request->is_bad ||
		result_bytes !=
			sizeof(struct attached) + ret->head.site_count * sizeof(struct arch_extent))
		return controller_bad_request();
	return probe_pattern_parse(text, &ret->pattern);
}

struct probe_error *attach_act(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes)
{
	struct attempt attempt = attempt_begin(target, report);
	struct attaching a = {0};
	struct probe_error *error = read_request(request, result_bytes, &a);

	while (!error && attempt_next(&attempt))
		attempt.error = install_once(target, &a, report, result);
	probe_pattern_free(a.pattern);
	free(a.sites);
	attach_known_deinit(&a.known);
	return error ?: attempt.error;
}

/* ---- Detaching ------------------------------------------------------------------------------ */

static struct probe_error *detach(
	struct probe_target *target, const struct attach_known *known, uint32_t id, bool *gone_ret)
{
	AUTO(change_end) struct change change;
	struct probe_error *error = change_begin(target, &change);
	struct reg_session *session;

	if (error)
		return error;
	retire_unknown(known, &change.registry);
	session = registry_session(&change.registry, id);
	if (session)
		registry_retire(&change.registry, session);
	if (change.registry.home)
		error = uninstall_unreferenced(&change);
	*gone_ret = !error && !registry_session(&change.registry, id);
	return error;
}

struct probe_error *detach_act(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes)
{
	AUTO(attach_known_deinit) struct attach_known known = {0};
	bool good = attach_known_read(request, &known);
	uint32_t session;

	(void)report;
	message_read(request, &session, sizeof(session));
	return request->is_bad || result_bytes != sizeof(bool) ? controller_bad_request()
	       : !good					       ? probe_error_no_memory()
		       : detach(target, &known, session, result);
}

/* ==== Unwind ================================================================================== */

/*
 * The unwinder is in libgcc, which C++ programs and backtrace(3) load. It searches registered
 * sections first, then modules. With -static-libgcc, a program may have a second unwinder for its
 * exceptions, so we register our stubs' rules with both.
 *
 * Source: libgcc, unwind-dw2-fde.c.
 */

typedef void frame_function(void *section);

extern void __register_frame(void *section) __attribute__((weak));
extern void __deregister_frame(void *section) __attribute__((weak));

enum { UNWINDERS = 2 };

struct unwinder {
	frame_function *add, *remove;
};
static struct unwinder unwinders[UNWINDERS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct unwind {
	size_t length;
	uint8_t section[];
};

/* Finds the unwinders, and keeps their library loaded, so that they keep our sections. */
static void find_unwinders(void)
{
	void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (&__register_frame && &__deregister_frame)
		unwinders[0] = (struct unwinder){__register_frame, __deregister_frame};
	if (!library)
		return;
	unwinders[1].add = (frame_function *)(uintptr_t)dlsym(library, "__register_frame");
	unwinders[1].remove = (frame_function *)(uintptr_t)dlsym(library, "__deregister_frame");
	if (!unwinders[1].remove || unwinders[1].add == unwinders[0].add)
		unwinders[1].add = NULL;
}

void unwind_prepare(void)
{
	pthread_once(&once, find_unwinders);
}

/*
 * Registers stubs with the unwinders (backtrace(3), _Unwind_Backtrace()). Returns NULL if memory is
 * short: then backtraces end at the stub.
 */
static struct unwind *unwind_add(
	const struct arch *arch, const struct arch_extent *stubs, size_t count)
{
	size_t size = arch_call_unwind(arch, stubs, count, NULL, 0);
	struct unwind *unwind = malloc(sizeof(*unwind) + size);

	if (!unwind)
		return NULL;
	unwind_prepare();
	unwind->length = arch_call_unwind(arch, stubs, count, unwind->section, size);
	for (int i = 0; i < UNWINDERS; i++)
		if (unwinders[i].add)
			unwinders[i].add(unwind->section);
	return unwind;
}

/* Takes the stubs from the unwinders, before other code gets their addresses. NULL is allowed. */
static void unwind_remove(struct unwind *unwind)
{
	for (int i = 0; unwind && i < UNWINDERS; i++)
		if (unwinders[i].add)
			unwinders[i].remove(unwind->section);
	free(unwind);
}

/* ==== Hook ==================================================================================== */

/*
 * Hooks that are never freed, protected by the lock. The variable's address distinguishes this copy
 * of the library from others in the program (hook_caller()).
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
	/* Functions get the strings themselves, so these are never cut. */
	const struct probe_session_options options = {.string_bytes = PROBE_STRING_BYTES_MAX};
	const struct arch *arch = arch_of_machine(object_machine(probe->module->object));
	struct hook_site *ret = &sites->items[sites->count++];
	struct capture wanted[CAPTURES_MAX];
	struct record_layout_site args;
	struct probe_error *error;
	size_t count;

	if (!arch)
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

static struct probe_error *find_sites(
	struct hook *hook, bool keep_going, struct probe_report *report, struct hook_sites **ret)
{
	const struct probe_pattern *pattern = hook->pattern;
	AUTO(selection_deinit) struct selection selection = {0};
	AUTO(modules_deinit) struct modules modules = {0};
	struct probe_error *error;

	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return probe_error_no_memory();
	error = procfs_check()
		?: modules_read(getpid(), NULL, &modules)
		?: select_probes(&modules, &pattern, 1, &selection);
	if (!error)
		error = keep_going ? report_drop_lacking(&selection, report)
				   : select_check_arguments(&selection);
	if (!error && !hook->counters.session && !hook->waits)
		error = select_unmatched(&modules, &selection, &pattern, getpid());
	if (!error) {
		(*ret)->items = calloc(selection.site_count + 1, sizeof(*(*ret)->items));
		error = (*ret)->items ? NULL : probe_error_no_memory();
	}
	for (size_t i = 0; i < selection.site_count && !error; i++)
		error = describe_site(hook, &selection, i, *ret);
	return error;
}

/* Checks that a function's processor state can be saved. Errors: PROBE_ERROR_UNSUPPORTED. */
static struct probe_error *hook_check_processor(void)
{
	if (enter_init(true))
		return NULL;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"no function can be connected to a probe: the state of this processor cannot be "
		"saved");
}

static struct attach_call attach_call_of_process(void)
{
	/* Never 0: stubs also work in a forked child, which has the functions, too. */
	static const uint32_t always = 1;

	return (struct attach_call){(uintptr_t)enter_called, (uintptr_t)&always};
}

uint64_t hook_caller(void)
{
	return (uintptr_t)&kept;
}

/* ---- Attaching ----------------------------------------------------------------------------- */

static void take_sites(struct hook *hook, struct hook_sites *sites, const struct attached *attached)
{
	AUTO_FREE struct arch_extent *stubs = calloc(sites->count + 1, sizeof(*stubs));
	size_t count = 0;

	for (size_t i = 0; stubs && i < sites->count; i++)
		if (attached->stubs[i].size)
			stubs[count++] = attached->stubs[i];
	hook->counters = attached->counters;
	if (count)
		sites->unwind = unwind_add(sites->arch, stubs, count);
}

static void add_site(struct buffer *request, const struct hook_site *site)
{
	const struct attach_site described = {.pc = site->pc,
		.key = site->key,
		.data = (uintptr_t)site,
		.capture_count = site->layout.capture_count,
		.recorded = site->layout.recorded};

	buffer_bytes(request, &described, sizeof(described));
	for (size_t i = 0; i < described.capture_count; i++) {
		struct arch_capture copy = site->layout.captures[i];

		/* Symbols are resolved, and texts are addresses in this process. */
		copy.arg.symbol = copy.arg.spec = NULL;
		copy.length.symbol = copy.length.spec = NULL;
		buffer_bytes(request, &copy, sizeof(copy));
	}
}

static struct probe_error *attach(struct hook *hook, const struct attach_known *known,
	const struct hook_sites *sites, bool keep_going, struct helper_work *work)
{
	const struct attach_head head = {.call = attach_call_of_process(),
		.session = hook->counters.session,
		.keep_going = keep_going,
		.site_count = sites->count};

	attach_known_add(&work->request, known);
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

struct probe_error *hook_attach(struct hook *hook, const struct attach_known *known,
	bool keep_going, struct probe_report *report)
{
	struct hook_sites *sites = NULL;
	struct helper_work work = {.act = CONTROLLER_ATTACH, .report = report};
	struct probe_error *error =
		hook_check_processor() ?: find_sites(hook, keep_going, report, &sites);

	if (!error && !sites->count) { /* the library is not loaded yet, or was unloaded */
		sites_free(sites);
		return NULL;
	}
	error = error ?: attach(hook, known, sites, keep_going, &work);
	/*
	 * A controller has died. It may have left patched sites with threads in their stubs, so
	 * keep the hook.
	 */
	hook->is_kept = hook->is_kept || work.died;
	if (!error)
		take_sites(hook, sites, work.result);
	if (error && !work.died) {
		sites_free(sites);
	} else if (sites) {
		sites->next = hook->sites;
		hook->sites = sites;
	}
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

struct probe_error *hook_detach(struct hook *hook, const struct attach_known *known, bool *gone_ret)
{
	AUTO(probe_report_deinit) struct probe_report report = {0};
	struct helper_work work = {.act = CONTROLLER_DETACH,
		.report = &report,
		.result = gone_ret,
		.result_bytes = sizeof(*gone_ret)};
	uint32_t session = hook->counters.session;
	struct probe_error *error = session && !known ? probe_error_no_memory() : NULL;

	*gone_ret = !session;
	if (session && !error) {
		attach_known_add(&work.request, known);
		buffer_bytes(&work.request, &session, sizeof(session));
		error = helper_run(&work);
	}
	/* The stubs call nothing any more. Other code may take their addresses unnoticed. */
	if (error)
		forget_unwinding(hook);
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
	probe_pattern_free(hook->pattern);
	free(hook->text);
	free(hook);
}

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

/* ==== Loader ================================================================================== */

/*
 * Around a change of its list of libraries, the loader calls an empty function for debuggers,
 * `_dl_debug_state` (libprobe/follow/gate.c). Its entry gets a stub, as if it were a probe. At a
 * hit, a new library is mapped, and none of its code has run, not even IFUNC selectors.
 *
 * Sources: <link.h>, struct r_debug.
 */

#pragma weak _r_debug

/* ---- Hits ------------------------------------------------------------------------------- */

/* Runs when the loader's list has changed and, in vain, for new names of user events. */
static void on_state(const struct probe_self_hit *hit, void *data)
{
	static bool adding;
	void (*opened)(void) = (void (*)(void))(uintptr_t)data;

	(void)hit;
	if (!&_r_debug || _r_debug.r_state == RT_ADD) {
		adding = true;
	} else if (_r_debug.r_state == RT_CONSISTENT && adding) {
		adding = false;
		opened();
	}
}

/* ---- Attaching: in the controller ----------------------------------------------------------- */

static void loader_describe_stub(const void *data, const struct reg_session *session, uint32_t slot,
	uint32_t number, struct arch_stub *stub)
{
	const struct follow_head *head = data;

	(void)session;
	(void)slot;
	(void)number;
	stub->guard = head->call.guard;
	stub->actions[0].kind = ARCH_ACTION_CALL;
	stub->actions[0].call =
		(struct arch_call){.function = head->call.function, .data = head->data};
}

static struct probe_error *attach_once(struct probe_target *target,
	const struct attach_known *known, const struct follow_head *head, struct hook_counters *ret)
{
	AUTO(change_end) struct change change;
	struct probe_error *error = attach_begin(target, known, &change);
	uint32_t session;

	if (!error)
		error = gate_attach_call(
			&change, known->caller, loader_describe_stub, head, &session);
	if (!error)
		*ret = attach_counters(&change.registry, session);
	return error;
}

struct probe_error *follow_act(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes)
{
	struct attempt attempt = attempt_begin(target, report);
	AUTO(attach_known_deinit) struct attach_known known = {0};
	bool good = attach_known_read(request, &known);
	struct follow_head head;

	message_read(request, &head, sizeof(head));
	if (request->is_bad || result_bytes != sizeof(struct hook_counters))
		return controller_bad_request();
	if (!good)
		return probe_error_no_memory();
	while (attempt_next(&attempt))
		attempt.error = attach_once(target, &known, &head, result);
	return attempt.error;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static struct hook *new_hook(void (*opened)(void))
{
	struct hook *hook = calloc(1, sizeof(*hook));

	if (!hook)
		return NULL;
	hook->priority = INT_MAX;
	hook->text = strdup("");
	hook->sites = calloc(1, sizeof(*hook->sites));
	if (hook->sites)
		hook->sites->items = calloc(1, sizeof(*hook->sites->items));
	if (hook->text && hook->sites && hook->sites->items &&
		functions_add(&hook->functions, on_state, NULL, (void *)(uintptr_t)opened, false)) {
		hook->sites->count = 1;
		hook->sites->items[0].hook = hook;
		return hook;
	}
	hook_free(hook);
	return NULL;
}

struct probe_error *loader_create(
	void (*opened)(void), const struct attach_known *known, struct hook **ret)
{
	struct hook *hook = new_hook(opened);
	AUTO(probe_report_deinit) struct probe_report report = {0};
	struct helper_work work = {.act = CONTROLLER_FOLLOW, .report = &report};
	struct follow_head head = {.call = attach_call_of_process()};
	struct probe_error *error;

	if (!hook)
		return probe_error_no_memory();
	head.data = (uintptr_t)hook->sites->items;
	work.result = &hook->counters;
	work.result_bytes = sizeof(hook->counters);
	error = hook_check_processor();
	if (!error) {
		attach_known_add(&work.request, known);
		buffer_bytes(&work.request, &head, sizeof(head));
		error = helper_run(&work);
	}
	hook->is_kept = work.died;
	if (error)
		hook_free(hook);
	else
		*ret = hook;
	return error;
}
