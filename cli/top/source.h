/* SPDX-License-Identifier: MIT */
/* The processes of `probectl top`: shared by source.c and follow.c. */
#ifndef CLI_TOP_SOURCE_H
#define CLI_TOP_SOURCE_H

#include "cli/top/top.h"
#include "probe/table.h"
#include "probe/watch.h"

/* A program that a process executes, with its two sessions. */
struct top_process {
	struct probe_target *target;
	struct probe_session *counts;
	/* Gathers the durations of pairs; NULL if the program has no pairs. */
	struct probe_session *times;
	int pidfd;  /* descriptor of the process, or -1; see loop_watch_exit() */
	bool named; /* named on the command line: its end is reported */
	/* The process has executed another program, which has an element of its own. */
	bool replaced;
	bool wanted;	 /* probe_session_fd() is readable: the process waits for us */
	bool exited;	 /* the process has ended */
	size_t probes;	 /* number of probes of `counts` that have rows */
	size_t refusals; /* refusals of probe_session_report() already counted in the rows */
	size_t notes;	 /* number of notes already reported */
};

/* The durations of pairs, gathered over all processes. */
struct top_times_kept {
	/* Options of the gathering sessions, except what they follow. */
	struct probe_session_options options;
	struct probe_table *gone;   /* durations in ended processes */
	struct probe_table *last;   /* all durations up to the last look */
	struct probe_table *recent; /* durations in the last interval */
};

struct top_source {
	struct top_process *processes; /* running programs, and programs replaced by execve(2) */
	size_t count;
	const struct probe_request *request; /* the probes to show; its patterns are borrowed */
	struct probe_session_options
		/* Options of the counting sessions, except what they follow. */
		counting;
	struct probe_table *gone_keys; /* hits by key in ended processes */
	const char *filter;	       /* filter of hits, borrowed; or NULL */
	bool *matched;		       /* for each pattern, whether it has matched */
	bool follow;
	/* Options that select later processes; NULL if there are none. */
	const struct common_options *seeks;
	bool started; /* we started the program: its end is not reported */
	struct probe_watch *watch;
	struct top_times_kept times;
	uint64_t started_ns, last_ns; /* start and last look, CLOCK_MONOTONIC */
	uint64_t stop_ns;	      /* longest time for which the last change stopped a process */
	char program[32];	      /* name of the last process; "" if it ended at once */
	bool programs_differ;	      /* earlier processes had other names */
	size_t came;		      /* number of processes traced since the start */
	char title[128];
	char *news; /* messages not yet fetched; or NULL */
	bool incomplete;
};

/* Sets what the sessions gather: the durations of pairs and, with keys, a row for each key. */
PROBE_MUST_CHECK struct probe_error *source_set_keys(
	struct top_source *source, const struct top_options *options);

/* Releases all held processes and reports what was missed. */
void source_finish_watch(struct top_source *source);

/* Call it after each change, also after a failed one. Frees the report. */
void source_note_change(struct top_source *source, struct probe_report *report);

/* Switches the probes of a process on and off as the rows say. */
PROBE_MUST_CHECK struct probe_error *source_switch_process(
	struct top_source *source, struct top_process *process, struct top_model *model);

/* Counts the refused sites of a report, from number `first` on, in their rows. */
PROBE_MUST_CHECK struct probe_error *source_add_refusals(
	struct top_model *model, const struct probe_report *report, size_t first);

/*
 * Reads what a process has counted. If the process waits for us, probes its new libraries and
 * lets it continue.
 */
PROBE_MUST_CHECK struct probe_error *source_serve(
	struct top_source *source, struct top_process *process, struct top_model *model);

/* Adds a message about a change of a site. */
void source_note_site(struct top_source *source, pid_t pid, const struct probe_site_news *news);

/* Adds an error as a message, and frees the error, which may be NULL. */
void source_note_failure(struct top_source *source, struct probe_error *error);
/* Adds the new notes in the reports of a process's sessions as messages. */
void source_note_notes(struct top_source *source, struct top_process *process);

/*
 * Switches a process's probes off and drops the process; its counts stay in the model. An error
 * becomes a message.
 */
void source_drop(struct top_source *source, struct top_model *model, size_t index);

#endif
