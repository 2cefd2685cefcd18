/* SPDX-License-Identifier: MIT */
/* Attached sessions: they belong to this process and end with it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/base/clock.h"
#include "libprobe/follow/follow.h"
#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"
#include "libprobe/ptrace/ptrace.h"

enum {
	SPARE_PROBES = 4096,	 /* for probes of libraries that are opened later */
	SESSION_DESCRIPTORS = 16 /* what it keeps, and what its end needs besides the modules */
};

/* Sites that have no stub of the session were refused. */
static struct probe_coverage coverage_of(const struct probe_session *s, const struct registry *r,
	const struct selection *selection, const struct select_probe *probe)
{
	struct probe_coverage coverage = {0};

	for (size_t i = 0; i < probe->site_count; i++) {
		uint64_t pc = selection->sites[probe->first_site + i].pc;
		size_t count = 0;
		const struct reg_stub *stubs = pc ? registry_stubs(r, pc, &count) : NULL;
		bool counted = false;

		for (size_t k = 0; k < count; k++)
			counted |= stubs[k].session == s->id && stubs[k].key == probe->key;
		coverage.sites += pc != 0;
		coverage.refused += pc && !counted;
	}
	return coverage;
}

struct probe_error *session_take_probes(
	struct probe_session *s, const struct registry *registry, const struct selection *selection)
{
	size_t first = s->probe_count - selection->probe_count;

	for (size_t i = 0; i < selection->probe_count; i++) {
		const struct select_probe *p = &selection->probes[i];
		const struct reg_probe *counted = registry_probe(registry, p->key, s->id);

		if (!counted)
			return probe_error_no_memory();
		s->known[first + i].slot = counted->slot;
		s->probes[first + i].coverage = coverage_of(s, registry, selection, p);
	}
	return NULL;
}

/* A process's id as it sees it itself; 0: not known. */
static uint32_t own_pid(pid_t pid)
{
	long own = procfs_status_last_number(pid, "NSpid:");

	return own > 0 ? (uint32_t)own : 0;
}

static struct probe_error *take_options(struct probe_session *s,
	const struct probe_request *request, const struct probe_session_options *options)
{
	size_t ring = options->ring_bytes ? options->ring_bytes : DATA_RING_DEFAULT;
	struct probe_error *error;

	if ((unsigned int)options->kind > PROBE_SESSION_GATHER ||
		(unsigned int)options->stack > PROBE_STACK_FRAMES ||
		(unsigned int)options->gather.pairing > PROBE_PAIRING_NAMES)
		return probe_error_new(PROBE_ERROR_USAGE,
			"there is no session of kind %d with stacks %d and pairs %d",
			(int)options->kind, (int)options->stack, (int)options->gather.pairing);
	if (options->file && !options->overwrite)
		return probe_error_new(
			PROBE_ERROR_USAGE, "only a flight recorder (-t ring) can have a file");
	if (options->file) {
		error = lasting_check(options->file);
		if (error)
			return error;
	}
	s->options = *options;
	s->options.may_shrink |= !options->ring_bytes;
	writers_init(&s->processes, s->target->pid, options->follow_children);
	error = asked_init_named(&s->asked, options, request->patterns, request->pattern_count);
	if (error)
		return error;
	s->options.gather.key_count = s->asked.key_count;
	if (s->asked.kept_count && !options->spans)
		s->keep_bytes = sizeof(struct probe_begun) + s->asked.kept_bytes;
	if (!options->follow_children)
		s->target_pid = own_pid(s->target->pid);
	if (options->spans || s->asked.of_pair)
		s->tick_ns32 = clock_tick_ns32(&s->clock);
	error = session_take_wait(s);
	if (error)
		return error;
	if (options->sample_rate)
		s->rate_ticks = clock_ticks_per_s(&s->clock);
	if (ring > DATA_RING_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"a ring of %zu MiB (-b) is too large: it may have at most %d MiB",
			ring >> 20, DATA_RING_MAX >> 20);
	s->options.ring_bytes = ring < DATA_RING_MIN ? DATA_RING_MIN : ring;
	s->patterns = calloc(request->pattern_count + 1, sizeof(*s->patterns));
	s->matched = calloc(request->pattern_count + 1, sizeof(*s->matched));
	if (!s->patterns || !s->matched)
		return probe_error_no_memory();
	if (request->pattern_count)
		memcpy(s->patterns, request->patterns,
			request->pattern_count * sizeof(*s->patterns));
	s->request = *request;
	s->request.patterns = s->patterns;
	return NULL;
}

