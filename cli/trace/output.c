/* SPDX-License-Identifier: MIT */
/*
 * The destinations of hits: lines, messages to loaded tracers, which run in processes of their own,
 * or a recording. Only the recording, which is on disk, may make us wait.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/trace/trace.h"
#include "libprobe/base/array.h"
#include "libprobe/base/value.h"

/* ==== Recording without decoding ============================================================== */

/*
 * Recording without decoding: the contents of the rings are moved into the recording
 * (probe_ctf_take()). Hits are decoded one by one if only the oldest of all rings are wanted (-n),
 * or if the controller must add data (call stacks, sym()).
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

bool trace_takes(const struct trace *trace, const struct probe_traced *traced)
{
	const struct trace_target *its = traced->data;

	return trace->record && !trace->settings.hits_max && !its->rings && !its->by_hit;
}

/* Returns false if the hits cannot be moved. */
static bool take(struct trace *trace, const struct probe_traced *traced,
	enum probe_ctf_amount amount, bool is_gone, struct probe_trace_read *read)
{
	struct asker asker = {trace, is_gone};
	const struct probe_ctf_names names = {comm_of, &asker};
	struct trace_target *its = traced->data;
	struct probe_ctf_taken taken;
	struct probe_error *error =
		probe_ctf_take(trace->record, traced->session, amount, &names, &taken);

	output_check(trace, error);
	its->by_hit = !taken.can;
	trace->hits += taken.hits;
	read->hits += taken.hits;
	if (taken.active && taken.due_ns < read->due_ns)
		read->due_ns = taken.due_ns;
	return taken.can;
}

/*
 * A few bytes stay in the rings until more hits arrive, or until the trace ends. If the session
 * cannot be polled, it has ended by itself, and all remaining hits are moved.
 */
bool trace_read(struct probe_traced *traced, struct probe_trace_read *read, void *data)
{
	enum probe_ctf_amount amount = read->all ? PROBE_CTF_ALL : PROBE_CTF_MUCH;
	const struct trace_target *its = traced->data;
	struct trace *trace = data;

	if (its->rings) {
		read->error = traced->is_on ? trace_rings_poll(trace, traced) : NULL;
		return true;
	}
	if (trace->gone || !trace_takes(trace, traced) || !take(trace, traced, amount, false, read))
		return false;
	read->error = probe_session_poll(traced->session, NULL, NULL, NULL);
	if (read->error)
		take(trace, traced, PROBE_CTF_ALL, false, read);
	read->more = read->hits > 0;
	return true;
}

/*
 * Moves the hits of all sessions that are on: of one process if it has executed another program;
 * or, if `pid` is 0, those that can be moved without waiting for the disk.
 */
static void take_all(struct trace *trace, pid_t pid)
{
	struct probe_trace_read read = {.due_ns = UINT64_MAX};
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count && !trace->gone; i++)
		if (all[i]->is_on && trace_takes(trace, all[i]) &&
			(!pid || probe_target_pid(all[i]->target) == pid))
			take(trace, all[i], pid ? PROBE_CTF_ALL : PROBE_CTF_NOW, pid != 0, &read);
}

void trace_take_left(struct trace *trace, pid_t pid)
{
	take_all(trace, pid);
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
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t before = trace->unwritten;

		/* With probes that could not be switched off, hits may arrive forever. */
		if (all[i]->is_read_by_user || all[i]->is_broken)
			continue;
		trace_fail(
			trace, probe_session_poll(all[i]->session, taking_count_hit, trace, NULL));
		if (trace->record)
			trace_fail(trace, probe_ctf_discarded(trace->record, all[i]->session,
						  trace->unwritten - before));
	}
}

/* ==== OpenTelemetry =========================================================================== */

/* Data for an OpenTelemetry collector (--otlp): metrics of -t metrics, spans of -t span. */

/* Returns true if a tracer's hits are spans that go to a collector. */
static bool sends_spans(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++)
		if (probe_tracer_spans(trace->tracers[i].spec))
			return true;
	return false;
}

/*
 * Returns the number of the argument in --match, if it is only one, or -1. Its value distinguishes
 * the traces that the collector sees.
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
	/* An option would be unsafe: every user can see command lines in the list of processes. */
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

