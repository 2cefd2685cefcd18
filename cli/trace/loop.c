/* SPDX-License-Identifier: MIT */
/*
 * The loop of `probectl trace` and `probectl record`.
 *
 * Targets do not wake us when they hit a probe: that would cost a system call per hit. So we
 * poll their rings and sleep in between: FIRST_SLEEP_NS at first, doubled each time there was
 * no hit, up to LAST_SLEEP_NS. A hit is thus shown within about 20 ms, and an idle trace costs
 * 50 wake-ups per second. We skip the sleep only after a round with BUSY_HITS or more, when the
 * rings might overflow.
 *
 * The hits of several targets are printed in order of time. The targets are read one after the
 * other. A hit that is younger than the start of the round waits for the next round, because a
 * target that was read earlier in this round may have an older hit by then.
 *
 * A sleep (cli/loop.h) also ends on any other event: a signal, the end of a target, a target
 * that waits for us in dlopen(3), an output that accepts more data or whose reader has left, a
 * request for metrics. Neither the output (probe/sink.h) nor the metrics server
 * (probe/metrics.h) ever blocks.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/timer.h"
#include "cli/trace/trace.h"

/* ==== Exports ================================================================================= */

/*
 * Exports the data gathered by tracers as metrics (-t pcp, -t metrics). Each row of metrics has
 * the label of a process.
 *
 * If the user named only one process, the counts of processes that were started during the trace
 * are added to the row of the named process. If the user named several processes, it is unknown
 * which of them started a later process, so each later process has its own label. Each process
 * that was found because it meets the conditions also has its own label.
 */

enum { INTERVAL_NS = 1000000000, ROWS = 2000 };
#define SENT_INTERVAL_NS (5 * (uint64_t)INTERVAL_NS)

static struct probe_error *export_open(struct trace *trace, struct trace_tracer *tracer)
{
	size_t key_count = tracer->options.gather.key_count;
	struct probe_view view;

	probe_tracer_view(tracer->spec, &tracer->options, &view);
	view.tags = tracer_is_part(tracer);
	if (tracer->output == PROBE_TRACER_PCP)
		return probe_pcp_open(&view, key_count, &tracer->pcp);
	return probe_metrics_view(trace->metrics, &view, key_count, &tracer->metrics_view);
}

struct probe_error *exports_open(struct trace *trace)
{
	const struct trace_settings *settings = &trace->settings;
	bool has_metrics = trace_has_output(trace, PROBE_TRACER_METRICS);
	struct probe_error *error = NULL;

	if (has_metrics)
		error = probe_metrics_create(
			settings->rows ? settings->rows : ROWS, &trace->metrics);
	for (size_t i = 0; i < trace->tracer_count && !error; i++)
		if (tracer_is_exported(&trace->tracers[i]))
			error = export_open(trace, &trace->tracers[i]);
	if (!error && settings->listen)
		error = probe_metrics_listen(trace->metrics, settings->listen, &trace->server);
	return error ? error : otlp_open(trace);
}

void exports_close(struct trace *trace)
{
	probe_otlp_close(trace->otlp);
	probe_metrics_server_close(trace->server);
	probe_metrics_free(trace->metrics);
}

/* A request for metrics ends the next sleep. We answer the request after the sleep. */
static void exports_watch(struct trace *trace)
{
	otlp_watch(trace);
	if (!trace->server)
		return;
	loop_watch(&trace->loop, probe_metrics_server_fd(trace->server), POLLIN, NULL);
	loop_until(&trace->loop, probe_metrics_server_due_ns(trace->server));
}

static void exports_serve(const struct trace *trace)
{
	if (trace->server)
		probe_metrics_server_run(trace->server);
	if (trace->otlp)
		probe_otlp_run(trace->otlp);
}

/* Returns true if other programs can read the metrics. */
static bool exports_are_read(const struct trace *trace)
{
	return trace->server || trace_has_output(trace, PROBE_TRACER_PCP);
}

/* Returns the interval at which metrics are updated, or 0 if the trace has no metrics. */
static uint64_t exports_interval_ns(const struct trace *trace)
{
	if (!exports_are_read(trace) && !trace->otlp)
		return 0;
	if (trace->settings.interval_ns)
		return trace->settings.interval_ns;
	return exports_are_read(trace) ? INTERVAL_NS : SENT_INTERVAL_NS;
}

