/* SPDX-License-Identifier: MIT */
/*
 * A trace in progress: the sessions of `probectl trace` or `record`, where their hits
 * go, and what ends them. cli/commands/trace.c and cli/commands/record.c read the command line,
 * setup.c sets it up, loop.c runs it, output.c takes the hits,
 * tables.c prints what was gathered, exports.c makes metrics of it,
 * report.c tells losses.
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

/* What the user asked for. Zero means no limit. */
struct trace_settings {
	bool all; /* tables hold the probes without hits, however many */
	bool quiet;
	bool json;
	uint64_t interval_ns; /* between tables */
	uint64_t duration_ns;
	uint64_t hits_max;
	uint64_t top;	    /* rows of a table of text; 0: all */
	const char *listen; /* where metrics are served; or NULL */
	const char *otlp;   /* the collector that gets metrics and spans; or NULL */
	uint64_t rows;	    /* of these; 0: default */
};

/* What a record does when the rings are full. */
enum record_full {
	RECORD_FLUSH, /* they are written all the time, and should never be */
	RECORD_LOOP,  /* the oldest hits go; the newest are written at the end */
	RECORD_STOP   /* that is the end */
};

/* How many hits have waited for room in their rings, and how long in all. */
struct trace_waits {
	uint64_t hits, ns;
};

/* What was printed of a probe so far. */
struct trace_tally {
	uint64_t hits, lost;
};

struct trace_target {
	bool given;		     /* by -p: it must be there */
	struct probe_target *target; /* one of the trace's processes */
	struct trace_tracer *tracer;
	struct probe_session *session;
	/* The process's name in rows of stacks: a second name would make a second row of its hits.
	 */
	char comm[COMM_BYTES];	   /* empty: not known yet */
	struct trace_rings *rings; /* that are written on request (record_stream.c), or NULL */
	uint64_t turn;		   /* the processes' order, among those of the start */
	bool on;		   /* the session has been started and not stopped */
	bool exited; /* the process is gone; what is in its rings is still to be read */
	/* If the target has ended: the session goes on as long as forked children run. */
	bool has_heirs, heirs_known, heirs_told;
	uint64_t heirs_since_ns;
	bool judged;   /* how the process ended was checked, and reported */
	bool broken;   /* its rings could not be read; reported once */
	bool stuck;    /* its probes could not be switched off: hits may continue without end */
	bool by_hit;   /* of a record: its hits are added one by one (taking.c) */
	bool unread;   /* it is off, and its rings hold hits that there was no room for */
	bool wanted;   /* it waits for us: probe_session_fd() is readable */
	bool later;    /* of no process that was named: of what one has become meanwhile */
	int pidfd;     /* see loop_watch_exit() */
	bool unwanted; /* its tracer wants no more of its hits */
	bool *removed; /* the same of single probes */
	size_t removed_count;
	struct report_told told;     /* of the session's report */
	struct trace_tally *tallies; /* for each probe */
	size_t tally_count;
};

/* The processes that came later, whoever had started them. */
struct trace_found {
	size_t held; /* nothing of them had run */
	size_t late;
	uint64_t late_ns; /* how long a late one had run by then, at most */
};

/* A probe of a tracer: the sum over processes that have ended (gone.c). Names are owned. */
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
	 * One for each process and tracer, tracer by tracer. Those that were named come
	 * first; what they become is added after them.
	 */
	struct trace_target *targets;
	size_t target_count;
	const struct probe_request *request;
	bool verbose; /* each refused site is named */
	bool follow;  /* programs that are started are held, and traced from their begin */
	bool seeks;   /* processes that come later are traced, whoever starts them */
	const struct common_options *common; /* which processes are meant; borrowed */
	struct trace_found found;
	struct probe_watch *watch;
	struct trace_gone *gones; /* of processes that were dropped from the targets */
	size_t gone_count;
	struct merge *gone_hits;    /* of their flight recorders, by index of `gones`; or NULL */
	uint64_t gone_hits_dropped; /* older ones */
	struct trace_waits waits;   /* of those, too */
	bool *matched;		    /* each pattern of the request, in one of them */
	size_t first; /* whose rings are read first: they take turns, because a round has limited
			 room for hits */

	struct probe_sink *sink;  /* of a record: nothing is printed there */
	struct probe_ctf *record; /* takes the hits of `probectl record`; else NULL */
	const char *directory;	  /* of the record; else NULL */
	enum record_full full;	  /* of the record */
	bool overrun;		  /* with another one than RECORD_FLUSH: not all hits are there */
	size_t dropped;		  /* processes whose rings had to go before they were written */
	uint64_t dropped_hits;
	uint64_t overwritten;  /* with RECORD_LOOP; with RECORD_STOP, lost once a ring was full */
	bool active;	       /* in the last round, rings had new hits that are taken */
	uint64_t due_ns;       /* one of these will be filled by a quarter in so long */
	uint64_t heirs_due_ns; /* when the children of those that have ended are looked for next */
	int output_fd;
	bool to_file; /* a regular file, which is always ready to be written */
	bool gone;    /* the output has no reader any more, or cannot be written */
	bool cut_off; /* it is gone, but not because its reader had seen enough */

	struct probe_metrics *metrics; /* of -t metrics; else NULL */
	struct probe_metrics_server *server;
	size_t left_out_told; /* how many rows of them are not there, as was told */
	struct probe_otlp *otlp;
	bool otlp_told; /* ... that the collector does not take something */

	struct comm_cache *comms;
	struct merge *merge; /* NULL with one target, and if there is no common order */
	uint64_t merged_ns;  /* when the round began whose hits were printed last */
	struct loop loop;

	uint64_t hits;	    /* handed over, to the output or a loaded tracer */
	uint64_t unwritten; /* that were in rings when nothing could be written any more */
	bool flight;	    /* the user asks for what the rings of flight recorders hold */
	bool failed;	    /* an error was reported: exit status 1 */
	bool noted;	    /* the notes about programs that were started later were printed */
};

