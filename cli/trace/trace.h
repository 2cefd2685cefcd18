/* SPDX-License-Identifier: MIT */
/*
 * A trace in progress: the sessions of `probectl trace` or `record`, where their hits go, and
 * what ends them. cli/commands/trace.c and cli/commands/record.c parse the command line.
 *
 *   setup.c    sets the trace up, and follows execve(2)
 *   loop.c     runs it; metrics; checks of sites
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
#include "cli/trace/merge.h"
#include "cli/trace/tracer.h"
#include "probe/ctf.h"
#include "probe/metrics.h"
#include "probe/otlp.h"
#include "probe/sink.h"
#include "probe/target.h"
#include "probe/watch.h"

/* The user's settings. 0 means no limit. */
struct trace_settings {
	bool all; /* tables show all probes without hits, however many */
	bool quiet;
	bool json;
	uint64_t interval_ns; /* time between two tables */
	uint64_t duration_ns;
	uint64_t hits_max;
	uint64_t top;	    /* maximum number of rows in a text table; 0 for all */
	const char *listen; /* address at which metrics are served; or NULL */
	const char *otlp;   /* collector for metrics and spans; or NULL */
	uint64_t rows;	    /* maximum number of rows of metrics; 0 for the default */
};

/* How a recording handles full rings. */
enum record_full {
	RECORD_FLUSH, /* rings are written continuously and should never fill up */
	RECORD_LOOP,  /* new hits overwrite the oldest; the rings are written at the end */
	RECORD_STOP   /* the recording ends when a ring is full */
};

/* How many hits have waited for ring space, and their total waiting time. */
struct trace_waits {
	uint64_t hits, ns;
};

/* The hits of a probe printed so far, and the losses reported. */
struct trace_tally {
	uint64_t hits, lost;
};

struct trace_target {
	bool given;		     /* named with -p: an error if the process cannot be traced */
	struct probe_target *target; /* one of the trace's processes */
	struct trace_tracer *tracer;
	struct probe_session *session;
	/*
	 * The process's name in rows of stacks. It is kept because a second name would make a
	 * second row.
	 */
	char comm[COMM_BYTES];	   /* name of the process; empty if not known yet */
	struct trace_rings *rings; /* rings that are written on request (report.c); or NULL */
	uint64_t turn;		   /* position of the process in the order of the first start */
	bool on;		   /* the session has been started and not stopped */
	bool exited;		   /* the process has ended; its rings are still to be read */
	/* For an ended target: the session goes on as long as forked children run. */
	bool has_heirs, heirs_known, heirs_told;
	uint64_t heirs_since_ns;
	bool judged; /* how the process ended has been checked and reported */
	bool broken; /* its rings were unreadable; this is reported once */
	bool stuck;  /* its probes cannot be switched off: hits may continue forever */
	bool by_hit; /* hits are added to the recording one by one (output.c) */
	bool unread; /* off, but hits are left in the rings because the output was full */
	bool wanted; /* probe_session_fd() is readable: the process waits for us */
	/* Not a named process: found or started later, or executed another program. */
	bool later;
	int pidfd;     /* descriptor of the process, or -1; see loop_watch_exit() */
	bool unwanted; /* its tracer wants no more of its hits */
	bool *removed; /* for each probe: its tracer wants no more hits */
	size_t removed_count;
	struct report_told told;     /* what has been reported of the session's report */
	struct trace_tally *tallies; /* counts for each probe */
	size_t tally_count;
};

/* Processes that started during the trace, whoever started them. */
struct trace_found {
	size_t held; /* number of processes held before they ran any instruction */
	size_t late;
	uint64_t late_ns; /* maximum time that a late process had run before it was traced */
};

