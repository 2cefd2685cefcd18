/* SPDX-License-Identifier: MIT */
/*
 * A trace in progress: the sessions of `probectl trace` or `record`, the destination of their
 * hits, and the conditions that end them. cli/commands/trace.c and cli/commands/record.c parse the
 * command line.
 *
 *   setup.c    sets the trace up, and follows execve(2)
 *   loop.c     runs the trace; metrics; checks of sites
 *   output.c   passes hits on; tables
 *   merge.c    sorts hits by time; ended processes
 *   report.c   losses and summary; recordings on request
 *   tracer.c   tracers of the command line
 */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/timer.h"
#include "cli/loop.h"
#include "cli/print/progress.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/trace/comm.h"
#include "libprobe/trace/merge.h"
#include "cli/trace/tracer.h"
#include "probe/ctf.h"
#include "probe/metrics.h"
#include "probe/otlp.h"
#include "probe/sink.h"
#include "probe/target.h"
#include "probe/trace.h"
#include "probe/watch.h"

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
	RECORD_FLUSH, /* we write the rings continuously, so they should never fill up */
	RECORD_LOOP,  /* new hits overwrite the oldest ones; we write the rings at the end */
	RECORD_STOP   /* the recording ends when a ring is full */
};

/* The number of hits that have waited for ring space, and the sum of their waiting times. */
struct trace_waits {
	uint64_t hits, ns;
};

/* The number of hits of a probe that were printed, and the number of losses that were reported. */
struct trace_tally {
	uint64_t hits, lost;
};

struct trace_target {
	/* The process was named with -p, so it is an error if it cannot be traced. */
	bool given;
	struct probe_target *target; /* the process; all targets of a process share it */
	struct trace_tracer *tracer;
	struct probe_session *session;
	/*
	 * The name of the process in rows of stacks; empty if not known yet. The first name is kept
	 * for the whole trace, because another name would make another row.
	 */
	char comm[COMM_BYTES];
	struct trace_rings *rings; /* rings that are written on request (report.c), or NULL */
	/* Position of the process in the order in which the processes were first started. */
	uint64_t turn;
	bool on;     /* the session was started and was not stopped yet */
	bool exited; /* the process has ended, but its rings must still be read */
	/*
	 * If the process has ended, its session continues as long as forked children of the process
	 * run.
	 */
	bool has_heirs, heirs_known, heirs_told;
	uint64_t heirs_since_ns;
	bool judged; /* the end of the process has been examined and reported */
	bool broken; /* the target's rings were unreadable, and this has been reported */
	bool stuck;  /* the target's probes cannot be switched off, so hits may continue forever */
	bool by_hit; /* the target's hits are added to the recording one by one (output.c) */
	/* The target is off, but hits are left in its rings because the output was full. */
	bool unread;
	bool wanted; /* the process waits for us: probe_session_fd() is readable */
	/*
	 * The process was not named on the command line: it was found or started later, or a
	 * process executed another program.
	 */
	bool later;
	int pidfd;     /* descriptor of the process, or -1; see loop_watch_exit() */
	bool unwanted; /* the tracer wants no more hits of this target */
	bool *removed; /* for each probe: true if the tracer wants no more hits of the probe */
	size_t removed_count;
	struct report_told told;     /* the part of the session's report that has been printed */
	struct trace_tally *tallies; /* one for each probe */
	size_t tally_count;
};

/* The processes that started during the trace and were found, whoever started them. */
struct trace_found {
	size_t held; /* number of processes held before they ran any instruction */
	size_t late;
	uint64_t late_ns; /* longest time that a process had run before it was traced */
};

/*
 * A probe of a tracer. Its counts are summed over the processes that have ended (merge.c). The
 * strings are owned.
 */
struct trace_gone {
	const struct trace_tracer *tracer;
	struct probe_session_probe probe;
	struct trace_tally tally;
};

