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
 * The hits of several sessions are visited in order of time. The sessions are read one after the
 * other. A hit that is younger than the start of the round waits for the next round, because a
 * session that was read earlier in this round may have an older hit by then.
 *
 * After execve(2), a process runs another program and gets new sessions. The sessions of the old
 * program stay, because their records must still be read, and because children that were forked
 * before execve(2) may still use them.
 *
 * The sessions of processes that came later and have ended are freed at once, because a build, for
 * example, runs thousands of programs (sums.c).
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "libprobe/base/array.h"
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

struct traced {
	struct probe_traced its;
	struct probe_trace_tally *tallies; /* one for each probe */
	size_t tally_count;
	uint64_t turn; /* position in the order in which the first sessions were started */
	/* The process has ended; for probe_sessions_heirs(). */
	bool has_heirs, heirs_known, heirs_told;
	uint64_t heirs_since_ns;
	bool is_wanted; /* the process waits for us: probe_session_fd() is readable */
	/* The session is off, but hits are left in its rings because there was no room. */
	bool is_unread;
	bool is_end_told;
	int fd;			    /* the session's descriptor that the trace watches, or -1 */
	struct probe_report report; /* of a session that was started with another */
	struct probe_trace_told told;
};

struct probe_trace {
	struct probe_trace_options options;
	bool seeks; /* processes that come later are sought */
	/*
	 * The sessions of a process are neighbours. Those of the first processes come first; those
	 * of later processes and programs are added after them.
	 */
	struct probe_traced **items; /* each is a struct traced */
	size_t count;
	struct probe_watch *watch; /* NULL before the start */
	int epoll;		   /* ends of processes, waiting processes, the watch */
	bool is_switched;
	bool is_enough; /* no more hits are wanted */
	/*
	 * Index of the session that is read first. Another one is first in each round, because
	 * there may be room for a limited number of hits per round.
	 */
	size_t first;
	struct merge *merge; /* NULL while there is only one session, or if nothing needs order */
	uint64_t merged_ns;  /* start of the last round that visited hits */
	uint64_t sleep_ns, due_ns;
	uint64_t heirs_due_ns; /* time of the next look for forked children */
	struct sums sums;
	struct probe_table **rows; /* for each tracer: rows of dropped processes, or NULL */
};

/* One round of polling. */
struct round {
	struct probe_trace *trace;
	size_t at;	 /* index of the session that is being read */
	bool is_blocked; /* there was no room, so not all sessions were read */
	size_t hits, taken;
	uint64_t due_ns; /* as in struct probe_trace_read */
};

static struct traced *item(const struct probe_trace *trace, size_t i)
{
	return (struct traced *)trace->items[i];
}

/* ==== News ==================================================================================== */

static void tell(const struct probe_trace *trace, const struct probe_trace_news *news)
{
	if (trace->options.news)
		trace->options.news(news, trace->options.data);
	else
		probe_error_free(news->error);
}

static void tell_event(
	const struct probe_trace *trace, struct traced *traced, enum probe_trace_event event)
{
	tell(trace, &(struct probe_trace_news){.event = event, .traced = &traced->its});
}

static void fail(const struct probe_trace *trace, struct traced *traced, struct probe_error *error)
{
	if (error)
		tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_FAILED,
				    .traced = traced ? &traced->its : NULL,
				    .error = error});
}

static void tell_grown(const struct probe_trace *trace, struct traced *traced)
{
	const struct probe_report *report = probe_session_report(traced->its.session);
	struct probe_trace_told told = traced->told;

	probe_session_probes(traced->its.session, &traced->told.probes);
	traced->told.refusals = report->refusal_count;
	traced->told.notes = report->note_count;
	if (memcmp(&told, &traced->told, sizeof(told)) != 0)
		tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_GREW,
				    .traced = &traced->its,
				    .report = report,
				    .told = told});
}

static const struct probe_trace_tracer *tracer_of(
	const struct probe_trace *trace, const struct traced *traced)
{
	return &trace->options.tracers[traced->its.tracer];
}