/* What was shown of a record that is being made (progress.c). */
struct trace_progress {
	struct progress line;
	uint64_t last_ns, hits;
};

/* Runs until the trace is over, switches the probes off, and prints what is left. */
void trace_run(struct trace *trace);

/*
 * Stops tracing the processes that have ended, though that may not be noticed yet: their forked
 * children are about to get sessions of their own.
 */
void trace_stop_ended(struct trace *trace);

/*
 * From now on, hits are part of the trace, or are not any more: in all processes at this moment,
 * though their probes are on, and stay so. Only sessions with options.switched; others are on
 * throughout.
 */
void trace_switch(struct trace *trace, bool on);

/* Switches all probes off; reports what fails. To be called whatever happened before. */
void trace_stop(struct trace *trace);

/* Reports an error on stderr, once, frees it, and remembers that there was one. */
void trace_fail(struct trace *trace, struct probe_error *error);

/* ---- report.c --------------------------------------------------------------- */

/*
 * Reports the sites that could not be patched in libraries and programs that were opened or started
 * since the last call. Without --keep-going, the trace fails if one belongs to a probe that was
 * named, as it does at its start, but continues with the rest.
 */
void trace_report_refusals(struct trace *trace);
/* The same for one change; `told` is what was reported of it before. */
void trace_take_refusals(struct trace *trace, const struct probe_report *report, pid_t pid,
	struct report_told *told);
/* At the end: a trace has failed if every site was refused. */
void trace_judge_refusals(struct trace *trace);

/* Reports losses that have not been reported yet. */
void trace_report_losses(struct trace *trace);
/* How many hits were lost so far, as reported. */
uint64_t trace_lost(const struct trace *trace);

/* All requested hits (-n) have been printed. Later ones do not belong to the trace. */
bool trace_is_full(const struct trace *trace);

/* Counts a hit that is printed. False without memory. */
bool trace_count_hit(struct trace_target *target, size_t probe);
/* The same of all that were taken. */
bool trace_count_taken(struct trace_target *target);

/* Tells of a process that has ended whether a signal killed it; SIGKILL of one of -p is a failure.
 */
/* Reports what is missing from the record of a probe, if anything is. */
void trace_report_fate(struct trace *trace, struct trace_target *target);

/* Says so if a target's rings held damaged records. */
void trace_report_damage(const struct trace_target *target);

/* The hits of all probes that are only gathered. */
uint64_t trace_total(const struct trace *trace);

/* Has a tracer hits to print, or rows to gather? */
bool trace_has_output(const struct trace *trace, enum probe_tracer_output output);

/* After a trace of hits: hits and losses of each probe, on stderr. */
void trace_report_summary(const struct trace *trace);
/* Says of known probes without hits what the program needs to pass them (hints.c). */
void trace_report_hints(const struct trace *trace);

/* After a record: the number of hits in it, and of lost ones. */
void trace_report_record(const struct trace *trace);

/* ---- waits.c ---------------------------------------------------------------- */

/* At the end: says how many hits have waited, and how long, if any has. */
void trace_report_waits(const struct trace *trace);

/* ---- sites.c ---------------------------------------------------------------- */

/* ---- tables.c --------------------------------------------------------------- */

/* Time begins: all sessions have been started. */
void trace_tables_start(struct trace *trace);

/* Names a process when its stacks are first read; NULL: its name is not known. */
const char *trace_target_comm(struct trace *trace, struct trace_target *target);

/*
 * What each tracer has gathered: all, or what is new since the last interval.
 * Loaded tracers are checked, too.
 */
void trace_tables(struct trace *trace, bool is_interval);

/* ---- exports.c -------------------------------------------------------------- */

/* Prepares the metrics of tracers that export them (-t pcp, -t metrics). */
PROBE_MUST_CHECK struct probe_error *exports_open(struct trace *trace);
/* To be called before the tracers are freed. */
void exports_close(struct trace *trace);
/* Tells where they are, once all sessions have been started. */
void exports_report(const struct trace *trace);
/* As whose a target counts. */
pid_t exports_owner(const struct trace *trace, const struct trace_target *target);

/* ---- otlp.c ----------------------------------------------------------------- */