void exports_report(const struct trace *trace)
{
	/* The user must be told the port, because the kernel may have chosen it. */
	if (trace->server && !trace->settings.quiet)
		fprintf(stderr, "probectl: exporting %s\n",
			probe_metrics_server_url(trace->server));
	for (size_t i = 0; i < trace->tracer_count && !trace->settings.quiet && !trace->loop.child;
		i++)
		if (trace->tracers[i].pcp)
			fprintf(stderr, "probectl: exporting %s (pminfo -f %s)\n",
				probe_pcp_name(trace->tracers[i].pcp),
				probe_pcp_name(trace->tracers[i].pcp));
}

/* ---- Processes ---------------------------------------------------------------- */

pid_t exports_owner(const struct trace *trace, const struct trace_target *target)
{
	size_t named = 0;

	while (named < trace->target_count && !trace->targets[named].later)
		named++;
	if (target->later && !trace->seeks && named == trace->tracer_count)
		target = &trace->targets[0];
	return probe_target_pid(target->target);
}

static const char *program_of(const struct trace *trace, pid_t pid)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return comm_cache_get(
		trace->comms, pid, pid, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
}

/*
 * Exports the counts of one process label: the counts of ended processes with this label, and
 * those of the targets from index `first` on.
 */
static struct probe_error *export_process(struct trace *trace, struct trace_tracer *tracer,
	size_t first, pid_t pid, const char *program)
{
	struct probe_table *table = NULL;
	struct probe_error *error = probe_table_create(tracer->options.gather.key_count, &table);

	for (size_t i = 0; i < tracer->ended_count && !error; i++)
		if (tracer->ended[i].owner == pid)
			error = probe_table_add_table(table, tracer->ended[i].rows);
	for (size_t i = first; i < trace->target_count && !error; i++) {
		const struct trace_target *target = &trace->targets[i];

		if (target->tracer == tracer && !target->broken &&
			exports_owner(trace, target) == pid)
			error = probe_table_add(table, target->session, &tracer->options);
	}
	if (error) {
		probe_table_free(table);
		return error;
	}
	return tracer->pcp ? probe_pcp_add(tracer->pcp, pid, program, table)
			   : probe_metrics_add(
				     trace->metrics, tracer->metrics_view, pid, program, table);
}

/*
 * Returns true if one of the first `count` targets adds its counts to the metrics of this process.
 */
static bool any_belongs_to(
	const struct trace *trace, const struct trace_tracer *tracer, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (trace->targets[i].tracer == tracer &&
			exports_owner(trace, &trace->targets[i]) == pid)
			return true;
	return false;
}

/*
 * Exports the rows of each ended process once more after its last change. This second export shows
 * a change of 0 since the last interval. After that, the rows stay as they are.
 */
static struct probe_error *export_ended(struct trace *trace, struct trace_tracer *tracer)
{
	struct probe_error *error = NULL;

	for (size_t i = tracer->ended_count; i-- > 0 && !error;) {
		struct trace_ended *ended = &tracer->ended[i];
		pid_t pid = ended->owner;
		bool was_exported = ended->is_exported;

		if (any_belongs_to(trace, tracer, trace->target_count, pid))
			continue;
		error = export_process(trace, tracer, trace->target_count, pid, ended->program);
		ended->is_exported = !error;
		if (error || !was_exported)
			continue;
		if (tracer->pcp)
			probe_pcp_end(tracer->pcp, pid);
		else
			probe_metrics_end(trace->metrics, tracer->metrics_view, pid);
		trace_ended_deinit(ended);
		*ended = tracer->ended[--tracer->ended_count];
	}
	return error;
}

/*
 * Reports rows that were left out. The first report comes as soon as a row is left out. The second
 * one comes at the end, if more rows were left out meanwhile.
 */
static void report_left_out(
	const char *name, size_t left_out, const char *why, bool at_end, size_t *told)
{
	if (left_out <= *told || (*told && !at_end))
		return;
	report_warning(
		"%s: %s; %zu row%s left out", name, why, left_out, left_out == 1 ? " is" : "s are");
	*told = left_out;
}