struct probe_error *session_create(struct probe_target *target, uint64_t (*counter)(void),
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_session **ret)
{
	struct probe_session *s = malloc(sizeof(*s));
	struct probe_error *error;

	if (!s)
		return probe_error_no_memory();
	*s = (struct probe_session){.target = target, .data = -1, .event = -1};
	clock_init(&s->clock, counter);
	error = take_options(s, request, options);
	if (error)
		probe_session_free(s);
	else
		*ret = s;
	return error;
}

/* Those that were switched off are not in the registry. */
static bool is_off(const struct probe_session *s, uint64_t key)
{
	for (size_t i = 0; i < s->probe_count; i++)
		if (s->known[i].off && s->known[i].key == key)
			return true;
	return false;
}

void session_keep_new(
	const struct probe_session *s, const struct change *c, struct selection *selection)
{
	for (size_t i = 0; i < selection->probe_count; i++) {
		struct select_probe *probe = &selection->probes[i];

		probe->unwanted = !probe->module->object ||
				  registry_probe(&c->registry, probe->key, s->id) ||
				  is_off(s, probe->key);
	}
	selection_drop_unwanted(selection);
}

/*
 * Maps the session's memory and takes over its probes while no site leads to its stubs yet: if this
 * fails, nothing has been switched on. See struct install.
 */
static struct probe_error *take_session(void *data, struct install *install)
{
	const struct registry *registry = &install->change->registry;
	struct probe_session *s = data;
	struct probe_error *error = NULL;

	s->id = install->session;
	if (install->fd >= 0) {
		error = rings_open(install->fd, registry_session(registry, s->id), &s->rings);
		if (error)
			return error;
		s->data = install->fd;
		install->fd = -1;
		s->view = (struct snapshot){
			.base = s->rings.base, .fd = s->data, .layout = s->rings.layout};
		error = session_open_wait(s);
		if (error)
			return error;
	}
	error = session_take_probes(s, registry, install->selection);
	return error ? error : session_watch(s, registry);
}

/* Attaches a selection: to a new session, or to the one that is there. */
struct probe_error *session_install(struct probe_session *s, struct change *c,
	struct selection *selection, struct probe_report *report)
{
	struct transaction t = transaction_of(c, TRANSACTION_ADDS);
	struct install install = session_attach(s, &t, selection);
	size_t probes = s->probe_count, sites = s->site_count;
	struct probe_error *error = session_prepare(s, c, selection, report);

	install.first_site = sites;
	install.spare_probes = s->options.follow_libraries ? SPARE_PROBES : 1;
	install.needs = session_needs(s);
	install.needs.notes_bytes = error ? 0 : notes_bytes(s);
	if (!error && !s->id)
		error = session_fit(
			s, &install.needs, selection->probe_count + install.spare_probes, report);
	/*
	 * Sites of later libraries may be patched, so all of these may be refused; a session that
	 * follows libraries checks the total at the end.
	 */
	install.served = s->options.follow_libraries;
	install.take = take_session;
	install.take_data = s;
	if (!error)
		error = install_all(&install, report);
	if (error) {
		session_unprepare(s, probes, sites);
		probe_error_free(session_watch(s, &c->registry));
	} else {
		s->calls |= install.asks ? SECCOMP_ASK & c->seccomp.allowed : 0;
		s->calls |= install.asks_name ? SECCOMP_NAME : 0;
		s->calls |= install.asks_cpu ? SECCOMP_CPU : 0;
		s->calls |= install.asks_stack ? SECCOMP_STACK & c->seccomp.allowed : 0;
		s->calls |= install.waits ? SECCOMP_WAIT : 0;
	}
	for (size_t i = 0; i < s->request.pattern_count && !error; i++)
		s->matched[i] = s->matched[i] || selection->matched[i];
	install_deinit(&install);
	transaction_end(&t);
	return error;
}

/* Without patterns, nothing is selected: the session only follows. */
struct probe_error *session_select_asked(
	const struct probe_session *s, struct change *c, struct selection *ret)
{
	struct probe_error *error;

	if (!s->request.pattern_count)
		return NULL;
	error = recall_probes(&c->modules, c->pid, &c->maps, &c->registry, NULL, 0);
	if (!error)
		error = select_probes(&c->modules, s->patterns, s->request.pattern_count, ret);
	if (!error)
		later_drop(s->target, &s->request, ret);
	return error;
}

/* For a pattern without a match, says what could wait for it. */
static struct probe_error *may_come(struct probe_error *error)
{
	struct probe_error *more;

	if (!error || error->code != PROBE_ERROR_NOT_FOUND)
		return error;
	more = probe_error_new(error->code,
		"%s; --follow waits for libraries that are opened later", error->message);
	more->err = error->err;
	probe_error_free(error);
	return more;
}