/* A tracer's probe: the sum over processes that have ended (merge.c). The names are owned. */
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
	 * One target for each process and tracer, tracer by tracer. The named processes come first;
	 * the programs that they execute are added after them.
	 */
	struct trace_target *targets;
	size_t target_count;
	const struct probe_request *request;
	bool verbose; /* name each refused site */
	bool follow;  /* hold and trace started programs from their first instruction */
	bool seeks;   /* trace processes that come later, whoever starts them */
	const struct common_options *common; /* options that select the processes; borrowed */
	struct trace_found found;
	struct probe_watch *watch;
	struct trace_gone *gones; /* probes of the processes dropped from `targets` */
	size_t gone_count;
	/* Hits of their flight recorders, by index in `gones`; or NULL. */
	struct merge *gone_hits;
	uint64_t gone_hits_dropped; /* number of older hits dropped from gone_hits */
	struct trace_waits waits;   /* waiting times of the processes dropped from `targets` */
	bool *matched;		    /* for each pattern, whether it matched in a dropped process */
	/*
	 * Index of the target that is read first. It changes each round, because the output can
	 * accept only a limited number of hits per round.
	 */
	size_t first;

	struct probe_sink *sink;  /* prints the hits; unused for a recording */
	struct probe_ctf *record; /* takes the hits of `probectl record`; else NULL */
	const char *directory;	  /* directory of the recording; else NULL */
	enum record_full full;	  /* how the recording handles full rings */
	bool overrun;		  /* not with RECORD_FLUSH: some hits are missing */
	/* Number of processes whose rings were dropped before they were written. */
	size_t dropped;
	uint64_t dropped_hits;
	/* Hits overwritten (RECORD_LOOP), or lost after a ring was full (RECORD_STOP). */
	uint64_t overwritten;
	bool active;	       /* in the last round, rings had new hits that are moved undecoded */
	uint64_t due_ns;       /* time until one of these rings is filled by another quarter */
	uint64_t heirs_due_ns; /* next look for forked children of ended targets */
	int output_fd;
	bool to_file; /* a regular file, which is always writable */
	bool gone;    /* the output has no reader any more, or cannot be written */
	bool cut_off; /* `gone` because of an error, not because the reader has seen enough */

	struct probe_metrics *metrics; /* metrics of -t metrics; else NULL */
	struct probe_metrics_server *server;
	size_t left_out_told; /* number of left-out rows that has been reported */
	struct probe_otlp *otlp;
	bool otlp_told; /* it has been reported that the collector does not accept data */

	struct comm_cache *comms;
	struct merge *merge; /* NULL with one target, or if hits have no common order */
	uint64_t merged_ns;  /* start of the round whose hits were printed last */
	struct loop loop;

	uint64_t hits;	    /* number of hits passed to the output or a loaded tracer */
	uint64_t unwritten; /* hits left in the rings when the output failed */
	bool flight;	    /* the user requests the hits in the flight recorders */
	bool failed;	    /* an error was reported: exit status 1 */
	bool noted;	    /* the notes on programs started later have been printed */
};

/* The progress line of a recording, as last shown. */
struct trace_progress {
	struct progress line;
	uint64_t last_ns, hits;
};

/* Runs until the trace is over, switches the probes off, and prints the remaining hits. */
void trace_run(struct trace *trace);

/*
 * Stops tracing processes that have ended, even if their end was not noticed yet: their forked
 * children are about to get sessions of their own.
 */
void trace_stop_ended(struct trace *trace);

/*
 * From this moment on, hits in all processes are part of the trace (`on`), or no longer are.
 * The probes stay enabled. Applies only to sessions with options.switched; other sessions are
 * always on.
 */
void trace_switch(struct trace *trace, bool on);

/* Switches all probes off and reports errors. Must be called, also after errors. */
void trace_stop(struct trace *trace);

/* Reports an error on stderr and frees it. The trace then counts as failed. NULL is allowed. */
void trace_fail(struct trace *trace, struct probe_error *error);

/* ---- Losses and the summary (report.c) -------------------------------------- */

/*
 * Reports the sites that could not be patched in libraries and programs since the last call.
 * Without --keep-going, the trace counts as failed if such a site belongs to a probe that is
 * named exactly, but it continues with the other sites.
 */
void trace_report_refusals(struct trace *trace);
/* Reports the sites of one report that could not be patched; `told` is the part already printed. */
void trace_take_refusals(struct trace *trace, const struct probe_report *report, pid_t pid,
	struct report_told *told);
