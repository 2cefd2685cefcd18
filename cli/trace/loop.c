/* SPDX-License-Identifier: MIT */
/*
 * The loop of `probectl trace` and `probectl record`.
 *
 * Targets do not wake us when they hit a probe: that would cost them a system
 * call a hit. So we look at their rings again and again, and sleep in between:
 * FIRST_SLEEP_NS at first, twice as long each time nothing came, up to
 * LAST_SLEEP_NS. A hit is thus shown within some 20 ms, and an idle trace costs 50
 * wake-ups a second. We look again at once only after a round that brought
 * BUSY_HITS or more, when the rings might run over.
 *
 * The sleep is one ppoll(2) on everything else that may happen: signals (blocked,
 * and read from a signalfd, so that none can interrupt the switching off), the
 * end of a target, a target that waits for us in dlopen(3), an output that can
 * take more or whose reader went away. Output never blocks (probe/sink.h).
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/clock.h"
#include "cli/trace/trace.h"

enum {
	FIRST_SLEEP_NS = 500 * 1000,
	LAST_SLEEP_NS = 20 * 1000 * 1000,
	BUSY_HITS = 1000,
	FIXED_FDS = 3,		 /* signals, output, programs that are started */
	FLUSH_NS = NSEC_PER_SEC, /* how long output to a file may lie in memory */
	LOSSES_NS = NSEC_PER_SEC /* how often losses are told, and sites looked at */
};

/* When what is due next, on CLOCK_MONOTONIC; UINT64_MAX: never. */
struct timers {
	uint64_t end, table, export, flush, losses;
};

/* One round of polling: who is being polled, and what it brought. */
struct round {
	struct trace *trace;
	size_t target;
	size_t hits;
};

/* ---- Polling ---------------------------------------------------------------- */

static bool visit_hit(const struct probe_hit *hit, void *data)
{
	struct round *round = data;
	struct trace *trace = round->trace;

	round->hits++;
	/* Counts are in no order. */
	if (trace->merge && !trace->targets[round->target].tracer->stacks) {
		if (!merge_add(trace->merge, round->target, hit)) {
			trace_fail(trace, probe_error_no_memory());
			trace->over = trace->gone = true;
			return false;
		}
		return !merge_full(trace->merge);
	}
	if (!output_hit(round->target, hit, trace))
		return false;
	if (trace->record || !output_full(&trace->targets[round->target]))
		return true;
	output_flush(trace);
	return !trace->gone && !output_full(&trace->targets[round->target]);
}

/* Switches one target's probes off, and lets it be. */
static void target_stop(struct trace *trace, struct trace_target *target)
{
	struct probe_error *error;

	if (!target->on)
		return;
	target->on = false;
	error = probe_session_stop(target->session);
	target->stuck = error != NULL;
	trace_fail(trace,
		probe_error_prefix(error, "process %d keeps its probes, until `probectl repair`",
			(int)probe_target_pid(target->target)));
}

static void target_poll(struct round *round)
{
	struct trace *trace = round->trace;
	struct trace_target *target = &trace->targets[round->target];
	size_t before = round->hits;
	bool more = false;
	struct probe_error *error = probe_session_poll(target->session, visit_hit, round, &more);

	target->wanted = false;
	if (error) {
		trace_fail(trace, error);
		target->broken = true;
		target_stop(trace, target);
		return;
	}
	/* Set before this poll, and so the poll has seen all there will ever be. */
	if (!target->exited || more || round->hits != before)
		return;
	target_stop(trace, target);
	/* Finds nothing, and lets the rings' memory go. */
	trace_fail(trace, probe_session_poll(target->session, visit_hit, round, NULL));
	trace_report_fate(trace, target);
}

/* Looks at every session once; returns how many hits that brought. */
static size_t poll_all(struct trace *trace)
{
	struct round round = {.trace = trace};
	bool any = false;

	for (size_t i = 0; i < trace->target_count; i++) {
		size_t at = (trace->first + i) % trace->target_count;
		struct trace_target *target = &trace->targets[at];

		/* Hits stay in the rings while the output takes none. */
		if (!target->on || (output_full(target) && !target->wanted))
			continue;
		round.target = at;
		target_poll(&round);
	}
	trace->first++;
	trace_report_refusals(trace);
	if (trace->merge)
		merge_drain(trace->merge, output_hit, trace);
	/* Readers of a record are told between which hits they were lost. */
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
	if (!any)
		trace->over = true;
	if (trace->settings.hits_max && trace_total(trace) >= trace->settings.hits_max)
		trace->over = true;
	return round.hits;
}

/* ---- Waiting ---------------------------------------------------------------- */