struct trace {
	struct trace_settings settings;
	struct trace_tracer *tracers;
	size_t tracer_count;
	struct probe_target **processes;
	size_t process_count;
	struct left_out left;
	/*
	 * One target for each process and tracer. The targets of the named processes come first,
	 * tracer by tracer. The targets of programs that these processes execute are added after
	 * them.
	 */
	struct trace_target *targets;
	size_t target_count;
	const struct probe_request *request;
	bool verbose; /* print a line for each refused site */
	/* Hold programs that are started, so that they are traced from their first instruction. */
	bool follow;
	bool seeks; /* trace processes that start later, whoever starts them */
	const struct common_options *common; /* options that select the processes; borrowed */
	struct trace_found found;
	struct probe_watch *watch;
	struct trace_gone *gones; /* the probes of the processes that were dropped from `targets` */
	size_t gone_count;
	/*
	 * The hits in the flight recorders of the dropped processes, by index in `gones`; or NULL.
	 */
	struct merge *gone_hits;
	uint64_t gone_hits_dropped; /* number of old hits that were dropped from gone_hits */
	/* Waiting times of the processes that were dropped from `targets`. */
	struct trace_waits waits;
	/* For each pattern: true if it has matched in a dropped process. */
	bool *matched;
	/*
	 * Index of the target that is read first. Another target is first in each round, because
	 * the output accepts only a limited number of hits per round.
	 */
	size_t first;

	struct probe_sink *sink;  /* prints the hits; not used for a recording */
	struct probe_ctf *record; /* the recording of `probectl record`, or NULL */
	const char *directory;	  /* directory of the recording, or NULL */
	enum record_full full;	  /* what the recording does when rings are full */
	bool overrun;		  /* some hits are missing; not used with RECORD_FLUSH */
	/* Number of processes whose rings were dropped although they were not written. */
	size_t dropped;
	uint64_t dropped_hits;
	/*
	 * Number of hits that were overwritten (RECORD_LOOP), or lost after a ring was full
	 * (RECORD_STOP).
	 */
	uint64_t overwritten;
	/* In the last round, rings had new hits that go into the recording undecoded. */
	bool active;
	/* If `active`: time until one of the rings will be filled by another quarter. */
	uint64_t due_ns;
	uint64_t heirs_due_ns; /* time of the next look for forked children of ended targets */
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
	/* Sorts hits by time. NULL if there is only one target, or if hits need no order. */
	struct merge *merge;
	uint64_t merged_ns; /* start of the last round that printed hits */
	struct loop loop;

	/* Number of hits that were passed to the output or to a loaded tracer. */
	uint64_t hits;
	uint64_t unwritten; /* number of hits that were left in the rings when the output failed */
	bool flight;	    /* the user has requested the hits in the flight recorders */
	bool failed;	    /* an error was reported, so the exit status is 1 */
	bool noted;	    /* the notes on programs that were started later have been printed */
};

/* The progress line of a recording, and the figures that it last showed. */
struct trace_progress {
	struct progress line;
	uint64_t last_ns, hits;
};

/* Runs the trace until its end, switches the probes off, and prints the remaining hits. */
void trace_run(struct trace *trace);

/*
 * Stops tracing processes that have ended, even if we did not notice their end before. Call it
 * before forked children of these processes get sessions of their own.
 */
void trace_stop_ended(struct trace *trace);

/*
 * Switches the hits of all processes on or off together. Hits count as part of the trace only
 * while they are on. The probes stay enabled. This applies only to sessions with options.switched;
 * the hits of other sessions are always on.
 */
void trace_switch(struct trace *trace, bool on);

/* Switches all probes off and reports errors. It must be called even after errors. */
void trace_stop(struct trace *trace);

/*
 * Reports an error on standard error and frees it. After this call, the trace counts as failed.
 * Does nothing if the error is NULL.
 */
void trace_fail(struct trace *trace, struct probe_error *error);

/* ---- Losses and the summary (report.c) -------------------------------------- */

/*
 * Reports the sites in libraries and programs that could not be patched since the last call.
 * Without --keep-going, the trace counts as failed if such a site belongs to a probe that the user
 * named exactly. The trace then continues with the other sites.
 */
void trace_report_refusals(struct trace *trace);
/*
 * Reports the sites of one report that could not be patched. `told` is the part of the report that
 * was printed before.
 */
void trace_take_refusals(struct trace *trace, const struct probe_report *report, pid_t pid,
	struct report_told *told);
/* Makes the trace fail if every site was refused. Call it at the end. */
void trace_judge_refusals(struct trace *trace);

/* Reports losses that have not been reported yet. */
void trace_report_losses(struct trace *trace);
/* Returns the number of lost hits that have been reported. */
uint64_t trace_lost(const struct trace *trace);

/*
 * Returns true if as many hits as requested (-n) have been printed. Later hits are not part of the
 * trace.
 */
