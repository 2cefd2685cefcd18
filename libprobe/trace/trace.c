/* SPDX-License-Identifier: MIT */
/*
 * Traces of several processes.
 *
 * Targets do not wake us when they hit a probe: that would cost a system call per hit. So the user
 * polls their rings, and sleeps in between: FIRST_SLEEP_NS at first, doubled each time there was no
 * hit, up to LAST_SLEEP_NS. A hit is thus read within about 20 ms, and an idle trace costs 50
 * wake-ups per second. There is no sleep only after a round with BUSY_HITS or more, when the rings
 * might overflow. Everything else that happens makes the descriptor of the trace readable.
 *
 * After execve(2), a process runs another program and gets new sessions. The sessions of the old
 * program stay, because their records must still be read, and because children that were forked
 * before execve(2) may still use them.
 *
 * The sessions of processes that came later and have ended are freed at once, because a build, for
 * example, runs thousands of programs (delivery.c).
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/trace/trace.h"

enum {
	MSEC_NS = 1000 * 1000,
	FIRST_SLEEP_NS = 500 * 1000,
	LAST_SLEEP_NS = 20 * MSEC_NS,
	BUSY_HITS = 1000,
	/*
	 * Interval at which we look for forked children of ended processes, and how long they run
	 * before we tell.
	 */
	HEIRS_NS = 50 * MSEC_NS,
	HEIRS_TOLD_NS = 1000 * MSEC_NS,
	/*
	 * With several sessions, a hit waits this long for older hits to arrive. Each session has
	 * its own clock, with an error of some microseconds. Also, a thread publishes a record a
	 * little after it has read the time.
	 */
	ORDER_NS = 2 * MSEC_NS,
	WATCHED_MAX = 8, /* maximum number of programs handled between two polls for hits */
	SHARED_MAX = 8,	 /* maximum number of sessions that are started together */
	READY_MAX = 64
};

/* ==== Sessions ================================================================================ */

static void tell_event(
	const struct probe_trace *trace, struct traced *traced, enum probe_trace_event event)
{
	delivery_tell(trace, &(struct probe_trace_news){.event = event, .traced = &traced->its});
}

static void tell_grown(const struct probe_trace *trace, struct traced *traced)
{
	const struct probe_report *report = probe_session_report(traced->its.session);
	struct probe_trace_told told = traced->told;

	probe_session_probes(traced->its.session, &traced->told.probes);
	traced->told.refusals = report->refusal_count;
	traced->told.notes = report->note_count;
	if (memcmp(&told, &traced->told, sizeof(told)) != 0)
		delivery_tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_GREW,
					     .traced = &traced->its,
					     .report = report,
					     .told = told});
}

/*
 * Watches a descriptor, unless it is -1. An event that cannot be watched, for want of memory, is
 * found by the next poll.
 */
static void watch_fd(const struct probe_trace *trace, int fd, void *whose)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = whose};

	epoll_ctl(trace->epoll, EPOLL_CTL_ADD, fd, &event);
}

