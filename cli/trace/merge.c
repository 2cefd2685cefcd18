/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "libprobe/trace/merge.h"
#include "cli/trace/options.h"
#include "cli/trace/trace.h"
#include "libprobe/base/array.h"

/* ==== Waiting for ring space ================================================================== */

/*
 * The option --full=wait: a thread that finds its ring full waits for space before it writes a
 * hit.
 */

enum { WAIT_DEFAULT_NS = 100 * 1000 * 1000 };

static const char wait_name[] = "wait", wait_prefix[] = "wait:";

struct probe_error *trace_parse_wait(const char *text, uint64_t *ns_ret)
{
	bool has_time = strncmp(text, wait_prefix, strlen(wait_prefix)) == 0;
	struct probe_error *error = NULL;

	*ns_ret = 0;
	if (!has_time && strcmp(text, wait_name) != 0)
		return NULL;
	*ns_ret = WAIT_DEFAULT_NS;
	if (has_time)
		error = parse_duration(text + strlen(wait_prefix), ns_ret);
	if (!error && *ns_ret && *ns_ret <= PROBE_WAIT_MAX_NS)
		return NULL;
	probe_error_free(error);
	return probe_error_new(PROBE_ERROR_USAGE,
		"--full '%s': '%s' is no time between 1ns and 1s, as in wait:20ms", text,
		text + strlen(wait_prefix));
}

/* Returns PROBE_ERROR_USAGE if --full=wait is given and a tracer does not support it. */
static struct probe_error *trace_check_wait(
	const struct trace *trace, const struct trace_options *options)
{
	for (size_t i = 0; i < trace->tracer_count && options->wait_ns; i++) {
		const struct probe_session_options *its = &trace->tracers[i].options;

		if (its->kind != PROBE_SESSION_RECORD || its->overwrite || its->spans)
			return probe_error_new(PROBE_ERROR_USAGE,
				"--full=wait is for tracers that take each hit by itself: not for "
				"'%s'",
				probe_tracer_name(trace->tracers[i].spec));
	}
	return NULL;
}

static void add(struct trace_waits *sum, const struct probe_session *session)
{
	uint64_t ns;

	if (!session)
		return;
	sum->hits += probe_session_waited(session, &ns);
	sum->ns += ns;
}

/* Keeps the waiting times of a process that is about to be dropped. */
static void trace_keep_waits(struct trace *trace, const struct trace_target *target)
{
	add(&trace->waits, target->session);
}

void trace_report_waits(const struct trace *trace)
{
	struct trace_waits sum = trace->waits;

	for (size_t i = 0; i < trace->target_count; i++)
		add(&sum, trace->targets[i].session);
	if (!sum.hits)
		return;
	if (trace->settings.json)
		probe_sink_waited(trace->sink, sum.hits, sum.ns);
	if (!trace->settings.quiet)
		fprintf(stderr, "probectl: %" PRIu64 " hit%s waited for room, %.3f s in all\n",
			COUNTED(sum.hits), (double)sum.ns / NSEC_PER_SEC);
}

/* ==== Ended processes ========================================================================= */

/*
 * Processes of a trace that have ended. Their resources are freed at once, because thousands of
 * processes may come and go. The data that is needed at the end of the trace is kept, summed by
 * probe:
 *
 *   rows          in a table: one table for all processes. Metrics have the labels of
 *                 processes, so they need one table for each label
 *   call stacks   in the tracer's table, which has copies of the frames
 *   heaps         memory that a process did not free stays counted as live
 *   recorders     copies of hits, to print on SIGUSR1 and at the end; only the newest
 *                 ones, because all rings would take too much memory
 *
 * The other tracers need no data at the end. They have already passed on each hit: as a line, into
 * a recording, or as a message to a loaded tracer.
 */

/*
 * Memory for copies of hits. The limit is this number, or twice the size of the last process's
 * hits, whichever is more.
 */
enum { HITS_BYTES = 16 << 20 };

/* Returns true if a tracer sums its hits in rows. */
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

/*
 * Returns true if two probes have the same name, role, meaning and arguments, so that their hits
 * look the same.
 */
