/* SPDX-License-Identifier: MIT */
/*
 * The destinations of a trace's hits: lines in the output, messages to loaded tracers (each tracer
 * runs in a process of its own), or a recording. We never wait for the readers of lines or
 * messages. A recording is written to disk at once.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/timer.h"
#include "cli/trace/trace.h"
#include "libprobe/base/value.h"

/* ==== Recording without decoding ============================================================== */

/*
 * Recording without decoding: the contents of the rings are moved into the recording unchanged
 * (probe_ctf_take()). In two cases, hits are decoded and passed on one by one. If the number of
 * hits is limited (-n), the oldest hits of all rings are wanted. And some hits need data that only
 * the controller can add (call stacks, sym()).
 */

struct asker {
	const struct trace *trace;
	bool is_gone; /* the process has ended, so the names of its threads cannot be read */
};

static const char *comm_of(void *data, pid_t pid, pid_t tid, uint64_t time_ns)
{
	const struct asker *asker = data;

	return asker->is_gone ? comm_cache_known(asker->trace->comms, pid, tid)
			      : comm_cache_get(asker->trace->comms, pid, tid, time_ns);
}

bool trace_takes(const struct trace *trace, const struct trace_target *target)
{
	return trace->record && !trace->settings.hits_max && !target->rings && !target->by_hit;
}

static bool take(struct trace *trace, struct trace_target *target, enum probe_ctf_amount amount,
	bool is_gone, size_t *hits)
{
	struct asker asker = {trace, is_gone};
	const struct probe_ctf_names names = {comm_of, &asker};
	struct probe_ctf_taken taken;
	struct probe_error *error =
		probe_ctf_take(trace->record, target->session, amount, &names, &taken);

	output_check(trace, error);
	target->by_hit = !taken.can;
	trace->hits += taken.hits;
	*hits += taken.hits;
	trace->active |= taken.active;
	if (taken.due_ns < trace->due_ns)
		trace->due_ns = taken.due_ns;
	return taken.can;
}

bool trace_take(struct trace *trace, struct trace_target *target, bool all, size_t *hits)
{
	return take(trace, target, all ? PROBE_CTF_ALL : PROBE_CTF_MUCH, false, hits);
}

void trace_take_left(struct trace *trace, pid_t pid)
{
	size_t hits = 0;

	for (size_t i = 0; i < trace->target_count && !trace->gone; i++) {
		struct trace_target *target = &trace->targets[i];

		if (target->on && probe_target_pid(target->target) == pid &&
			trace_takes(trace, target))
			take(trace, target, PROBE_CTF_ALL, true, &hits);
	}
}

static bool taking_count_hit(const struct probe_hit *hit, void *data)
{
	struct trace *trace = data;

	(void)hit;
	trace->unwritten++;
	return true;
}

void trace_count_unwritten(struct trace *trace)
{
	for (size_t i = 0; i < trace->target_count; i++) {
		const struct trace_target *target = &trace->targets[i];
		uint64_t before = trace->unwritten;

		/*
		 * Poll only once. If the probes could not be switched off, new hits may arrive
		 * forever.
		 */
		if (target->rings || target->broken)
			continue;
		trace_fail(
			trace, probe_session_poll(target->session, taking_count_hit, trace, NULL));
		if (trace->record)
			trace_fail(trace, probe_ctf_discarded(trace->record, target->session,
						  trace->unwritten - before));
	}
}

/*
 * For all targets whose probes are on, moves the hits that can be moved without waiting for the
 * disk.
 */
static void trace_take_all(struct trace *trace)
{
	size_t hits = 0;

	for (size_t i = 0; i < trace->target_count && !trace->gone; i++)
		if (trace->targets[i].on && trace_takes(trace, &trace->targets[i]))
			take(trace, &trace->targets[i], PROBE_CTF_NOW, false, &hits);
}

/* ==== OpenTelemetry =========================================================================== */

/*
 * Data for an OpenTelemetry collector (--otlp): the metrics of -t metrics, and the spans of -t
 * span.
 */

/* Returns true if a tracer's hits are spans that go to a collector. */
static bool sends_spans(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++)
		if (probe_tracer_spans(trace->tracers[i].spec))
			return true;
	return false;
}

/*
 * If --match is a single argument, returns the number of this argument; its value distinguishes
 * the traces that the collector sees. Otherwise returns -1.
 */
