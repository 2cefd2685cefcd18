/* SPDX-License-Identifier: MIT */
/* Attached sessions, which belong to this process and end with it. */
#include <stdlib.h>
#include <string.h>

#include "arch/process.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/session/session.h"

/* ==== Filters ================================================================================= */

/*
 * A program may install a seccomp filter at any time, even with stubs that make system calls. So
 * threads are checked at intervals (/proc/PID/task/TID/status), which takes a small part of the
 * time. If a new filter forbids the calls, or cannot be read, the session ends.
 */

enum { LOOK_NS = 100 * 1000 * 1000, LOOK_SHARE = 100 };

/* Checks that all filters still allow the stubs' system calls. */
static struct probe_error *judge_again(struct probe_session *s, unsigned int needed)
{
	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(s->target, &c);

	if (error)
		return error;
	error = change_judge(&c);
	for (unsigned int kind = 1; kind <= needed && !error; kind <<= 1)
		if (needed & kind & ~c.seccomp.allowed)
			error = seccomp_error(&c.seccomp, kind);
	return error;
}

/*
 * Checks at intervals. Errors: PROBE_ERROR_UNSUPPORTED (a filter forbids the calls, or is
 * unreadable: the session must end).
 */
static struct probe_error *session_look_at_filters(struct probe_session *session)
{
	uint64_t begin = clock_monotonic_ns(), end;
	bool waits = session->gates.loader.shared || session->gates.exec.gate.shared;
	unsigned int needed = session->filters.stub_calls | (waits ? SECCOMP_WAIT : 0);
	struct probe_error *error = NULL;

	if (!needed || begin < session->filters.look_again_ns)
		return NULL;
	if (seccomp_has_grown(&session->filters.known))
		error = judge_again(session, needed);
	end = clock_monotonic_ns();
	session->filters.look_again_ns = end + LOOK_NS + LOOK_SHARE * (end - begin);
	if (error && error->code == PROBE_ERROR_UNSUPPORTED)
		return probe_error_prefix(error, "its probes are switched off");
	probe_error_free(error); /* other errors are handled and reported elsewhere */
	return NULL;
}

/* ==== Sessions that share stubs =============================================================== */

/*
 * Each site has one stub for all of them, with an action for each, so a
 * hit saves registers, reads arguments and samples once (arch/stub.h).
 *
 * The first of the sessions, the leader, is what the registry and other controllers see: it has the
 * stubs, the gates and the memory. The others are its members. A member is a session like any other
 * for those who read it: it has probes, expressions and a part of the leader's memory with slots,
 * cells, a table of start events, or rings. They all end at once, because their stubs do.
 *
 * Only one session records, because a stub has one layout of records. The expressions of the others
 * use its captures, and add those that they need besides.
 */

/* Returns true if a session with these options can share its stubs at all. */
static bool may_share(const struct probe_session_options *o)
{
	return !o->overwrite && !o->file && !o->filter_count && !o->switched && !o->until_full &&
	       !o->filter_value && !o->begin_stacks && o->stack == PROBE_STACK_NONE &&
	       /* probes without a partner are dropped for one session and not for the other */
	       o->gather.pairing != PROBE_PAIRING_NAMES &&
	       /* the filter of a pair is for its start event, or for both events */
	       (!o->filter || o->gather.pairing == PROBE_PAIRING_NONE);
}

/* Returns true if hits of both sessions are filtered, sampled and followed in the same way. */
static bool go_together(
	const struct probe_session_options *a, const struct probe_session_options *b)
{
	return may_share(a) && may_share(b) && !a->filter == !b->filter &&
	       (!a->filter || !strcmp(a->filter, b->filter)) &&
	       a->sample_every == b->sample_every && a->sample_rate == b->sample_rate &&
	       a->string_bytes == b->string_bytes && a->catalogue == b->catalogue &&
	       a->follow_libraries == b->follow_libraries &&
	       a->follow_children == b->follow_children &&
	       (a->kind != PROBE_SESSION_RECORD || b->kind != PROBE_SESSION_RECORD);
}

/*
 * Makes all but one of the sessions members of that one, the leader. Errors:
 * PROBE_ERROR_UNSUPPORTED (they cannot share stubs).
 */