bool trace_is_full(const struct trace *trace);

/* Counts a hit that is printed. Returns false on lack of memory. */
bool trace_count_hit(struct trace_target *target, size_t probe);
/*
 * Counts all hits of a target that were moved into the recording undecoded. Returns false on lack
 * of memory.
 */
bool trace_count_taken(struct trace_target *target);

/*
 * If a signal killed a process, reports the signal. If the process was named with -p and the
 * signal is SIGKILL, the trace fails.
 */
void trace_report_fate(struct trace *trace, struct trace_target *target);

/* Prints a warning if a target's rings held damaged records. */
void trace_report_damage(const struct trace_target *target);

/* Returns the number of hits of all tracers that gather hits and do not print them. */
uint64_t trace_total(const struct trace *trace);

/* Returns true if any tracer of the trace has this kind of output. */
bool trace_has_output(const struct trace *trace, enum probe_tracer_output output);

/* After a trace that prints hits, prints the hits and losses of each probe on standard error. */
void trace_report_summary(const struct trace *trace);
/*
 * The catalogue knows conditions under which some probes have hits. For each probe that has such a
 * condition and no hits, prints the condition (tracer.c).
 */
void trace_report_hints(const struct trace *trace);

/* Prints the number of hits in a recording, and the number of lost hits. */
void trace_report_record(const struct trace *trace);

/* ---- Waits (merge.c) -------------------------------------------------------- */

/* If hits have waited for ring space, prints how many hits have waited, and how long. */
void trace_report_waits(const struct trace *trace);

/* ---- Tables (output.c) ------------------------------------------------------ */

/* Starts the first interval of the tables. Call it after all sessions have been started. */
void trace_tables_start(struct trace *trace);

/*
 * Returns the name of the process for its stacks, or NULL if the name is unknown. The first call
 * determines the name.
 */
const char *trace_target_comm(struct trace *trace, struct trace_target *target);

/*
 * Prints the data that each tracer has gathered: if `is_interval` is true, the change since the
 * last interval, otherwise all data. At an interval, also asks loaded tracers for their status.
 */
void trace_tables(struct trace *trace, bool is_interval);

/* ---- Metrics (loop.c) ------------------------------------------------------- */

/* Prepares the metrics of tracers that export them (-t pcp, -t metrics). */
PROBE_MUST_CHECK struct probe_error *exports_open(struct trace *trace);
/*
 * Closes the collector and the metrics server, and frees the metrics. Call it before the
 * tracers are freed.
 */
void exports_close(struct trace *trace);
/* Prints where the metrics can be read. Call it after all sessions have been started. */
void exports_report(const struct trace *trace);
/* Returns the process whose label the counts of a target get. */
pid_t exports_owner(const struct trace *trace, const struct trace_target *target);

/* ---- Collector (output.c) --------------------------------------------------- */

PROBE_MUST_CHECK struct probe_error *otlp_open(struct trace *trace);
void otlp_watch(struct trace *trace);
/* Sends the metrics and the finished spans to the collector. */
void otlp_update(struct trace *trace);
bool otlp_is_busy(const struct trace *trace);
/* Drops the data that was not sent. Reports what was sent and what was dropped. */
void otlp_end(struct trace *trace);

/* ---- Recording without decoding (output.c) ---------------------------------- */

/* Returns true if a target's hits are moved into the recording undecoded. */
bool trace_takes(const struct trace *trace, const struct trace_target *target);
/*
 * Moves a target's hits into the recording. Without `all`, moves them only if there are enough for
 * a write to disk. Adds the number of moved hits to *hits. Returns false if the hits cannot be
 * moved.
 */
bool trace_take(struct trace *trace, struct trace_target *target, bool all, size_t *hits);
/* Moves all remaining hits of a process that has executed another program into the recording. */
void trace_take_left(struct trace *trace, pid_t pid);
/*
 * Counts the hits that are left in the rings and can no longer be written. Call it after the
 * probes have been switched off.
 */
void trace_count_unwritten(struct trace *trace);

/* ---- Hits (output.c) -------------------------------------------------------- */

/* Creates the recording of `probectl record`. */
PROBE_MUST_CHECK struct probe_error *output_record(
	struct trace *trace, const struct probe_ctf_options *parts);
