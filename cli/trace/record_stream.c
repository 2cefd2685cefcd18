/* SPDX-License-Identifier: MIT */
/*
 * Records of the contents of the rings, made on request: each target has a stream (probe/stream.h),
 * and all are written to one record. Nothing is read before that, so this costs no processor time
 * however often the processes hit, and rings need not be larger than the part that is wanted.
 *
 *	loop	flight recorders: written at the end, and on SIGUSR1
 *	stop	ends when a ring of any process is full
 *
 * A process that has ended keeps its rings until they are written. With stop, that is at once: they
 * are part of the record in any case. With loop, they may not be the newest by then, and rings are
 * memory: so only those of the last processes are kept, and what is dropped is counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/trace/record_stream.h"
#include "probe/stream.h"

enum {
	STRING_BYTES = 256,
	ARGS_MAX = 32,
	NUMBER_BYTES = 8,
	ENDED_MAX = 64 /* processes that have ended, and that have not been written */
};

struct trace_rings {
	struct probe_stream *stream;
	struct comm_cache *comms; /* the trace's */
	bool alive;	      /* when it was written last: other threads have its ids afterwards */
	uint64_t flushed;     /* of its hits */
	uint64_t overwritten; /* likewise, or lost */
	uint64_t ended_ns;    /* 0: it has not */
	uint64_t held;	      /* hits that were in the rings then; 0 once they are written */
};

struct probe_error *trace_rings_check(const struct trace_options *options)
{
	const struct tracer_options *tracer = &options->tracer;

	if (options->parts.rotate_bytes || options->parts.rotate_ns)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--full=loop and stop write once, and not in parts: leave --rotate out");
	if (tracer->every || tracer->rate || options->settings.hits_max)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--full=loop and stop do not go with --every, --rate and -n");
	return NULL;
}

/* ---- Before -------------------------------------------------------------------------- */

static const char *comm_of(void *data, pid_t pid, pid_t tid, uint64_t time_ns)
{
	const struct trace_rings *rings = data;

	return rings->alive ? comm_cache_get(rings->comms, pid, tid, time_ns)
			    : comm_cache_known(rings->comms, pid, tid);
}

static struct trace_rings *create_rings(struct trace *trace)
{
	struct trace_rings *rings = calloc(1, sizeof(*rings));

	if (!rings)
		return NULL;
	rings->comms = trace->comms;
	return rings;
}

static struct probe_error *create_stream(const struct trace *trace, struct trace_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report)
{
	struct trace_rings *rings = target->rings;
	uint16_t string = options->string_bytes ? options->string_bytes : STRING_BYTES;
	const struct probe_stream_options its = {
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
		.comm_data = rings,
	};
	struct probe_error *error =
		probe_stream_create(target->target, request, &its, report, &rings->stream);

	return error ? error : probe_stream_start(rings->stream);
}

struct probe_error *trace_target_start(struct trace *trace, struct trace_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report)
{
	struct probe_error *error;

	if (trace->full == RECORD_FLUSH)
		return probe_session_start(
			target->target, request, options, report, &target->session);
	target->rings = create_rings(trace);
	error = target->rings ? create_stream(trace, target, request, options, report)
			      : probe_error_no_memory();
	if (!error)
		target->session = probe_stream_session(target->rings->stream);
	else if (target->rings)
		error = probe_error_first(error, trace_rings_end(trace, target));
	return error;
}

/* ---- Meanwhile ----------------------------------------------------------------------- */

struct probe_error *trace_rings_poll(struct trace *trace, struct trace_target *target)
{
	struct probe_stream *stream = target->rings->stream;
	pid_t pid = probe_target_pid(target->target);
	struct probe_stream_status status;
	struct probe_error *error = probe_stream_poll(stream, NULL);

	/* Its hits are read when it may have ended. */
	comm_cache_get(trace->comms, pid, pid, clock_ns(CLOCK_REALTIME));

	if (error || trace->full != RECORD_STOP)
		return error;
	error = probe_stream_get_status(stream, &status);
	if (error)
		return error;
	trace->overrun |= status.overrun;
	trace->loop.over |= status.full;
	return NULL;
}

struct probe_error *trace_rings_write(struct trace *trace, struct trace_target *target)
{
	struct trace_rings *rings = target->rings;
	struct probe_stream_status status;
	struct probe_error *error, *unknown;
	uint64_t gone;

	rings->alive = probe_target_alive(target->target);
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
	if (!error)
		rings->held = 0;
	return error;
}

/* ---- Afterwards ---------------------------------------------------------------------- */

struct probe_error *trace_rings_suspend(const struct trace_target *target)
{
	return probe_stream_stop(target->rings->stream);
}

struct probe_error *trace_rings_stop(const struct trace_target *target)
{
	struct probe_error *error = trace_rings_suspend(target);

	return probe_error_first(error, probe_session_stop(target->session));
}

static bool count_hit(const struct probe_hit *hit, void *data)
{
	(void)hit;
	++*(uint64_t *)data;
	return true;
}

struct probe_error *trace_rings_note_end(struct trace *trace, struct trace_target *target)
{
	struct trace_rings *rings = target->rings;

	if (rings->ended_ns)
		return NULL;
	rings->ended_ns = clock_ns(CLOCK_MONOTONIC);
	if (trace->full == RECORD_STOP)
		return trace_rings_write(trace, target);
	return probe_session_snapshot(target->session, count_hit, &rings->held);
}

/* Is there something in its rings that would be lost with them? */
static bool is_kept(const struct trace_target *target)
{
	return target->rings && target->rings->held;
}

bool trace_rings_may_drop(const struct trace *trace, const struct trace_target *target)
{
	size_t younger = 0;

	if (!is_kept(target))
		return true;
	for (size_t i = 0; i < trace->target_count; i++)
		younger += is_kept(&trace->targets[i]) &&
			   trace->targets[i].rings->ended_ns > target->rings->ended_ns;
	return younger >= ENDED_MAX;
}

struct probe_error *trace_rings_end(struct trace *trace, struct trace_target *target)
{
	struct trace_rings *rings = target->rings;
	struct probe_error *error = NULL, *lost = NULL;

	if (is_kept(target)) {
		uint64_t unread = probe_session_recorded(target->session) - rings->flushed -
				  rings->overwritten;

		trace->dropped++;
		trace->dropped_hits += rings->held;
		trace->overwritten += unread - rings->held;
		if (trace->record)
			lost = probe_ctf_discarded(trace->record, target->session, unread);
	}
	if (rings->stream)
		error = probe_stream_shutdown(rings->stream);
	error = probe_error_first(lost, error);
	free(rings);
	target->rings = NULL;
	target->session = NULL;
	return error;
}

void trace_rings_report(const struct trace *trace)
{
	if (trace->overwritten && trace->full == RECORD_LOOP && !trace->settings.quiet)
		fprintf(stderr,
			"probectl: %" PRIu64 " older hit%s overwritten, which the record counts as "
			"lost (see -b)\n",
			trace->overwritten, trace->overwritten == 1 ? " was" : "s were");
	if (trace->overrun && trace->full == RECORD_STOP && !trace->settings.quiet)
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
}