static struct probe_error *join(
	struct probe_session *const *sessions, size_t count, struct probe_session **leader_ret)
{
	struct probe_session *leader = sessions[0];
	size_t keeping = 0;

	*leader_ret = leader;
	if (count == 1)
		return NULL;
	for (size_t i = 0; i < count; i++)
		keeping += sessions[i]->asked.kept_count > 0;
	/* Memory that is allocated in advance has no room to waste between parts. */
	if (keeping > 1 || overcommit_is_strict())
		return probe_error_new(
			PROBE_ERROR_UNSUPPORTED, "the sessions cannot share their stubs");
	leader->group.recorder = leader;
	for (size_t i = 0; i < count; i++) {
		if (sessions[i]->options.kind == PROBE_SESSION_RECORD)
			leader->group.recorder = sessions[i];
		if (i == 0)
			continue;
		sessions[i]->group.leader = leader;
		leader->group.members[leader->group.member_count++] = sessions[i];
		/* One watch serves all, and the leader has the gates. */
		if (sessions[i]->options.watch)
			leader->options.watch = sessions[i]->options.watch;
		sessions[i]->options.watch = NULL;
	}
	return NULL;
}

/* ==== Session ================================================================================= */

/* descriptors kept by a session or needed at its end, without those of modules */
enum { SESSION_DESCRIPTORS = 16 };

/* Learns the functions that the patterns name from the debug information of the process's files. */
static struct probe_error *learn(struct probe_session *s, const struct probe_request *request)
{
	AUTO(selection_deinit) struct selection selection = {0};
	AUTO(modules_deinit) struct modules modules = {0};
	struct probe_error *error = modules_read(s->target->pid, NULL, &modules);

	if (error)
		return error;
	modules.catalogue = s->options.catalogue;
	return select_probes(&modules, request->patterns, request->pattern_count, &selection);
}

/*
 * Parses the expressions. Names that nothing else describes may be those of arguments of functions,
 * for which the process's files are read.
 */
static struct probe_error *init_asked(struct probe_session *s, const struct probe_request *request)
{
	const struct probe_session_options *o = &s->options;
	const char *texts[4 + PROBE_KEYS_MAX] = {
		o->filter, o->gather.value, o->gather.match, o->gather.match_end};
	struct probe_error *error = NULL, *wrong;
	bool has_functions = false;

	for (size_t i = 0; i < o->gather.key_count && i < PROBE_KEYS_MAX; i++)
		texts[4 + i] = o->gather.keys[i];
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts) && o->catalogue && !error; i++)
		error = texts[i] ? meaning_want(o->catalogue, texts[i]) : NULL;
	for (size_t i = 0; i < o->filter_count && o->catalogue && !error; i++)
		if (o->filters[i].filter)
			error = meaning_want(o->catalogue, o->filters[i].filter);
	if (error)
		return error;
	wrong = asked_init_named(&s->asked, o, request->patterns, request->pattern_count);
	for (size_t i = 0; i < request->pattern_count; i++)
		has_functions |= pattern_is_function(request->patterns[i]);
	if (!wrong || wrong->code != PROBE_ERROR_USAGE || !has_functions || !o->catalogue)
		return wrong;
	error = learn(s, request);
	if (error)
		return probe_error_first(wrong, error);
	probe_error_free(wrong);
	wrong = asked_init_named(&s->asked, o, request->patterns, request->pattern_count);
	if (!wrong || !o->follow_libraries)
		return wrong;
	error = probe_error_new(wrong->code,
		"%s; names by debug information of libraries that are opened later are unknown: "
		"use argN for these",
		wrong->message);
	probe_error_free(wrong);
	return error;
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
	error = init_asked(s, request);
	if (error)
		return error;
	s->options.gather.key_count = s->asked.key_count;
	if (s->asked.kept_count && !options->spans)
		s->pairs.keep_bytes = sizeof(struct probe_begun) + s->asked.kept_bytes;
	if (!options->follow_children) {
		long own = procfs_status_last_number(s->target->pid, "NSpid:");

		s->target_pid = own > 0 ? (uint32_t)own : 0;
	}
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
	*s = (struct probe_session){.target = target, .data.fd = -1, .gates.event = -1};
	clock_init(&s->clock, counter);
	error = take_options(s, request, options);
	if (error)
		probe_session_free(s);
	else
		*ret = s;
	return error;
}

