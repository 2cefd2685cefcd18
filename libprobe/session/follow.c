/* SPDX-License-Identifier: MIT */
/*
 * Probes what a session's target and its forked children open later. A gate in the loader
 * (follow/follow.h) holds the thread that has opened a library until it is probed.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/session/session.h"

enum {
	GATE_WAIT_NS = 1000000000,
	CATCH_UP_NS = 1000000000, /* time between attempts to probe libraries that were missed */
};

/* Returns true if the process has called execve(2), or has ended. */
static bool is_replaced(const struct probe_target *target)
{
	return target->mem >= 0 && !target_is_there(target);
}

struct probe_error *session_unless_replaced(
	const struct probe_target *target, struct probe_error *error)
{
	if (!is_replaced(target))
		return error;
	probe_error_free(error);
	return NULL;
}

/*
 * Drops files' probes while the loader maps a library, because the loader may overwrite semaphores.
 * The loading thread comes to the gate when the library is complete. Probes of user events stay:
 * their files are complete before they have names.
 */
static void leave_to_loader(struct change *c, struct selection *selection)
{
	if (!selection->probe_count || !gate_list_changes(c))
		return;
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].unwanted =
			strcmp(selection->probes[i].module->path, "/memfd:posix_trace") != 0;
	selection_drop_unwanted(selection);
}

/* Returns true if the first `count` refusals of a report name a probe for a reason. */
static bool is_told(const struct probe_report *report, size_t count, const char *reason,
	const char *provider, const char *name, const char *path)
{
	for (size_t i = 0; i < count; i++) {
		const struct probe_refusal *r = &report->refusals[i];

		if (!strcmp(r->reason, reason) && !strcmp(r->provider, provider) &&
			!strcmp(r->name, name) && !strcmp(r->path, path))
			return true;
	}
	return false;
}

/* Reports a selection's probes as refused, each probe once for a reason. */
static struct probe_error *session_refuse(
	struct probe_session *s, const struct selection *selection, const char *why)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < selection->probe_count && !error; i++) {
		struct select_probe probe = selection->probes[i];

		/* The target, or another child with the library, may have had it. */
		if (is_told(&s->report, s->report.refusal_count, why, probe.provider, probe.name,
			    probe.module->path))
			continue;
		/*
		 * Report it as if the user had named it, because no row shows that it was refused.
		 */
		probe.exact = true;
		for (size_t k = 0; k < probe.site_count && !error; k++) {
			struct select_site site = selection->sites[probe.first_site + k];

			select_refuse(&site, why);
			error = report_refusal(&s->report, &probe, &site);
		}
	}
	return error;
}

void session_share_slots(struct probe_session *s, struct change *c)
{
	struct reg_session *reg = registry_session(&c->registry, s->id);

	if (reg && reg->slot_count < s->slot_count)
		reg->slot_count = s->slot_count;
	if (reg)
		s->slot_count = reg->slot_count;
}

/* Installs the new probes of the target, or of a forked child. */
static struct probe_error *follow_new(struct probe_session *s, struct change *c,
	struct selection *selection, struct probe_report *report)
{
	const struct reg_session *reg = registry_session(&c->registry, s->id);
	bool names = s->names.naming || s->names.unwinder;
	struct probe_error *error;

	for (size_t m = 0; m < s->group.member_count; m++)
		names |= s->group.members[m]->names.naming || s->group.members[m]->names.unwinder;
	/* Addresses get names of the target's files. */
	if (c->target != s->target && names)
		return session_refuse(s, selection,
			"a forked child has opened it by itself, and call stacks and names of "
			"addresses are known only of what its parent has opened");
	session_share_slots(s, c);
	fate_begin(c->target);
	error = session_install_returned(s, c, selection, report);
	/* Libraries at new addresses take new counters, of which there is a fixed number. */
	if (!error && reg && reg->slot_capacity - reg->slot_count < selection->probe_count)
		error = session_refuse(s, selection,
			"the trace has no counter left, after thousands of libraries were opened: "
			"begin another one");
	else if (!error && selection->probe_count)
		error = session_install(s, c, selection, report);
	session_share_slots(s, c);
	return error;
}

/*
 * Drops probes that the session already has, and probes of unreadable files. Probes that
 * probe_session_select() has switched off are not in the registry.
 */
