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
	size_t notes;	 /* of one of its sessions, that have been told */
};

/* How long pairs took (times.c). */
struct top_times_kept {
	struct probe_session_options options; /* of the sessions, except what they follow */
	struct probe_table *gone;	      /* of processes that are gone */
	struct probe_table *last;	      /* all, up to the last look */
	struct probe_table *recent;	      /* of them, those of the last interval */
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
	const struct common_options *seeks; /* processes that come later are shown, too; NULL: no */
	bool started;			    /* by us: the end of the process is no news */
	struct probe_watch *watch;
	struct top_times_kept times;
	uint64_t started_ns, last_ns; /* the start, the last look */
	uint64_t stop_ns;	      /* the longest stop of the last change */
	char program[32];	      /* the last that came; "": it ended at once */
	bool programs_differ;	      /* others came before */
	size_t came;		      /* processes, since the start */
	char title[128];
	char *news; /* not taken yet; NULL: none */
	bool incomplete;
};

/* Sets what the sessions gather: how long pairs take; with keys, a row for each (keyed.c). */
PROBE_MUST_CHECK struct probe_error *source_set_keys(
	struct top_source *source, const struct top_options *options);

/* Lets go of all processes that wait to be followed, and says what was missed (follow.c). */
void source_finish_watch(struct top_source *source);

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
/* The notes of its sessions' reports that are new. */
void source_note_notes(struct top_source *source, struct top_process *process);

/*
 * Switches a process's probes off and forgets it; what it has done stays in the model.
 * What fails is news.
 */
void source_drop(struct top_source *source, struct top_model *model, size_t index);

#endif