static struct probe_error *export_tracer(
	struct trace *trace, struct trace_tracer *tracer, bool at_end)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < trace->target_count && !error; i++) {
		pid_t pid = exports_owner(trace, &trace->targets[i]);

		if (trace->targets[i].tracer == tracer && !any_belongs_to(trace, tracer, i, pid))
			error = export_process(trace, tracer, i, pid, program_of(trace, pid));
	}
	if (!error)
		error = export_ended(trace, tracer);
	if (!error && tracer->pcp)
		error = probe_pcp_update(tracer->pcp);
	if (tracer->pcp)
		report_left_out(probe_pcp_name(tracer->pcp), probe_pcp_left_out(tracer->pcp),
			"PCP takes 10000 labels and values of an exporter", at_end,
			&tracer->left_out_told);
	tracer->told |= error != NULL;
	return error;
}

static void exports_update(struct trace *trace, bool at_end)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];
		bool told = tracer->told;
		struct probe_error *error =
			tracer_is_exported(tracer) ? export_tracer(trace, tracer, at_end) : NULL;

		/* A failed export is retried each time but reported only once. */
		if (told)
			probe_error_free(error);
		else
			trace_fail(trace, error);
	}
	otlp_update(trace);
	if (!trace->metrics)
		return;
	if (trace->server)
		probe_metrics_server_renew(trace->server);
	report_left_out("-t metrics", probe_metrics_left_out(trace->metrics),
		"there is room for as many rows as --rows says", at_end, &trace->left_out_told);
}

/* ==== Sites =================================================================================== */

/*
 * Checks the sites of a trace from time to time. If another program has changed a site, reports
 * the site, because its hits are missing from all output.
 */

struct looking {
	struct trace *trace;
	const struct trace_target *target;
};

/* Report for the first tracer only, because all tracers have the same sites. */
static void take_news(const struct probe_site_news *news, void *data)
{
	const struct looking *looking = data;
	struct trace *trace = looking->trace;
	pid_t pid = probe_target_pid(looking->target->target);

	if (looking->target->tracer != trace->tracers)
		return;
	trace->failed = true;
	print_site_news(news, pid);
	probe_sink_site(trace->sink, pid, news);
}

/*
 * Reports sites that another program has changed, and changed sites that are intact again. If
 * there is any such site, the trace counts as failed. For `last` see probe_session_look().
 */
static void trace_look(struct trace *trace, bool last)
{
	for (size_t i = 0; i < trace->target_count; i++) {
		struct trace_target *target = &trace->targets[i];
		struct looking looking = {trace, target};

		if (target->session && !target->broken && !target->exited)
			trace_fail(trace,
				probe_session_look(target->session, last, take_news, &looking));
	}
}

/* ==== Progress ================================================================================ */

/* The progress of `probectl record`, shown on a terminal once per second. */

static struct trace_progress trace_progress_start(const struct trace *trace)
{
	/*
	 * No progress line if we started a program, because the program may write to the same
	 * terminal.
	 */
	bool wanted = trace->record && trace->full == RECORD_FLUSH && !trace->settings.quiet &&
		      !trace->loop.child;

	return (struct trace_progress){.line = progress_every(wanted ? NSEC_PER_SEC : 0),
		.last_ns = clock_ns(CLOCK_MONOTONIC)};
}

/* If it is time to do so, shows the number of hits, their rate, the size, and the lost hits. */
static void trace_progress_show(const struct trace *trace, struct trace_progress *progress)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	double seconds = (double)(now - progress->last_ns) / NSEC_PER_SEC;

	if (!progress_due(&progress->line))
		return;
	progress_show(&progress->line, "%" PRIu64 " hit%s, %.0f/s, %.1f MB, %" PRIu64 " lost",
		COUNTED(trace->hits),
		seconds > 0 ? (double)(trace->hits - progress->hits) / seconds : 0,
		(double)probe_ctf_bytes(trace->record) / 1e6, trace_lost(trace));
	progress->last_ns = now;
	progress->hits = trace->hits;
}

/* ==== Loop ==================================================================================== */

enum {
	FIRST_SLEEP_NS = 500 * 1000,
	LAST_SLEEP_NS = 20 * 1000 * 1000,
	BUSY_HITS = 1000,
	FLUSH_NS = NSEC_PER_SEC, /* maximum time that output to a file stays in memory */
	/* Interval at which lost hits are reported and sites are checked. */
	LOSSES_NS = NSEC_PER_SEC,
	/*
	 * Interval at which we look for forked children of ended targets, and how long they run
	 * before we report them.
	 */
	HEIRS_NS = 50 * NSEC_PER_MSEC,
	HEIRS_TOLD_NS = NSEC_PER_SEC,
	/*
	 * With several targets, a hit waits this long for older hits to arrive. Each session has
	 * its own clock, with an error of some microseconds. Also, a thread publishes a record a
	 * little after it has read the time.
	 */
	ORDER_NS = 2 * NSEC_PER_MSEC
};