static void read_signals(struct trace *trace)
{
	struct signalfd_siginfo info;

	while (read(trace->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1)
			trace->flight = true;
		else if (signal_ends(trace->child, (int)info.ssi_signo))
			trace->over = trace->interrupted = true;
	}
}

static size_t fds_needed(const struct trace *trace)
{
	return FIXED_FDS + 2 * trace->target_count + 2 * trace->tracer_count;
}

/* What a loaded tracer answers, and its pipe while there is something for it. */
static void wait_for_host(const struct trace_tracer *tracer, struct pollfd fds[2])
{
	fds[0] = fds[1] = (struct pollfd){.fd = -1};
	if (!tracer->host || tracer->gone)
		return;
	fds[0] = (struct pollfd){.fd = probe_tracer_host_fd(tracer->host), .events = POLLIN};
	if (probe_sink_pending(tracer->sink))
		fds[1] = (struct pollfd){
			.fd = probe_tracer_host_input(tracer->host), .events = POLLOUT};
}

/* Targets are added while it runs. NULL without memory. */
static struct pollfd *poll_fds(struct trace *trace)
{
	size_t count = fds_needed(trace);
	struct pollfd *fds = trace->fds;

	if (count <= trace->fd_count)
		return fds;
	fds = reallocarray(fds, 2 * count, sizeof(*fds));
	if (!fds)
		return NULL;
	trace->fds = fds;
	trace->fd_count = 2 * count;
	return fds;
}

/* Sleeps until something happens, or timeout_ns have passed. */
static void wait_for_events(struct trace *trace, uint64_t timeout_ns)
{
	struct pollfd *fds = poll_fds(trace), *output, *hosts;
	struct timespec timeout = {
		.tv_sec = (time_t)(timeout_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(timeout_ns % NSEC_PER_SEC),
	};

	if (!fds) {
		trace_fail(trace, probe_error_no_memory());
		trace->over = trace->gone = true;
		return;
	}
	output = &fds[1];
	hosts = &fds[FIXED_FDS + 2 * trace->target_count];
	fds[0] = (struct pollfd){.fd = trace->signal_fd, .events = POLLIN};
	/* What it has to say, the next round hears. */
	fds[2] = (struct pollfd){.fd = probe_watch_fd(trace->watch), .events = POLLIN};
	*output = (struct pollfd){.fd = trace->to_file || trace->gone ? -1 : trace->output_fd};
	if (probe_sink_pending(trace->sink))
		output->events = POLLOUT;
	for (size_t i = 0; i < trace->target_count; i++) {
		const struct trace_target *target = &trace->targets[i];
		struct pollfd *its = &fds[FIXED_FDS + 2 * i];

		its[0] = its[1] = (struct pollfd){.fd = -1, .events = POLLIN};
		if (!target->on)
			continue;
		its[0].fd = target->exited ? -1 : target->pidfd;
		its[1].fd = probe_session_fd(target->session);
	}
	for (size_t i = 0; i < trace->tracer_count; i++)
		wait_for_host(&trace->tracers[i], &hosts[2 * i]);
	if (ppoll(fds, fds_needed(trace), &timeout, NULL) <= 0)
		return;
	if (fds[0].revents)
		read_signals(trace);
	/* The error is told even where nothing is to be written: `| head` has left. */
	if (output->revents & (POLLERR | POLLHUP))
		trace->gone = trace->over = true;
	for (size_t i = 0; i < trace->target_count; i++) {
		trace->targets[i].exited |= fds[FIXED_FDS + 2 * i].revents != 0;
		trace->targets[i].wanted |= fds[FIXED_FDS + 2 * i + 1].revents != 0;
	}
}

/* For kernels without pidfd_open(2), 5.2 and older. */
static void look_for_exits(struct trace *trace)
{
	for (size_t i = 0; i < trace->target_count; i++) {
		struct trace_target *target = &trace->targets[i];

		if (target->on && target->pidfd < 0)
			target->exited |= !probe_target_alive(target->target);
	}
}

/* ---- The loop --------------------------------------------------------------- */

static void timers_start(const struct trace *trace, struct timers *timers)
{
	const struct trace_settings *settings = &trace->settings;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	/* Metrics are there at once. */
	*timers = (struct timers){
		.end = settings->duration_ns ? now + settings->duration_ns : UINT64_MAX,
		.table = settings->interval_ns ? now + settings->interval_ns : UINT64_MAX,
		.export = exports_interval_ns(trace) ? now : UINT64_MAX,
		.flush = now + FLUSH_NS,
		.losses = now + LOSSES_NS,
	};
}

/* Does what is due. */
static void timers_run(struct trace *trace, struct timers *timers)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (now >= timers->losses) {
		trace_report_losses(trace);
		trace_look(trace, false);
		timers->losses = now + LOSSES_NS;
	}
	if (now >= timers->table && now < timers->end) {
		trace_look(trace, false);
		trace_tables(trace, true);
		do {
			timers->table += trace->settings.interval_ns;
		} while (timers->table <= now);
	}
	if (now >= timers->export) {
		exports_update(trace);
		do {
			timers->export += exports_interval_ns(trace);
		} while (timers->export <= now);
	}
	if (now >= timers->end)
		trace->over = true;
	if (!trace->to_file || now >= timers->flush || probe_sink_full(trace->sink)) {
		output_flush(trace);
		timers->flush = now + FLUSH_NS;
	}
}