static void unwatch_fd(const struct probe_trace *trace, int fd)
{
	epoll_ctl(trace->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* A session's descriptor changes when its gates are closed. */
static void watch_session(const struct probe_trace *trace, struct traced *traced)
{
	int fd = traced->its.is_on ? probe_session_fd(traced->its.session) : -1;

	if (fd == traced->fd)
		return;
	unwatch_fd(trace, traced->fd);
	watch_fd(trace, fd, &traced->is_wanted);
	traced->fd = fd;
}

/*
 * Call it before a session is stopped, which closes its descriptor: another file may then get the
 * same number.
 */
static void unwatch_session(const struct probe_trace *trace, struct traced *traced)
{
	unwatch_fd(trace, traced->fd);
	traced->fd = -1;
}

/* Returns the first session of the process of session `i`. */
static size_t first_of(const struct probe_trace *trace, size_t i)
{
	while (i > 0 && trace->items[i - 1]->target == trace->items[i]->target)
		i--;
	return i;
}

/* Returns the index after the last session of the process of session `i`. */
static size_t end_of(const struct probe_trace *trace, size_t i)
{
	size_t end = i + 1;

	while (end < trace->count && trace->items[end]->target == trace->items[i]->target)
		end++;
	return end;
}

static struct probe_error *add_process(
	struct probe_trace *trace, struct probe_target *target, bool named, bool later)
{
	size_t count = trace->count, wanted = trace->options.tracer_count;
	pid_t pid = probe_target_pid(target);
	int pidfd;

	for (; trace->count < count + wanted; trace->count++) {
		struct traced *traced = calloc(1, sizeof(*traced));

		if (!traced || !ARRAY_ROOM(trace->items, trace->count)) {
			free(traced);
			break;
		}
		trace->items[trace->count] = &traced->its;
	}
	if (trace->count < count + wanted) {
		while (trace->count > count)
			free(trace->items[--trace->count]);
		probe_target_close(target);
		return probe_error_no_memory();
	}
	for (size_t i = 0; i < count && later; i++)
		trace->items[i]->is_replaced |= probe_target_pid(trace->items[i]->target) == pid;
	/* pidfd_open(2) is new in Linux 5.3, and seccomp(2) filters of containers forbid it. */
	pidfd = pidfd_open(pid, 0);
	for (size_t i = 0; i < wanted; i++)
		*traced_at(trace, count + i) = (struct traced){
			.its = {.target = target,
				.tracer = i,
				.pidfd = pidfd,
				.named = named,
				.later = later},
			.tracer = &trace->options.tracers[i],
			.fd = -1,
		};
	watch_fd(trace, pidfd, NULL);
	return NULL;
}

struct probe_error *probe_trace_add(
	struct probe_trace *trace, struct probe_target *target, bool named)
{
	return add_process(trace, target, named, false);
}

/* Frees a session. With the last session of a process, its target is closed, too. */
static void close_session(struct probe_trace *trace, size_t i)
{
	struct traced *traced = traced_at(trace, i);
	bool is_last = end_of(trace, first_of(trace, i)) - first_of(trace, i) == 1;

	unwatch_session(trace, traced);
	tell_event(trace, traced, PROBE_TRACE_CLOSED);
	probe_session_free(traced->its.session);
	if (is_last && traced->its.pidfd >= 0)
		close(traced->its.pidfd);
	if (is_last)
		probe_target_close(traced->its.target);
	free(traced->tallies);
	probe_report_deinit(&traced->report);
	free(traced);
	if (trace->merge)
		merge_remove(trace->merge, i);
	trace->count--;
	memmove(&trace->items[i], &trace->items[i + 1], (trace->count - i) * sizeof(*trace->items));
}

/* Frees the sessions of tracers that do not trace a process. They begin at index `from`. */
static void drop_unstarted(struct probe_trace *trace, size_t from)
{
	for (size_t i = trace->count; i-- > from;)
		if (!trace->items[i]->is_on)
			close_session(trace, i);
}

static void note_stopped(
	struct probe_trace *trace, struct traced *traced, struct probe_error *error)
{
	traced->its.is_on = false;
	traced->its.is_stuck = error != NULL;
	watch_session(trace, traced);
	delivery_fail(trace, traced,
		probe_error_prefix(error, "process %d keeps its probes until `probectl repair`",
			(int)probe_target_pid(traced->its.target)));
}

void probe_trace_stop_session(struct probe_trace *trace, struct probe_traced *its)
{
	struct traced *traced = (struct traced *)its;

	if (!its->is_on)
		return;
	tell_event(trace, traced, PROBE_TRACE_STOPPING);
	unwatch_session(trace, traced);
	note_stopped(trace, traced, probe_session_stop(its->session));
}

/* Stops all sessions in parallel. On lack of memory, stops one after the other. */
static void stop_all(struct probe_trace *trace)
{
	AUTO_FREE struct probe_session **sessions = calloc(trace->count + 1, sizeof(*sessions));
	AUTO_FREE struct probe_error **errors = calloc(trace->count + 1, sizeof(*errors));
	size_t count = 0;

	for (size_t i = 0; i < trace->count; i++) {
		struct traced *traced = traced_at(trace, i);

		if (!traced->its.is_on)
			continue;
		delivery_tell(
			trace, &(struct probe_trace_news){.event = PROBE_TRACE_STOPPING,
				       .traced = &traced->its,
				       .is_waiting = probe_target_frozen(traced->its.target)});
		unwatch_session(trace, traced);
		if (sessions && errors)
			sessions[count++] = traced->its.session;
		else
			note_stopped(trace, traced, probe_session_stop(traced->its.session));
	}
	if (count)
		probe_sessions_stop(sessions, count, errors);
	count = 0;
	for (size_t i = 0; sessions && errors && i < trace->count; i++)
		if (trace->items[i]->is_on)
			note_stopped(trace, traced_at(trace, i), errors[count++]);
}

void probe_trace_switch(struct probe_trace *trace, bool on)
{
	trace->is_switched = on;
	for (size_t i = 0; i < trace->count; i++) {
		const struct probe_traced *its = trace->items[i];

		if (its->is_on && !its->is_read_by_user)
			probe_session_switch(its->session, SIZE_MAX, on);
	}
}

static struct probe_error *prepare(struct probe_trace *trace, struct traced *traced, bool *wanted)
{
	*wanted = true;
	return trace->options.prepare
		       ? trace->options.prepare(&traced->its, wanted, trace->options.data)
		       : NULL;
}

static void take_session(struct probe_trace *trace, struct traced *traced, bool is_first)
{
	struct probe_session *session = traced->its.session;

	traced->its.is_on = true;
	if (trace->is_switched && !traced->its.is_read_by_user)
		probe_session_switch(session, SIZE_MAX, true);
	watch_session(trace, traced);
	probe_session_probes(session, &traced->told.probes);
	/* If the process has ended, its hits stay readable. Ignore this error. */
	if (is_first && !traced->its.later)
		probe_error_free(probe_watch_add(trace->watch, traced->its.target));
}

/* The sessions of a process that are started together. */
struct together {
	struct traced *items[SHARED_MAX];
	struct probe_session_options options[SHARED_MAX];
	size_t count;
};

/* Finds the sessions that may share stubs with the first one in `all`. */
static struct probe_error *find_sharing(struct probe_trace *trace, struct together *all)
{
	struct traced *first = all->items[0];
	const struct probe_trace_tracer *its = first->tracer;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < trace->count && all->count < SHARED_MAX && !error; i++) {
		struct traced *other = traced_at(trace, i);
		const struct probe_trace_tracer *tracer = other->tracer;
		struct probe_session_options options = tracer->options;
		bool wanted;

		if (other == first || other->its.target != first->its.target ||
			other->its.session || !its->shares || !tracer->shares ||
			tracer->request != its->request)
			continue;
		error = prepare(trace, other, &wanted);
		options.together = all->options[0].together;
		options.follow_libraries = all->options[0].follow_libraries;
		if (error || !wanted)
			continue;
		all->options[all->count] = options;
		all->items[all->count++] = other;
	}
	return error;
}

/* Starts a session, and those that may share stubs with it. */
static struct probe_error *start_sharing(struct probe_trace *trace, struct traced *traced,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report)
{
	struct together all = {.items = {traced}, .options = {*options}, .count = 1};
	const struct probe_session_options *each[SHARED_MAX];
	struct probe_report reports[SHARED_MAX] = {{0}};
	struct probe_session *sessions[SHARED_MAX];
	struct probe_error *error = find_sharing(trace, &all);

	for (size_t i = 0; i < all.count; i++)
		each[i] = &all.options[i];
	if (!error)
		error = probe_sessions_start(
			traced->its.target, request, each, all.count, reports, sessions);
	if (error && all.count > 1 && error->code == PROBE_ERROR_USAGE) {
		/* A mistake in the options of one tracer keeps no other from its session. */
		probe_error_free(error);
		for (size_t i = 0; i < all.count; i++)
			probe_report_deinit(&reports[i]);
		all.count = 1;
		error = probe_sessions_start(
			traced->its.target, request, each, 1, reports, sessions);
	}
	*report = reports[0];
	for (size_t i = 0; i < all.count && !error; i++)
		all.items[i]->its.session = sessions[i];
	for (size_t i = 1; i < all.count; i++) {
		if (error) {
			probe_report_deinit(&reports[i]);
			continue;
		}
		all.items[i]->report = reports[i];
		take_session(trace, all.items[i], false);
	}
	return error;
}

static struct probe_error *start_session(struct probe_trace *trace, struct traced *traced,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report)
{
	struct probe_session_options its = *options;
	bool is_first = true, wanted;
	struct probe_error *error;

	if (traced->its.session) { /* it was started with another */
		*report = traced->report;
		traced->report = (struct probe_report){0};
		return NULL;
	}
	/* The first session of a process watches the programs that the process starts. */
	for (size_t i = 0; i < trace->count; i++)
		is_first &=
			trace->items[i]->target != traced->its.target || !trace->items[i]->is_on;
	error = prepare(trace, traced, &wanted);
	if (error || !wanted)
		return error;
	its.watch = is_first && trace->options.follow ? trace->watch : NULL;
	error = trace->options.start ? trace->options.start(&traced->its, request, &its, report,
					       trace->options.data)
				     : start_sharing(trace, traced, request, &its, report);
	if (!error && traced->its.session)
		take_session(trace, traced, is_first);
	return error;
}

/* ---- The first sessions ---------------------------------------------------------- */

struct starting {
	struct probe_trace *trace;
	uint64_t turns;
	struct probe_report report;
};

static pid_t turn_pid(void *data, size_t index)
{
	const struct starting *starting = data;

	return probe_target_pid(starting->trace->items[index]->target);
}

static struct probe_error *turn_start(void *data, size_t index, struct probe_patience *patience)
{
	struct starting *starting = data;
	struct probe_trace *trace = starting->trace;
	struct traced *traced = traced_at(trace, index);
	const struct probe_trace_tracer *tracer = traced->tracer;
	struct probe_session_options options = tracer->options;
	struct probe_error *error;

	traced->turn = starting->turns++;
	options.together = (unsigned int)trace->count;
	probe_report_deinit(&starting->report);
	starting->report = (struct probe_report){0};
	probe_target_set_patience(traced->its.target, patience);
	error = start_session(trace, traced, tracer->request, &options, &starting->report);
	probe_target_set_patience(traced->its.target, NULL);
	return error;
}

static void turn_end(void *data, size_t index, struct probe_error *error)
{
	struct starting *starting = data;

	delivery_tell(starting->trace, &(struct probe_trace_news){.event = PROBE_TRACE_STARTED,
					       .traced = starting->trace->items[index],
					       .error = error,
					       .report = &starting->report});
}

static int compare_turns(const void *a, const void *b)
{
	const struct traced *left = (const void *)*(struct probe_traced *const *)a,
			    *right = (const void *)*(struct probe_traced *const *)b;

	return ORDER(left->turn, right->turn) ?: ORDER(left->its.tracer, right->its.tracer);
}

struct probe_error *probe_trace_add_found(struct probe_trace *trace)
{
	struct probe_processes *processes = trace->options.processes;
	size_t count, named;
	const pid_t *found;
	struct probe_error *error = probe_processes_find(processes, &found, &count, &named);

	for (size_t i = 0; i < count && !error; i++) {
		struct probe_target *target;
		struct probe_error *its = probe_processes_open(processes, found[i], &target);

		if (its)
			delivery_tell(trace, &(struct probe_trace_news){
						     .event = PROBE_TRACE_UNTRACED, .error = its});
		else
			error = probe_trace_add(trace, target, i < named);
	}
	return error;
}

struct probe_error *probe_trace_start(struct probe_trace *trace)
{
	struct starting starting = {.trace = trace};
	const struct probe_turn turn = {turn_pid, turn_start, turn_end, &starting};
	struct probe_error *error = probe_watch_create(trace->options.follow, &trace->watch);
	struct probe_newcomers newcomers;

	if (!error && trace->seeks) {
		processes_newcomers(trace->options.processes, &newcomers);
		error = probe_watch_seek(trace->watch, &newcomers);
	}
	if (error)
		return error;
	watch_fd(trace, probe_watch_fd(trace->watch), NULL);
	probe_take_turns(trace->count, &turn);
	probe_report_deinit(&starting.report);
	drop_unstarted(trace, 0);
	/* A process whose sessions were started in different rounds keeps them together. */
	for (size_t i = 0; i < trace->count; i++)
		traced_at(trace, i)->turn = traced_at(trace, first_of(trace, i))->turn;
	if (trace->count)
		qsort(trace->items, trace->count, sizeof(*trace->items), compare_turns);
	return NULL;
}

/* ==== Processes that have ended =============================================================== */

/*
 * Returns true if the process of session number `i` can be dropped: it came later, it has ended,
 * and all its data that is still needed can be kept. `i` must be the first session of the process.
 */
static bool is_done(const struct probe_trace *trace, size_t i)
{
	if (!trace->items[i]->later || first_of(trace, i) != i)
		return false;
	for (size_t end = end_of(trace, i); i < end; i++) {
		const struct traced *traced = traced_at(trace, i);
		const struct probe_traced *its = &traced->its;

		if (its->is_on || (trace->merge && merge_holds(trace->merge, i)))
			return false;
		if (traced->told.probes &&
			(its->is_stuck || its->is_broken || traced->is_unread || its->is_kept))
			return false;
	}
	return true;
}

static void drop_done(struct probe_trace *trace)
{
	for (size_t i = trace->count; i-- > 0;) {
		size_t end;

		if (i >= trace->count || !is_done(trace, i))
			continue;
		probe_trace_tell_losses(trace);
		end = end_of(trace, i);
		for (size_t k = i; k < end; k++) {
			struct traced *traced = traced_at(trace, k);

			tell_grown(trace, traced);
			delivery_keep(trace, k);
			tell_event(trace, traced, PROBE_TRACE_DROPPED);
		}
		while (end-- > i)
			close_session(trace, end);
	}
}

static bool has_left_session(const struct probe_traced *its)
{
	return its->is_on && its->has_ended;
}

/*
 * Looks for the forked children of all ended processes at once, because reading the list of all
 * processes takes some milliseconds.
 */
static void look_for_heirs(struct probe_trace *trace)
{
	uint64_t now = clock_monotonic_ns(), took;
	AUTO_FREE struct probe_session **sessions = NULL;
	size_t *heirs, count = 0;

	if (trace->seeks || trace->options.ends_heirs || now < trace->heirs_due_ns)
		return;
	sessions = calloc(trace->count + 1, sizeof(*sessions));
	heirs = calloc(trace->count + 1, sizeof(*heirs));
	for (size_t i = 0; sessions && heirs && i < trace->count; i++)
		if (has_left_session(trace->items[i]))
			sessions[count++] = trace->items[i]->session;
	if (count) {
		delivery_fail(trace, NULL, probe_sessions_heirs(sessions, count, heirs));
		took = clock_monotonic_ns() - now;
		trace->heirs_due_ns = now + (10 * took > HEIRS_NS ? 10 * took : HEIRS_NS);
	}
	for (size_t i = 0, k = 0; k < count; i++) {
		struct traced *traced = traced_at(trace, i);

		if (!has_left_session(&traced->its))
			continue;
		traced->has_heirs = heirs[k] > 0;
		traced->heirs_known = true;
		if (heirs[k] && !traced->heirs_since_ns)
			traced->heirs_since_ns = now;
		if (heirs[k] && !traced->heirs_told &&
			now - traced->heirs_since_ns >= HEIRS_TOLD_NS) {
			traced->heirs_told = true;
			delivery_tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_HEIRS,
						     .traced = &traced->its,
						     .count = heirs[k]});
		}
		k++;
	}
	free(heirs);
}

