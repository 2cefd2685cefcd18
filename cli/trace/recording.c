/* SPDX-License-Identifier: MIT */
/*
 * The two ways in which `probectl record` moves whole rings into the recording: continuously, and
 * on request (--full=loop and --full=stop).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/trace/trace.h"
#include "probe/stream.h"

/* ==== Recording without decoding ============================================================== */

/*
 * Recording without decoding: the contents of the rings are moved into the recording
 * (probe_ctf_take()). Hits are decoded one by one if only the oldest of all rings are wanted (-n),
 * or if the controller must add data (call stacks, sym()).
 */

/* Whose threads' names a recording asks for. */
struct asker {
	struct comm_cache *comms; /* borrowed from the trace */
	/* The process runs. Otherwise the ids of its threads may have been reused. */
	bool alive;
};

static const char *comm_of(void *data, pid_t pid, pid_t tid, uint64_t time_ns)
{
	const struct asker *asker = data;

	return asker->alive ? comm_cache_get(asker->comms, pid, tid, time_ns)
			    : comm_cache_known(asker->comms, pid, tid);
}

/* Returns true if a session's hits are moved into the recording undecoded. */
static bool takes(const struct trace *trace, const struct probe_traced *traced)
{
	const struct trace_target *its = traced->data;

	return trace->record && !trace->settings.hits_max && !its->rings && !its->by_hit;
}

/* Returns false if the hits cannot be moved. */
static bool take(struct trace *trace, const struct probe_traced *traced,
	enum probe_ctf_amount amount, bool alive, struct probe_trace_read *read)
{
	struct asker asker = {trace->comms, alive};
	const struct probe_ctf_names names = {comm_of, &asker};
	struct trace_target *its = traced->data;
	struct probe_ctf_taken taken;

	output_check(trace, probe_ctf_take(trace->record, traced->session, amount, &names, &taken));
	its->by_hit = !taken.can;
	trace->hits += taken.hits;
	read->hits += taken.hits;
	if (taken.active && taken.due_ns < read->due_ns)
		read->due_ns = taken.due_ns;
	return taken.can;
}

static struct probe_error *rings_poll(struct trace *trace, const struct probe_traced *traced);

/*
 * A few bytes stay in the rings until more hits arrive, or until the trace ends. If the session
 * cannot be polled, it has ended by itself, and all remaining hits are moved.
 */
bool trace_record_read(struct probe_traced *traced, struct probe_trace_read *read, void *data)
{
	enum probe_ctf_amount amount = read->all ? PROBE_CTF_ALL : PROBE_CTF_MUCH;
	const struct trace_target *its = traced->data;
	struct trace *trace = data;

	if (its->rings) {
		read->error = traced->is_on ? rings_poll(trace, traced) : NULL;
		return true;
	}
	if (trace->gone || !takes(trace, traced) || !take(trace, traced, amount, true, read))
		return false;
	read->error = probe_session_poll(traced->session, NULL, NULL, NULL);
	if (read->error)
		take(trace, traced, PROBE_CTF_ALL, true, read);
	read->more = read->hits > 0;
	return true;
}

void trace_record_all(struct trace *trace, pid_t pid)
{
	struct probe_trace_read read = {.due_ns = UINT64_MAX};
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count && !trace->gone; i++)
		if (all[i]->is_on && takes(trace, all[i]) &&
			(!pid || probe_target_pid(all[i]->target) == pid))
			take(trace, all[i], pid ? PROBE_CTF_ALL : PROBE_CTF_NOW, !pid, &read);
}

static bool count_hit(const struct probe_hit *hit, void *data)
{
	(void)hit;
	++*(uint64_t *)data;
	return true;
}

void trace_record_unwritten(struct trace *trace)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t before = trace->unwritten;

		/* With probes that could not be switched off, hits may arrive forever. */
		if (all[i]->is_read_by_user || all[i]->is_broken)
			continue;
		trace_fail(trace,
			probe_session_poll(all[i]->session, count_hit, &trace->unwritten, NULL));
		if (trace->record)
			trace_fail(trace, probe_ctf_discarded(trace->record, all[i]->session,
						  trace->unwritten - before));
	}
}

/* ==== Recordings on request =================================================================== */

