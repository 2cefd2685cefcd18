/* SPDX-License-Identifier: MIT */
/*
 * Processes of a trace that have ended: what they take is given back at once, as thousands may come
 * and go. What is still needed of them at the end is kept, added up by probe.
 *
 *	rows		are added up in a table: one for all, or for metrics, which have labels of
 *			processes, one for each
 *	call stacks	are counted in the tracer's table, which has copies of their frames
 *	heaps		what is not freed stays live
 *	recorders	their hits are copied, as they are printed on SIGUSR1 and at the end: the
 *			newest of all that have ended, as all rings would be too many
 *
 * Other tracers have handed over each hit by then: lines, a record, messages to a loaded tracer.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/trace/trace.h"
#include "libprobe/base/array.h"

/* For copies of hits: this, or twice as much as the last process needed, if that is more. */
enum { HITS_BYTES = 16 << 20 };

/* Are its hits added up in rows? */
static bool has_rows(const struct trace_tracer *tracer)
{
	return tracer->output == PROBE_TRACER_ROWS || tracer_is_exported(tracer);
}

bool gone_may_drop(const struct trace *trace, const struct trace_target *target)
{
	if (target->on || target->stuck || target->broken || target->unread)
		return false;
	return !target->rings || trace_rings_may_drop(trace, target);
}

/* Are their hits shown in the same way? */
static bool same_probe(const struct probe_session_probe *a, const struct probe_session_probe *b)
{
	return a->role == b->role && a->meaning == b->meaning &&
	       memcmp(a->args, b->args, sizeof(a->args)) == 0 &&
	       strcmp(a->provider, b->provider) == 0 && strcmp(a->name, b->name) == 0;
}

/* The sum that a probe is added to; NULL without memory. */
static struct trace_gone *sum_of(struct trace *trace, const struct trace_tracer *tracer,
	const struct probe_session_probe *probe)
{
	struct trace_gone *gone;

	for (size_t i = 0; i < trace->gone_count; i++) {
		gone = &trace->gones[i];
		if (gone->tracer == tracer && same_probe(&gone->probe, probe))
			return gone;
	}
	if (!ARRAY_ROOM(trace->gones, trace->gone_count))
		return NULL;
	gone = &trace->gones[trace->gone_count];
	*gone = (struct trace_gone){.tracer = tracer,
		.probe = {.provider = strdup(probe->provider),
			.name = strdup(probe->name),
			.role = probe->role,
			.pair = probe->pair,
			.meaning = probe->meaning}};
	memcpy(gone->probe.args, probe->args, sizeof(probe->args));
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

struct keeping {
	struct trace *trace;
	const struct trace_target *target;
	bool no_memory;
};

static bool keep_hit(const struct probe_hit *hit, void *data)
{
	struct keeping *keeping = data;
	struct trace *trace = keeping->trace;
	size_t count;
	const struct probe_session_probe *probes =
		probe_session_probes(keeping->target->session, &count);
	struct probe_hit kept = *hit;
	const struct trace_gone *gone;

	if (hit->probe >= count)
		return true;
	gone = sum_of(trace, keeping->target->tracer, &probes[hit->probe]);
	if (gone)
		kept.probe = (size_t)(gone - trace->gones);
	keeping->no_memory =
		!gone || !merge_add(trace->gone_hits, 0, &kept, output_comm(trace, hit));
	return !keeping->no_memory;
}

static struct probe_error *keep_hits(struct trace *trace, const struct trace_target *target)
{
	struct keeping keeping = {.trace = trace, .target = target};
	size_t before, room = HITS_BYTES;
	struct probe_error *error;

	if (!trace->gone_hits)
		trace->gone_hits = merge_create();
	if (!trace->gone_hits)
		return probe_error_no_memory();
	before = merge_bytes(trace->gone_hits);
	error = probe_session_snapshot(target->session, keep_hit, &keeping);
	if (2 * (merge_bytes(trace->gone_hits) - before) > room)
		room = 2 * (merge_bytes(trace->gone_hits) - before);
	/* A quarter at once: each time, all that is kept is moved. */
	if (merge_bytes(trace->gone_hits) > room)
		trace->gone_hits_dropped += merge_trim(trace->gone_hits, room / 4 * 3);
	return keeping.no_memory ? probe_error_first(error, probe_error_no_memory()) : error;
}

void gone_report(const struct trace *trace)
{
	if (trace->gone_hits_dropped)
		report_warning("flight recorders: the oldest %" PRIu64
			       " hit%s of processes that had ended were dropped, for want of room",
			COUNTED(trace->gone_hits_dropped));
}

/* Keeps the results that a tracer has gathered in a target's session. */
static struct probe_error *keep_gathered(struct trace *trace, struct trace_target *target)
{
	const struct trace_tracer *tracer = target->tracer;

	if (has_rows(tracer))
		return keep_rows(trace, target);
	if (tracer->output == PROBE_TRACER_FLIGHT)
		return keep_hits(trace, target);
	if (tracer->heap)
		probe_heap_forget(tracer->heap, target->session);
	if (tracer->stacks && tracer->options.stack == PROBE_STACK_FRAMES)
		return probe_stacks_keep_session(
			tracer->stacks, target->session, trace_target_comm(trace, target));
	return NULL;
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
	if (!trace->record)
		error = keep_gathered(trace, target);
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
	merge_free(trace->gone_hits);
	free(trace->matched);
}