PROBE_MUST_CHECK struct probe_error *otlp_open(struct trace *trace);
void otlp_watch(struct trace *trace);
/* Sends the metrics, and the spans that there are. */
void otlp_update(struct trace *trace);
bool otlp_is_busy(const struct trace *trace);
/* Gives up what has not been sent, and tells what was and what was not. */
void otlp_end(struct trace *trace);

/* ---- taking.c --------------------------------------------------------------- */

/* Are its hits moved into the record as they are? */
bool trace_takes(const struct trace *trace, const struct trace_target *target);
/* Moves them: all, or what is worth a write; adds their number to *hits. False: that cannot be. */
bool trace_take(struct trace *trace, struct trace_target *target, bool all, size_t *hits);
/* All that a process has left which is another program now. */
void trace_take_left(struct trace *trace, pid_t pid);
/* Counts what the rings hold that can be written no more, once the probes are off. */
void trace_count_unwritten(struct trace *trace);

/* ---- output.c --------------------------------------------------------------- */

/* Begins the record of `probectl record`. */
PROBE_MUST_CHECK struct probe_error *output_record(
	struct trace *trace, const struct probe_ctf_options *parts);
/* Writes what can be written without waiting. */
void output_flush(struct trace *trace);
/* Ends the trace after an error of its output; NULL is none. */
void output_check(struct trace *trace, struct probe_error *error);
/* No more hits of this target should be taken now. */
bool output_full(const struct trace_target *target);
/* The name of the thread of a hit, or NULL; valid until the next call. */
const char *output_comm(struct trace *trace, const struct probe_hit *hit);
/* Takes one hit; false when no more should be handed over. `data` is the trace. */
bool output_hit(size_t target, const struct probe_hit *hit, const char *comm, void *data);
/* Reports that this many more hits of a probe were lost. */
void output_lost(struct trace *trace, const struct trace_target *target,
	const struct probe_session_probe *probe, uint64_t lost);

/*
 * Prints all that the flight recorders hold, oldest first; it stays there. Of a record, writes what
 * is new in the rings.
 */
void flight_print(struct trace *trace);

/* Loaded tracers: started, asked, ended. */
PROBE_MUST_CHECK struct probe_error *hosts_start(struct trace *trace);
void hosts_poll(struct trace *trace);
void hosts_finish(struct trace *trace);
/*
 * Does a tracer want hits of a process whose probes are off yet? With `aloud`, reports if a loaded
 * one does not.
 */
bool host_wants(struct trace *trace, struct trace_tracer *tracer, pid_t pid, bool aloud);

/* ---- gone.c ----------------------------------------------------------------- */

/* Has the target been read to its end, so that its session need not be kept? */
bool gone_may_drop(const struct trace *trace, const struct trace_target *target);
/*
 * Keeps what is needed of it. Errors: those of probe_table_add(), probe_stacks_keep_session(),
 * probe_session_snapshot() and probe_ctf_forget().
 */
PROBE_MUST_CHECK struct probe_error *gone_keep(struct trace *trace, struct trace_target *target);
/* At the end: how many hits of flight recorders there was no room for. */
void gone_report(const struct trace *trace);
void gone_free(struct trace *trace);

/* ---- record_stream.c -------------------------------------------------------- */

/* Starts the session of a target, which is that of a stream if its rings are written on request. */
PROBE_MUST_CHECK struct probe_error *trace_target_start(struct trace *trace,
	struct trace_target *target, const struct probe_request *request,
	const struct probe_session_options *options, struct probe_report *report);

/* These are for targets that have rings of that kind. Serves the process; notes that one is full.
 */
PROBE_MUST_CHECK struct probe_error *trace_rings_poll(
	struct trace *trace, struct trace_target *target);
/* Stops the stream; the session goes on. */
PROBE_MUST_CHECK struct probe_error *trace_rings_suspend(const struct trace_target *target);
/* Stops the stream and its session. */
PROBE_MUST_CHECK struct probe_error *trace_rings_stop(const struct trace_target *target);
/* The process has ended. */
PROBE_MUST_CHECK struct probe_error *trace_rings_note_end(
	struct trace *trace, struct trace_target *target);
/* Writes what is new in the rings. */
PROBE_MUST_CHECK struct probe_error *trace_rings_write(
	struct trace *trace, struct trace_target *target);
/* Of a process that has ended: are its rings empty, written, or too old to be kept? */
bool trace_rings_may_drop(const struct trace *trace, const struct trace_target *target);
/* Gives them back, with the session; counts what was not written. */
PROBE_MUST_CHECK struct probe_error *trace_rings_end(
	struct trace *trace, struct trace_target *target);

/* ---- exec.c ----------------------------------------------------------------- */

/* Starts sessions in processes that have become other programs, or that are new. */
void trace_follow_exec(struct trace *trace);
/* Says what was lost, and was not said yet. */
void trace_report_missed(struct trace *trace);

/* ---- setup.c ---------------------------------------------------------------- */

struct trace_options;

/* Runs a trace from its begin to its end. */
PROBE_MUST_CHECK struct probe_error *trace_command(struct trace_options *options, int *status_ret);

#endif