/*
 * Recordings of the contents of the rings, made on request. Each target has a stream
 * (probe/stream.h), and all streams are written to one recording. Rings are not read before the
 * request. So waiting costs no processor time, however often probes are hit, and a ring needs to
 * be only as large as the part that the user wants.
 *
 *   loop   flight recorders: written at the end, and on SIGUSR1
 *   stop   the recording ends when a ring of any process is full
 *
 * The rings of a process that has ended are kept until they are written. With `stop`, they are
 * written at once, because their hits are part of the recording in any case. With `loop`, they are
 * written on request, because other hits may be newer by then. Rings take memory. So only the
 * rings of the processes that ended last are kept, and dropped hits are counted.
 */

enum {
	STRING_BYTES = 256,
	ARGS_MAX = 32,
	NUMBER_BYTES = 8,
	ENDED_MAX = 64 /* maximum number of ended processes whose rings are kept */
};

struct trace_rings {
	struct probe_stream *stream;
	struct asker asker;   /* `alive`: the process was alive at the last write */
	uint64_t flushed;     /* number of this process's hits that were written */
	uint64_t overwritten; /* number of this process's hits that were overwritten or lost */
	uint64_t ended_ns;    /* when the process ended; 0 while it runs */
	/* Number of hits in the rings when the process ended; 0 after they were written. */
	uint64_t held;
};

/* ---- Start --------------------------------------------------------------------------- */

static struct trace_rings *rings_of(const struct probe_traced *traced)
{
	const struct trace_target *its = traced->data;

	return its->rings;
}

struct probe_error *trace_rings_start(struct probe_traced *traced,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, void *data)
{
	struct trace_rings *rings = calloc(1, sizeof(*rings));
	uint16_t string = options->string_bytes ? options->string_bytes : STRING_BYTES;
	struct trace_target *its = traced->data;
	struct trace *trace = data;
	const struct probe_stream_options stream = {
		.name = "record",
		.stream_bytes = options->ring_bytes,
		.data_bytes = ARGS_MAX * (NUMBER_BYTES + (size_t)string),
		.string_bytes = string,
		.policy = trace->full == RECORD_LOOP ? PROBE_STREAM_LOOP : PROBE_STREAM_UNTIL_FULL,
		.inherit = options->follow_children,
		.follow_libraries = options->follow_libraries,
		.guess_strings = options->guess_strings,
		.filter = options->filter,
		.together = options->together,
		.catalogue = options->catalogue,
		.watch = options->watch,
		.comm = comm_of,
		.comm_data = rings ? &rings->asker : NULL,
	};
	struct probe_error *error;

	traced->is_read_by_user = true;
	its->rings = rings;
	if (!rings)
		return probe_error_no_memory();
	rings->asker.comms = trace->comms;
	error = probe_stream_create(traced->target, request, &stream, report, &rings->stream)
			?: probe_stream_start(rings->stream);
	if (error)
		return probe_error_first(error, trace_rings_end(trace, traced));
	traced->session = probe_stream_session(rings->stream);
	return NULL;
}

/* ---- While it runs ------------------------------------------------------------------- */

/* Handles the events of the process's session, and notes if a ring is full. */
static struct probe_error *rings_poll(struct trace *trace, const struct probe_traced *traced)
{
	struct probe_stream *stream = rings_of(traced)->stream;
	pid_t pid = probe_target_pid(traced->target);
	struct probe_stream_status status;
	struct probe_error *error = probe_stream_poll(stream, NULL);

	/* The process may have ended by the time its hits are read. */
	comm_cache_get(trace->comms, pid, pid, clock_now_ns());

	if (error || trace->full != RECORD_STOP)
		return error;
	error = probe_stream_get_status(stream, &status);
	if (error)
		return error;
	trace->overrun |= status.overrun;
	trace->loop.over |= status.full;
	return NULL;
}

/* Writes the hits in a session's rings that were not written before. */
static struct probe_error *rings_write(struct trace *trace, struct probe_traced *traced)
{
	struct trace_rings *rings = rings_of(traced);
	struct probe_stream_status status;
	struct probe_error *error, *unknown;
	uint64_t gone;

	rings->asker.alive = probe_target_alive(traced->target);
	error = probe_stream_flush_to(rings->stream, trace->record);
	unknown = probe_stream_get_status(rings->stream, &status);
	if (unknown)
		return probe_error_first(error, unknown);
	trace->overrun |= status.overrun;
	trace->hits += status.flushed - rings->flushed;
	rings->flushed = status.flushed;
	gone = trace->full == RECORD_LOOP ? status.overwritten : status.lost;
	trace->overwritten += gone - rings->overwritten;
	rings->overwritten = gone;
	if (!error) {
		rings->held = 0;
		traced->is_kept = false;
	}
	return error;
}