static void poll_session(struct round *round)
{
	struct probe_trace *trace = round->trace;
	struct traced *traced = traced_at(trace, round->at);
	size_t before = round->hits;
	bool more = false;
	struct probe_error *error = delivery_read(round, &more);

	traced->is_wanted = false;
	watch_session(trace, traced);
	tell_grown(trace, traced);
	if (error) {
		traced->its.is_broken = true;
		delivery_fail(trace, traced, error);
		probe_trace_stop_session(trace, &traced->its);
		return;
	}
	/*
	 * `has_ended` was set before this poll, so the poll has read all hits of the process
	 * itself. Its forked children may still add hits. If newcomers are sought, the children
	 * have sessions of their own.
	 */
	if (!traced->its.has_ended || ((more || round->hits != before) && !trace->seeks) ||
		(!trace->seeks && !trace->options.ends_heirs &&
			(traced->has_heirs || !traced->heirs_known)))
		return;
	probe_trace_stop_session(trace, &traced->its);
	delivery_read_rest(round);
	if (!traced->is_end_told)
		tell_event(trace, traced, PROBE_TRACE_ENDED);
	traced->is_end_told = true;
}

/* Notes that the process of session `i`, its first one, has ended. */
static void note_end(struct probe_trace *trace, size_t i)
{
	/* The descriptor stays readable. */
	unwatch_fd(trace, trace->items[i]->pidfd);
	for (size_t end = end_of(trace, i); i < end; i++)
		trace->items[i]->has_ended = true;
}