static bool tallies_grow(struct traced *traced, size_t count)
{
	struct probe_trace_tally *tallies;

	if (count <= traced->tally_count)
		return true;
	tallies = reallocarray(traced->tallies, count, sizeof(*tallies));
	if (!tallies)
		return false;
	memset(tallies + traced->tally_count, 0, (count - traced->tally_count) * sizeof(*tallies));
	traced->tallies = tallies;
	traced->tally_count = count;
	return true;
}

static void tell_session_losses(struct probe_trace *trace, struct traced *traced)
{
	const struct probe_session_probe *probes;
	size_t count;

	probes = probe_session_probes(traced->its.session, &count);
	if (!tallies_grow(traced, count))
		return; /* they are told the next time */
	for (size_t i = 0; i < count; i++) {
		uint64_t told = traced->tallies[i].lost;

		if (probes[i].lost <= told)
			continue;
		traced->tallies[i].lost = probes[i].lost;
		tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_LOST,
				    .traced = &traced->its,
				    .probe = &probes[i],
				    .count = probes[i].lost - told});
	}
}

void probe_trace_tell_losses(struct probe_trace *trace)
{
	for (size_t i = 0; i < trace->count; i++)
		if (trace->items[i]->session && !trace->items[i]->is_read_by_user)
			tell_session_losses(trace, item(trace, i));
}

struct looking {
	struct probe_trace *trace;
	struct traced *traced;
};

static void take_site(const struct probe_site_news *site, void *data)
{
	const struct looking *looking = data;

	tell(looking->trace,
		&(struct probe_trace_news){
			.event = PROBE_TRACE_SITE, .traced = &looking->traced->its, .site = site});
}

void probe_trace_look(struct probe_trace *trace, bool last)
{
	for (size_t i = 0; i < trace->count; i++) {
		struct traced *traced = item(trace, i);
		struct looking looking = {trace, traced};

		if (traced->its.session && !traced->its.is_broken && !traced->its.has_ended)
			fail(trace, traced,
				probe_session_look(traced->its.session, last, take_site, &looking));
	}
}

/* ==== Sessions ================================================================================ */

/*
 * Watches a descriptor. An event that cannot be watched, for want of memory, is found by the next
 * poll.
 */
static void watch_fd(const struct probe_trace *trace, int fd, void *whose)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = whose};

	if (fd >= 0)
		epoll_ctl(trace->epoll, EPOLL_CTL_ADD, fd, &event);
}

