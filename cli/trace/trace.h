/* SPDX-License-Identifier: MIT */
/*
 * A trace in progress: the sessions of `probectl trace` or `record`, the destination of their
 * hits, and the conditions that end them. cli/commands/trace.c and cli/commands/record.c parse the
 * command line.
 *
 *   setup.c           checks the options, sets the trace up, and takes news of its processes
 *   loop.c            runs the trace; metrics and spans for other programs
 *   output.c          passes hits on; tables; loaded tracers
 *   recording.c       moves whole rings into a recording
 *   report.c          failures, losses, summary, hints
 *   tracer_option.c   the option -t; names of threads
 *
 * A file uses only those below it.
 *
 * libprobe (probe/trace.h) follows the processes, and reads their hits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/loop.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/trace/tracer_option.h"
#include "probe/ctf.h"
#include "probe/metrics.h"
#include "probe/otlp.h"
#include "probe/sink.h"
#include "probe/target.h"
#include "probe/trace.h"

/* The user's settings. 0 means no limit. */
struct trace_settings {
	bool all; /* tables show all probes that have no hits, even if there are many */
	bool quiet;
	bool json;
	uint64_t interval_ns; /* time between two tables */
	uint64_t duration_ns;
	uint64_t hits_max;
	uint64_t top;	    /* maximum number of rows in a text table; 0 for all rows */
	const char *listen; /* address at which we serve metrics, or NULL */
	const char *otlp;   /* address of the collector of metrics and spans, or NULL */
	uint64_t rows;	    /* maximum number of rows of metrics, or 0 for the default */
};

/* The reaction of a recording to full rings. */
enum record_full {
	RECORD_FLUSH, /* we save the rings to the file continuously, so they should never fill up */
	RECORD_LOOP,  /* new hits overwrite the oldest ones; we write the rings at the end */
	RECORD_STOP   /* the recording ends when a ring is full */
};

/* The number of hits that have waited for ring space, and the sum of their waiting times. */
struct trace_waits {
	uint64_t hits, ns;
};

/* The data of a session (struct probe_traced). */
struct trace_target {
	/*
	 * Name in rows of stacks, or empty. It never changes: another name would make another row.
	 */
	char comm[COMM_BYTES];
	struct trace_rings *rings; /* rings that are written on request (report.c), or NULL */
	bool by_hit;	/* the session's hits are added to the recording one by one (output.c) */
	bool has_calls; /* a hit of the session was added to the tracer's calls */
	bool unwanted;	/* the tracer wants no more hits of this session */
	bool *removed;	/* for each probe: true if the tracer wants no more hits of the probe */
	size_t removed_count;
	struct report_told told; /* the part of the session's report that has been printed */
};

/* The processes that started during the trace and were found, whoever started them. */
struct trace_found {
	size_t held; /* number of processes held before they ran any instruction */
	size_t late;
	uint64_t late_ns; /* longest time that a process had run before it was traced */
};

struct trace {
	struct trace_settings settings;
	struct trace_tracer *tracers;
	size_t tracer_count;
	/* The processes and their sessions. Each tracer has a session in each process. */
	struct probe_trace *set;
	struct probe_trace_tracer *sought; /* what `set` gathers: an element for each tracer */
	struct left_out left;
	struct starting *starting; /* valid while the first sessions are started */
	const struct probe_request *request;
	bool verbose; /* print a line for each refused site */
	bool seeks;   /* trace processes that start later, whoever starts them */
	const struct common_options *common; /* options that select the processes; borrowed */
	struct trace_found found;
	/* Waiting times of the processes that were dropped. */
	struct trace_waits waits;
	/* For each pattern: true if it has matched in a dropped process. */
	bool *matched;
	struct probe_sink *sink;  /* prints the hits; not used for a recording */
	struct probe_ctf *record; /* the recording of `probectl record`, or NULL */
	const char *directory;	  /* directory of the recording, or NULL */
	enum record_full full;	  /* what the recording does when rings are full */
	bool overrun;		  /* some hits are missing; not used with RECORD_FLUSH */
	/* Number of processes whose rings were dropped although they were not written. */
	size_t dropped;
	uint64_t dropped_hits;
	/* Hits overwritten (RECORD_LOOP), or lost after a ring was full (RECORD_STOP). */
	uint64_t overwritten;
	int output_fd;
	bool to_file; /* the output is a regular file, which can always be written */
	bool gone;    /* the output has no reader any more, or writing it has failed */
	/* `gone` was set because of an error, not because the reader has closed the pipe. */
	bool cut_off;