/* Reports once, early, that the collector does not accept data, so that the user can act. */
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
 * Ends the trace after an output error. EPIPE (`| head`) is none: the reader wants no more output.
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
		take_all(trace, 0);
	output_check(trace,
		trace->record ? probe_ctf_flush(trace->record) : probe_sink_flush(trace->sink));
	for (size_t i = 0; i < trace->tracer_count; i++) {
		if (trace->tracers[i].host)
			flush_host(&trace->tracers[i]);
	}
}

bool output_is_full(const struct probe_traced *traced, bool wait, void *data)
{
	struct trace *trace = data;
	const struct probe_sink *sink = trace_tracer_of(trace, traced)->sink;

	if (trace->record || !probe_sink_full(sink))
		return false;
	if (wait)
		drain_sinks(trace);
	else
		output_flush(trace);
	return trace->gone || probe_sink_full(sink);
}

static bool is_removed(const struct trace_target *its, size_t probe)
{
	return probe < its->removed_count && its->removed[probe];
}

/* Passes a hit to its tracer. */
static void dispatch(struct trace *trace, const struct probe_trace_hit *its)
{
	static const enum probe_tracer_tag tags[] = {
		[PROBE_ROLE_NONE] = PROBE_TAG_POINT,
		[PROBE_ROLE_BEGIN] = PROBE_TAG_BEGIN,
		[PROBE_ROLE_END] = PROBE_TAG_END,
	};
	const struct trace_tracer *tracer = &trace->tracers[its->tracer];
	const struct probe_hit *hit = its->hit;
	const struct probe_session_probe *probe = &its->probes[hit->probe];

	if (trace->record) {
		output_check(
			trace, probe_ctf_hit(trace->record, its->traced->session, hit, its->comm));
	} else if (tracer->stacks) {
		if (hit->stack)
			trace_fail(trace,
				probe_stacks_add(tracer->stacks, probe, its->comm, hit->stack, 1));
	} else if (tracer->heap)
		trace_fail(trace,
			probe_heap_add(tracer->heap, its->traced->session, probe, hit, its->comm));
	else if (tracer->host)
		probe_tracer_host_hit(tracer->host, tags[probe->role], hit, probe, its->comm);
	else if (hit->begin && trace->otlp)
		otlp_span(trace, hit, its->probes);
	else if (hit->begin)
		probe_sink_span(
			tracer->sink, hit, &its->probes[hit->begin->probe], probe, its->comm);
	else
		probe_sink_hit(tracer->sink, hit, probe, its->comm);
}

const char *output_comm(const struct probe_hit *hit, void *data)
{
	const struct trace *trace = data;

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
	/* Not loop.over: hits that are read after the end of the loop are also printed. */
	if (!trace_is_full(trace))
		return true;
	trace->loop.over = true;
	return false;
}

bool output_hit(const struct probe_trace_hit *hit, void *data)
{
	struct trace *trace = data;

	if (trace->gone || trace_is_full(trace))
		return false;
	if (trace->tracers[hit->tracer].gone ||
		(hit->traced && is_removed(hit->traced->data, hit->hit->probe)))
		return true;
	dispatch(trace, hit);
	return count_hit(trace);
}

void output_lost(struct trace *trace, const struct probe_traced *traced,
	const struct probe_session_probe *probe, uint64_t lost)
{
	if (trace->record)
		output_check(trace, probe_ctf_discarded(trace->record, traced->session, lost));
	else
		probe_sink_lost(trace->sink, probe, lost);
}

struct probe_error *output_record(struct trace *trace, const struct probe_ctf_options *parts)
{
	return trace->directory ? probe_ctf_create(trace->directory, parts, &trace->record) : NULL;
}

/* ---- Flight recorders ------------------------------------------------------- */

void flight_print(struct trace *trace)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count && !trace->gone; i++)
		if (all[i]->is_read_by_user)
			output_check(trace, trace_rings_write(trace, all[i]));
	if (!trace->gone)
		probe_trace_snapshot(trace->set);
}

/* ---- Loaded tracers --------------------------------------------------------- */

struct removal {
	struct trace *trace;
	const struct trace_tracer *tracer;
};

/* Returns true if the tracer has removed all probes of the session. */
static bool all_removed(const struct trace_target *its)
{
	for (size_t i = 0; i < its->removed_count; i++) {
		if (!its->removed[i])
			return false;
	}
	return true;
}