struct timers {
	struct timer end, table, export, flush, losses;
	struct trace_progress progress;
};

/* How long we wait for an OpenTelemetry collector at the end of the trace. */
#define SEND_NS (5 * (uint64_t)NSEC_PER_SEC)

/* One round of polling: the target that is being read, and the number of hits found so far. */
struct round {
	struct trace *trace;
	size_t target;
	bool blocked; /* the output is full, so not all targets were read */
	size_t hits;
	size_t taken; /* number of hits that were moved into the recording undecoded */
};

/* ---- Polling ---------------------------------------------------------------- */

static bool visit_hit(const struct probe_hit *hit, void *data)
{
	struct round *round = data;
	struct trace *trace = round->trace;
	const struct trace_target *target = &trace->targets[round->target];
	const struct trace_tracer *tracer = target->tracer;
	const char *comm = output_comm(trace, hit);

	round->hits++;
	/*
	 * Only printed hits are sorted by time. Counts of call stacks have no order, and a heap
	 * tracer compares pointers only within one process.
	 */
	if (trace->merge && !tracer->stacks && !tracer->heap) {
		if (!merge_add(trace->merge, round->target, hit, comm)) {
			output_check(trace, probe_error_no_memory());
			return false;
		}
		return !merge_full(trace->merge, round->target);
	}
	if (!output_hit(round->target, hit, comm, trace))
		return false;
	if (trace->record || !output_full(&trace->targets[round->target]))
		return true;
	output_flush(trace);
	return !trace->gone && !output_full(&trace->targets[round->target]);
}

static void note_stopped(
	struct trace *trace, struct trace_target *target, struct probe_error *error)
{
	target->on = false;
	target->stuck = error != NULL;
	trace_fail(trace,
		probe_error_prefix(error, "process %d keeps its probes until `probectl repair`",
			(int)probe_target_pid(target->target)));
}

/* Switches one target's probes off and stops tracing it. */
static void target_stop(struct trace *trace, struct trace_target *target)
{
	if (!target->on)
		return;
	note_stopped(trace, target,
		target->rings ? trace_rings_stop(target) : probe_session_stop(target->session));
}

/*
 * Reads the available hits. If the hits go into a recording undecoded, a few bytes stay in the
 * rings until more hits arrive, or until the trace ends.
 */
static struct probe_error *read_hits(struct round *round, struct trace_target *target, bool *more)
{
	struct trace *trace = round->trace;
	bool all = target->exited || !target->on;
	size_t before = round->taken;
	struct probe_error *error;

	if (target->rings)
		return trace_rings_poll(trace, target);
	if (trace->merge && merge_full(trace->merge, round->target)) {
		*more = true;
		return probe_session_poll(target->session, NULL, NULL, NULL);
	}
	if (!trace_takes(trace, target) || !trace_take(trace, target, all, &round->taken))
		return probe_session_poll(target->session, visit_hit, round, more);
	error = probe_session_poll(target->session, NULL, NULL, NULL);
	/* On error, the session has ended by itself, so take all remaining hits. */
	if (error)
		trace_take(trace, target, true, &round->taken);
	if (!trace_count_taken(target))
		error = probe_error_first(error, probe_error_no_memory());
	*more = round->taken != before;
	return error;
}

/*
 * Reads the hits that are still in the rings of a target after its probes were switched off, and
 * frees the rings. Forked children may have added hits meanwhile. If the output becomes full, sets
 * target->unread; call the function again later.
 */
static void read_rest(struct round *round)
{
	struct trace *trace = round->trace;
	struct trace_target *target = &trace->targets[round->target];
	bool more, full;

	if (target->rings) {
		output_check(trace, trace_rings_note_end(trace, target));
		return;
	}
	do {
		more = false;
		trace_fail(trace, read_hits(round, target, &more));
		more &= trace->seeks && !trace->gone && !trace_is_full(trace) && !target->stuck;
		full = trace->merge && merge_full(trace->merge, round->target);
	} while (more && !full && !output_full(target));
	target->unread = more;
}