	struct probe_metrics *metrics; /* metrics of -t metrics, or NULL */
	struct probe_metrics_server *server;
	size_t left_out_told; /* number of left-out rows that was last reported */
	struct probe_otlp *otlp;
	bool otlp_told; /* we have reported that the collector does not accept data */

	struct comm_cache *comms;
	struct loop loop;

	/* Number of hits that were passed to the output or to a loaded tracer. */
	uint64_t hits;
	uint64_t unwritten; /* number of hits that were left in the rings when the output failed */
	bool flight;	    /* the user has requested the hits in the flight recorders */
	bool failed;	    /* an error was reported, so the exit status is 1 */
	bool noted;	    /* the notes on programs that were started later have been printed */
};

/* Runs the trace until its end, switches the probes off, and prints the remaining hits (loop.c). */
void trace_run(struct trace *trace);

/* ---- Failures, losses and the summary (report.c) ---------------------------- */

/* Reports and frees an error, with which the trace counts as failed. NULL does nothing. */
void trace_fail(struct trace *trace, struct probe_error *error);
/* Ends the trace if its output has failed with this error. Does nothing if the error is NULL. */
void output_check(struct trace *trace, struct probe_error *error);

/* Returns true if any tracer of the trace has this kind of output. */
bool trace_has_output(const struct trace *trace, enum probe_tracer_output output);
/* Returns true if as many hits as requested (-n) were printed. The trace ends with them. */
bool trace_is_full(const struct trace *trace);
/* Returns the number of lost hits that have been reported. */
uint64_t trace_lost(const struct trace *trace);
/* Reports losses that have not been reported yet, unless the trace is full. */
void trace_report_losses(struct trace *trace);
/* Prints a warning if a session's rings held damaged records. */
void trace_report_damage(const struct probe_traced *traced);

/* After a trace that prints hits, prints the hits and losses of each probe on standard error. */
void trace_report_summary(const struct trace *trace);
/* Reports refused or overwritten sites, whose hits a recording misses without saying so. */
void trace_report_missing(const struct trace *trace);
/* For each probe without hits, prints the condition for hits that the catalogue knows, if any. */
void trace_report_hints(const struct trace *trace);
/* Returns additional advice for a trace in which hits already wait for ring space, or "". */
const char *trace_longer_wait(const struct trace *trace);

/* Adds the waiting times of a session. */
void trace_add_waits(struct trace_waits *sum, const struct probe_session *session);

/* ---- Metrics and spans for other programs (loop.c) ----------------------- */

/* Prepares the metrics of tracers that export them, and the collector (--otlp). */
PROBE_MUST_CHECK struct probe_error *exports_open(struct trace *trace);
/* Keeps the rows of a session that is about to be freed. Errors: those of probe_table_add(). */
PROBE_MUST_CHECK struct probe_error *exports_keep(
	const struct trace *trace, const struct probe_traced *traced);

/* ---- Recordings (recording.c) ----------------------------------------------- */

/* Moves a session's hits into the recording. If rings are saved only on request, just polls. */
bool trace_record_read(struct probe_traced *traced, struct probe_trace_read *read, void *data);
/*
 * Moves the hits of all sessions that are on: of one process if it has executed another program;
 * or, if `pid` is 0, those that can be moved without waiting for the disk.
 */
void trace_record_all(struct trace *trace, pid_t pid);
/* Counts hits in the rings that can no longer be written, after the probes were switched off. */
void trace_record_unwritten(struct trace *trace);
/* Prints the number of hits in a recording, and the number of lost hits. */
void trace_record_report(const struct trace *trace);

/*
 * Starts a session whose rings are written on request: a stream owns it. Frees it with
 * trace_rings_end(). `data` is the trace.
 */
PROBE_MUST_CHECK struct probe_error *trace_rings_start(struct probe_traced *traced,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, void *data);
/* Call the following functions only for sessions with rings that are written on request. */
/* Stops the stream that reads a session's rings. The session continues. */
PROBE_MUST_CHECK struct probe_error *trace_rings_suspend(const struct probe_traced *traced);
/*
 * Notes that the process of the session has ended. Its rings are kept until they are written,
 * unless too many processes have ended after it.
 */
PROBE_MUST_CHECK struct probe_error *trace_rings_note_end(
	struct trace *trace, struct probe_traced *traced);
