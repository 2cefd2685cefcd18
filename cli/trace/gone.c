/* SPDX-License-Identifier: MIT */
/*
 * Processes of a trace that have ended: what they take is given back at once, as thousands may come
 * and go. What is still needed of them at the end is kept, added up by probe.
 *
 * Tracers that print or record each hit have handed it over by then, and those that gather rows add
 * them up in a table: one for all, or for metrics, which have labels of processes, one for each.
 * The others read what a session has gathered again later (call stacks, flight recorders, loaded
 * tracers), so their sessions stay if they have hits.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/trace/trace.h"
#include "libprobe/base/array.h"

/* Are its hits added up in rows? */
static bool has_rows(const struct trace_tracer *tracer)
{
	return tracer->output == PROBE_TRACER_ROWS || tracer_is_exported(tracer);
}

static bool has_hits(const struct trace_target *target)
{
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(target->session, &count);

	for (size_t i = 0; i < count; i++)
		if (probes[i].hits || probes[i].lost || probes[i].in_flight)
			return true;
	return false;
}

bool gone_may_drop(const struct trace *trace, const struct trace_target *target)
{
	enum probe_tracer_output output = target->tracer->output;

	if (target->on || target->stuck || target->broken || target->unread)
		return false;
	if (target->rings)
		return trace_rings_may_drop(trace, target);
	if (trace->record)
		return true;
	if (!has_hits(target))
		return true;
	return !target->tracer->stacks &&
	       (output == PROBE_TRACER_HITS || output == PROBE_TRACER_HITS_JSON ||
		       has_rows(target->tracer));
}

/* The sum that a probe is added to; NULL without memory. */
static struct trace_gone *sum_of(struct trace *trace, const struct trace_tracer *tracer,
	const struct probe_session_probe *probe)
{
	struct trace_gone *gone;

	for (size_t i = 0; i < trace->gone_count; i++) {
		gone = &trace->gones[i];
		if (gone->tracer == tracer && gone->probe.role == probe->role &&
			strcmp(gone->probe.provider, probe->provider) == 0 &&
			strcmp(gone->probe.name, probe->name) == 0)
			return gone;
	}
	if (!ARRAY_ROOM(trace->gones, trace->gone_count))
		return NULL;
	gone = &trace->gones[trace->gone_count];
	*gone = (struct trace_gone){.tracer = tracer,
		.probe = {.provider = strdup(probe->provider),
			.name = strdup(probe->name),
			.role = probe->role,
			.pair = probe->pair}};
	if (gone->probe.provider && gone->probe.name) {
		trace->gone_count++;
		return gone;
	}
	free((void *)gone->probe.provider);
	free((void *)gone->probe.name);
	return NULL;
}

static void add_up(struct trace_gone *sum, const struct probe_session_probe *probe,
	const struct trace_tally *tally)
{
	sum->probe.hits += probe->hits;
	sum->probe.lost += probe->lost;
	sum->probe.unmatched += probe->unmatched;
	sum->probe.in_flight += probe->in_flight;
	probe_coverage_add(&sum->probe.coverage, &probe->coverage);
	sum->tally.hits += tally->hits;
	sum->tally.lost += tally->lost;
}

/*
 * Where rows of an owner are kept. Keys may be different in each process, such as pid, so their
 * number is limited.
 */
static struct probe_error *ended_of(
	struct trace_tracer *tracer, pid_t owner, const char *program, struct trace_ended **ret)
{
	const struct probe_gather *gather = &tracer->options.gather;
	struct trace_ended ended = {.owner = owner};
	struct probe_error *error;

	for (size_t i = 0; i < tracer->ended_count; i++)
		if (tracer->ended[i].owner == owner) {
			*ret = &tracer->ended[i];
			return NULL;
		}
	error = probe_table_create(gather->key_count, &ended.rows);
	if (error)
		return error;
	ended.program = program ? strdup(program) : NULL;
	if ((program && !ended.program) || !ARRAY_ROOM(tracer->ended, tracer->ended_count)) {
		trace_ended_deinit(&ended);
		return probe_error_no_memory();
	}
	probe_table_limit(ended.rows, gather->keys_max ? gather->keys_max : PROBE_KEYS_DEFAULT);
	*ret = &tracer->ended[tracer->ended_count++];
	**ret = ended;
	return NULL;
}

static struct probe_error *keep_rows(struct trace *trace, const struct trace_target *target)
{
	struct trace_tracer *tracer = target->tracer;
	pid_t owner = tracer_is_exported(tracer) ? exports_owner(trace, target) : 0;
	struct probe_table *rows = NULL;
	struct trace_ended *ended;
	struct probe_error *error = ended_of(
		tracer, owner, owner ? comm_cache_known(trace->comms, owner, owner) : NULL, &ended);

	if (!error)
		error = probe_table_create(tracer->options.gather.key_count, &rows);
	if (!error)
		error = probe_table_add(rows, target->session, &tracer->options);
	if (!error)
		error = probe_table_add_table(ended->rows, rows);
	if (!error)
		ended->is_exported = false;
	probe_table_free(rows);
	return error;
}

struct probe_error *gone_keep(struct trace *trace, struct trace_target *target)
{
	static const struct trace_tally none;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(target->session, &count);
	struct probe_error *error = NULL;

	for (size_t i = 0; i < trace->request->pattern_count; i++)
		trace->matched[i] |= probe_session_matched(target->session, i);
	for (size_t i = 0; i < count; i++) {
		struct trace_gone *sum = sum_of(trace, target->tracer, &probes[i]);

		if (!sum)
			return probe_error_no_memory();
		add_up(sum, &probes[i], i < target->tally_count ? &target->tallies[i] : &none);
	}
	trace_keep_waits(trace, target);
	trace_report_damage(target);
	if (has_rows(target->tracer) && !trace->record)
		error = keep_rows(trace, target);
	if (!error && target->rings)
		error = trace_rings_end(trace, target);
	else if (!error && trace->record)
		error = probe_ctf_forget(trace->record, target->session);
	return error;
}

void gone_free(struct trace *trace)
{
	for (size_t i = 0; i < trace->gone_count; i++) {
		free((void *)trace->gones[i].probe.provider);
		free((void *)trace->gones[i].probe.name);
	}
	free(trace->gones);
	free(trace->matched);
}
