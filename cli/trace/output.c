/* SPDX-License-Identifier: MIT */
/*
 * Where the hits of a trace go: lines into the one output, messages to loaded
 * tracers, each in a process of its own, or a record. The first two are never waited
 * for; a record is written to disk at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/trace/trace.h"

/* ---- The output ------------------------------------------------------------- */

/* The reader has seen enough (`| head`): no failure. */
static void output_fail(struct trace *trace, struct probe_error *error)
{
	trace->gone = trace->loop.over = true;
	if (error->code == PROBE_ERROR_SYSTEM && error->err == EPIPE) {
		probe_error_free(error);
		return;
	}
	trace->cut_off = true;
	trace_fail(trace, error);
}

void output_check(struct trace *trace, struct probe_error *error)
{
	if (error)
		output_fail(trace, error);
}

/* A tracer that has closed its pipe says why in another way: hosts_poll(). */
static void flush_host(struct trace_tracer *tracer)
{
	probe_error_free(probe_sink_flush(tracer->sink));
}

void output_flush(struct trace *trace)
{
	if (trace->record)
		trace_take_all(trace);
	output_check(trace,
		trace->record ? probe_ctf_flush(trace->record) : probe_sink_flush(trace->sink));
	for (size_t i = 0; i < trace->tracer_count; i++) {
		if (trace->tracers[i].host)
			flush_host(&trace->tracers[i]);
	}
}

bool output_full(const struct trace_target *target)
{
	return probe_sink_full(target->tracer->sink);
}

static bool is_removed(const struct trace_target *target, size_t probe)
{
	return probe < target->removed_count && target->removed[probe];
}

/* Hands a hit to its tracer. `probes` are those of its session. */
static void dispatch(struct trace *trace, const struct trace_target *target,
	const struct probe_hit *hit, const char *comm, const struct probe_session_probe *probes)
{
	static const enum probe_tracer_tag tags[] = {
		[PROBE_ROLE_NONE] = PROBE_TAG_POINT,
		[PROBE_ROLE_BEGIN] = PROBE_TAG_BEGIN,
		[PROBE_ROLE_END] = PROBE_TAG_END,
	};
	const struct probe_session_probe *probe = &probes[hit->probe];
	const struct trace_tracer *tracer = target->tracer;

	if (trace->record) {
		output_check(trace, probe_ctf_hit(trace->record, target->session, hit, comm));
	} else if (tracer->stacks) {
		if (hit->stack)
			trace_fail(trace,
				probe_stacks_add(tracer->stacks, probe, comm, hit->stack, 1));
	} else if (tracer->heap)
		trace_fail(trace, probe_heap_add(tracer->heap, target->session, probe, hit, comm));
	else if (tracer->host)
		probe_tracer_host_hit(tracer->host, tags[probe->role], hit, probe, comm);
	else if (hit->begin && trace->otlp)
		otlp_span(trace, hit, probes);
	else if (hit->begin)
		probe_sink_span(tracer->sink, hit, &probes[hit->begin->probe], probe, comm);
	else
		probe_sink_hit(tracer->sink, hit, probe, comm);
}

const char *output_comm(struct trace *trace, const struct probe_hit *hit)
{
	return comm_cache_get(trace->comms, hit->pid, hit->tid, hit->time_ns);
}

/* A hit was handed over; false: that is all. */
static bool count_hit(struct trace *trace)
{
	if (trace->gone)
		return false;
	/* Losses up to this hit are reported; a full output affects only what comes later. */
	if (trace->hits + 1 == trace->settings.hits_max)
		trace_report_losses(trace);
	trace->hits++;
	/* Not "is it over": what is read after the end is printed as well. */
	if (!trace_is_full(trace))
		return true;
	trace->loop.over = true;
	return false;
}

bool output_hit(size_t target, const struct probe_hit *hit, const char *comm, void *data)
{
	struct trace *trace = data;
	struct trace_target *its = &trace->targets[target];
	const struct probe_session_probe *probes;
	size_t count;

	if (trace->gone || trace_is_full(trace))
		return false;
	probes = probe_session_probes(its->session, &count);
	if (hit->probe >= count || its->tracer->gone || is_removed(its, hit->probe))
		return true;
	dispatch(trace, its, hit, comm, probes);
	if (!trace_count_hit(its, hit->probe))
		trace_fail(trace, probe_error_no_memory());
	return count_hit(trace);
}