/* Frees a session's rings and the session. The hits that were not written are counted. */
PROBE_MUST_CHECK struct probe_error *trace_rings_end(
	struct trace *trace, struct probe_traced *traced);
/*
 * Prints all hits in the flight recorders, oldest first; they stay there. If there is a recording,
 * writes those since the last call to it instead.
 */
void flight_print(struct trace *trace);

/* ---- Hits and tables (output.c) --------------------------------------------- */

/* Writes as much pending output as possible without blocking. */
void output_flush(struct trace *trace);
/* These functions of struct probe_trace_options get the struct trace as `data`. */
const char *output_comm(const struct probe_hit *hit, void *data);
bool output_hit(const struct probe_trace_hit *hit, void *data);
/* Writes pending output if the session's output can accept no more hits (loop.c). */
bool output_is_full(const struct probe_traced *traced, bool wait, void *data);
/* Reports that `lost` more hits of a probe were lost. */
void output_lost(struct trace *trace, const struct probe_traced *traced,
	const struct probe_session_probe *probe, uint64_t lost);

/* Ends a round of reading: calls around lost hits do not count. Call it after all losses are told.
 */
void output_round(struct trace *trace);

/* These functions start, poll and end loaded tracers. */
PROBE_MUST_CHECK struct probe_error *hosts_start(struct trace *trace);
void hosts_poll(struct trace *trace);
void hosts_finish(struct trace *trace);
/*
 * Returns true if a tracer wants hits of a process, before its probes are enabled. With `aloud`,
 * prints a message if a loaded tracer does not.
 */
bool host_wants(struct trace *trace, struct trace_tracer *tracer, pid_t pid, bool aloud);

/* Returns the name of the process for its stacks, which the first call determines, or NULL. */
const char *output_comm_of(const struct trace *trace, const struct probe_traced *traced);

/*
 * Prints the data that each tracer has gathered: all or, if `is_interval`, the change since the
 * last interval. In the latter case, asks loaded tracers for their status.
 */
void trace_tables(struct trace *trace, bool is_interval);

/* ---- The parsed command line of `probectl trace` or `probectl record` (setup.c) ---- */

/* Initialise with {.settings = {.top = TRACER_TOP}}. */
struct trace_options {
	struct common_options common;
	struct request_options request;
	struct tracer_options tracer;
	struct trace_settings settings;
	const char *output; /* file to write; NULL for standard output */
	/* Directory of the recording; NULL for `probectl trace`. */
	const char *directory;
	struct probe_ctf_options parts; /* options of the recording */
	enum record_full full;		/* what the recording does when rings are full */
	/* With --full=wait, how long a hit may wait for ring space; otherwise 0. */
	uint64_t wait_ns;
	uint64_t ring_bytes, string_bytes;
};

/* clang-format off */
/* Options for the end of the trace and for the way hits are taken. */
#define OPTIONS_TRACE(options)                                                                     \
	OPTION('n', "hits", NUMBER, "COUNT", &(options)->settings.hits_max,                        \
		"stop after COUNT hits"),                                                          \
	OPTION('d', "duration", DURATION, "SECONDS", &(options)->settings.duration_ns,             \
		"stop after this time"),                                                           \
	OPTION('s', "strings", NUMBER, "N", &(options)->string_bytes,                              \
		"also take up to N bytes of the text that each pointer points to"),                \
	OPTION('b', "buffer", SIZE, NULL, &(options)->ring_bytes,                                  \
		"size of the ring buffer of each CPU, where hits wait"),                           \
	OPTIONS_FOLLOW(&(options)->common),                                                        \
	OPTIONS_KEEP_GOING(&(options)->request),                                                   \
	OPTIONS_MANY(&(options)->request),                                                         \
	OPTIONS_VERBOSE(&(options)->request),                                                      \
	OPTIONS_PLAN(&(options)->request),                                                         \
	OPTION('q', "quiet", FLAG, NULL, &(options)->settings.quiet,                               \
		"print no summary on standard error")
/* clang-format on */

/*
 * Parses `wait` or `wait:TIME` of --full; otherwise *ns_ret is 0. Errors: PROBE_ERROR_USAGE (TIME
 * is invalid or too long).
 */
PROBE_MUST_CHECK struct probe_error *trace_parse_wait(const char *text, uint64_t *ns_ret);

/*
 * Checks the options and runs the whole trace (setup.c). Errors: PROBE_ERROR_USAGE; any of the
 * start.
 */
PROBE_MUST_CHECK struct probe_error *trace_command(struct trace_options *options, int *status_ret);
