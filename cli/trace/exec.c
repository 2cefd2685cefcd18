/* SPDX-License-Identifier: MIT */
/*
 * Programs that the processes of a trace become.
 *
 * After execve(2) a process is another program, with sessions of its own. The old sessions stay:
 * their records must still be read, and children that were forked before may continue with them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/request.h"
#include "cli/trace/trace.h"

enum { EVENTS_MAX = 8 /* between two checks for hits */ };

/* The targets of a later process than the named ones, from index `from` on. */
static void drop_process(struct trace *trace, size_t from)
{
	struct probe_target *process = trace->targets[from].target;
	size_t count = 0;

	while (from + count < trace->target_count &&
		trace->targets[from + count].target == process) {
		trace_target_close(trace, &trace->targets[from + count++]);
		if (trace->merge)
			merge_remove(trace->merge, from);
	}
	trace->target_count -= count;
	memmove(&trace->targets[from], &trace->targets[from + count],
		(trace->target_count - from) * sizeof(*trace->targets));
	for (size_t i = 0; i < trace->process_count; i++) {
		if (trace->processes[i] != process)
			continue;
		trace->processes[i] = trace->processes[--trace->process_count];
		break;
	}
	probe_target_close(process);
}

static bool has_probes(const struct trace_target *target)
{
	size_t count;

	probe_session_probes(target->session, &count);
	return count > 0;
}

/*
 * Is this the first target of a process that came later and has ended, and of which nothing is
 * needed any more, or can be kept?
 */
static bool is_done(const struct trace *trace, size_t i)
{
	const struct probe_target *process = trace->targets[i].target;

	if (!trace->targets[i].later || (i > 0 && trace->targets[i - 1].target == process))
		return false;
	for (; i < trace->target_count && trace->targets[i].target == process; i++) {
		const struct trace_target *target = &trace->targets[i];

		if (target->on || (has_probes(target) && !gone_may_drop(trace, target)) ||
			(trace->merge && merge_holds(trace->merge, i)))
			return false;
	}
	return true;
}

/* A build runs thousands of programs. */
static void drop_done(struct trace *trace)
{
	for (size_t i = trace->target_count; i-- > 0;) {
		const struct probe_target *process = trace->targets[i].target;

		if (!is_done(trace, i))
			continue;
		trace_report_losses(trace);
		trace_report_refusals(trace);
		for (size_t k = i; k < trace->target_count && trace->targets[k].target == process;
			k++)
			trace_fail(trace, gone_keep(trace, &trace->targets[k]));
		drop_process(trace, i);
	}
	if (trace->first >= trace->target_count)
		trace->first = 0;
}

/* A session of one tracer in what has just been added; there is no --keep-going here. */
static struct probe_error *start_session(
	struct trace *trace, struct trace_target *target, bool first, bool meant, size_t *sites_ret)
{
	struct probe_session_options options = target->tracer->options;
	struct probe_request request = *tracer_request(target->tracer, trace->request);
	struct probe_report report = {0};
	struct report_told told = {0};
	struct probe_error *error;

	request.keep_going = true;
	/* What it starts may be meant. */
	if (!meant)
		request.pattern_count = 0;
	options.follow_libraries = true; /* it may not have opened all of its libraries */
	options.watch = first && trace->follow ? trace->watch : NULL;
	error = trace_target_start(trace, target, &request, &options, &report);
	target->on = !error;
	if (target->on && !target->rings)
		probe_session_switch(target->session, SIZE_MAX, true);
	if (first)
		trace_take_refusals(trace, &report, probe_target_pid(target->target), &told);
	/* Of a build's thousand programs, one will do. */
	if (report.sites && !trace->noted)
		report_notes(&report);
	trace->noted |= report.sites && report.note_count;
	*sites_ret += report.sites;
	probe_report_deinit(&report);
	return error;
}

/* Tracers that want no hits of a process have no target there. */
static void leave_unwanted(struct trace *trace, size_t from, pid_t pid)
{
	size_t kept = from;

	for (size_t i = from; i < trace->target_count; i++) {
		if (host_wants(trace, trace->targets[i].tracer, pid, false))
			trace->targets[kept++] = trace->targets[i];
		else
			trace_target_close(trace, &trace->targets[i]);
	}
	trace->target_count = kept;
}

/* There may be thousands. */
static void note_found(
	struct trace *trace, const struct probe_watch_event *event, uint64_t begun_ns)
{
	struct trace_found *found = &trace->found;
	uint64_t late_ns = event->unseen_ns + clock_ns(CLOCK_MONOTONIC) - begun_ns;

	if (!event->unseen_ns) {
		found->held++;
		return;
	}
	found->late++;
	if (late_ns > found->late_ns)
		found->late_ns = late_ns;
	if (trace->verbose)
		report_warning("process %d is traced from %.1f ms after its start on, at most",
			(int)probe_target_pid(event->target), (double)late_ns / NSEC_PER_MSEC);
}