/*
 * Ends the sessions of processes that have ended, even if we did not notice their end before, so
 * that their forked children can get sessions of their own.
 */
static void stop_ended(struct probe_trace *trace)
{
	struct round round = {.trace = trace};

	for (; round.at < trace->count; round.at++) {
		struct traced *traced = traced_at(trace, round.at);

		if (!traced->its.is_on || probe_target_alive(traced->its.target))
			continue;
		note_end(trace, first_of(trace, round.at));
		traced->heirs_known = true;
		poll_session(&round);
	}
}

/* Notes which processes have ended, and which wait for us. */
static void note_ready(struct probe_trace *trace)
{
	struct epoll_event ready[READY_MAX];
	int got = READY_MAX;

	for (size_t i = 0; i <= trace->count && got == READY_MAX; i += READY_MAX) {
		got = epoll_wait(trace->epoll, ready, READY_MAX, 0);
		for (int k = 0; k < got; k++)
			if (ready[k].data.ptr)
				*(bool *)ready[k].data.ptr = true;
	}
	for (size_t i = 0; i < trace->count; i = end_of(trace, i)) {
		const struct probe_traced *its = trace->items[i];
		struct pollfd exit = {.fd = its->pidfd, .events = POLLIN};

		/* Linux 6.18 was seen to drop a pidfd from an epoll(7) instance: ask the pidfd. */
		if (!its->has_ended &&
			(its->pidfd < 0 ? !probe_target_alive(its->target) : poll(&exit, 1, 0) > 0))
			note_end(trace, i);
	}
}