static uint64_t timers_sleep(const struct timers *timers, uint64_t sleep_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t next = timers->end < timers->table ? timers->end : timers->table;

	if (timers->export < next)
		next = timers->export;
	if (next <= now)
		return 0;
	return next - now < sleep_ns ? next - now : sleep_ns;
}

/* Prints what is still in memory, waiting for the reader; a signal ends the wait. */
static void output_finish(struct trace *trace)
{
	trace->over = false;
	output_flush(trace);
	while (!trace->over && probe_sink_pending(trace->sink)) {
		wait_for_events(trace, NSEC_PER_SEC);
		output_flush(trace);
	}
	trace->gone |= probe_sink_pending(trace->sink) != 0;
	trace->over = true;
}

/*
 * Metrics are read by others, now and then: what came last stays for two more
 * intervals, unless the user wants us to end.
 */
static void linger(struct trace *trace)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), end = now + 2 * exports_interval_ns(trace);

	exports_update(trace);
	trace->over = trace->interrupted;
	while (!trace->over && now < end) {
		wait_for_events(trace, end - now);
		now = clock_ns(CLOCK_MONOTONIC);
	}
	trace->over = true;
}

/* Makes room in the sinks that are full; a tracer that takes nothing is given up. */
static void drain_sinks(struct trace *trace)
{
	if (probe_sink_full(trace->sink))
		output_finish(trace);
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		while (tracer->host && !tracer->gone && probe_sink_full(tracer->sink)) {
			hosts_poll(trace);
			wait_for_events(trace, NSEC_PER_SEC / 10);
		}
	}
}

/*
 * Prints the hits that were still in the rings when the probes were switched off.
 * Where they could not be, there is no end of them: one look has to do.
 */
static void drain(struct trace *trace)
{
	struct round round = {.trace = trace};
	bool again = false;
	size_t before;

	do {
		before = round.hits;
		for (round.target = 0; round.target < trace->target_count; round.target++) {
			const struct trace_target *target = &trace->targets[round.target];

			if (!target->broken && !(target->stuck && again))
				target_poll(&round);
		}
		again = true;
		if (trace->merge)
			merge_drain(trace->merge, output_hit, trace);
		drain_sinks(trace);
	} while (round.hits != before && !trace->gone &&
		 !(trace->settings.hits_max && trace->hits >= trace->settings.hits_max));
}

void trace_fail(struct trace *trace, struct probe_error *error)
{
	if (!error)
		return;
	report_error(error);
	trace->failed = true;
}

void trace_stop(struct trace *trace)
{
	for (size_t i = 0; i < trace->target_count; i++)
		target_stop(trace, &trace->targets[i]);
}

static void trace_loop(struct trace *trace)
{
	uint64_t sleep_ns = FIRST_SLEEP_NS;
	struct timers timers;

	timers_start(trace, &timers);
	while (!trace->over) {
		size_t hits;

		look_for_exits(trace);
		trace_follow_exec(trace);
		hits = poll_all(trace);
		hosts_poll(trace);
		timers_run(trace, &timers);
		if (trace->over)
			break;
		if (hits)
			sleep_ns = FIRST_SLEEP_NS;
		wait_for_events(trace, hits >= BUSY_HITS ? 0 : timers_sleep(&timers, sleep_ns));
		if (sleep_ns < LAST_SLEEP_NS && !hits)
			sleep_ns = 2 * sleep_ns < LAST_SLEEP_NS ? 2 * sleep_ns : LAST_SLEEP_NS;
	}
}

void trace_run(struct trace *trace)
{
	trace_tables_start(trace);
	trace_loop(trace);
	trace_look(trace, true);
	trace_stop(trace);
	trace_look(trace, true);
	if (!trace->gone)
		drain(trace);
	flight_print(trace);
	trace_report_losses(trace);
	trace_report_damage(trace);
	trace_tables(trace, false);
	probe_sink_end(trace->sink);
	if (!trace->gone)
		output_finish(trace);
	hosts_finish(trace);
	if (exports_interval_ns(trace))
		linger(trace);
}