void trace_report_found(const struct trace *trace)
{
	const struct trace_found *found = &trace->found;

	if (found->held)
		fprintf(stderr, "probectl: %zu process%s came, and %s traced from the start\n",
			found->held, found->held == 1 ? "" : "es",
			found->held == 1 ? "was" : "were");
	if (found->late)
		fprintf(stderr,
			"probectl: %zu process%s came, and %s traced from %.1f ms after the start "
			"on, at most: earlier hits are missing\n",
			found->late, found->late == 1 ? "" : "es",
			found->late == 1 ? "was" : "were", (double)found->late_ns / NSEC_PER_MSEC);
}

static struct probe_error *start_sessions(
	struct trace *trace, size_t from, const struct probe_watch_event *event)
{
	struct probe_error *error = trace_merge_targets(trace);
	pid_t pid = probe_target_pid(event->target);
	uint64_t begun_ns = clock_ns(CLOCK_MONOTONIC);
	bool meant = processes_mean(trace->common, pid);
	size_t sites = 0;

	trace_take_left(trace, pid);
	comm_cache_forget(trace->comms, pid);
	comm_cache_get(trace->comms, pid, pid, clock_ns(CLOCK_REALTIME));
	leave_unwanted(trace, from, pid);
	for (size_t i = from; i < trace->target_count && !error; i++)
		error = start_session(trace, &trace->targets[i], i == from, meant, &sites);
	if (!error && event->is_newcomer)
		note_found(trace, event, begun_ns);
	else if (!error && sites && event->unseen_ns)
		report_warning("process %d has become another program; hits of its first %ju ms "
			       "are not reported",
			(int)pid, (uintmax_t)(event->unseen_ns / NSEC_PER_MSEC + 1));
	return error;
}

/* Most programs of a build have no probe that is wanted. */
static void pass_over(struct trace *trace, size_t from, const struct probe_watch_event *event)
{
	size_t count;

	for (size_t i = from; i < trace->target_count; i++) {
		probe_session_probes(trace->targets[i].session, &count);
		if (count)
			return;
	}
	probe_watch_pass_over(trace->watch, event->target);
}

/* A process that cannot be traced any more does not make the trace fail. */
static void report_untraced(struct probe_error *error, const struct probe_target *target)
{
	if (!target || probe_target_alive(target))
		report_warning("%s%s", processes_untraced(error), error->message);
	probe_error_free(error);
}

/* Traces the program that a process has become; false if it is not traced. */
static bool follow_event(struct trace *trace, const struct probe_watch_event *event)
{
	size_t from = trace->target_count;
	struct probe_error *error;

	if (event->is_newcomer && !event->held)
		trace_stop_ended(trace);
	error = trace_add_process(trace, event->target, false, true);

	if (!error)
		error = start_sessions(trace, from, event);
	if (!error) {
		pass_over(trace, from, event);
		return true;
	}
	if (trace->target_count == from) {
		trace_fail(trace, error);
		trace->loop.over = true;
		return false;
	}
	probe_watch_untraced(trace->watch, event);
	report_untraced(error, event->target);
	for (size_t i = from; i < trace->target_count; i++)
		if (trace->targets[i].on)
			trace_fail(trace, probe_session_stop(trace->targets[i].session));
	drop_process(trace, from);
	return false;
}

/* Releases a held one that is traced now; it is no failure if it was killed meanwhile. */
static void release(struct trace *trace, struct probe_target *target)
{
	struct probe_error *error = probe_target_release(target);

	if (error && probe_target_alive(target)) {
		trace_fail(trace, error);
		error = NULL;
	}
	probe_error_free(error);
}

/* A program that is not meant; if it was started by one that is, its own programs are sought. */
static bool is_left_out(const struct trace *trace, const struct probe_target *target)
{
	return trace->seeks && !processes_mean(trace->common, probe_target_pid(target));
}

void trace_follow_exec(struct trace *trace)
{
	struct probe_watch_event event;

	drop_done(trace);
	/* Other processes may be waiting for us, too: at a gate, or for room in a ring. */
	for (int i = 0; i < EVENTS_MAX; i++) {
		struct probe_error *error = probe_watch_next(trace->watch, &event);

		if (!error && !event.target)
			return;
		if (error)
			report_untraced(error, event.target);
		else if (is_left_out(trace, event.target)) {
			probe_watch_untraced(trace->watch, &event);
			probe_target_close(event.target);
		} else if (follow_event(trace, &event) && event.held)
			release(trace, event.target);
	}
}

void trace_report_missed(struct trace *trace)
{
	struct probe_error *error = NULL;

	while (trace->watch && (error = probe_watch_finish(trace->watch)))
		report_untraced(error, NULL);
}
