/* SPDX-License-Identifier: MIT */
/*
 * A trace in progress: the sessions of `probectl trace`, their output, and what
 * ends them. cmd_trace.c sets it up, trace_loop.c runs it, trace_report.c tells
 * losses and counts.
 */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/trace_comm.h"
#include "cli/trace_merge.h"
#include "probe/sink.h"
#include "probe/target.h"

/* What the user asked for. Zero means no limit. */
struct trace_settings {
	bool count; /* tables of counts, no lines for hits */
	bool all;   /* tables hold the probes without hits, however many */
	bool quiet;
	bool json;
	uint64_t interval_ns; /* between tables */
	uint64_t duration_ns;
	uint64_t hits_max;
};

struct trace_target {
	bool given; /* by -p: it must be there */
	struct probe_target *target;
	struct probe_session *session;
	bool on;	/* the session has been started and not stopped */
	bool exited;	/* the process is gone; what is in its rings is still to be read */
	bool broken;	/* its rings could not be read; said once */
	bool stuck;	/* its probes could not be switched off: hits may go on without end */
	bool wanted;	/* it waits for us: probe_session_fd() is readable */
	int pidfd;	/* readable when the process exits; -1 where there is none */
	uint64_t *said; /* losses that were told, for each probe */
	size_t said_count;
};

struct trace {
	struct trace_settings settings;
	struct trace_target *targets;
	size_t target_count;
	size_t first; /* whose rings are read first: they take turns, for a round has room
		       * for so many hits only */

	struct probe_sink *sink;
	int output_fd;
	bool to_file; /* a regular file, which is always ready to be written */
	bool gone;    /* nobody reads the output any more, or it cannot be written */

	struct comm_cache *comms;
	struct merge *merge; /* NULL with one target */
	sigset_t signals;
	int signal_fd;
	pid_t child; /* the program that we started, or 0 */

	uint64_t hits; /* lines printed; with settings.count, hits counted */
	bool over;     /* something ended the trace */
	bool failed;   /* an error was reported: exit status 1 */
};

/* Runs until the trace is over, switches the probes off, and prints what is left. */
void trace_run(struct trace *trace);

/* Switches all probes off; reports what fails. To be called whatever happened before. */
void trace_stop(struct trace *trace);

/* Reports an error on stderr, once, frees it, and remembers that there was one. */
void trace_fail(struct trace *trace, struct probe_error *error);

/* ---- trace_report.c --------------------------------------------------------- */

/* Tells the losses that were not told yet. */
void trace_report_losses(struct trace *trace);

/* Names the targets whose rings held what made no sense. */
void trace_report_damage(const struct trace *trace);

/* The sum of all probes' hits. */
uint64_t trace_total(const struct trace *trace);

/* The table of counts so far. */
void trace_report_counts(struct trace *trace);

/* After a trace of hits: hits and losses of each probe, on stderr. */
void trace_report_summary(const struct trace *trace);

#endif