static void unwatch_fd(const struct probe_trace *trace, int fd)
{
	if (fd >= 0)
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
		*item(trace, count + i) = (struct traced){
			.its = {.target = target,
				.tracer = i,
				.pidfd = pidfd,
				.named = named,
				.later = later},
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
	struct traced *traced = item(trace, i);
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

static void note_stopped(
	struct probe_trace *trace, struct traced *traced, struct probe_error *error)
{
	traced->its.is_on = false;
	traced->its.is_stuck = error != NULL;
	watch_session(trace, traced);
	fail(trace, traced,
		probe_error_prefix(error, "process %d keeps its probes until `probectl repair`",
			(int)probe_target_pid(traced->its.target)));
}

static void stop_session(struct probe_trace *trace, struct traced *traced)
{
	if (!traced->its.is_on)
		return;
	tell_event(trace, traced, PROBE_TRACE_STOPPING);
	unwatch_session(trace, traced);
	note_stopped(trace, traced, probe_session_stop(traced->its.session));
}

void probe_trace_stop_session(struct probe_trace *trace, struct probe_traced *traced)
{
	stop_session(trace, (struct traced *)traced);
}

/* Stops all sessions in parallel. On lack of memory, stops one after the other. */
static void stop_all(struct probe_trace *trace)
{
	struct probe_session **sessions = calloc(trace->count + 1, sizeof(*sessions));
	struct probe_error **errors = calloc(trace->count + 1, sizeof(*errors));
	size_t count = 0;

	for (size_t i = 0; i < trace->count; i++) {
		struct traced *traced = item(trace, i);

		if (!traced->its.is_on)
			continue;
		tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_STOPPING,
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
			note_stopped(trace, item(trace, i), errors[count++]);
	free(sessions);
	free(errors);
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

/* Returns true if a session of the process watches the programs that it starts. */
static bool is_watched(const struct probe_trace *trace, const struct traced *traced)
{
	for (size_t i = 0; i < trace->count; i++)
		if (trace->items[i]->target == traced->its.target && trace->items[i]->is_on)
			return true;
	return false;
}

static struct probe_error *prepare(struct probe_trace *trace, struct traced *traced, bool *wanted)
{
	*wanted = true;
	return trace->options.prepare
		       ? trace->options.prepare(&traced->its, wanted, trace->options.data)
		       : NULL;
}

/* Takes a session that was started. */
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
	const struct probe_trace_tracer *its = tracer_of(trace, first);
	struct probe_error *error = NULL;

	for (size_t i = 0; i < trace->count && all->count < SHARED_MAX && !error; i++) {
		struct traced *other = item(trace, i);
		const struct probe_trace_tracer *tracer = tracer_of(trace, other);
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
	bool is_first = !is_watched(trace, traced), wanted;
	struct probe_error *error;

	if (traced->its.session) { /* it was started with another */
		*report = traced->report;
		traced->report = (struct probe_report){0};
		return NULL;
	}
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
	struct traced *traced = item(trace, index);
	const struct probe_trace_tracer *tracer = tracer_of(trace, traced);
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

	tell(starting->trace, &(struct probe_trace_news){.event = PROBE_TRACE_STARTED,
				      .traced = starting->trace->items[index],
				      .error = error,
				      .report = &starting->report});
}

static int compare_turns(const void *a, const void *b)
{
	const struct traced *left = (const void *)*(struct probe_traced *const *)a,
			    *right = (const void *)*(struct probe_traced *const *)b;

	if (left->turn != right->turn)
		return left->turn < right->turn ? -1 : 1;
	return left->its.tracer < right->its.tracer ? -1 : left->its.tracer > right->its.tracer;
}

static struct probe_error *open_watch(struct probe_trace *trace)
{
	struct probe_error *error = probe_watch_create(trace->options.follow, &trace->watch);
	struct probe_newcomers newcomers;

	if (!error && trace->seeks) {
		processes_newcomers(trace->options.processes, &newcomers);
		error = probe_watch_seek(trace->watch, &newcomers);
	}
	if (!error)
		watch_fd(trace, probe_watch_fd(trace->watch), NULL);
	return error;
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
			tell(trace, &(struct probe_trace_news){
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
	struct probe_error *error = open_watch(trace);

	if (error)
		return error;
	probe_take_turns(trace->count, &turn);
	probe_report_deinit(&starting.report);
	for (size_t i = trace->count; i-- > 0;)
		if (!trace->items[i]->is_on)
			close_session(trace, i);
	/* A process whose sessions were started in different rounds keeps them together. */
	for (size_t i = 0; i < trace->count; i++)
		item(trace, i)->turn = item(trace, first_of(trace, i))->turn;
	if (trace->count)
		qsort(trace->items, trace->count, sizeof(*trace->items), compare_turns);
	return NULL;
}

/* ==== Processes that have ended =============================================================== */

static const char *comm_of(const struct probe_trace *trace, const struct probe_hit *hit)
{
	return trace->options.comm ? trace->options.comm(hit, trace->options.data) : NULL;
}

/*
 * Returns true if the process of session number `i` can be dropped: it came later, it has ended,
 * and all its data that is still needed can be kept. `i` must be the first session of the process.
 */
static bool is_done(const struct probe_trace *trace, size_t i)
{
	if (!trace->items[i]->later || first_of(trace, i) != i)
		return false;
	for (size_t end = end_of(trace, i); i < end; i++) {
		const struct traced *traced = item(trace, i);
		const struct probe_traced *its = &traced->its;

		if (its->is_on || (trace->merge && merge_holds(trace->merge, i)))
			return false;
		if (traced->told.probes &&
			(its->is_stuck || its->is_broken || traced->is_unread || its->is_kept))
			return false;
	}
	return true;
}

/* Rows with stacks are not summed, because stacks belong to a session. */
static bool has_rows(const struct probe_trace *trace, size_t tracer)
{
	const struct probe_session_options *options = &trace->options.tracers[tracer].options;

	return options->kind != PROBE_SESSION_RECORD && options->stack == PROBE_STACK_NONE;
}

/*
 * Adds the rows of a session to those of dropped processes. Keys may be different in each process,
 * so only as many different keys are kept as one session may have.
 */
static struct probe_error *keep_rows(struct probe_trace *trace, const struct traced *traced)
{
	const struct probe_session_options *options = &tracer_of(trace, traced)->options;
	const struct probe_gather *gather = &options->gather;
	struct probe_table **sum = &trace->rows[traced->its.tracer], *rows = NULL;
	struct probe_error *error = *sum ? NULL : probe_table_create(gather->key_count, sum);

	if (!error)
		error = probe_table_create(gather->key_count, &rows);
	if (error)
		return error;
	probe_table_limit(*sum, gather->keys_max ? gather->keys_max : PROBE_KEYS_DEFAULT);
	error = probe_table_add(rows, traced->its.session, options);
	if (!error)
		error = probe_table_add_table(*sum, rows);
	probe_table_free(rows);
	return error;
}

static void drop_process(struct probe_trace *trace, size_t i)
{
	size_t end = end_of(trace, i);

	for (size_t k = i; k < end; k++) {
		struct traced *traced = item(trace, k);

		tell_grown(trace, traced);
		fail(trace, traced,
			sums_add(&trace->sums, &traced->its, traced->tallies, traced->tally_count));
		if (has_rows(trace, traced->its.tracer))
			fail(trace, traced, keep_rows(trace, traced));
		if (tracer_of(trace, traced)->options.overwrite && !traced->its.is_read_by_user)
			fail(trace, traced,
				sums_add_hits(&trace->sums, &traced->its, trace->options.comm,
					trace->options.data));
		tell_event(trace, traced, PROBE_TRACE_DROPPED);
	}
	while (end-- > i)
		close_session(trace, end);
}

static void drop_done(struct probe_trace *trace)
{
	for (size_t i = trace->count; i-- > 0;) {
		if (i >= trace->count || !is_done(trace, i))
			continue;
		probe_trace_tell_losses(trace);
		drop_process(trace, i);
	}
}

uint64_t probe_trace_forgotten(const struct probe_trace *trace)
{
	return trace->sums.forgotten;
}

/* ==== Hits ==================================================================================== */

static bool is_full(const struct probe_trace *trace, const struct traced *traced, bool wait)
{
	return trace->options.is_full &&
	       trace->options.is_full(&traced->its, wait, trace->options.data);
}

/* Hands a hit to the user. Returns false if no more hits are wanted. `data` is the trace. */
static bool visit(size_t at, const struct probe_hit *hit, const char *comm, void *data)
{
	struct probe_trace *trace = data;
	struct traced *traced = at < trace->count ? item(trace, at) : NULL;
	struct probe_trace_hit its = {.hit = hit, .comm = comm};
	size_t count = trace->sums.count;

	if (trace->is_enough)
		return false;
	its.probes =
		traced ? probe_session_probes(traced->its.session, &count) : trace->sums.probes;
	if (hit->probe >= count)
		return true;
	its.traced = traced ? &traced->its : NULL;
	its.tracer = traced ? traced->its.tracer : trace->sums.parts[hit->probe].tracer;
	if (traced && tallies_grow(traced, hit->probe + 1))
		traced->tallies[hit->probe].hits++;
	trace->is_enough = !trace->options.hit(&its, trace->options.data);
	return !trace->is_enough;
}

static bool read_hit(const struct probe_hit *hit, void *data)
{
	struct round *round = data;
	struct probe_trace *trace = round->trace;
	struct traced *traced = item(trace, round->at);
	const char *comm = comm_of(trace, hit);

	round->hits++;
	if (!trace->merge || tracer_of(trace, traced)->is_unordered)
		return visit(round->at, hit, comm, trace) && !is_full(trace, traced, false);
	if (!merge_add(trace->merge, round->at, hit, comm)) {
		fail(trace, traced, probe_error_no_memory());
		trace->is_enough = true;
		return false;
	}
	return !merge_full(trace->merge, round->at);
}

static bool is_merge_full(const struct round *round)
{
	return round->trace->merge && merge_full(round->trace->merge, round->at);
}

static struct probe_error *read_hits(struct round *round, struct traced *traced, bool *more)
{
	struct probe_trace *trace = round->trace;
	struct probe_trace_read read = {
		.all = traced->its.has_ended || !traced->its.is_on, .due_ns = UINT64_MAX};

	if (is_merge_full(round)) {
		*more = true;
		return probe_session_poll(traced->its.session, NULL, NULL, NULL);
	}
	if (!trace->options.read || !trace->options.read(&traced->its, &read, trace->options.data))
		return probe_session_poll(
			traced->its.session, trace->options.hit ? read_hit : NULL, round, more);
	*more = read.more;
	round->taken += read.hits;
	if (read.due_ns < round->due_ns)
		round->due_ns = read.due_ns;
	return read.error;
}

/*
 * Reads the hits that are still in the rings of a session after its probes were switched off.
 * Forked children may have added hits meanwhile. If there is no more room, sets `is_unread`; call
 * the function again later.
 */
static void read_rest(struct round *round)
{
	struct probe_trace *trace = round->trace;
	struct traced *traced = item(trace, round->at);
	bool more;

	do {
		more = false;
		fail(trace, traced, read_hits(round, traced, &more));
		more &= trace->seeks && !trace->is_enough && !traced->its.is_stuck;
	} while (more && !is_merge_full(round) && !is_full(trace, traced, false));
	traced->is_unread = more;
}

/*
 * Returns true if forked children may still hit the probes of an ended process. Such hits belong to
 * its session. If newcomers are sought, the answer is false, because the children then have
 * sessions of their own.
 */
static bool may_have_heirs(const struct probe_trace *trace, const struct traced *traced)
{
	return !trace->seeks && !trace->options.ends_heirs &&
	       (traced->has_heirs || !traced->heirs_known);
}

static void tell_heirs(
	const struct probe_trace *trace, struct traced *traced, size_t heirs, uint64_t now)
{
	if (!traced->heirs_since_ns)
		traced->heirs_since_ns = now;
	if (traced->heirs_told || now - traced->heirs_since_ns < HEIRS_TOLD_NS)
		return;
	traced->heirs_told = true;
	tell(trace, &(struct probe_trace_news){
			    .event = PROBE_TRACE_HEIRS, .traced = &traced->its, .count = heirs});
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
	struct probe_session **sessions;
	size_t *heirs, count = 0;

	if (trace->seeks || trace->options.ends_heirs || now < trace->heirs_due_ns)
		return;
	sessions = calloc(trace->count + 1, sizeof(*sessions));
	heirs = calloc(trace->count + 1, sizeof(*heirs));
	for (size_t i = 0; sessions && heirs && i < trace->count; i++)
		if (has_left_session(trace->items[i]))
			sessions[count++] = trace->items[i]->session;
	if (count) {
		fail(trace, NULL, probe_sessions_heirs(sessions, count, heirs));
		took = clock_monotonic_ns() - now;
		trace->heirs_due_ns = now + (10 * took > HEIRS_NS ? 10 * took : HEIRS_NS);
	}
	for (size_t i = 0, k = 0; k < count; i++) {
		struct traced *traced = item(trace, i);

		if (!has_left_session(&traced->its))
			continue;
		traced->has_heirs = heirs[k] > 0;
		traced->heirs_known = true;
		if (heirs[k])
			tell_heirs(trace, traced, heirs[k], now);
		k++;
	}
	free(sessions);
	free(heirs);
}

static void poll_session(struct round *round)
{
	struct probe_trace *trace = round->trace;
	struct traced *traced = item(trace, round->at);
	size_t before = round->hits;
	bool more = false;
	struct probe_error *error = read_hits(round, traced, &more);

	traced->is_wanted = false;
	watch_session(trace, traced);
	tell_grown(trace, traced);
	if (error) {
		traced->its.is_broken = true;
		fail(trace, traced, error);
		stop_session(trace, traced);
		return;
	}
	/*
	 * `has_ended` was set before this poll, so the poll has read all hits of the process
	 * itself. Its forked children may still add hits. If newcomers are sought, the children
	 * have sessions of their own.
	 */
	if (!traced->its.has_ended || ((more || round->hits != before) && !trace->seeks) ||
		may_have_heirs(trace, traced))
		return;
	stop_session(trace, traced);
	read_rest(round);
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
		struct traced *traced = item(trace, round.at);

		if (!traced->its.is_on || probe_target_alive(traced->its.target))
			continue;
		note_end(trace, first_of(trace, round.at));
		traced->heirs_known = true;
		poll_session(&round);
	}
}

/*
 * Visits the waiting hits in order of time, up to the time before which this round has certainly
 * read all hits. The round began at begin_ns. If the clock was set back, the order is unknown, so
 * all waiting hits are visited.
 */
static void visit_merged(const struct round *round, uint64_t begin_ns)
{
	struct probe_trace *trace = round->trace;
	uint64_t until_ns, known_ns;

	if (!trace->merge || round->is_blocked)
		return;
	until_ns = begin_ns < trace->merged_ns ? UINT64_MAX : begin_ns - ORDER_NS;
	known_ns = merge_known_ns(trace->merge);
	merge_drain(trace->merge, known_ns < until_ns ? known_ns : until_ns, visit, trace);
	trace->merged_ns = begin_ns;
}

static struct probe_error *open_merge(struct probe_trace *trace)
{
	bool any = false;

	for (size_t i = 0; i < trace->options.tracer_count && trace->options.hit; i++)
		any |= !trace->options.tracers[i].is_unordered;
	if (trace->merge || !any || (trace->count < 2 && !trace->sums.count))
		return NULL;
	trace->merge = merge_create();
	return trace->merge ? NULL : probe_error_no_memory();
}

/* Does not rely on the epoll(7) instance: Linux 6.18 was seen to drop a pidfd from it. */
static bool has_exited(const struct probe_traced *its)
{
	struct pollfd exit = {.fd = its->pidfd, .events = POLLIN};

	return its->pidfd < 0 ? !probe_target_alive(its->target) : poll(&exit, 1, 0) > 0;
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

		if (!its->has_ended && has_exited(its))
			note_end(trace, i);
	}
}

/* Polls every session once. */
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
		traced = item(trace, round->at);
		full = is_full(trace, traced, false);
		round->is_blocked |= full && !tracer_of(trace, traced)->is_apart;
		if (traced->is_unread && !full)
			read_rest(round);
		/* While there is no room, hits stay in the rings. */
		if (traced->its.is_on &&
			(traced->is_wanted || (!full && (reads || traced->its.has_ended))))
			poll_session(round);
	}
	trace->first++;
	visit_merged(round, begin_ns);
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
	tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_UNTRACED,
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
	const struct probe_trace_tracer *tracer = tracer_of(trace, traced);
	struct probe_session_options options = tracer->options;
	struct probe_request request = *tracer->request;
	struct probe_report report = {0};
	struct probe_error *error;

	request.keep_going = true;
	/* The session then only finds the programs that this one starts. */
	if (!meant)
		request.pattern_count = 0;
	options.follow_libraries = true;
	error = start_session(trace, traced, &request, &options, &report);
	*sites += report.sites;
	if (!error)
		tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_STARTED,
				    .traced = &traced->its,
				    .report = &report});
	probe_report_deinit(&report);
	return error;
}