/* Call it at the end: the trace has failed if every site was refused. */
void trace_judge_refusals(struct trace *trace);

/* Reports losses that have not been reported yet. */
void trace_report_losses(struct trace *trace);
/* The number of lost hits reported so far. */
uint64_t trace_lost(const struct trace *trace);

/* Whether all requested hits (-n) have been printed. Later hits do not belong to the trace. */
bool trace_is_full(const struct trace *trace);

/* Counts a hit that is printed. Returns false on lack of memory. */
bool trace_count_hit(struct trace_target *target, size_t probe);
/* Counts all hits of a target that were moved undecoded. Returns false on lack of memory. */
bool trace_count_taken(struct trace_target *target);

/*
 * Reports whether a signal killed a process that has ended. SIGKILL of a process named with -p
 * makes the trace fail.
 */
void trace_report_fate(struct trace *trace, struct trace_target *target);

/* Prints a warning if a target's rings held damaged records. */
void trace_report_damage(const struct trace_target *target);

/* The hits of all probes whose hits are only gathered. */
uint64_t trace_total(const struct trace *trace);

/* Whether a tracer of the trace has this kind of output. */
bool trace_has_output(const struct trace *trace, enum probe_tracer_output output);

/* Prints hits and losses of each probe on stderr, after a trace of hits. */
void trace_report_summary(const struct trace *trace);
/*
 * For probes without hits that have a condition in the catalogue, prints the condition
 * (tracer.c).
 */
void trace_report_hints(const struct trace *trace);

/* Prints the number of hits in a recording, and of lost hits. */
void trace_report_record(const struct trace *trace);

/* ---- Waits (merge.c) -------------------------------------------------------- */

/* Prints how many hits have waited for ring space, and how long, if any has. */
void trace_report_waits(const struct trace *trace);

/* ---- Tables (output.c) ------------------------------------------------------ */

/* Starts the time of the tables. Call it when all sessions have been started. */
void trace_tables_start(struct trace *trace);

/*
 * Returns the name of a process for its stacks, and sets it on the first call. NULL if it is
 * unknown.
 */
const char *trace_target_comm(struct trace *trace, struct trace_target *target);

/*
 * Prints the data that each tracer has gathered: all of it, or the change since the last
 * interval. Also checks loaded tracers.
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
/* Prints where the metrics are. Call it when all sessions have been started. */
void exports_report(const struct trace *trace);
/* The process whose label the counts of a target have. */
pid_t exports_owner(const struct trace *trace, const struct trace_target *target);

/* ---- Collector (output.c) --------------------------------------------------- */

PROBE_MUST_CHECK struct probe_error *otlp_open(struct trace *trace);
void otlp_watch(struct trace *trace);
/* Sends the metrics and the finished spans. */
void otlp_update(struct trace *trace);
bool otlp_is_busy(const struct trace *trace);
/* Drops unsent data, and reports what was sent and what was dropped. */
void otlp_end(struct trace *trace);

/* ---- Recording without decoding (output.c) ---------------------------------- */

/* Whether a target's hits are moved undecoded into the recording. */
bool trace_takes(const struct trace *trace, const struct trace_target *target);
/*
 * Moves the hits: all, or only if there are enough for a write. Adds their number to *hits.
 * Returns false if the hits cannot be moved.
 */
bool trace_take(struct trace *trace, struct trace_target *target, bool all, size_t *hits);
/* Moves all remaining hits of a process that has executed another program. */
void trace_take_left(struct trace *trace, pid_t pid);
/*
 * Counts the hits that are left in the rings and can no longer be written. Call it when the
 * probes are off.
 */
void trace_count_unwritten(struct trace *trace);

/* ---- Hits (output.c) -------------------------------------------------------- */

/* Creates the recording of `probectl record`. */
PROBE_MUST_CHECK struct probe_error *output_record(
	struct trace *trace, const struct probe_ctf_options *parts);