/* Starts the session, with the target's state read and locked. */
static struct probe_error *start(
	struct probe_session *s, struct change *c, struct probe_report *report)
{
	AUTO(selection_deinit) struct selection selection = {0};
	struct probe_error *error, *more;

	/* A session's end needs descriptors, too. */
	error = change_need_descriptors(c, SESSION_DESCRIPTORS)
		?: install_heal(c)
		?: report_memory(report, c)
		?: session_stack_start(s, c->arch);
	for (size_t m = 0; m < s->group.member_count && !error; m++)
		error = session_stack_start(s->group.members[m], c->arch);
	error = error
		?: session_select_asked(s, c, &selection)
		?: select_check_arguments(&selection);
	/* If the program has no wanted probes, the way it ends is not reported. */
	if (selection.probe_count || !s->target->held)
		fate_begin(s->target);
	if (!error && !s->options.follow_libraries) {
		error = select_unmatched(&c->modules, &selection, s->patterns, c->pid);
		if (error && error->code == PROBE_ERROR_NOT_FOUND) {
			more = probe_error_new(error->code,
				"%s; --follow waits for libraries that are opened later",
				error->message);
			more->err = error->err;
			probe_error_free(error);
			error = more;
		}
	}
	if (!error)
		error = report_drop_unread(
			&selection, &s->request, s->options.follow_libraries, c->pid, report);
	return error ?: session_install(s, c, &selection, report);
}

struct probe_error *probe_sessions_heirs(
	struct probe_session *const *sessions, size_t count, size_t *ret)
{
	AUTO_FREE uint64_t *images = calloc(count + 1, sizeof(*images));

	if (!images)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++)
		images[i] = sessions[i]->image;
	inherited_count(images, count, ret);
	return NULL;
}

/* Starts a session that was created, with its members. */
static struct probe_error *start_created(struct probe_session *s, struct probe_report *report)
{
	const struct probe_session_options *options = &s->options;
	struct probe_target *target = s->target;
	struct probe_error *error;
	bool started = false;
	struct change c;

	if (!target->files && options->watch)
		target->files = files_hold(watch_launches(options->watch)->files);
	error = session_reserve(s) ?: session_prepare_gates(s);
	inherited_begin(target->pid, &s->goes_on);
	s->image = options->follow_children ? inherited_image(target->pid) : 0;
	for (size_t m = 0; m < s->group.member_count; m++)
		s->group.members[m]->image = s->image;
	error = error ?: change_begin(target, &c);
	if (!error) {
		error = start(s, &c, report);
		started = !error;
		if (!error && (options->follow_libraries || options->watch))
			error = session_unless_replaced(target, session_add_gates(s, &c, report));
		if (!error && (options->follow_libraries || options->watch))
			error = session_watch(s, &c.registry);
		if (!error)
			session_keep_filters(s, &c);
		session_share_slots(s, &c);
		change_end(&c);
	}
	/* The target may have opened a library before the gate existed. */
	if (!error && options->follow_libraries && !target->held)
		error = session_follow(s, false);
	if (error && started)
		probe_error_free(probe_session_stop(s));
	return error;
}

/*
 * Starts sessions with a stub for all of them at each site. `report` is about all. Errors: as
 * probe_session_start(), and those of join().
 */
static struct probe_error *start_once(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *const *options,
	size_t count, struct probe_report *report, struct probe_session **ret)
{
	uint64_t (*counter)(void) = target->no_counter ? NULL : arch_process()->counter;
	struct probe_session *leader = NULL;
	struct probe_error *error = NULL;
	size_t created = 0;

	while (created < count && !error) {
		error = session_create(target, counter, request, options[created], &ret[created]);
		created += !error;
	}
	error = error ?: join(ret, count, &leader) ?: start_created(leader, report);
	while (error && created)
		probe_session_free(ret[--created]);
	return error;
}