/*
 * Returns true if forked children may still hit the probes of an ended target. Such hits belong to
 * the target's session. If the trace seeks new processes, the answer is false, because the
 * children then have sessions of their own.
 */
static bool may_have_heirs(const struct trace *trace, const struct trace_target *target)
{
	return !trace->seeks && (target->has_heirs || !target->heirs_known);
}

static void tell_heirs(struct trace_target *target, size_t heirs, uint64_t now)
{
	if (!target->heirs_since_ns)
		target->heirs_since_ns = now;
	if (target->heirs_told || now - target->heirs_since_ns < HEIRS_TOLD_NS)
		return;
	target->heirs_told = true;
	fprintf(stderr,
		"probectl: process %d has ended; %zu process%s that it has forked %s on, and so "
		"does the trace (Ctrl-C ends it)\n",
		(int)probe_target_pid(target->target), heirs, heirs == 1 ? "" : "es",
		heirs == 1 ? "goes" : "go");
}

/*
 * Looks for the forked children of all ended targets at once, because reading the list of all
 * processes takes some milliseconds.
 */
static void look_for_heirs(struct trace *trace)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), took;
	struct probe_session **sessions;
	size_t *heirs, count = 0;

	if (trace->seeks || now < trace->heirs_due_ns)
		return;
	sessions = calloc(trace->target_count + 1, sizeof(struct probe_session *));
	heirs = calloc(trace->target_count + 1, sizeof(*heirs));
	for (size_t i = 0; sessions && heirs && i < trace->target_count; i++)
		if (trace->targets[i].on && trace->targets[i].exited)
			sessions[count++] = trace->targets[i].session;
	if (count) {
		trace_fail(trace, probe_sessions_heirs(sessions, count, heirs));
		took = clock_ns(CLOCK_MONOTONIC) - now;
		trace->heirs_due_ns = now + (10 * took > HEIRS_NS ? 10 * took : HEIRS_NS);
	}
	for (size_t i = 0, k = 0; k < count; i++) {
		struct trace_target *target = &trace->targets[i];

		if (!target->on || !target->exited)
			continue;
		target->has_heirs = heirs[k] > 0;
		target->heirs_known = true;
		if (heirs[k] && !trace->settings.quiet)
			tell_heirs(target, heirs[k], now);
		k++;
	}
	free(sessions);
	free(heirs);
}

static void target_poll(struct round *round)
{
	struct trace *trace = round->trace;
	struct trace_target *target = &trace->targets[round->target];
	size_t before = round->hits;
	bool more = false;
	struct probe_error *error = read_hits(round, target, &more);

	target->wanted = false;
	if (error) {
		trace_fail(trace, error);
		target->broken = true;
		target_stop(trace, target);
		return;
	}
	/*
	 * `exited` was set before this poll, so the poll has read all hits of the target itself.
	 * Its forked children may still add hits. If the trace seeks new processes, the children
	 * have sessions of their own.
	 */
	if (!target->exited || ((more || round->hits != before) && !trace->seeks) ||
		may_have_heirs(trace, target))
		return;
	target_stop(trace, target);
	read_rest(round);
	trace_report_fate(trace, target);
}

void trace_stop_ended(struct trace *trace)
{
	struct round round = {.trace = trace};

	for (; round.target < trace->target_count; round.target++) {
		struct trace_target *target = &trace->targets[round.target];

		if (!target->on || probe_target_alive(target->target))
			continue;
		target->exited = target->heirs_known = true;
		target_poll(&round);
	}
}

/*
 * Prints the waiting hits in order of time, up to the time before which this round has certainly
 * read all hits. The round began at begin_ns. If the clock was set back, the order is unknown, so
 * all waiting hits are printed.
 */
static void print_merged(const struct round *round, uint64_t begin_ns)
{
	struct trace *trace = round->trace;
	uint64_t until_ns, known_ns;

	if (!trace->merge || round->blocked)
		return;
	until_ns = begin_ns < trace->merged_ns ? UINT64_MAX : begin_ns - ORDER_NS;
	known_ns = merge_known_ns(trace->merge);
	merge_drain(trace->merge, known_ns < until_ns ? known_ns : until_ns, output_hit, trace);
	trace->merged_ns = begin_ns;
}

