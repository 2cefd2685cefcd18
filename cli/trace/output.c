/* SPDX-License-Identifier: MIT */
/*
 * Where the hits of a trace go: lines into the one output, messages to loaded
 * tracers, each in a process of its own, or a record. The first two are never waited
 * for; a record is written to disk at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/trace.h"

/* ---- The output ------------------------------------------------------------- */

/* The reader has seen enough (`| head`): no failure. */
static void output_fail(struct trace *trace, struct probe_error *error)
{
	trace->gone = trace->loop.over = true;
	if (error->code == PROBE_ERROR_SYSTEM && error->err == EPIPE)
		probe_error_free(error);
	else
		trace_fail(trace, error);
}

/* A tracer that has closed its pipe says why in another way: hosts_poll(). */
static void flush_host(struct trace_tracer *tracer)
{
	probe_error_free(probe_sink_flush(tracer->sink));
}

void output_flush(struct trace *trace)
{
	struct probe_error *error =
		trace->record ? probe_ctf_flush(trace->record) : probe_sink_flush(trace->sink);

	if (error)
		output_fail(trace, error);
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

/* Hands a hit to its tracer. */
static void dispatch(struct trace *trace, const struct trace_target *target,
	const struct probe_hit *hit, const struct probe_session_probe *probe)
{
	static const enum probe_tracer_tag tags[] = {
		[PROBE_ROLE_NONE] = PROBE_TAG_POINT,
		[PROBE_ROLE_BEGIN] = PROBE_TAG_BEGIN,
		[PROBE_ROLE_END] = PROBE_TAG_END,
	};
	const struct trace_tracer *tracer = target->tracer;
	const char *comm = comm_cache_get(trace->comms, hit->pid, hit->tid, hit->time_ns);
	struct probe_error *error;

	if (trace->record) {
		error = probe_ctf_hit(trace->record, target->session, hit, comm);
		if (error)
			output_fail(trace, error);
	} else if (tracer->stacks) {
		if (hit->stack)
			trace_fail(trace,
				probe_stacks_add(tracer->stacks, probe, comm, hit->stack, 1));
	} else if (tracer->host)
		probe_tracer_host_hit(tracer->host, tags[probe->role], hit, probe, comm,
			tracer->options.filter != NULL);
	else
		probe_sink_hit(tracer->sink, hit, probe, comm);
}

bool output_hit(size_t target, const struct probe_hit *hit, void *data)
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
	dispatch(trace, its, hit, &probes[hit->probe]);
	if (!trace_count_hit(its, hit->probe))
		trace_fail(trace, probe_error_no_memory());
	if (trace->gone)
		return false;
	/* Losses up to this hit are told; whether it is full decides what comes later. */
	if (trace->hits + 1 == trace->settings.hits_max)
		trace_report_losses(trace);
	trace->hits++;
	/* Not "is it over": what is read after the end is printed as well. */
	if (!trace_is_full(trace))
		return true;
	trace->loop.over = true;
	return false;
}

void output_lost(struct trace *trace, const struct trace_target *target,
	const struct probe_session_probe *probe, uint64_t lost)
{
	struct probe_error *error;

	if (!trace->record) {
		probe_sink_lost(trace->sink, probe, lost);
		return;
	}
	error = probe_ctf_discarded(trace->record, target->session, lost);
	if (error)
		output_fail(trace, error);
}

struct probe_error *output_record(struct trace *trace, const struct probe_ctf_options *parts)
{
	return trace->directory ? probe_ctf_create(trace->directory, parts, &trace->record) : NULL;
}

/* ---- Flight recorders ------------------------------------------------------- */

struct flight {
	struct trace *trace;
	size_t target;
};

/* A recorder is read all at once, for its records may be written over at any time. */
static bool visit_flight(const struct probe_hit *hit, void *data)
{
	const struct flight *flight = data;
	struct trace *trace = flight->trace;

	if (!trace->merge)
		return output_hit(flight->target, hit, trace);
	if (merge_add(trace->merge, flight->target, hit))
		return true;
	trace_fail(trace, probe_error_no_memory());
	return false;
}

void flight_print(struct trace *trace)
{
	for (size_t i = 0; i < trace->target_count && !trace->gone; i++) {
		struct trace_target *target = &trace->targets[i];
		struct flight flight = {trace, i};

		if (target->tracer->output == PROBE_TRACER_FLIGHT && !target->broken)
			trace_fail(trace,
				probe_session_snapshot(target->session, visit_flight, &flight));
	}
	if (trace->merge)
		merge_drain(trace->merge, output_hit, trace);
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
			(i < target->removed_count && removed[i]) ||
			(!strcmp(probes[i].provider, provider) && !strcmp(probes[i].name, name));
	}
	target->removed_count = count;
	/* A session is switched off as a whole: once nothing of it is wanted. */
	target->unwanted = all_removed(target);
}

static void removed(const char *provider, const char *name, void *data)
{
	struct removal *removal = data;
	struct trace *trace = removal->trace;

	for (size_t i = 0; i < trace->target_count; i++) {
		if (trace->targets[i].tracer == removal->tracer)
			remove_from(trace, &trace->targets[i], provider, name);
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

		if (error)
			tracer_fail(trace, tracer, error);
	}
}

/*
 * Tracers of shared objects are started before there is anything that they must
 * not have. What they print goes to where hits would.
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
	}
	return error;
}