/* Lets a held process run. It is no error if the process was killed meanwhile. */
static void release(struct probe_trace *trace, struct probe_target *target)
{
	struct probe_error *error = probe_target_release(target);

	if (error && probe_target_alive(target)) {
		fail(trace, NULL, error);
		error = NULL;
	}
	probe_error_free(error);
}

/* Frees the sessions of tracers that do not trace the process. They begin at index `from`. */
static void drop_unstarted(struct probe_trace *trace, size_t from)
{
	for (size_t i = trace->count; i-- > from;)
		if (!trace->items[i]->is_on)
			close_session(trace, i);
}

/* Frees the sessions of a program that cannot be traced. They begin at index `from`. */
static void give_up(struct probe_trace *trace, size_t from)
{
	for (size_t i = trace->count; i-- > from;) {
		stop_session(trace, item(trace, i));
		close_session(trace, i);
	}
}

/*
 * Stops following a program that has none of the wanted probes. Most programs of a build have none.
 */
static void pass_over(const struct probe_trace *trace, size_t from, struct probe_target *target)
{
	for (size_t i = from; i < trace->count; i++)
		if (item(trace, i)->told.probes)
			return;
	probe_watch_pass_over(trace->watch, target);
}

static struct probe_error *trace_program(
	struct probe_trace *trace, const struct probe_watch_event *event)
{
	struct probe_trace_news news = {.event = PROBE_TRACE_CAME, .watched = event};
	bool meant = is_meant(trace, event->target);
	uint64_t begun_ns = clock_monotonic_ns();
	size_t from = trace->count, at = from;
	struct probe_error *error;