void output_lost(struct trace *trace, const struct trace_target *target,
	const struct probe_session_probe *probe, uint64_t lost)
{
	if (trace->record)
		output_check(trace, probe_ctf_discarded(trace->record, target->session, lost));
	else
		probe_sink_lost(trace->sink, probe, lost);
}

struct probe_error *output_record(struct trace *trace, const struct probe_ctf_options *parts)
{
	return trace->directory ? probe_ctf_create(trace->directory, parts, &trace->record) : NULL;
}

/* ---- Flight recorders ------------------------------------------------------- */

struct flight {
	struct trace *trace;
	struct merge *merge; /* NULL: of one target */
	size_t target;
};

/* A recorder is read all at once, because its records may be overwritten at any time. */
static bool visit_flight(const struct probe_hit *hit, void *data)
{
	const struct flight *flight = data;
	struct trace *trace = flight->trace;
	const char *comm = output_comm(trace, hit);

	if (!flight->merge)
		return output_hit(flight->target, hit, comm, trace);
	if (merge_add(flight->merge, flight->target, hit, comm))
		return true;
	trace_fail(trace, probe_error_no_memory());
	return false;
}

/* Hits of processes that have ended (gone.c) are those of the target after the last. */
static bool output_flight(size_t target, const struct probe_hit *hit, const char *comm, void *data)
{
	struct trace *trace = data;
	const struct trace_gone *gone;

	if (target < trace->target_count)
		return output_hit(target, hit, comm, trace);
	if (trace->gone || trace_is_full(trace))
		return false;
	gone = &trace->gones[hit->probe];
	probe_sink_hit(gone->tracer->sink, hit, &gone->probe, comm);
	return count_hit(trace);
}

void flight_print(struct trace *trace)
{
	/* What the others still wait for has nothing to do with it. */
	struct merge *merge = trace->merge ? merge_create() : NULL;

	if (trace->merge && !merge) {
		trace_fail(trace, probe_error_no_memory());
		return;
	}
	for (size_t i = 0; i < trace->target_count && !trace->gone; i++) {
		struct trace_target *target = &trace->targets[i];
		struct flight flight = {trace, merge, i};

		if (target->rings)
			output_check(trace, trace_rings_write(trace, target));
		else if (target->tracer->output == PROBE_TRACER_FLIGHT && !target->broken)
			trace_fail(trace,
				probe_session_snapshot(target->session, visit_flight, &flight));
	}
	if (merge && trace->gone_hits &&
		!merge_add_all(merge, trace->target_count, trace->gone_hits))
		trace_fail(trace, probe_error_no_memory());
	if (merge)
		merge_drain(merge, UINT64_MAX, output_flight, trace);
	merge_free(merge);
}

/* ---- Loaded tracers --------------------------------------------------------- */

struct removal {
	struct trace *trace;
	const struct trace_tracer *tracer;
};

/* Does the tracer want no more hits of any probe of this session? */
static bool all_removed(const struct trace_target *target)
{
	for (size_t i = 0; i < target->removed_count; i++) {
		if (!target->removed[i])
			return false;
	}
	return true;
}

/* The sites of probes that are not wanted any more are restored, unless others use them. */
static void restore_removed(struct trace *trace, struct trace_target *target)
{
	struct probe_report report = {0};
	bool *on = calloc(target->removed_count + 1, sizeof(*on));
	struct probe_error *error = on ? NULL : probe_error_no_memory();

	for (size_t i = 0; on && i < target->removed_count; i++)
		on[i] = !target->removed[i];
	if (!error && probe_target_alive(target->target))
		error = probe_session_select(target->session, on, &report);
	trace_fail(trace, probe_error_prefix(error,
				  "process %d: a probe that the tracer does not want stays "
				  "on until the trace ends",
				  (int)probe_target_pid(target->target)));
	probe_report_deinit(&report);
	free(on);
}

/* Without names: from all probes of the process. */
static void remove_from(
	struct trace *trace, struct trace_target *target, const char *provider, const char *name)
{
	const struct probe_session_probe *probes;
	size_t count;
	bool *removed;

