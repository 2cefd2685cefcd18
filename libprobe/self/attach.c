/* SPDX-License-Identifier: MIT */
/*
 * Stubs that call functions of the process, installed and removed by its controller. A library may
 * be unloaded or loaded between the process's description of its sites and this: the controller
 * selects sites again, and uses those that both have found.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/patch/patch.h"
#include "libprobe/self/attach.h"
#include "libprobe/self/helper/controller.h"

enum { SPARE_PROBES = 4096 };

/* A site that the process has described. */
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

/* Retires sessions that no hook knows, since a controller died just after its work. */
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

struct probe_error *attach_begin(
	struct probe_target *target, const struct attach_known *known, struct change *change)
{
	struct probe_error *error = change_begin(target, change);

	if (error)
		return error;
	retire_unknown(known, &change->registry);
	return install_heal(change);
}

struct hook_counters attach_counters(const struct registry *registry, uint32_t id)
{
	const struct reg_session *session = registry_session(registry, id);

	return (struct hook_counters){.session = id,
		.cpus = session->cpus,
		.slot_count = session->slot_count,
		.slots_shift = session->slots_shift,
		.slots = session->slots};
}

/* ---- Attaching ------------------------------------------------------------------------------ */

/* The description of a site, or NULL. */
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

/* Keeps the probes that have a description and no stubs of the session yet. */
static void keep_new(
	const struct attaching *a, const struct registry *registry, struct selection *selection)
{
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].unwanted =
			registry_probe(registry, selection->probes[i].key, a->head.session);
	/* The caller that connects a function gets an error, and nothing else: see connect.c. */
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].exact = true;
	for (size_t i = 0; i < selection->site_count; i++)
		if (!find_site(a, selection, i))
			selection->probes[selection->sites[i].probe].unwanted = true;
	selection_drop_unwanted(selection);
}

/* See struct install. Sites are numbered as in the selection. */
static void describe_stub(const void *data, const struct reg_session *session, uint32_t slot,
	uint32_t number, struct arch_stub *stub)
{
	const struct attaching *a = data;
	const struct site *described = find_site(a, a->selection, number);

	(void)session;
	(void)slot;
	stub->kind = ARCH_STUB_CALL;
	stub->guard = a->head.call.guard;
	stub->call = a->head.call.function;
	stub->call_data = described->fixed.data;
	stub->pc = described->fixed.pc;
	stub->captures = described->captures;
	stub->capture_count = described->fixed.capture_count;
	stub->recorded = described->fixed.recorded;
}

/* See struct install. */
static bool comes_before(const void *data, uint32_t session)
{
	const struct attaching *a = data;

	return has_session(&a->known, a->known.before, session);
}

/* What the process needs to know from the registry. */
static void report_attached(const struct attaching *a, const struct registry *registry, uint32_t id,
	struct attached *ret)
{
	ret->counters = attach_counters(registry, id);
	for (size_t i = 0; i < a->head.site_count; i++) {
		const struct attach_site *site = &a->sites[i].fixed;
		size_t count;
		const struct reg_stub *stubs = registry_stubs(registry, site->pc, &count);

		for (size_t k = 0; k < count; k++)
			if (stubs[k].session == id && stubs[k].key == site->key)
				ret->stubs[i] = (struct arch_extent){stubs[k].start, stubs[k].size};
	}
}

static struct probe_error *install_selected(struct attaching *a, struct change *change,
	struct selection *selection, struct probe_report *report, struct attached *ret)
{
	const struct probe_pattern *pattern = a->pattern;
	const struct probe_request request = {
		.patterns = &pattern, .pattern_count = 1, .keep_going = a->head.keep_going};
	struct transaction t = transaction_of(change, TRANSACTION_ADDS);
	struct install install = install_of(&t, selection, &request);
	struct probe_error *error = NULL;

	install.describe = describe_stub;
	install.describe_data = a;
	install.comes_before = comes_before;
	install.session = a->head.session;
	install.spare_probes = SPARE_PROBES;
	install.caller = a->known.caller;
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

static struct probe_error *install_once(struct probe_target *target, struct attaching *a,
	struct probe_report *report, struct attached *ret)
{
	const struct probe_pattern *pattern = a->pattern;
	struct selection selection = {0};
	struct probe_error *error;
	struct change change;

	error = attach_begin(target, &a->known, &change);
	if (!error)
		error = select_probes(&change.modules, &pattern, 1, &selection);
	if (!error)
		error = install_selected(a, &change, &selection, report, ret);
	selection_deinit(&selection);
	change_end(&change);
	return error;
}

static void read_site(struct message *request, struct site *ret)
{
	size_t count;

	message_read(request, &ret->fixed, sizeof(ret->fixed));
	count = message_count(request, ret->fixed.capture_count, sizeof(*ret->captures));
	request->is_bad = request->is_bad || count > ARCH_ARGS_MAX;
	if (!request->is_bad)
		message_read(request, ret->captures, count * sizeof(*ret->captures));
}

/* Reads what is asked for. */
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
	for (size_t i = 0; i < ret->head.site_count; i++)
		read_site(request, &ret->sites[i]);
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
	if (a.pattern)
		probe_pattern_free(a.pattern);
	free(a.sites);
	attach_known_deinit(&a.known);
	return error ? error : attempt.error;
}

/* ---- Detaching ------------------------------------------------------------------------------ */

static struct probe_error *detach(
	struct probe_target *target, const struct attach_known *known, uint32_t id, bool *gone_ret)
{
	struct reg_session *session;
	struct probe_error *error;
	struct change change;

	error = change_begin(target, &change);
	if (error)
		return error;
	retire_unknown(known, &change.registry);
	session = registry_session(&change.registry, id);
	if (session)
		registry_retire(&change.registry, session);
	if (change.registry.home)
		error = uninstall_unreferenced(&change);
	*gone_ret = !error && !registry_session(&change.registry, id);
	change_end(&change);
	return error;
}

struct probe_error *detach_act(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes)
{
	struct attach_known known = {0};
	bool good = attach_known_read(request, &known);
	struct probe_error *error;
	uint32_t session;

	(void)report;
	message_read(request, &session, sizeof(session));
	error = request->is_bad || result_bytes != sizeof(bool) ? controller_bad_request()
		: !good						? probe_error_no_memory()
			: detach(target, &known, session, result);
	attach_known_deinit(&known);
	return error;
}