/* With the target's state read and locked. */
static struct probe_error *start(
	struct probe_session *s, struct change *c, struct probe_report *report)
{
	struct selection selection = {0};
	struct probe_error *error;

	/* Its end is a change, too, when it has taken what it keeps. */
	error = change_need_descriptors(c, SESSION_DESCRIPTORS);
	if (!error)
		error = install_heal(c);
	if (!error)
		error = report_memory(report, c);
	if (!error)
		error = session_stack_start(s, c->arch);
	if (!error)
		error = session_select_asked(s, c, &selection);
	if (!error)
		error = select_check_arguments(&selection);
	/* How a program without a wanted probe ends need not be known. */
	if (selection.probe_count || !s->target->held)
		fate_begin(s->target);
	if (!error && !s->options.follow_libraries)
		error = may_come(select_unmatched(&c->modules, &selection, s->patterns, c->pid));
	if (!error)
		error = report_drop_unread(
			&selection, &s->request, s->options.follow_libraries, c->pid, report);
	if (!error)
		error = session_install(s, c, &selection, report);
	selection_deinit(&selection);
	return error;
}

struct probe_error *probe_sessions_heirs(
	struct probe_session *const *sessions, size_t count, size_t *ret)
{
	uint64_t *images = calloc(count + 1, sizeof(*images));

	if (!images)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++)
		images[i] = sessions[i]->image;
	inherited_count(images, count, ret);
	free(images);
	return NULL;
}

static struct probe_error *start_once(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, struct probe_session **ret)
{
	uint64_t (*counter)(void) = target->no_counter ? NULL : arch_process()->counter;
	struct probe_session *s;
	struct probe_error *error = session_create(target, counter, request, options, &s);
	bool started = false;
	struct change c;

	if (error)
		return error;
	if (!target->files && options->watch)
		target->files = files_hold(watch_launches(options->watch)->files);
	error = session_reserve(s);
	if (!error)
		error = session_prepare_gates(s);
	inherited_begin(target->pid, &s->goes_on);
	s->image = options->follow_children ? inherited_image(target->pid) : 0;
	if (!error)
		error = change_begin(target, &c);
	if (!error) {
		error = start(s, &c, report);
		started = !error;
		if (!error && (options->follow_libraries || options->watch))
			error = session_start_following(s, &c, report);
		if (!error)
			session_keep_filters(s, &c);
		change_end(&c);
	}
	/* A library may have been opened before the gate existed. */
	if (!error && options->follow_libraries && !target->held)
		error = session_follow(s);
	if (error && started)
		probe_error_free(probe_session_stop(s));
	if (error) {
		probe_session_free(s);
		return error;
	}
	*ret = s;
	return NULL;
}

struct probe_error *probe_session_start(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, struct probe_session **ret)
{
	struct attempt attempt = attempt_begin(target, report);

	while (attempt_next(&attempt))
		attempt.error = start_once(target, request, options, report, ret);
	return attempt.error;
}

const struct probe_report *probe_session_report(const struct probe_session *session)
{
	return &session->report;
}

bool probe_session_matched(const struct probe_session *session, size_t pattern)
{
	return pattern < session->request.pattern_count && session->matched[pattern];
}

size_t probe_session_unmatched(const struct probe_session *session)
{
	size_t i = 0;

	while (i < session->request.pattern_count && session->matched[i])
		i++;
	return i;
}

/* ---- Reading ------------------------------------------------------------------------ */

/* Its records are handed over first: after an error a caller does not poll again. */
static struct probe_error *stop_for_filters(
	struct probe_session *s, bool (*visit)(const struct probe_hit *hit, void *data), void *data)
{
	struct probe_error *error = session_look_at_filters(s);

	if (!error)
		return NULL;
	probe_error_free(probe_session_stop(s));
	session_read_rings(s, visit, data);
	session_update_counts(s);
	return error;
}

struct probe_error *probe_session_poll(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data, bool *more_ret)
{
	struct probe_error *error = NULL;
	bool any = session_read_rings(session, visit, data);

	control_let_late_go();
	session_update_counts(session);
	if (session->stopped && visit && !any && !session->options.overwrite)
		rings_discharge(&session->rings);
	if (more_ret)
		*more_ret = any;
	if (!session->stopped) {
		session_give_back_flights(session);
		error = session_serve_gate(session);
	}
	if (!error && !session->stopped)
		error = session_catch_up(session);
	if (!error && !session->stopped)
		error = stop_for_filters(session, visit, data);
	return error;
}

int probe_session_fd(const struct probe_session *session)
{
	return session->gate.shared || session->wait.shared ? session->event : -1;
}

const struct probe_session_probe *probe_session_probes(
	const struct probe_session *session, size_t *count_ret)
{
	*count_ret = session->probe_count;
	return session->probes;
}