/* Starts sessions[indices[0..count)], joined if they can be, otherwise each by itself. */
static struct probe_error *start_some(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *const *options,
	const size_t *indices, size_t count, struct probe_report *reports,
	struct probe_session **ret)
{
	const struct probe_session_options *some[ARCH_ACTIONS_MAX] = {NULL};
	struct probe_session *started[ARCH_ACTIONS_MAX] = {NULL};
	struct probe_report *report = &reports[indices[0]];
	struct attempt attempt = attempt_begin(target, report);
	struct probe_error *error;

	for (size_t i = 0; i < count; i++)
		some[i] = options[indices[i]];
	while (attempt_next(&attempt))
		attempt.error = start_once(target, request, some, count, report, started);
	error = attempt.error;
	for (size_t i = 0; i < count && !error; i++) {
		ret[indices[i]] = started[i];
		reports[indices[i]].probes = report->probes;
		reports[indices[i]].sites = report->sites;
	}
	if (!error || count == 1 ||
		(error->code != PROBE_ERROR_UNSUPPORTED && error->code != PROBE_ERROR_USAGE))
		return error;
	/* Too many captures, too long a stub: each by itself may be possible. */
	probe_error_free(error);
	probe_report_deinit(report);
	error = NULL;
	for (size_t i = 0; i < count && !error; i++)
		error = start_some(target, request, options, &indices[i], 1, reports, ret);
	return error;
}

struct probe_error *probe_sessions_start(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *const *options,
	size_t count, struct probe_report *reports, struct probe_session **ret)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < count; i++)
		ret[i] = NULL;
	for (size_t i = 0; i < count && !error; i++) {
		size_t indices[ARCH_ACTIONS_MAX], some = 0;

		if (ret[i])
			continue;
		indices[some++] = i;
		for (size_t k = i + 1; k < count && some < ARCH_ACTIONS_MAX; k++) {
			bool fits = !ret[k];

			for (size_t m = 0; m < some; m++)
				fits = fits && go_together(options[indices[m]], options[k]);
			if (fits)
				indices[some++] = k;
		}
		error = start_some(target, request, options, indices, some, reports, ret);
	}
	for (size_t i = 0; error && i < count; i++) {
		if (ret[i])
			probe_error_free(probe_session_stop(ret[i]));
		probe_session_free(ret[i]);
		ret[i] = NULL;
	}
	return error;
}

struct probe_error *probe_session_start(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, struct probe_session **ret)
{
	return probe_sessions_start(target, request, &options, 1, report, ret);
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

struct probe_error *probe_session_poll(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data, bool *more_ret)
{
	struct probe_error *error = NULL;
	bool any = session_read_rings(session, visit, data);

	control_let_late_go();
	session_update_counts(session);
	if (session->stopped && visit && !any && !session->options.overwrite)
		rings_discharge(&session->data.rings);
	if (more_ret)
		*more_ret = any;
	if (!session->stopped) {
		session_give_back_flights(session);
		error = session_serve_gate(session);
	}
	/* Probe libraries, at intervals, whose threads have continued without being held. */
	if (!error && !session->stopped && session->gates.catch_up_ns &&
		clock_monotonic_ns() >= session->gates.catch_up_ns)
		error = session_settle(session, session_follow(session, true));
	if (!error && !session->stopped) {
		error = session_look_at_filters(session);
		if (error) {
			/* The caller does not poll again after an error: hand over the records. */
			probe_error_free(probe_session_stop(session));
			/* The next poll of each member fails, too. */
			for (size_t m = 0; m < session->group.member_count; m++) {
				struct probe_session *member = session->group.members[m];

				if (!member->group.ended)
					member->group.ended =
						probe_error_new(error->code, "%s", error->message);
			}
			session_read_rings(session, visit, data);
			session_update_counts(session);
		}
	}
	if (!error) {
		error = session->group.ended;
		session->group.ended = NULL;
	}
	return error;
}

const struct probe_session_probe *probe_session_probes(
	const struct probe_session *session, size_t *count_ret)
{
	*count_ret = session->probe_count;
	return session->probes;
}