static int trace_arg(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[i];
		const char *match = tracer->options.gather.match;
		char *end;
		long number;

		if (!probe_tracer_spans(tracer->spec) || !match || strncmp(match, "arg", 3))
			continue;
		number = strtol(match + 3, &end, 10);
		if (match[3] >= '0' && match[3] <= '9' && !*end && number < INT8_MAX)
			return (int)number;
	}
	return -1;
}

struct probe_error *otlp_open(struct trace *trace)
{
	const char *url = trace->settings.otlp;

	if (!url)
		return NULL;
	if (!trace->metrics && !sends_spans(trace))
		return probe_error_new(PROBE_ERROR_USAGE,
			"--otlp sends the metrics of -t metrics and the spans of -t span");
	/*
	 * Taken from the environment, because every user can see the command line in the list of
	 * processes.
	 */
	return probe_otlp_open(
		url, getenv("OTEL_EXPORTER_OTLP_HEADERS"), trace_arg(trace), &trace->otlp);
}

void otlp_watch(struct trace *trace)
{
	if (!trace->otlp)
		return;
	loop_watch(&trace->loop, probe_otlp_fd(trace->otlp), POLLIN, NULL);
	loop_until(&trace->loop, probe_otlp_due_ns(trace->otlp));
}

/* Passes a hit that is a span to the collector. `probes` are the probes of the hit's session. */
static void otlp_span(const struct trace *trace, const struct probe_hit *hit,
	const struct probe_session_probe *probes)
{
	probe_otlp_span(trace->otlp, hit, &probes[hit->begin->probe], &probes[hit->probe],
		comm_cache_get(trace->comms, hit->pid, hit->pid, hit->time_ns));
}

/*
 * Reports once that the collector does not accept data. This comes early, so that the user can
 * act.
 */
static void report_trouble(struct trace *trace)
{
	const char *why = probe_otlp_sent(trace->otlp).why;

	if (!*why || trace->otlp_told)
		return;
	report_warning("%s: %s; what it does not take now is sent again while there is room",
		trace->settings.otlp, why);
	trace->otlp_told = true;
}

void otlp_update(struct trace *trace)
{
	if (!trace->otlp)
		return;
	if (trace->metrics)
		trace_fail(trace, probe_otlp_metrics(trace->otlp, trace->metrics));
	probe_otlp_flush(trace->otlp);
	report_trouble(trace);
}

bool otlp_is_busy(const struct trace *trace)
{
	return trace->otlp && probe_otlp_is_busy(trace->otlp);
}

void otlp_end(struct trace *trace)
{
	struct probe_otlp_sent sent;

	if (!trace->otlp)
		return;
	probe_otlp_give_up(trace->otlp);
	sent = probe_otlp_sent(trace->otlp);
	if (!trace->settings.quiet)
		fprintf(stderr, "probectl: sent %llu spans and %llu points to %s\n",
			(unsigned long long)sent.spans, (unsigned long long)sent.points,
			trace->settings.otlp);
	if (sent.lost_spans || sent.lost_points)
		report_warning("%s: %llu spans and %llu points are lost: %s", trace->settings.otlp,
			(unsigned long long)sent.lost_spans, (unsigned long long)sent.lost_points,
			*sent.why ? sent.why : "there was no time to send them");
}

/* ==== Output ================================================================================== */

/* ---- The output ------------------------------------------------------------- */

/*
 * Ends the trace after an output error. EPIPE (`| head`) does not count as a failure: the reader
 * has closed the pipe because it wants no more output.
 */
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

/* No report here: hosts_poll() reports why a tracer has closed its pipe. */
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

/* Passes a hit to its tracer. `probes` are the probes of the hit's session. */
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

/* Counts a hit that was passed on. Returns false if it was the last wanted hit. */
static bool count_hit(struct trace *trace)
{
	if (trace->gone)
		return false;
	/* Losses after the last wanted hit do not matter, so report all losses now. */
	if (trace->hits + 1 == trace->settings.hits_max)
		trace_report_losses(trace);
	trace->hits++;
	/*
	 * Do not test loop.over, because hits that are read after the end of the loop are also
	 * printed.
	 */
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
	/* Sorts the hits of several targets; NULL if there is a single target. */
	struct merge *merge;
	size_t target;
};

/*
 * Takes one hit of a flight recorder. Waiting hits are copied, because the recorder may overwrite
 * its records at any time.
 */
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