static void keep_new(
	const struct probe_session *s, const struct change *c, struct selection *selection)
{
	for (size_t i = 0; i < selection->probe_count; i++) {
		struct select_probe *probe = &selection->probes[i];

		probe->unwanted =
			!probe->module->object || registry_probe(&c->registry, probe->key, s->id);
		for (size_t k = 0; k < s->probe_count; k++)
			probe->unwanted |= s->known[k].off && s->known[k].key == probe->key;
	}
	selection_drop_unwanted(selection);
}

/*
 * Probes libraries that the target, or a forked child, has opened since the last call. Threads that
 * open more wait for the next call.
 */
static struct probe_error *follow_once(
	struct probe_session *s, struct probe_target *target, struct probe_report *report)
{
	AUTO(selection_deinit) struct selection selection = {0};
	const struct reg_session *reg;
	bool is_own = target == s->target;
	struct probe_error *error;
	struct change c;

	/*
	 * A child of vfork(2) at the gate would keep its parent from being stopped, so disarm the
	 * gate. Programs are then found a little later.
	 */
	gate_arm(&s->gates.exec.gate, false);
	error = change_begin(target, &c);
	if (error) {
		gate_arm(&s->gates.exec.gate, true);
		return session_unless_replaced(target, error);
	}
	session_names_refresh(&s->names);
	for (size_t m = 0; m < s->group.member_count; m++)
		session_names_refresh(&s->group.members[m]->names);
	/* Refusals go to the report: --keep-going does not apply. */
	s->request.keep_going = true;
	/* A child that waits may execute another program, which has no copy of the session. */
	reg = registry_session(&c.registry, s->id);
	if (is_own || (reg && reg->stamp == s->data.rings.layout.stamp))
		error = session_select_asked(s, &c, &selection);
	if (!error) {
		keep_new(s, &c, &selection);
		leave_to_loader(&c, &selection);
		error = report_drop_lacking(&selection, report);
	}
	if (!error && selection.probe_count) {
		error = follow_new(s, &c, &selection, report);
		if (!error && is_own)
			session_keep_filters(s, &c);
	}
	change_end(&c);
	gate_arm(&s->gates.exec.gate, true);
	return error ? session_unless_replaced(target, error) : NULL;
}

static struct probe_error *follow_in(struct probe_session *s, struct probe_target *target,
	bool hurry, struct probe_report *report)
{
	struct attempt attempt = attempt_begin(target, report);

	target->hurry = hurry;
	while (attempt_next(&attempt))
		attempt.error = follow_once(s, target, report);
	target->hurry = false;
	return attempt.error;
}

struct probe_error *session_follow(struct probe_session *s, bool hurry)
{
	return follow_in(s, s->target, hurry, &s->report);
}

/* Returns true if there is time for another attempt. */
static bool may_wait(struct probe_session *s)
{
	uint64_t now = clock_monotonic_ns();

	if (!s->gates.since_ns)
		s->gates.since_ns = now;
	return now - s->gates.since_ns < GATE_WAIT_NS;
}

/* Returns true if the error passes: another controller is changing the target at the moment. */
static bool is_passing(const struct probe_error *error)
{
	return error && (error->code == PROBE_ERROR_STATE || error->code == PROBE_ERROR_BUSY);
}

struct probe_error *session_settle(struct probe_session *s, struct probe_error *error)
{
	bool was_behind = s->gates.catch_up_ns != 0;
	struct probe_error *second = NULL;

	if (error && !is_passing(error) && error->code != PROBE_ERROR_PERMISSION)
		return error;
	if (error && !was_behind)
		second = report_note(&s->report,
			"process %d: hits in libraries that it opens are not seen for now: %s",
			s->target->pid, error->message);
	/* With a debugger attached, an attempt succeeds only if nothing is to be probed. */
	if (error || (was_behind && procfs_status_number(s->target->pid, "TracerPid:") > 0)) {
		s->gates.catch_up_ns = clock_monotonic_ns() + CATCH_UP_NS;
		probe_error_free(error);
		return second;
	}
	s->gates.catch_up_ns = 0;
	if (!was_behind || is_replaced(s->target))
		return NULL;
	return report_note(&s->report, "process %d: hits in libraries that it opens are seen again",
		s->target->pid);
}

/*
 * Moves a child's report to that of the session: refusals, unless it has them of another process,
 * and numbers, if the session has no other process with these sites.
 */
static struct probe_error *tell_of_child(
	struct probe_session *s, struct probe_report *report, bool is_new)
{
	struct probe_report *all = &s->report;
	size_t told = all->refusal_count;