	if (event->is_newcomer && !event->held) {
		stop_ended(trace);
		from = at = trace->count;
	}
	error = add_process(trace, event->target, false, true);
	if (error)
		return error;
	while (at < trace->count && !error)
		error = start_later(trace, item(trace, at++), meant, &news.sites);
	if (error) {
		probe_watch_untraced(trace->watch, event);
		tell_untraced(trace, event->target, item(trace, at - 1), error);
		give_up(trace, from);
		return NULL;
	}
	news.traced = trace->items[from];
	if (event->unseen_ns)
		news.late_ns = event->unseen_ns + clock_monotonic_ns() - begun_ns;
	tell(trace, &news);
	drop_unstarted(trace, from);
	if (trace->count == from)
		return NULL;
	pass_over(trace, from, event->target);
	if (event->held)
		release(trace, event->target);
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
	error = follow_programs(trace);
	if (!error)
		error = open_merge(trace);
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

/* A hit of a flight recorder is copied, because the recorder may overwrite its records. */
struct recalling {
	struct probe_trace *trace;
	struct merge *merge; /* NULL if there is a single session */
	size_t at;
	bool no_memory;
};

static bool recall_hit(const struct probe_hit *hit, void *data)
{
	struct recalling *recalling = data;
	struct probe_trace *trace = recalling->trace;
	const char *comm = comm_of(trace, hit);

	if (!recalling->merge)
		return visit(recalling->at, hit, comm, trace);
	recalling->no_memory |= !merge_add(recalling->merge, recalling->at, hit, comm);
	return !recalling->no_memory;
}

void probe_trace_snapshot(struct probe_trace *trace)
{
	bool is_merged = trace->count > 1 || trace->sums.hits;
	/* The snapshot has a merge of its own. The hits that wait in trace->merge stay there. */
	struct recalling recalling = {.trace = trace, .merge = is_merged ? merge_create() : NULL};

	recalling.no_memory = is_merged && !recalling.merge;
	for (; recalling.at < trace->count && !recalling.no_memory; recalling.at++) {
		struct traced *traced = item(trace, recalling.at);

		if (tracer_of(trace, traced)->options.overwrite && !traced->its.is_broken &&
			!traced->its.is_read_by_user)
			fail(trace, traced,
				probe_session_snapshot(
					traced->its.session, recall_hit, &recalling));
	}
	if (trace->sums.hits && recalling.merge)
		recalling.no_memory |=
			!merge_add_all(recalling.merge, trace->count, trace->sums.hits);
	if (recalling.no_memory)
		fail(trace, NULL, probe_error_no_memory());
	if (recalling.merge)
		merge_drain(recalling.merge, UINT64_MAX, visit, trace);
	merge_free(recalling.merge);
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
		is_waiting = trace->merge && !merge_is_empty(trace->merge);
		if (is_waiting)
			merge_drain(trace->merge, merge_known_ns(trace->merge), visit, trace);
		for (size_t i = 0; i < trace->count; i++)
			is_full(trace, item(trace, i), true);
	} while ((round.hits + round.taken != before || is_waiting) && !trace->is_enough);
}