/*
 * Prints a hit of a flight recorder. For hits of ended processes (merge.c), `target` is
 * target_count.
 */
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
	/* The snapshot has a merge of its own. The hits that wait in trace->merge stay there. */
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

/* Returns true if the tracer has removed all probes of the target's session. */
static bool all_removed(const struct trace_target *target)
{
	for (size_t i = 0; i < target->removed_count; i++) {
		if (!target->removed[i])
			return false;
	}
	return true;
}

/* Restores the sites of the removed probes. A site stays patched if another session uses it. */
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

/* Removes one probe from a target, or all probes of the target if `provider` is NULL. */
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
	/* If no probe is left, the whole session is switched off. */
	target->unwanted = !provider || all_removed(target);
	if (!target->unwanted && target->on)
		restore_removed(trace, target);
}

/*
 * Handles a tracer's request to remove probes from a process. If the process is a forked child,
 * its sites belong to its parent's session and stay patched, but its hits are no longer passed on.
 */
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

/*
 * Asks a loaded tracer for its status: once for all processes together, and once for each process.
 */
static void host_look(struct trace *trace, const struct trace_tracer *tracer)
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

/*
 * Handles a tracer that refuses all hits when it is started. Other tracers of the trace continue.
 */
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
 * Starts the tracers that are shared objects, each in its own process. This is done before we open
 * files that these processes must not inherit. The tracers' output goes to the output of the hits.
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

/* ==== Tables ================================================================================== */

/*
 * Prints tables of the data gathered by the tracers of a trace: at each interval, and at the
 * end.
 */

/*
 * Collects all data that the sessions of a tracer have gathered so far. If a session has failed,
 * only its readable data is collected; the failure was reported before.
 */
static struct probe_error *gather(
	const struct trace *trace, const struct trace_tracer *tracer, struct probe_table **ret)
{
	struct probe_table *table = NULL;
	struct probe_error *error = probe_table_create(tracer->options.gather.key_count, &table);

	for (size_t i = 0; i < tracer->ended_count && !error; i++)
		error = probe_table_add_table(table, tracer->ended[i].rows);
	for (size_t i = 0; i < trace->target_count && !error; i++) {
		const struct trace_target *target = &trace->targets[i];

		if (target->tracer != tracer)
			continue;
		error = probe_table_add(table, target->session, &tracer->options);
		if (error && target->broken) {
			probe_error_free(error);
			error = NULL;
		}
	}
	if (error) {
		probe_table_free(table);
		return error;
	}
	*ret = table;
	return NULL;
}

static struct probe_view snapshot_of(
	const struct trace *trace, const struct trace_tracer *tracer, bool is_interval)
{
	uint64_t from = is_interval ? tracer->last_ns : tracer->started_ns;
	struct probe_view view;

	probe_tracer_view(tracer->spec, &tracer->options, &view);
	view.top = trace->settings.top;
	view.all = trace->settings.all;
	view.title = tracer->title;
	view.elapsed_ns = clock_ns(CLOCK_MONOTONIC) - from;
	view.is_interval = is_interval;
	/* A single table needs no heading. */
	if (is_interval || tracer->last || tracer->had_interval || tracer->pprof)
		view.time_ns = clock_ns(CLOCK_REALTIME);
	return view;
}

/* Prints the change since the last table. At the first interval, this is all data. */
static struct probe_error *print_interval(
	struct trace *trace, struct trace_tracer *tracer, struct probe_table *table, bool is_last)
{
	struct probe_view view = snapshot_of(trace, tracer, true);
	struct probe_table *since;
	struct probe_error *error = probe_table_since(table, tracer->last, &since);
	size_t count;

	if (error)
		return error;
	probe_table_rows(since, &count);
	probe_table_sort(since, view.order);
	/*
	 * The hits after the last full interval form a shorter interval, so that the tables show
	 * all hits.
	 */
	if (count || !is_last)
		probe_sink_table(trace->sink, since, &view);
	probe_table_free(since);
	return NULL;
}

static void report_others(const struct probe_gather *gather, const struct probe_table *table)
{
	uint64_t others = 0;
	size_t count;
	const struct probe_table_row *rows = probe_table_rows(table, &count);

	for (size_t i = 0; i < count; i++)
		if (value_keys_are_other(rows[i].row.keys, gather->key_count))
			others += rows[i].row.count;
	if (!others)
		return;

	fprintf(stderr,
		"probectl: hits without a row of their key: %" PRIu64
		", for not all keys fit into the table; --keys N makes it larger\n",
		others);
}