/* Writes as much as possible without blocking. */
void output_flush(struct trace *trace);
/* Ends the trace after an error of its output. NULL is allowed. */
void output_check(struct trace *trace, struct probe_error *error);
/* Whether no more hits of this target should be taken now. */
bool output_full(const struct trace_target *target);
/* The name of a hit's thread, or NULL. Valid until the next call. */
const char *output_comm(struct trace *trace, const struct probe_hit *hit);
/* Takes one hit. Returns false if no more hits should be passed. `data` is the trace. */
bool output_hit(size_t target, const struct probe_hit *hit, const char *comm, void *data);
/* Reports `lost` more lost hits of a probe. */
void output_lost(struct trace *trace, const struct trace_target *target,
	const struct probe_session_probe *probe, uint64_t lost);

/*
 * Prints all hits in the flight recorders, oldest first; the hits stay there. For a recording,
 * writes the new hits in the rings.
 */
void flight_print(struct trace *trace);

/* Start, poll and end loaded tracers. */
PROBE_MUST_CHECK struct probe_error *hosts_start(struct trace *trace);
void hosts_poll(struct trace *trace);
void hosts_finish(struct trace *trace);
/*
 * Whether a tracer wants hits of a process whose probes are not enabled yet. With `aloud`,
 * reports if a loaded tracer does not.
 */
bool host_wants(struct trace *trace, struct trace_tracer *tracer, pid_t pid, bool aloud);

/* ---- Ended processes (merge.c) ---------------------------------------------- */

/* Whether a target has been read completely, so that its session can be freed. */
bool gone_may_drop(const struct trace *trace, const struct trace_target *target);
/*
 * Keeps the data of a target that is needed later. Errors: those of probe_table_add(),
 * probe_stacks_keep_session(), probe_session_snapshot() and probe_ctf_forget().
 */
PROBE_MUST_CHECK struct probe_error *gone_keep(struct trace *trace, struct trace_target *target);
/* Reports how many hits of flight recorders were dropped for lack of memory. */
void gone_report(const struct trace *trace);
void gone_free(struct trace *trace);

/* ---- Rings on request (report.c) -------------------------------------------- */

/*
 * Starts the session of a target. If its rings are written on request, the session belongs to a
 * stream.
 */
PROBE_MUST_CHECK struct probe_error *trace_target_start(struct trace *trace,
	struct trace_target *target, const struct probe_request *request,
	const struct probe_session_options *options, struct probe_report *report);

/*
 * The trace_rings_ functions are for targets with target->rings. This function serves the
 * process, and notes if a ring is full.
 */
PROBE_MUST_CHECK struct probe_error *trace_rings_poll(
	struct trace *trace, struct trace_target *target);
/* Stops the stream of a target's rings; its session goes on. */
PROBE_MUST_CHECK struct probe_error *trace_rings_suspend(const struct trace_target *target);
/* Stops the stream of a target's rings, and its session. */
PROBE_MUST_CHECK struct probe_error *trace_rings_stop(const struct trace_target *target);
/* Notes that the process of a target's rings has ended. */
PROBE_MUST_CHECK struct probe_error *trace_rings_note_end(
	struct trace *trace, struct trace_target *target);
/* Writes the new hits in a target's rings. */
PROBE_MUST_CHECK struct probe_error *trace_rings_write(
	struct trace *trace, struct trace_target *target);
/* Whether the rings of an ended process may be dropped: they are empty, written or too old. */
bool trace_rings_may_drop(const struct trace *trace, const struct trace_target *target);
/* Frees a target's rings and its session. Counts hits that were not written. */
PROBE_MUST_CHECK struct probe_error *trace_rings_end(
	struct trace *trace, struct trace_target *target);

/* ---- Following execve(2) (setup.c) ------------------------------------------ */

/* Starts sessions in processes that have executed another program, and in new processes. */
void trace_follow_exec(struct trace *trace);
/* Reports losses that have not been reported yet. */
void trace_report_missed(struct trace *trace);

/* ---- The whole trace (setup.c) ---------------------------------------------- */

struct trace_options;

/* Runs a trace from start to end. */
PROBE_MUST_CHECK struct probe_error *trace_command(struct trace_options *options, int *status_ret);

#endif