static void poll_all(struct round *round)
{
	struct probe_trace *trace = round->trace;
	bool reads = trace->options.hit || trace->options.read;
	uint64_t begin_ns = clock_now_ns();

	look_for_heirs(trace);
	for (size_t i = 0; i < trace->count; i++) {
		struct traced *traced;
		bool full;

		round->at = (trace->first + i) % trace->count;
		traced = traced_at(trace, round->at);
		full = delivery_blocked(trace, traced, false);
		round->is_blocked |= full && !traced->tracer->is_apart;
		if (traced->is_unread && !full)
			delivery_read_rest(round);
		/* While there is no room, hits stay in the rings. */
		if (traced->its.is_on &&
			(traced->is_wanted || (!full && (reads || traced->its.has_ended))))
			poll_session(round);
	}
	trace->first++;
	if (!trace->merge || round->is_blocked)
		return;
	/*
	 * This round has certainly read all hits before its begin. If the clock was set back, the
	 * order is unknown, so all waiting hits are visited.
	 */
	delivery_visit(trace, begin_ns < trace->merged_ns ? UINT64_MAX : begin_ns - ORDER_NS);
	trace->merged_ns = begin_ns;
}

void probe_trace_refresh(struct probe_trace *trace)
{
	struct round round = {.trace = trace, .due_ns = UINT64_MAX};

	for (; round.at < trace->count; round.at++)
		if (trace->items[round.at]->is_on)
			poll_session(&round);
}