static struct probe_error *print_tracer(
	struct trace *trace, struct trace_tracer *tracer, bool is_interval)
{
	struct probe_table *table;
	struct probe_error *error = gather(trace, tracer, &table);
	struct probe_view view;

	if (error)
		return error;
	if (is_interval) {
		error = print_interval(trace, tracer, table, false);
	} else {
		if (tracer->last)
			error = print_interval(trace, tracer, table, true);
		view = snapshot_of(trace, tracer, false);
		probe_table_sort(table, view.order);
		probe_sink_table(trace->sink, table, &view);
		report_others(&tracer->options.gather, table);
	}
	probe_table_free(tracer->last);
	tracer->last = table;
	tracer->last_ns = clock_ns(CLOCK_MONOTONIC);
	return error;
}

const char *trace_target_comm(struct trace *trace, struct trace_target *target)
{
	pid_t pid = probe_target_pid(target->target);
	const char *comm;

	if (!target->comm[0]) {
		comm = comm_cache_known(trace->comms, pid, pid);
		if (!comm)
			comm = comm_cache_get(trace->comms, pid, pid, clock_ns(CLOCK_REALTIME));
		snprintf(target->comm, sizeof(target->comm), "%s", comm ? comm : "");
	}
	return target->comm[0] ? target->comm : NULL;
}

/* ---- Stacks ----------------------------------------------------------------- */

/*
 * Reads all stacks that sessions have counted in their targets. The stacks of ended processes are
 * in the tracer's table.
 */
static struct probe_error *gather_stacks(struct trace *trace, const struct trace_tracer *tracer)
{
	struct probe_error *error = NULL;

	if (tracer->options.stack != PROBE_STACK_FRAMES)
		return NULL;
	probe_stacks_clear(tracer->stacks);
	for (size_t i = 0; i < trace->target_count && !error; i++) {
		struct trace_target *target = &trace->targets[i];

		if (target->tracer == tracer && !target->broken)
			error = probe_stacks_add_session(
				tracer->stacks, target->session, trace_target_comm(trace, target));
	}
	return error;
}

/* Prints a warning about stacks that are cut off. */
static void warn_of_cut(
	const struct trace_tracer *tracer, const struct probe_stacks_row *rows, size_t count)
{
	uint64_t cut = 0;

	for (size_t i = 0; i < count; i++)
		if (rows[i].stack.end == PROBE_STACK_TRUNCATED)
			cut += rows[i].is_heap ? rows[i].total_count : rows[i].count;
	if (cut && tracer->options.stack == PROBE_STACK_COPY)
		report_warning("the stacks of %" PRIu64
			       " hit%s are longer than what was copied; -t %s,bytes=N copies more",
			cut, cut == 1 ? "" : "s", probe_tracer_name(tracer->spec));
	else if (cut)
		report_warning("the stacks of %" PRIu64
			       " hit%s have more frames than are counted by",
			cut, cut == 1 ? "" : "s");
}

static void warn_of_stacks(
	const struct trace_tracer *tracer, const struct probe_stacks_row *rows, size_t count)
{
	uint64_t left_out = probe_stacks_left_out(tracer->stacks);

	warn_of_cut(tracer, rows, count);
	if (left_out)
		report_warning("%" PRIu64 " hit%s had stacks that there was no room for", left_out,
			left_out == 1 ? "" : "s");
}

/* ---- Heaps ------------------------------------------------------------------ */

/* Counts the start events and the end events that were lost. */
static void count_lost(const struct trace *trace, const struct trace_tracer *tracer,
	uint64_t *begins_ret, uint64_t *ends_ret)
{
	*begins_ret = *ends_ret = 0;
	for (size_t i = 0; i < trace->gone_count; i++) {
		const struct trace_gone *gone = &trace->gones[i];

		if (gone->tracer == tracer)
			*(gone->probe.role == PROBE_ROLE_BEGIN ? begins_ret : ends_ret) +=
				gone->probe.lost;
	}
	for (size_t i = 0; i < trace->target_count; i++) {
		const struct probe_session_probe *probes;
		size_t count;

		if (trace->targets[i].tracer != tracer)
			continue;
		probes = probe_session_probes(trace->targets[i].session, &count);
		for (size_t k = 0; k < count; k++)
			*(probes[k].role == PROBE_ROLE_BEGIN ? begins_ret : ends_ret) +=
				probes[k].lost;
	}
}