/* Ends the watch, and tells which processes have ended before they could be traced. */
static void finish_watch(struct probe_trace *trace)
{
	struct probe_error *error;

	if (!trace->watch)
		return;
	unwatch_fd(trace, probe_watch_fd(trace->watch));
	while ((error = probe_watch_finish(trace->watch)))
		tell_untraced(trace, NULL, NULL, error);
}

void probe_trace_stop(struct probe_trace *trace, bool read)
{
	struct round round = {.trace = trace, .due_ns = UINT64_MAX};

	probe_trace_switch(trace, false);
	/*
	 * Read again, because threads that waited for room in their rings have now written their
	 * hits.
	 */
	if (read) {
		fail(trace, NULL, open_merge(trace));
		poll_all(&round);
	}
	finish_watch(trace);
	probe_trace_look(trace, true);
	stop_all(trace);
	for (size_t i = 0; i < trace->count; i++)
		if (trace->items[i]->session)
			tell_grown(trace, item(trace, i));
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
	sums_deinit(&trace->sums);
	merge_free(trace->merge);
	probe_watch_free(trace->watch);
	if (trace->epoll >= 0)
		close(trace->epoll);
	for (size_t i = 0; trace->rows && i < trace->options.tracer_count; i++)
		probe_table_free(trace->rows[i]);
	free(trace->rows);
	free(trace->items);
	free(trace);
}

