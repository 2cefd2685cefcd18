/* SPDX-License-Identifier: MIT */
/* What source.c and follow.c share: the processes of `probectl top`. */
#ifndef CLI_TOP_SOURCE_H
#define CLI_TOP_SOURCE_H

#include "cli/top/top.h"
#include "probe/table.h"
#include "probe/watch.h"

/* A program that is running, with its two sessions. */
struct top_process {
	struct probe_target *target;
	struct probe_session *counts;
	struct probe_session *times; /* NULL: it has no pairs */
	int pidfd;		     /* see loop_watch_exit() */
	bool named;		     /* on the command line: its end is reported */
	bool replaced;	 /* the process is another program now, which is one of its own */
	bool wanted;	 /* it waits for us: probe_session_fd() is readable */
	bool exited;	 /* the process has ended */
	size_t probes;	 /* of counts, that there are rows for */
	size_t refusals; /* of probe_session_report(), that are in the rows */
};

struct top_source {
	struct top_process *processes; /* those that run, and what they were before execve(2) */
	size_t count;
	const struct probe_request *request; /* its patterns are borrowed */
	struct probe_session_options
		counting;	       /* of the sessions that count, except what they follow */
	struct probe_table *gone_keys; /* hits by key of processes that are gone */
	const char *filter;	       /* likewise; NULL: none */
	bool *matched;		       /* each of them */
	bool follow;
	bool started; /* by us: the end of the process is no news */
	struct probe_watch *watch;
	struct probe_table *gone;   /* times of processes that are gone */
	struct probe_table *last;   /* all times up to the last look */
	struct probe_table *recent; /* of them, those of the last interval */
	uint64_t started_ns, last_ns;
	uint64_t stop_ns; /* the longest stop of the last change */
	char title[64];
	char *news; /* not taken yet; NULL: none */
	bool incomplete;
};

/* The options of the sessions that time, except what they follow. */
extern const struct probe_session_options top_time_options;

/* Sets what the sessions that count gather: a row for each key (keyed.c). */
PROBE_MUST_CHECK struct probe_error *source_set_keys(
	struct top_source *source, const struct top_options *options);

/* Sets the totals of the rows with keys. Rows may be added. */
PROBE_MUST_CHECK struct probe_error *source_read_keys(
	struct top_source *source, struct top_model *model);

/* Keeps what a process has counted by key that is about to be dropped. */
PROBE_MUST_CHECK struct probe_error *source_keep_keys(
	struct top_source *source, const struct top_process *process);

/* A change was made, or tried. */
void source_note_change(struct top_source *source, struct probe_report *report);

/* Switches the probes of a process on and off as the rows are. */
PROBE_MUST_CHECK struct probe_error *source_switch_process(
	struct top_source *source, struct top_process *process, struct top_model *model);

/* Counts refused sites, from the report's `first` on, in their rows. */
PROBE_MUST_CHECK struct probe_error *source_add_refusals(
	struct top_model *model, const struct probe_report *report, size_t first);

/*
 * Reads what a process has counted, and lets it continue where it waits for us, with its
 * new libraries probed.
 */
PROBE_MUST_CHECK struct probe_error *source_serve(
	struct top_source *source, struct top_process *process, struct top_model *model);

/* Makes news of what has become of a site. */
void source_note_site(struct top_source *source, pid_t pid, const struct probe_site_news *news);

/* Makes an error news, and frees it. NULL is allowed. */
void source_note_failure(struct top_source *source, struct probe_error *error);

/*
 * Switches a process's probes off and forgets it; what it has done stays in the model.
 * What fails is news.
 */
void source_drop(struct top_source *source, struct top_model *model, size_t index);

#endif