static bool same_probe(const struct probe_session_probe *a, const struct probe_session_probe *b)
{
	return a->role == b->role && a->meaning == b->meaning &&
	       memcmp(a->args, b->args, sizeof(a->args)) == 0 &&
	       strcmp(a->provider, b->provider) == 0 && strcmp(a->name, b->name) == 0;
}

/* Returns the sum to which the counts of a probe are added, or NULL on lack of memory. */
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
 * Returns the table that keeps the rows of an owner (see struct trace_ended). The number of its
 * rows is limited, because keys such as pid are different in each process.
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
	/* Trim to three quarters of the limit, because each trim moves all kept hits. */
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

/* ==== Checking options ======================================================================== */

/* Returns an error for options that the tracers do not accept. */

static bool has_records(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		if (trace->tracers[i].options.kind == PROBE_SESSION_RECORD)
			return true;
	}
	return false;
}

static struct probe_error *check_metrics(const struct trace *trace)
{
	const struct trace_settings *settings = &trace->settings;
	bool asked = trace_has_output(trace, PROBE_TRACER_METRICS);

	if (asked && !settings->listen && !settings->otlp)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-t metrics needs an address where Prometheus asks for them (--listen "
			":9100 is that port of localhost), or a collector (--otlp URL)");
	if (!asked && (settings->listen || settings->rows))
		return probe_error_new(PROBE_ERROR_USAGE, "%s is for -t metrics",
			settings->listen ? "--listen" : "--rows");
	return NULL;
}

/* Checks the options of tracers whose output is a whole file. */
static struct probe_error *check_files(
	const struct trace *trace, const struct trace_options *options)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];
		const char *name = probe_tracer_name(tracer->spec);

		if (!tracer->flamegraph && !tracer->pprof)
			continue;
		if (trace->tracer_count > 1 || options->settings.interval_ns)
			return probe_error_new(PROBE_ERROR_USAGE,
				"-t %s,%s is a file of its own: without -i, and without another "
				"tracer",
				name, tracer->pprof ? "pprof" : "flamegraph");
		if (tracer->pprof && !options->output)
			return probe_error_new(PROBE_ERROR_USAGE,
				"-t %s,pprof is not text: name a file, -o %s.pb", name, name);
		if (tracer->pprof && trace->settings.json)
			return probe_error_new(
				PROBE_ERROR_USAGE, "-t %s,pprof and --json are two formats", name);
	}
	return NULL;
}

/* Returns an error for --stack with spans that are sent to a collector, which takes no stacks. */
static struct probe_error *check_sent(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count && trace->settings.otlp; i++)
		if (trace->tracers[i].options.stack != PROBE_STACK_NONE &&
			probe_tracer_spans(trace->tracers[i].spec))
			return probe_error_new(PROBE_ERROR_USAGE,
				"--stack: spans that are sent (--otlp) have no stacks; without "
				"--otlp, -t span prints them");
	return NULL;
}

struct probe_error *trace_check_tracers(
	const struct trace *trace, const struct trace_options *options)
{
	bool rows = trace_has_output(trace, PROBE_TRACER_ROWS) ||
		    trace_has_output(trace, PROBE_TRACER_STACKS) ||
		    trace_has_output(trace, PROBE_TRACER_HEAP) ||
		    trace_has_output(trace, PROBE_TRACER_PCP) ||
		    trace_has_output(trace, PROBE_TRACER_METRICS);
	struct probe_error *error;

	error = check_files(trace, options);
	if (error)
		return error;
	if (options->settings.interval_ns && !rows && !trace_has_output(trace, PROBE_TRACER_LOADED))
		return probe_error_new(PROBE_ERROR_USAGE,
			"-i is the time between tables; it needs a tracer that makes them, such as "
			"-c or -t latency");
	error = check_metrics(trace);
	if (!error)
		error = check_sent(trace);
	if (!error)
		error = trace_check_wait(trace, options);
	if (error)
		return error;
	if (options->ring_bytes && !has_records(trace))
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' records nothing, so -b does not apply",
			probe_tracer_name(trace->tracers->spec));
	if (options->string_bytes && !has_records(trace) && !options->tracer.keys.count &&
		!options->tracer.match)
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' records nothing, so -s does not apply without -k",
			probe_tracer_name(trace->tracers->spec));
	return NULL;
}