/* Polls every session once. Returns the number of hits found. */
static size_t poll_all(struct trace *trace)
{
	uint64_t begin_ns = clock_ns(CLOCK_REALTIME);
	struct round round = {.trace = trace};
	bool any = false;

	trace->active = false;
	trace->due_ns = UINT64_MAX;
	look_for_heirs(trace);
	for (size_t i = 0; i < trace->target_count; i++) {
		size_t at = (trace->first + i) % trace->target_count;
		struct trace_target *target = &trace->targets[at];

		round.target = at;
		round.blocked |= target->tracer->sink == trace->sink && output_full(target);
		if (target->unread && !output_full(target))
			read_rest(&round);
		/* While the output is blocked, its hits stay in the rings. */
		if (target->on && (!output_full(target) || target->wanted))
			target_poll(&round);
	}
	trace->first++;
	trace_report_refusals(trace);
	print_merged(&round, begin_ns);
	/*
	 * Losses are written to a recording in each round, so that its readers know where hits were
	 * lost.
	 */
	if (trace->record)
		trace_report_losses(trace);
	if (trace->flight)
		flight_print(trace);
	trace->flight = false;
	for (size_t i = 0; i < trace->target_count; i++) {
		struct trace_target *target = &trace->targets[i];

		if (target->unwanted || target->tracer->gone)
			target_stop(trace, target);
		any |= target->on;
	}
	if (!any && !(trace->seeks && processes_may_come(trace->common)))
		trace->loop.over = true;
	if (trace->settings.hits_max && trace_total(trace) >= trace->settings.hits_max)
		trace->loop.over = true;
	return round.hits;
}

/* ---- Waiting ---------------------------------------------------------------- */

/* Ends the next sleep when a loaded tracer sends an answer, or when its pipe accepts more data. */
static void watch_host(struct loop *loop, const struct trace_tracer *tracer)
{
	if (!tracer->host || tracer->gone)
		return;
	loop_watch(loop, probe_tracer_host_fd(tracer->host), POLLIN, NULL);
	if (probe_sink_pending(tracer->sink))
		loop_watch(loop, probe_tracer_host_input(tracer->host), POLLOUT, NULL);
}

/*
 * Watch the output even without pending data: poll(2) then reports an error if the reader has
 * left, as in `| head`.
 */
static void watch_output(struct trace *trace, bool *left)
{
	int fd = trace->to_file || trace->gone ? -1 : trace->output_fd;

	loop_watch(&trace->loop, fd, 0, left);
	if (probe_sink_pending(trace->sink))
		loop_watch(&trace->loop, fd, POLLOUT, NULL);
}

/* Sleeps until an event, or at most `ns` nanoseconds. */
static void wait_for(struct trace *trace, uint64_t ns)
{
	struct loop *loop = &trace->loop;
	struct probe_error *error;
	bool left = false;

	watch_output(trace, &left);
	/* No flag is needed, because the next round reads the watch's events in any case. */
	loop_watch(loop, probe_watch_fd(trace->watch), POLLIN, NULL);
	for (size_t i = 0; i < trace->target_count; i++) {
		struct trace_target *target = &trace->targets[i];

		if (!target->on)
			continue;
		loop_watch_exit(loop, target->pidfd, target->target, &target->exited);
		loop_watch(loop, probe_session_fd(target->session), POLLIN, &target->wanted);
	}
	for (size_t i = 0; i < trace->tracer_count; i++)
		watch_host(loop, &trace->tracers[i]);
	exports_watch(trace);
	loop_until(loop, clock_ns(CLOCK_MONOTONIC) + ns);
	error = loop_sleep(loop);
	exports_serve(trace);
	if (error || left)
		trace->gone = loop->over = true;
	trace_fail(trace, error);
}

/* ---- The loop --------------------------------------------------------------- */

static struct timers timers_start(const struct trace *trace)
{
	struct timers timers = {
		.end = timer_every(trace->settings.duration_ns),
		.table = timer_every(trace->settings.interval_ns),
		.export = timer_every(exports_interval_ns(trace)),
		.flush = timer_every(FLUSH_NS),
		.losses = timer_every(LOSSES_NS),
		.progress = trace_progress_start(trace),
	};