	all->probes += is_new ? report->probes : 0;
	all->sites += is_new ? report->sites : 0;
	for (size_t i = 0; i < sizeof(all->plans) / sizeof(all->plans[0]) && is_new; i++)
		all->plans[i] += report->plans[i];
	for (size_t i = 0; i < report->refusal_count; i++) {
		struct probe_refusal *r = &report->refusals[i];

		if (is_told(all, told, r->reason, r->provider, r->name, r->path))
			continue;
		if (!ARRAY_ADD(all->refusals, all->refusal_count, *r))
			return probe_error_no_memory();
		*r = (struct probe_refusal){0};
	}
	return NULL;
}

/*
 * Probes what a forked child has opened by itself, with the session's next numbers. *again_ret
 * becomes true if the child cannot be changed now, and may wait. Errors: PROBE_ERROR_MEMORY.
 */
static struct probe_error *follow_child(struct probe_session *s, pid_t pid, bool *again_ret)
{
	struct probe_target *child = NULL;
	AUTO(probe_report_deinit) struct probe_report report = {0};
	size_t sites = s->site_count;
	struct probe_error *error = probe_target_open(pid, NULL, &child), *second;

	if (!error) {
		child->files = files_hold(s->target->files);
		error = follow_in(s, child, true, &report);
	}
	second = tell_of_child(s, &report, s->site_count > sites);
	if (is_passing(error) && !s->gates.catch_up_ns && may_wait(s))
		*again_ret = true;
	else if (error && error->code != PROBE_ERROR_NOT_FOUND && !s->gates.child_told &&
		 (!child || probe_target_alive(child))) {
		s->gates.child_told = true;
		second = probe_error_first(second,
			report_note(&s->report,
				"process %d: hits in what it has opened since it was forked are "
				"not seen, nor may those of other children be: %s",
				pid, error->message));
	}
	probe_error_free(error);
	probe_target_close(child);
	return second;
}

/* Probes what forked children have opened while the gate held none of their threads. */
static struct probe_error *follow_heirs(struct probe_session *s, bool *again_ret)
{
	AUTO_FREE pid_t *heirs = s->image ? inherited_heirs(s->image) : NULL;
	struct probe_error *error = NULL;

	for (size_t i = 0; heirs && heirs[i] && !error; i++)
		if (!children_share(heirs[i], s->target->pid))
			error = follow_child(s, heirs[i], again_ret);
	return error;
}

struct probe_error *session_serve_gate(struct probe_session *s)
{
	struct waiters waiters = {0};
	bool ours = false, again = false, follows, has_to_wait;
	struct probe_error *error;

	if (s->gates.event < 0)
		return NULL;
	gate_clear(s->gates.event);
	session_note_waiting(s);
	error = session_note_lapse(s);
	if (error || (!gate_take(&s->gates.loader) && !s->gates.lapsed))
		return error;
	/*
	 * A starting program's parent may be in vfork(2) and cannot be stopped, so the library
	 * waits until the program runs, or has taken too long.
	 */
	has_to_wait = s->options.watch &&
		      launches_depend(watch_launches(s->options.watch), &s->gates.exec);
	if (!waiters_find(&waiters, &s->gates.loader, &s->gates.loader_place) ||
		(has_to_wait && may_wait(s))) {
		free(waiters.items);
		gate_raise(s->gates.event);
		return NULL;
	}
	for (size_t i = 0; i < waiters.count && !error; i++) {
		if (waiters.items[i].pid == s->target->pid ||
			children_share(waiters.items[i].pid, s->target->pid))
			ours = true;
		else
			error = follow_child(s, waiters.items[i].pid, &again);
	}
	if (!error && s->gates.lapsed)
		error = follow_heirs(s, &again);
	/* Do this also if no thread waits: one may have continued, or may not have been found. */
	follows = !error && (ours || !waiters.count || s->gates.lapsed);
	if (follows)
		error = session_follow(s, true);
	free(waiters.items);
	again |= is_passing(error) && !s->gates.catch_up_ns && may_wait(s);
	if (again && (!error || is_passing(error))) {
		probe_error_free(error);
		gate_raise(s->gates.event);
		return NULL;
	}
	s->gates.since_ns = 0;
	s->gates.lapsed = false;
	gate_release(&s->gates.loader);
	return follows ? session_settle(s, error) : error;
}