/* ==== Programs that come ====================================================================== */

/*
 * Tells that a process cannot be traced, unless it has ended. `target` may be NULL, and `traced`,
 * too.
 */
static void tell_untraced(struct probe_trace *trace, const struct probe_target *target,
	struct traced *traced, struct probe_error *error)
{
	if (target && !probe_target_alive(target)) {
		probe_error_free(error);
		return;
	}
	delivery_tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_UNTRACED,
				     .traced = traced ? &traced->its : NULL,
				     .error = error});
}

static bool is_meant(const struct probe_trace *trace, const struct probe_target *target)
{
	return !trace->options.processes ||
	       processes_meet(trace->options.processes, probe_target_pid(target));
}

/*
 * Starts the session of one tracer in a program that came later. If a site cannot be patched, it is
 * left out, as with request->keep_going.
 */
static struct probe_error *start_later(
	struct probe_trace *trace, struct traced *traced, bool meant, size_t *sites)
{
	const struct probe_trace_tracer *tracer = traced->tracer;
	struct probe_session_options options = tracer->options;
	struct probe_request request = *tracer->request;
	AUTO(probe_report_deinit) struct probe_report report = {0};
	struct probe_error *error;

	request.keep_going = true;
	/* The session then only finds the programs that this one starts. */
	if (!meant)
		request.pattern_count = 0;
	options.follow_libraries = true;
	error = start_session(trace, traced, &request, &options, &report);
	*sites += report.sites;
	if (!error)
		delivery_tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_STARTED,
					     .traced = &traced->its,
					     .report = &report});
	return error;
}