	/* The first update of the metrics is due at once. */
	if (timers.export.every_ns)
		timers.export.next_ns -= timers.export.every_ns;
	return timers;
}

/* Runs the timers that are due. */
static void timers_run(struct trace *trace, struct timers *timers)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	bool ended = timer_due(&timers->end, now);

	if (timer_due(&timers->losses, now)) {
		trace_report_losses(trace);
		trace_look(trace, false);
	}
	trace_progress_show(trace, &timers->progress);
	/*
	 * At the end of the trace, the final table shows the totals, so print no table of the
	 * interval.
	 */
	if (timer_due(&timers->table, now) && !ended) {
		trace_look(trace, false);
		trace_tables(trace, true);
	}
	if (timer_due(&timers->export, now))
		exports_update(trace, false);
	trace->loop.over |= ended;
	if (timer_due(&timers->flush, now) || !trace->to_file || probe_sink_full(trace->sink))
		output_flush(trace);
}

/*
 * Ends the next sleep when an exact timer expires. The other timers are only checked in each
 * round.
 */
static void timers_watch(struct trace *trace, const struct timers *timers)
{
	loop_until(&trace->loop, timers->end.next_ns);
	loop_until(&trace->loop, timers->table.next_ns);
	loop_until(&trace->loop, timers->export.next_ns);
}

/*
 * Writes the output that is still in memory. Waits until the reader has taken all of it, or until
 * a signal arrives.
 */
static void output_finish(struct trace *trace)
{
	trace->loop.over = false;
	output_flush(trace);
	while (!trace->loop.over && probe_sink_pending(trace->sink)) {
		wait_for(trace, NSEC_PER_SEC);
		output_flush(trace);
	}
	if (probe_sink_pending(trace->sink))
		trace->gone = trace->cut_off = true;
	trace->loop.over = true;
}

/*
 * Keeps the last values of the metrics readable for two more intervals, because other programs
 * read metrics only at intervals. Does not wait if the user has ended the trace with a signal.
 */
static void linger(struct trace *trace)
{
	struct timer end = timer_every(2 * exports_interval_ns(trace));

	exports_update(trace, true);
	trace->loop.over = trace->loop.interrupted || !exports_are_read(trace);
	while (!trace->loop.over && !timer_due(&end, clock_ns(CLOCK_MONOTONIC))) {
		loop_until(&trace->loop, end.next_ns);
		wait_for(trace, NSEC_PER_SEC);
	}
	trace->loop.over = true;
}

/* Waits until the collector has accepted the remaining data, or until a signal arrives. */
static void send_rest(struct trace *trace)
{
	struct timer end = timer_every(SEND_NS);

	trace->loop.over = false;
	while (otlp_is_busy(trace) && !trace->loop.over &&
		!timer_due(&end, clock_ns(CLOCK_MONOTONIC))) {
		exports_serve(trace);
		loop_until(&trace->loop, end.next_ns);
		wait_for(trace, NSEC_PER_SEC);
	}
	trace->loop.over = true;
	otlp_end(trace);
}

/*
 * Writes the data of full sinks, so that they can take more. Gives up a tracer that reads nothing.
 */
static void drain_sinks(struct trace *trace)
{
	if (probe_sink_full(trace->sink))
		output_finish(trace);
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		while (tracer->host && !tracer->gone && probe_sink_full(tracer->sink)) {
			hosts_poll(trace);
			wait_for(trace, NSEC_PER_SEC / 10);
		}
	}
}

/*
 * Prints the hits that were still in the rings when the probes were switched off. If the probes of
 * a target could not be switched off, new hits may arrive forever, so this target is polled only
 * once.
 */
static void drain(struct trace *trace)
{
	struct round round = {.trace = trace};
	bool again = false, waiting;
	size_t before;

	do {
		before = round.hits + round.taken;
		for (round.target = 0; round.target < trace->target_count; round.target++) {
			const struct trace_target *target = &trace->targets[round.target];

			if (!target->broken && !(target->stuck && again))
				target_poll(&round);
		}
		again = true;
		/*
		 * If a target had used up its share of the memory for waiting hits, its rings hold
		 * more hits.
		 */
		waiting = trace->merge && !merge_is_empty(trace->merge);
		if (waiting)
			merge_drain(trace->merge, merge_known_ns(trace->merge), output_hit, trace);
		drain_sinks(trace);
	} while ((round.hits + round.taken != before || waiting) && !trace->gone &&
		 !trace_is_full(trace));
}