/* Writes as much pending output as possible without blocking. */
void output_flush(struct trace *trace);
/* Ends the trace if its output has failed with this error. Does nothing if the error is NULL. */
void output_check(struct trace *trace, struct probe_error *error);
/* Returns true if the target's output can accept no more hits now. */
bool output_full(const struct trace_target *target);
/* Returns the name of a hit's thread, or NULL. The name is valid until the next call. */
const char *output_comm(struct trace *trace, const struct probe_hit *hit);
/* Takes one hit. Returns false if the trace wants no more hits. `data` is the struct trace. */
bool output_hit(size_t target, const struct probe_hit *hit, const char *comm, void *data);
/* Reports that `lost` more hits of a probe were lost. */
void output_lost(struct trace *trace, const struct trace_target *target,
	const struct probe_session_probe *probe, uint64_t lost);

/*
 * Prints all hits in the flight recorders, oldest first. The hits stay in the recorders. If the
 * trace has a recording, writes the hits that are new since the last call to the recording
 * instead.
 */
void flight_print(struct trace *trace);

/* These functions start, poll and end loaded tracers. */
PROBE_MUST_CHECK struct probe_error *hosts_start(struct trace *trace);
void hosts_poll(struct trace *trace);
void hosts_finish(struct trace *trace);
/*
 * Returns true if a tracer wants hits of a process whose probes are not enabled yet. If a loaded
 * tracer does not want them and `aloud` is true, prints a message.
 */
bool host_wants(struct trace *trace, struct trace_tracer *tracer, pid_t pid, bool aloud);

/* ---- Ended processes (merge.c) ---------------------------------------------- */

/* Returns true if all hits of a target have been read, so that its session can be freed. */
bool gone_may_drop(const struct trace *trace, const struct trace_target *target);
/*
 * Keeps the data of a target that is needed after its session is freed. Errors: those of
 * probe_table_add(), probe_stacks_keep_session(), probe_session_snapshot() and probe_ctf_forget().
 */
PROBE_MUST_CHECK struct probe_error *gone_keep(struct trace *trace, struct trace_target *target);
/* Reports how many hits of flight recorders were dropped for lack of memory. */
void gone_report(const struct trace *trace);
void gone_free(struct trace *trace);

/* ---- Rings on request (report.c) -------------------------------------------- */

/*
 * Starts the session of a target. If the target's rings are written on request, a stream owns the
 * session.
 */
PROBE_MUST_CHECK struct probe_error *trace_target_start(struct trace *trace,
	struct trace_target *target, const struct probe_request *request,
	const struct probe_session_options *options, struct probe_report *report);

/*
 * Call the functions trace_rings_... only for targets with target->rings.
 *
 * trace_rings_poll() handles the events of the process's session, and notes if a ring is full.
 */
PROBE_MUST_CHECK struct probe_error *trace_rings_poll(
	struct trace *trace, struct trace_target *target);
/* Stops the stream that reads a target's rings. The session continues. */
PROBE_MUST_CHECK struct probe_error *trace_rings_suspend(const struct trace_target *target);
/* Stops the stream that reads a target's rings, and also the session. */
PROBE_MUST_CHECK struct probe_error *trace_rings_stop(const struct trace_target *target);
/* Notes that the process of the target has ended. */
PROBE_MUST_CHECK struct probe_error *trace_rings_note_end(
	struct trace *trace, struct trace_target *target);
/* Writes the hits in a target's rings that were not written before. */
PROBE_MUST_CHECK struct probe_error *trace_rings_write(
	struct trace *trace, struct trace_target *target);
/*
 * Returns true if the rings of an ended process may be dropped, because they are empty, were
 * written, or are too old.
 */
bool trace_rings_may_drop(const struct trace *trace, const struct trace_target *target);
/* Frees a target's rings and its session. The hits that were not written are counted. */
PROBE_MUST_CHECK struct probe_error *trace_rings_end(
	struct trace *trace, struct trace_target *target);

/* ---- Following execve(2) (setup.c) ------------------------------------------ */

/*
 * Starts sessions in processes that have executed another program, and in processes that started
 * later.
 */
void trace_follow_exec(struct trace *trace);
/* Ends the watch, and reports the processes that have ended before we could trace them. */
void trace_report_missed(struct trace *trace);

/* ---- The whole trace (setup.c) ---------------------------------------------- */

struct trace_options;

/* Runs a trace from start to end. */
PROBE_MUST_CHECK struct probe_error *trace_command(struct trace_options *options, int *status_ret);

#endif