static struct probe_error *trace_program(
	struct probe_trace *trace, const struct probe_watch_event *event)
{
	struct probe_trace_news news = {.event = PROBE_TRACE_CAME, .watched = event};
	bool meant = is_meant(trace, event->target);
	uint64_t begun_ns = clock_monotonic_ns();
	size_t from = trace->count, at = from, probes = 0;
	struct probe_error *error;

	if (event->is_newcomer && !event->held) {
		stop_ended(trace);
		from = at = trace->count;
	}
	error = add_process(trace, event->target, false, true);
	if (error)
		return error;
	while (at < trace->count && !error)
		error = start_later(trace, traced_at(trace, at++), meant, &news.sites);
	if (error) {
		probe_watch_untraced(trace->watch, event);
		tell_untraced(trace, event->target, traced_at(trace, at - 1), error);
		for (size_t i = trace->count; i-- > from;) {
			probe_trace_stop_session(trace, trace->items[i]);
			close_session(trace, i);
		}
		return NULL;
	}
	news.traced = trace->items[from];
	if (event->unseen_ns)
		news.late_ns = event->unseen_ns + clock_monotonic_ns() - begun_ns;
	delivery_tell(trace, &news);
	drop_unstarted(trace, from);
	if (trace->count == from)
		return NULL;
	for (size_t i = from; i < trace->count; i++)
		probes += traced_at(trace, i)->told.probes;
	/* Most programs of a build have none of the wanted probes. They are not followed. */
	if (!probes)
		probe_watch_pass_over(trace->watch, event->target);
	error = event->held ? probe_target_release(event->target) : NULL;
	/* It is no error if the process was killed meanwhile. */
	if (error && probe_target_alive(event->target))
		delivery_fail(trace, NULL, error);
	else
		probe_error_free(error);
	return NULL;
}

/*
 * Traces programs that have come. Handles only a few of them, because other processes may be
 * waiting for us: at a gate, or for ring space.
 */
static struct probe_error *follow_programs(struct probe_trace *trace)
{
	struct probe_watch_event event;
	struct probe_error *error = NULL;

	for (int i = 0; i < WATCHED_MAX && !error; i++) {
		struct probe_error *unseen = probe_watch_next(trace->watch, &event);

		if (!unseen && !event.target)
			break;
		if (unseen)
			tell_untraced(trace, event.target, NULL, unseen);
		else if (trace->seeks && !is_meant(trace, event.target)) {
			probe_watch_untraced(trace->watch, &event);
			probe_target_close(event.target);
		} else
			error = trace_program(trace, &event);
	}
	return error;
}

/* ==== Polling ================================================================================= */

static void plan_next(const struct round *round)
{
	struct probe_trace *trace = round->trace;
	bool is_active = round->due_ns != UINT64_MAX;
	uint64_t ns;

	if (round->hits || is_active)
		trace->sleep_ns = FIRST_SLEEP_NS;
	ns = trace->sleep_ns;
	if (round->hits >= BUSY_HITS)
		ns = 0;
	else if (!round->hits && is_active)
		ns = round->due_ns < FIRST_SLEEP_NS  ? 0
		     : round->due_ns < LAST_SLEEP_NS ? round->due_ns
						     : LAST_SLEEP_NS;
	trace->due_ns = clock_monotonic_ns() + ns;
	if (trace->sleep_ns < LAST_SLEEP_NS && !round->hits)
		trace->sleep_ns *= 2;
	if (trace->sleep_ns > LAST_SLEEP_NS)
		trace->sleep_ns = LAST_SLEEP_NS;
}