	probes = probe_session_probes(target->session, &count);
	removed = realloc(target->removed, count + 1);
	if (!removed) {
		trace_fail(trace, probe_error_no_memory());
		return;
	}
	target->removed = removed;
	for (size_t i = 0; i < count; i++) {
		removed[i] =
			(i < target->removed_count && removed[i]) || !provider ||
			(!strcmp(probes[i].provider, provider) && !strcmp(probes[i].name, name));
	}
	target->removed_count = count;
	/* A session is switched off as a whole once nothing of it is wanted. */
	target->unwanted = !provider || all_removed(target);
	if (!target->unwanted && target->on)
		restore_removed(trace, target);
}

/* Hits of a forked child are not handed over any more; its sites are its parent's session's. */
static void removed(pid_t pid, const char *provider, const char *name, void *data)
{
	struct removal *removal = data;
	struct trace *trace = removal->trace;

	for (size_t i = 0; i < trace->target_count; i++) {
		struct trace_target *target = &trace->targets[i];

		if (target->tracer == removal->tracer && !target->unwanted &&
			probe_target_pid(target->target) == pid)
			remove_from(trace, target, provider, name);
	}
}

bool host_wants(struct trace *trace, struct trace_tracer *tracer, pid_t pid, bool aloud)
{
	bool wanted = true;
	struct probe_error *error = tracer->host && !tracer->gone
					    ? probe_tracer_host_ask(tracer->host, pid, &wanted)
					    : NULL;

	if (error)
		trace_fail(trace, error);
	else if (!wanted && aloud)
		report_warning("tracer %s wants no hits of process %d: none of its probes are "
			       "switched on for it",
			probe_tracer_name(tracer->spec), (int)pid);
	tracer->gone |= error != NULL;
	return wanted && !error && !tracer->gone;
}

void host_look(struct trace *trace, const struct trace_tracer *tracer)
{
	probe_tracer_host_look(tracer->host, 0);
	for (size_t i = 0; i < trace->target_count; i++) {
		const struct trace_target *target = &trace->targets[i];

		if (target->tracer == tracer && target->on && !target->unwanted)
			probe_tracer_host_look(tracer->host, probe_target_pid(target->target));
	}
}

static void tracer_fail(struct trace *trace, struct trace_tracer *tracer, struct probe_error *error)
{
	tracer->gone = true;
	if (error->code == PROBE_ERROR_SYSTEM && error->err == EPIPE)
		output_fail(trace, error);
	else
		trace_fail(trace, error);
}

void hosts_poll(struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];
		struct removal removal = {trace, tracer};
		struct probe_error *error;

		if (!tracer->host || tracer->gone)
			continue;
		flush_host(tracer);
		error = probe_tracer_host_poll(tracer->host, removed, &removal);
		if (error)
			tracer_fail(trace, tracer, error);
		else if (probe_tracer_host_off(tracer->host))
			tracer->gone = true;
	}
}

void hosts_finish(struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];
		struct probe_error *error =
			tracer->host ? probe_tracer_host_finish(tracer->host) : NULL;
		const char *idle = tracer->host && !error && trace->hits
					   ? probe_tracer_host_idle_tag(tracer->host)
					   : NULL;

		if (idle)
			report_warning("tracer %s: no hit got the tag of @%s",
				probe_tracer_name(tracer->spec), idle);

		if (error)
			tracer_fail(trace, tracer, error);
	}
}

/* A tracer that removes itself at the start: the others continue, if there are any. */
static struct probe_error *take_refusal(struct trace *trace, struct trace_tracer *tracer)
{
	struct probe_error *error = probe_error_new(PROBE_ERROR_STATE,
		"tracer %s wants no hits (it answered PROBE_TRACER_REMOVE): nothing is switched on "
		"for it",
		probe_tracer_name(tracer->spec));
	bool any = false;

	tracer->gone = true;
	for (size_t i = 0; i < trace->tracer_count; i++)
		any |= !trace->tracers[i].gone;
	if (!any)
		return error;
	trace_fail(trace, error);
	return NULL;
}

/*
 * Tracers of shared objects are started before anything is open that they must not inherit. Their
 * output goes where hits would go.
 */
struct probe_error *hosts_start(struct trace *trace)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < trace->tracer_count && !error; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		tracer->sink = trace->sink;
		if (tracer->output != PROBE_TRACER_LOADED)
			continue;
		error = probe_tracer_host_start(tracer->spec, trace->output_fd, &tracer->host);
		if (!error)
			tracer->sink = probe_tracer_host_sink(tracer->host);
		if (!error && probe_tracer_host_off(tracer->host))
			error = take_refusal(trace, tracer);
	}
	return error;
}
