/* SPDX-License-Identifier: MIT */
/* The processes of `probectl top`: shared by source.c and follow.c. */
#ifndef CLI_TOP_SOURCE_H
#define CLI_TOP_SOURCE_H

#include "cli/processes.h"
#include "cli/top/top.h"
#include "probe/table.h"
#include "probe/trace.h"

/* The tracers of the trace (struct probe_trace): the sessions of a process. */
enum { TOP_COUNTS, TOP_TIMES, TOP_TRACERS };

/* The data of the session that counts (struct probe_traced). */
struct top_process {
	size_t notes; /* number of notes that were reported */
};

/* The durations of pairs, summed over all processes. */
struct top_times_kept {
	struct probe_table *last;   /* all durations until the last look */
	struct probe_table *recent; /* durations in the last interval */
};

struct top_source {
	struct probe_trace *set; /* the processes and their sessions */
	/*
	 * The tracers of `set`. TOP_COUNTS counts the hits; TOP_TIMES measures the durations of
	 * pairs, and has no session in a program without pairs.
	 */
	struct probe_trace_tracer tracers[TOP_TRACERS];
	const struct probe_request *request; /* the probes to show; its patterns are borrowed */
	struct top_model *model;	     /* borrowed */
	const struct common_options *common; /* options that select the processes; borrowed */
	bool *matched;			     /* for each pattern: true if it has matched */
	bool seeks;			     /* processes that start later are traced, too */
	struct left_out left;		     /* processes that cannot be traced from the start */
	struct probe_error *error;	     /* first error that nobody has fetched yet; owned */
	size_t ended;	 /* number of named processes whose end was not told yet */
	pid_t ended_pid; /* one of them */
	bool stopping;	 /* source_stop() has begun */
	bool started;	 /* we started the program, so we do not report its end */
	struct top_times_kept times;
	uint64_t started_ns, last_ns; /* times of the start and of the last look, CLOCK_MONOTONIC */
	/* During the last change, the longest time for which any process was stopped. */
	uint64_t stop_ns;
	/* Name of the process that was traced last; "" if it ended at once. */
	char program[32];
	bool programs_differ; /* the traced processes had different names */
	size_t came;	      /* number of processes traced since the start */
	char title[128];
	char *news; /* messages that the main loop has not fetched yet; or NULL */
	bool incomplete;
};

/* Sets what the sessions gather: durations of pairs and, with -k, rows for values of the keys. */
void source_set_tracers(struct top_source *source, const struct top_options *options);

/* Notes how long a change has stopped a process. */
void source_note_change(struct top_source *source, const struct probe_report *report);

/* Switches the probes of a session on and off as the rows say. */
PROBE_MUST_CHECK struct probe_error *source_switch_session(
	struct top_source *source, const struct probe_traced *traced);

/* Adds refused sites of a report to their probes' rows, from refusal number `first` on. */
PROBE_MUST_CHECK struct probe_error *source_add_refusals(
	struct top_model *model, const struct probe_report *report, size_t first);

#endif