struct probe_error *probe_trace_poll(struct probe_trace *trace)
{
	struct round round = {.trace = trace, .due_ns = UINT64_MAX};
	struct probe_error *error;

	note_ready(trace);
	drop_done(trace);
	error = follow_programs(trace) ?: delivery_order(trace);
	if (error)
		return error;
	poll_all(&round);
	plan_next(&round);
	return NULL;
}

int probe_trace_fd(const struct probe_trace *trace)
{
	return trace->epoll;
}

uint64_t probe_trace_due_ns(const struct probe_trace *trace)
{
	return trace->due_ns;
}

bool probe_trace_is_over(const struct probe_trace *trace)
{
	for (size_t i = 0; i < trace->count; i++)
		if (trace->items[i]->is_on)
			return false;
	return !trace->seeks || !processes_may_come(trace->options.processes);
}

/* ==== The end ================================================================================= */

/*
 * Reads the hits that were still in the rings when the probes were switched off. If the probes of a
 * process could not be switched off, new hits may arrive forever, so its sessions are polled only
 * once.
 */
static void drain(struct probe_trace *trace)
{
	struct round round = {.trace = trace, .due_ns = UINT64_MAX};
	bool is_again = false, is_waiting;
	size_t before;

	do {
		before = round.hits + round.taken;
		for (round.at = 0; round.at < trace->count; round.at++) {
			const struct probe_traced *its = trace->items[round.at];

			if (!its->is_broken && !(its->is_stuck && is_again))
				poll_session(&round);
		}
		is_again = true;
		/*
		 * If a session had used up its share of the memory for waiting hits, its rings hold
		 * more hits.
		 */
		is_waiting = delivery_visit(trace, UINT64_MAX);
		for (size_t i = 0; i < trace->count; i++)
			delivery_blocked(trace, traced_at(trace, i), true);
	} while ((round.hits + round.taken != before || is_waiting) && !trace->is_enough);
}

void probe_trace_stop(struct probe_trace *trace, bool read)
{
	struct round round = {.trace = trace, .due_ns = UINT64_MAX};
	struct probe_error *error;

	probe_trace_switch(trace, false);
	/*
	 * Read again, because threads that waited for room in their rings have now written their
	 * hits.
	 */
	if (read) {
		delivery_fail(trace, NULL, delivery_order(trace));
		poll_all(&round);
	}
	if (trace->watch)
		unwatch_fd(trace, probe_watch_fd(trace->watch));
	/* Processes may have ended before they could be traced. */
	while (trace->watch && (error = probe_watch_finish(trace->watch)))
		tell_untraced(trace, NULL, NULL, error);
	probe_trace_look(trace, true);
	stop_all(trace);
	for (size_t i = 0; i < trace->count; i++)
		if (trace->items[i]->session)
			tell_grown(trace, traced_at(trace, i));
	probe_trace_look(trace, true);
	if (read)
		drain(trace);
}

/* ==== Traces ================================================================================== */

struct probe_error *probe_trace_create(
	const struct probe_trace_options *options, struct probe_trace **ret)
{
	struct probe_trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return probe_error_no_memory();
	trace->options = *options;
	trace->seeks = options->processes && probe_processes_seek(options->processes);
	trace->sleep_ns = FIRST_SLEEP_NS;
	trace->epoll = epoll_create1(EPOLL_CLOEXEC);
	trace->rows = calloc(options->tracer_count, sizeof(struct probe_table *));
	if (trace->epoll < 0 || !trace->rows) {
		struct probe_error *error =
			trace->rows ? probe_error_system(errno, "cannot wait for processes")
				    : probe_error_no_memory();

		probe_trace_free(trace);
		return error;
	}
	*ret = trace;
	return NULL;
}

void probe_trace_free(struct probe_trace *trace)
{
	if (!trace)
		return;
	while (trace->count)
		close_session(trace, trace->count - 1);
	delivery_forget(trace);
	probe_watch_free(trace->watch);
	cleanup_fd(&trace->epoll);
	free(trace->items);
	free(trace);
}

struct probe_traced *const *probe_trace_sessions(const struct probe_trace *trace, size_t *count_ret)
{
	*count_ret = trace->count;
	return trace->items;
}