/*
 * Prints the count, a noun and `so`. The noun is `what` if the count is 1; otherwise it is `many`.
 */
static void warn_of_hits(uint64_t count, const char *what, const char *many, const char *so)
{
	if (count)
		report_warning("%" PRIu64 " %s%s", count, count == 1 ? what : many, so);
}

/*
 * Prints warnings about inexact figures. Each one says whether the figure is too high or too low.
 */
static void warn_of_heap(const struct trace *trace, const struct trace_tracer *tracer)
{
	struct probe_heap_doubts doubts = probe_heap_doubts(tracer->heap);
	uint64_t begins, ends;

	count_lost(trace, tracer, &begins, &ends);
	warn_of_hits(begins, "allocation was lost", "allocations were lost",
		": their bytes are in none of these figures; larger rings (-b) help");
	warn_of_hits(ends, "free was lost", "frees were lost",
		": what is live is an upper bound; larger rings (-b) help");
	warn_of_hits(doubts.unfreed, "free was not seen", "frees were not seen",
		": memory was allocated again; what is live may be less");
	warn_of_hits(doubts.unknown_frees, "free was of memory", "frees were of memory",
		begins ? " that was allocated before the trace, or whose allocation was lost"
		       : " that was allocated before the trace");
	warn_of_hits(doubts.unreadable, "hit has", "hits have",
		" arguments that are not (pointer, bytes[, weight]), or, of a free, (pointer); "
		"a list of arguments in PROBE puts them into this order");
	warn_of_hits(doubts.left_out, "allocation has a stack", "allocations have stacks",
		" that there was no room for");
	warn_of_hits(doubts.untracked, "allocation is", "allocations are",
		" not among what is live, for which there was no room");
}

/* `is_last`: the interval is what remains at the end, and is not printed if it is empty. */
static struct probe_error *print_stack_rows(
	struct trace *trace, const struct trace_tracer *tracer, bool is_interval, bool is_last)
{
	struct probe_view view = snapshot_of(trace, tracer, is_interval);
	struct probe_stacks_row *rows;
	size_t count;
	struct probe_error *error =
		tracer->heap ? probe_heap_rows(tracer->heap, view.live, is_interval, &rows, &count)
			     : probe_stacks_rows(tracer->stacks, is_interval, &rows, &count);

	if (error)
		return error;
	if (count || !is_last)
		probe_sink_stacks(trace->sink, rows, count, &view);
	if (!is_interval && tracer->heap) {
		warn_of_cut(tracer, rows, count);
		warn_of_heap(trace, tracer);
	} else if (!is_interval) {
		warn_of_stacks(tracer, rows, count);
	}
	free(rows);
	return NULL;
}

/* Prints stacks with their hits, or with the memory that they have allocated. */
static struct probe_error *print_stacks(
	struct trace *trace, struct trace_tracer *tracer, bool is_interval)
{
	bool live = snapshot_of(trace, tracer, is_interval).live;
	struct probe_error *error = tracer->heap ? NULL : gather_stacks(trace, tracer);

	/* Live memory does not add up over intervals. */
	if (!error && !is_interval && tracer->had_interval && !live)
		error = print_stack_rows(trace, tracer, true, true);
	if (!error)
		error = print_stack_rows(trace, tracer, is_interval, false);
	if (error)
		return error;
	if (tracer->heap)
		probe_heap_mark(tracer->heap);
	else
		probe_stacks_mark(tracer->stacks);
	tracer->had_interval |= is_interval;
	tracer->last_ns = clock_ns(CLOCK_MONOTONIC);
	return NULL;
}

void trace_tables(struct trace *trace, bool is_interval)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];

		if (tracer->output == PROBE_TRACER_ROWS)
			trace_fail(trace, print_tracer(trace, tracer, is_interval));
		else if (tracer->output == PROBE_TRACER_STACKS ||
			 tracer->output == PROBE_TRACER_HEAP)
			trace_fail(trace, print_stacks(trace, tracer, is_interval));
		else if (tracer->host && is_interval && !tracer->gone)
			host_look(trace, tracer);
	}
}

void trace_tables_start(struct trace *trace)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < trace->tracer_count; i++)
		trace->tracers[i].started_ns = trace->tracers[i].last_ns = now;
}