struct probe_traced *const *probe_trace_sessions(const struct probe_trace *trace, size_t *count_ret)
{
	*count_ret = trace->count;
	return trace->items;
}

struct probe_trace_probe *probe_trace_probes(const struct probe_trace *trace, size_t *count_ret)
{
	const struct probe_session_probe *probes;
	size_t total = trace->sums.count, count;
	struct probe_trace_probe *all;

	for (size_t i = 0; i < trace->count; i++) {
		probe_session_probes(trace->items[i]->session, &count);
		total += count;
	}
	*count_ret = 0;
	all = calloc(total + 1, sizeof(*all));
	for (size_t i = 0; all && i < trace->sums.count; i++)
		all[(*count_ret)++] =
			(struct probe_trace_probe){.tracer = trace->sums.parts[i].tracer,
				.probe = &trace->sums.probes[i],
				.tally = trace->sums.parts[i].tally};
	for (size_t i = 0; all && i < trace->count; i++) {
		const struct traced *traced = item(trace, i);

		probes = probe_session_probes(traced->its.session, &count);
		for (size_t k = 0; k < count; k++) {
			all[*count_ret] = (struct probe_trace_probe){.traced = &traced->its,
				.tracer = traced->its.tracer,
				.probe = &probes[k]};
			if (k < traced->tally_count)
				all[*count_ret].tally = traced->tallies[k];
			++*count_ret;
		}
	}
	return all;
}

struct probe_error *probe_trace_table(
	const struct probe_trace *trace, size_t tracer, struct probe_table **ret)
{
	const struct probe_session_options *options = &trace->options.tracers[tracer].options;
	struct probe_table *table;
	struct probe_error *error = probe_table_create(options->gather.key_count, &table);

	if (error)
		return error;
	if (trace->rows[tracer])
		error = probe_table_add_table(table, trace->rows[tracer]);
	for (size_t i = 0; i < trace->count && !error; i++) {
		const struct probe_traced *its = trace->items[i];

		if (its->tracer != tracer)
			continue;
		error = probe_table_add(table, its->session, options);
		/* The failure was told. Its readable rows are in the table. */
		if (error && its->is_broken) {
			probe_error_free(error);
			error = NULL;
		}
	}
	if (error)
		probe_table_free(table);
	else
		*ret = table;
	return error;
}