void trace_fail(struct trace *trace, struct probe_error *error)
{
	if (!error)
		return;
	report_error(error);
	trace->failed = true;
}

void trace_switch(struct trace *trace, bool on)
{
	for (size_t i = 0; i < trace->target_count; i++)
		if (trace->targets[i].on && !trace->targets[i].rings)
			probe_session_switch(trace->targets[i].session, SIZE_MAX, on);
}

/* Stops all sessions in parallel. Does nothing on lack of memory. */
static void stop_sessions(struct trace *trace)
{
	struct probe_session **sessions =
		calloc(trace->target_count + 1, sizeof(struct probe_session *));
	struct probe_error **errors = calloc(trace->target_count + 1, sizeof(struct probe_error *));
	size_t count = 0;

	for (size_t i = 0; sessions && errors && i < trace->target_count; i++) {
		if (!trace->targets[i].on)
			continue;
		if (trace->targets[i].rings)
			trace_fail(trace, trace_rings_suspend(&trace->targets[i]));
		sessions[count++] = trace->targets[i].session;
	}
	probe_sessions_stop(sessions, count, errors);
	count = 0;
	for (size_t i = 0; sessions && errors && i < trace->target_count; i++)
		if (trace->targets[i].on)
			note_stopped(trace, &trace->targets[i], errors[count++]);
	free(sessions);
	free(errors);
}

void trace_stop(struct trace *trace)
{
	for (size_t i = 0; i < trace->target_count; i++)
		if (trace->targets[i].on && trace->targets[i].tracer == trace->tracers)
			processes_tell_frozen(trace->targets[i].target);
	stop_sessions(trace);
	for (size_t i = 0; i < trace->target_count; i++)
		target_stop(trace, &trace->targets[i]);
}

/* Returns how long to sleep after a round that found `hits` hits. */
static uint64_t sleep_after(const struct trace *trace, size_t hits, uint64_t sleep_ns)
{
	if (hits >= BUSY_HITS)
		return 0;
	/* Hits that are moved into a recording undecoded can wait until a ring is nearly full. */
	if (!hits && trace->active)
		sleep_ns = trace->due_ns < FIRST_SLEEP_NS  ? 0
			   : trace->due_ns < LAST_SLEEP_NS ? trace->due_ns
							   : LAST_SLEEP_NS;
	return sleep_ns;
}

static void trace_loop(struct trace *trace)
{
	uint64_t sleep_ns = FIRST_SLEEP_NS;
	struct timers timers = timers_start(trace);

	while (!trace->loop.over) {
		size_t hits;

		trace_follow_exec(trace);
		hits = poll_all(trace);
		hosts_poll(trace);
		timers_run(trace, &timers);
		if (trace->loop.over)
			break;
		if (hits || trace->active)
			sleep_ns = FIRST_SLEEP_NS;
		timers_watch(trace, &timers);
		wait_for(trace, sleep_after(trace, hits, sleep_ns));
		if (sleep_ns < LAST_SLEEP_NS && !hits)
			sleep_ns = 2 * sleep_ns < LAST_SLEEP_NS ? 2 * sleep_ns : LAST_SLEEP_NS;
	}
	progress_end(&timers.progress.line);
}

void trace_run(struct trace *trace)
{
	trace_tables_start(trace);
	trace_loop(trace);
	trace_switch(trace, false);
	/*
	 * Read again, because threads that waited for ring space (--full=wait) have now written
	 * their hits.
	 */
	if (!trace->gone)
		poll_all(trace);
	trace_report_missed(trace);
	trace_look(trace, true);
	trace_stop(trace);
	trace_report_refusals(trace);
	trace_look(trace, true);
	if (!trace->gone)
		drain(trace);
	else if (trace->record || trace->cut_off)
		trace_count_unwritten(trace);
	flight_print(trace);
	trace_report_losses(trace);
	for (size_t i = 0; i < trace->target_count; i++)
		trace_report_damage(&trace->targets[i]);
	trace_tables(trace, false);
	trace_report_waits(trace);
	probe_sink_end(trace->sink);
	if (!trace->gone)
		output_finish(trace);
	hosts_finish(trace);
	if (exports_interval_ns(trace)) {
		linger(trace);
		send_rest(trace);
	}
}