/* Restores the sites of the removed probes. A site stays patched if another session uses it. */
static void restore_removed(struct trace *trace, const struct probe_traced *traced)
{
	const struct trace_target *its = traced->data;
	struct probe_report report = {0};
	bool *on = calloc(its->removed_count + 1, sizeof(*on));
	struct probe_error *error = on ? NULL : probe_error_no_memory();

	for (size_t i = 0; on && i < its->removed_count; i++)
		on[i] = !its->removed[i];
	if (!error && probe_target_alive(traced->target))
		error = probe_session_select(traced->session, on, &report);
	trace_fail(trace, probe_error_prefix(error,
				  "process %d: a probe that the tracer does not want stays "
				  "on until the trace ends",
				  (int)probe_target_pid(traced->target)));
	probe_report_deinit(&report);
	free(on);
}

/* Removes one probe from a session, or all its probes if `provider` is NULL. */
static void remove_from(struct trace *trace, const struct probe_traced *traced,
	const char *provider, const char *name)
{
	const struct probe_session_probe *probes;
	struct trace_target *its = traced->data;
	size_t count;
	bool *removed;

	probes = probe_session_probes(traced->session, &count);
	removed = realloc(its->removed, count + 1);
	if (!removed) {
		trace_fail(trace, probe_error_no_memory());
		return;
	}
	its->removed = removed;
	for (size_t i = 0; i < count; i++) {
		removed[i] =
			(i < its->removed_count && removed[i]) || !provider ||
			(!strcmp(probes[i].provider, provider) && !strcmp(probes[i].name, name));
	}
	its->removed_count = count;
	/* If no probe is left, the whole session is switched off. */
	its->unwanted = !provider || all_removed(its);
	if (!its->unwanted && traced->is_on)
		restore_removed(trace, traced);
}

/*
 * Removes probes from a process, as a tracer wants. The sites of a forked child are its parent's:
 * they stay patched, but its hits are no longer passed on.
 */