void flight_print(struct trace *trace)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count && !trace->gone; i++)
		if (all[i]->is_read_by_user)
			output_check(trace, rings_write(trace, all[i]));
	if (!trace->gone)
		probe_trace_snapshot(trace->set);
}

/* ---- The end ------------------------------------------------------------------------- */

struct probe_error *trace_rings_suspend(const struct probe_traced *traced)
{
	return probe_stream_stop(rings_of(traced)->stream);
}

struct probe_error *trace_rings_note_end(struct trace *trace, struct probe_traced *traced)
{
	struct trace_rings *rings = rings_of(traced);
	struct probe_traced *oldest = NULL;
	struct probe_error *error;
	size_t count, kept = 0;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	rings->ended_ns = clock_monotonic_ns();
	if (trace->full == RECORD_STOP)
		return rings_write(trace, traced);
	error = probe_session_snapshot(traced->session, count_hit, &rings->held);
	traced->is_kept = rings->held > 0;
	/* If too many are kept, let the rings go that have been kept for the longest time. */
	for (size_t i = 0; i < count; i++) {
		if (!all[i]->is_kept)
			continue;
		if (!oldest || rings_of(all[i])->ended_ns < rings_of(oldest)->ended_ns)
			oldest = all[i];
		kept++;
	}
	if (kept > ENDED_MAX)
		oldest->is_kept = false;
	return error;
}

struct probe_error *trace_rings_end(struct trace *trace, struct probe_traced *traced)
{
	struct trace_target *its = traced->data;
	struct trace_rings *rings = its->rings;
	struct probe_error *error = NULL, *lost = NULL;

	if (rings->held) {
		uint64_t unread = probe_session_recorded(traced->session) - rings->flushed -
				  rings->overwritten;

		trace->dropped++;
		trace->dropped_hits += rings->held;
		trace->overwritten += unread - rings->held;
		if (trace->record)
			lost = probe_ctf_discarded(trace->record, traced->session, unread);
	}
	if (rings->stream)
		error = probe_stream_shutdown(rings->stream);
	error = probe_error_first(lost, error);
	free(rings);
	its->rings = NULL;
	traced->session = NULL;
	return error;
}

/* ==== Report ================================================================================== */

void trace_record_report(const struct trace *trace)
{
	bool said = !trace->settings.quiet, added = false;
	uint64_t lost = trace_lost(trace);
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	if (!trace->gone && lost)
		report_warning("%" PRIu64 " hit%s lost: the rings were full; larger ones (-b)%s or "
			       "fewer probes help",
			lost, lost == 1 ? " was" : "s were", trace_longer_wait(trace));
	if (trace->gone) {
		/*
		 * A disk error, which was reported. The last write may have written uncounted hits,
		 * and counted ones may have been in memory.
		 */
		lost += trace->unwritten + probe_ctf_unwritten(trace->record);
		for (size_t i = 0; i < count; i++)
			added |= !takes(trace, all[i]);
		report_warning("that ended the record: %s %" PRIu64 " hit%s recorded in %s",
			added ? "up to" : "at least", trace->hits,
			trace->hits == 1 ? " is" : "s are", trace->directory);
		if (lost)
			report_warning("at least %" PRIu64 " hit%s not written", lost,
				lost == 1 ? " was" : "s were");
		else if (added)
			report_warning("what the rings held besides was not written");
	}
	if (said)
		trace_report_missing(trace);
	if (trace->gone)
		return;
	if (trace->overwritten && trace->full == RECORD_LOOP && said)
		fprintf(stderr,
			"probectl: %" PRIu64 " older hit%s overwritten, which the record counts as "
			"lost (see -b)\n",
			trace->overwritten, trace->overwritten == 1 ? " was" : "s were");
	if (trace->overrun && trace->full == RECORD_STOP && said)
		fprintf(stderr,
			"probectl: later hits were not recorded: the rings were full; %" PRIu64
			" hit%s lost until the probes were off (see -b)\n",
			trace->overwritten, trace->overwritten == 1 ? " was" : "s were");
	if (trace->dropped)
		report_warning("the rings of %zu process%s that had ended were dropped, with "
			       "%" PRIu64 " hit%s: those of the last %d are kept, until SIGUSR1 "
			       "writes them",
			trace->dropped, trace->dropped == 1 ? "" : "es",
			COUNTED(trace->dropped_hits), ENDED_MAX);
	if (said)
		fprintf(stderr, "probectl: %" PRIu64 " hit%s recorded in %s\n",
			COUNTED(trace->hits), trace->directory);
}
