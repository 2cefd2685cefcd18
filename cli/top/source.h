/* SPDX-License-Identifier: MIT */
/* The processes of `probectl top`: shared by source.c and follow.c. */
#ifndef CLI_TOP_SOURCE_H
#define CLI_TOP_SOURCE_H

#include "cli/top/top.h"
#include "probe/table.h"
#include "probe/trace.h"
#include "probe/watch.h"

/* A program that a process executes, with the two sessions for this program. */
struct top_process {
	struct probe_target *target;
	struct probe_session *counts;
	/* Measures the durations of pairs; NULL if the program has no pairs. */
	struct probe_session *times;
	int pidfd;  /* descriptor of the process, or -1; see loop_watch_exit() */
	bool named; /* the process was named on the command line, so we report its end */
	/* The process now executes another program, for which there is another element. */
	bool replaced;
	bool wanted;   /* the process waits for us: probe_session_fd() is readable */
	bool exited;   /* the process has ended */
	size_t probes; /* number of probes of `counts` for which rows were added */
	/* Number of refusals in probe_session_report() that were counted in the rows. */
	size_t refusals;
	size_t notes; /* number of notes that were reported */
};

/* The durations of pairs, summed over all processes. */
struct top_times_kept {
	/*
	 * Options of the sessions that measure pairs. What a session follows is set when it starts.
	 */
	struct probe_session_options options;
	struct probe_table *gone;   /* durations in processes that have ended */
	struct probe_table *last;   /* all durations until the last look */
	struct probe_table *recent; /* durations in the last interval */
};

struct top_source {
	/* One for each running program, and one for each program that execve(2) has replaced. */
	struct top_process *processes;
	size_t count;
	const struct probe_request *request; /* the probes to show; its patterns are borrowed */
	struct probe_session_options
		/*
		 * Options of the sessions that count. What a session follows is set when it starts.
		 */
		counting;
	struct probe_table *gone_keys; /* hits by key in processes that have ended */
	const char *filter;	       /* filter of hits, or NULL; borrowed */
	bool *matched;		       /* for each pattern: true if it has matched */
	bool follow;
	/*
	 * Options that select processes that start later; NULL if later processes are not traced.
	 */
	const struct common_options *seeks;
	bool started; /* we started the program, so we do not report its end */
	struct probe_watch *watch;
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

/*
 * Sets what the sessions gather: the durations of pairs and, with -k, a row for each value of the
 * keys.
 */
PROBE_MUST_CHECK struct probe_error *source_set_keys(
	struct top_source *source, const struct top_options *options);

/* Ends the watch, and reports the processes that have ended before we could trace them. */
void source_finish_watch(struct top_source *source);

/*
 * Notes how long a change has stopped a process, and frees the change's report. Call it after each
 * change, even if the change has failed.
 */
void source_note_change(struct top_source *source, struct probe_report *report);

/* Switches the probes of a process on and off as the rows say. */
PROBE_MUST_CHECK struct probe_error *source_switch_process(
	struct top_source *source, struct top_process *process, struct top_model *model);

/*
 * Adds the refused sites of a report to the rows of their probes, beginning with refusal number
 * `first`.
 */
PROBE_MUST_CHECK struct probe_error *source_add_refusals(
	struct top_model *model, const struct probe_report *report, size_t first);

/*
 * Reads what the sessions of a process have counted. If the process waits for us, puts probes into
 * its new libraries and lets it continue.
 */
PROBE_MUST_CHECK struct probe_error *source_serve(
	struct top_source *source, struct top_process *process, struct top_model *model);

/* Adds a message that says how a site has changed. */
void source_note_site(struct top_source *source, pid_t pid, const struct probe_site_news *news);

/* Adds the text of an error as a message, and frees the error. The error may be NULL. */
void source_note_failure(struct top_source *source, struct probe_error *error);
/* Adds messages for the notes in the reports of a process's sessions that are new. */
void source_note_notes(struct top_source *source, struct top_process *process);

/*
 * Switches off the probes of a process and drops the process. The model keeps the counts of the
 * process. An error becomes a message.
 */
void source_drop(struct top_source *source, struct top_model *model, size_t index);

#endif