static void removed(pid_t pid, const char *provider, const char *name, void *data)
{
	struct removal *removal = data;
	struct trace *trace = removal->trace;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++) {
		const struct trace_target *its = all[i]->data;

		if (trace_tracer_of(trace, all[i]) == removal->tracer && !its->unwanted &&
			probe_target_pid(all[i]->target) == pid)
			remove_from(trace, all[i], provider, name);
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

/* Asks a loaded tracer for its status, for all processes together and for each one. */
static void host_look(struct trace *trace, const struct trace_tracer *tracer)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	probe_tracer_host_look(tracer->host, 0);
	for (size_t i = 0; i < count; i++) {
		const struct trace_target *its = all[i]->data;

		if (trace_tracer_of(trace, all[i]) == tracer && all[i]->is_on && !its->unwanted)
			probe_tracer_host_look(tracer->host, probe_target_pid(all[i]->target));
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

/* Handles a tracer that refuses all hits at its start. The other tracers continue. */
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
 * Starts tracers that are shared objects, each in a process, before we open files that these must
 * not inherit. They write to the output of the hits.
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

/* ==== Ended processes ========================================================================= */

/*
 * Processes of a trace that have ended. Their sessions are freed at once, because thousands of
 * processes may come and go. libprobe sums the counts of their probes and their rows, and copies
 * the hits of flight recorders. The other data that is needed at the end of the trace is kept here:
 *
 *   metrics       rows in a table for each label of a process
 *   call stacks   in the tracer's table, which has copies of the frames
 *   heaps         memory that a process did not free stays counted as live
 *
 * The other tracers need no data at the end. They have already passed on each hit: as a line, into
 * a recording, or as a message to a loaded tracer.
 */

/*
 * Returns the table with the rows of an owner (struct trace_ended). Its rows are limited, because
 * keys such as pid are different in each process.
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

static struct probe_error *keep_rows(const struct trace *trace, const struct probe_traced *traced)
{
	struct trace_tracer *tracer = trace_tracer_of(trace, traced);
	pid_t owner = exports_owner(trace, traced);
	struct probe_table *rows = NULL;
	struct trace_ended *ended;
	struct probe_error *error =
		ended_of(tracer, owner, comm_cache_known(trace->comms, owner, owner), &ended);

	if (!error)
		error = probe_table_create(tracer->options.gather.key_count, &rows);
	if (!error)
		error = probe_table_add(rows, traced->session, &tracer->options);
	if (!error)
		error = probe_table_add_table(ended->rows, rows);
	if (!error)
		ended->is_exported = false;
	probe_table_free(rows);
	return error;
}

/* Keeps the results that a tracer has gathered in a session. */
static struct probe_error *keep_gathered(
	const struct trace *trace, const struct probe_traced *traced)
{
	const struct trace_tracer *tracer = trace_tracer_of(trace, traced);

	if (tracer_is_exported(tracer))
		return keep_rows(trace, traced);
	if (tracer->heap)
		probe_heap_forget(tracer->heap, traced->session);
	if (tracer->stacks && tracer->options.stack == PROBE_STACK_FRAMES)
		return probe_stacks_keep_session(
			tracer->stacks, traced->session, trace_target_comm(trace, traced));
	return NULL;
}

struct probe_error *gone_keep(struct trace *trace, struct probe_traced *traced)
{
	const struct trace_target *its = traced->data;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < trace->request->pattern_count; i++)
		trace->matched[i] |= probe_session_matched(traced->session, i);
	trace_keep_waits(trace, traced);
	trace_report_damage(traced);
	if (!trace->record)
		error = keep_gathered(trace, traced);
	if (!error && its->rings)
		error = trace_rings_end(trace, traced);
	else if (!error && trace->record)
		error = probe_ctf_forget(trace->record, traced->session);
	return error;
}

/* ==== Tables ================================================================================== */

/* Prints tables of the data gathered by tracers, at each interval and at the end. */

static struct probe_view snapshot_of(
	const struct trace *trace, const struct trace_tracer *tracer, bool is_interval)
{
	uint64_t from = is_interval ? tracer->last_ns : tracer->started_ns;
	struct probe_view view;

	probe_tracer_view(tracer->spec, &tracer->options, &view);
	view.top = trace->settings.top;
	view.all = trace->settings.all;
	view.title = tracer->title;
	view.elapsed_ns = clock_monotonic_ns() - from;
	view.is_interval = is_interval;
	/* A single table needs no heading. */
	if (is_interval || tracer->last || tracer->had_interval || tracer->pprof)
		view.time_ns = clock_now_ns();
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
	/* Hits after the last full interval form a shorter one. */
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
	struct probe_error *error =
		probe_trace_table(trace->set, (size_t)(tracer - trace->tracers), &table);
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
	tracer->last_ns = clock_monotonic_ns();
	return error;
}

const char *trace_target_comm(const struct trace *trace, const struct probe_traced *traced)
{
	pid_t pid = probe_target_pid(traced->target);
	struct trace_target *its = traced->data;
	const char *comm;

	if (!its->comm[0]) {
		comm = comm_cache_known(trace->comms, pid, pid);
		if (!comm)
			comm = comm_cache_get(trace->comms, pid, pid, clock_now_ns());
		snprintf(its->comm, sizeof(its->comm), "%s", comm ? comm : "");
	}
	return its->comm[0] ? its->comm : NULL;
}

/* ---- Stacks ----------------------------------------------------------------- */

/*
 * Reads the stacks that sessions have counted. Those of ended processes are in the tracer's table.
 */
static struct probe_error *gather_stacks(
	const struct trace *trace, const struct trace_tracer *tracer)
{
	struct probe_error *error = NULL;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	if (tracer->options.stack != PROBE_STACK_FRAMES)
		return NULL;
	probe_stacks_clear(tracer->stacks);
	for (size_t i = 0; i < count && !error; i++)
		if (trace_tracer_of(trace, all[i]) == tracer && !all[i]->is_broken)
			error = probe_stacks_add_session(
				tracer->stacks, all[i]->session, trace_target_comm(trace, all[i]));
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
	size_t count;
	struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	*begins_ret = *ends_ret = 0;
	for (size_t i = 0; i < count; i++)
		if (&trace->tracers[all[i].tracer] == tracer)
			*(all[i].probe->role == PROBE_ROLE_BEGIN ? begins_ret : ends_ret) +=
				all[i].probe->lost;
	free(all);
}

/* Prints the count, `what` (if the count is 1) or `many`, and `so`. */
static void warn_of_hits(uint64_t count, const char *what, const char *many, const char *so)
{
	if (count)
		report_warning("%" PRIu64 " %s%s", count, count == 1 ? what : many, so);
}

/* Warns about figures that are too high or too low. */
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
	tracer->last_ns = clock_monotonic_ns();
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
	uint64_t now = clock_monotonic_ns();

	for (size_t i = 0; i < trace->tracer_count; i++)
		trace->tracers[i].started_ns = trace->tracers[i].last_ns = now;
}
