/* SPDX-License-Identifier: MIT */
/*
 * The live table of `probectl top`. cli/commands/top.c parses the command line.
 *
 *   top.c      the terminal, signals and timers; the program that top starts;
 *              calls the other files
 *   keys.c     the bytes that a terminal sends, the keys, and what they do
 *   model.c    the rows: their order, filter and cursor
 *   source.c   the processes and their sessions: hits, keys, durations, switching
 *   draw.c     the rows and the lines around them, as text of a given width
 *
 * The model and draw.c know nothing of processes and terminals.
 *
 * We do not use the library curses. The screen needs only a dozen escape sequences, which all
 * current terminals understand (ECMA-48 and xterm's alternate screen). With curses, every command
 * of probectl would load the library.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/loop.h"
#include "cli/options.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "probe/pattern.h"
#include "probe/table.h"
#include "probe/target.h"
#include "probe/trace.h"

/* ---- The model (model.c) ----------------------------------------------------------- */

enum top_order {
	TOP_ORDER_RATE,
	TOP_ORDER_TOTAL,
	TOP_ORDER_P50,
	TOP_ORDER_P99,
	TOP_ORDER_TIME,
	TOP_ORDER_NAME,
	TOP_ORDER_COUNT
};

/* The durations, in ns, of the pairs that a probe ends; NAN if no pair has ended. */
struct top_times {
	double p50, p99, average;
	double sum; /* sum over all pairs of all threads */
};

/* A row for a probe in all modules and processes or, with -k, for one value of the keys. */
struct top_row {
	/* The values of the keys. "" in the probe's own row. Owned. */
	char *key;
	char *label; /* text to show: provider:name and the values of the keys; owned */
	/* The probe's provider and name, and the path of its first module. Owned. */
	char *provider, *name, *path;
	uint64_t total;	   /* hits since the start */
	uint64_t new_hits; /* hits in the last interval */
	bool on;
	/* Sites counted and missing, in running and in ended processes. */
	struct probe_coverage coverage;
	size_t refused; /* number of sites that were refused since the probe was switched on */
	char *reason;	/* reason for the first refusal, or NULL; owned */
	bool refusal_told;

	/* The probe ends pairs. Only then are the following members valid. */
	bool ends;
	char *begin;		 /* "provider:name" of the probe that begins the pairs; owned */
	struct top_times recent; /* durations in the last interval */
	struct top_times all;
	uint64_t in_flight, unmatched, lost;
	/* Number of hits that are in no row with a key, because the table is full. */
	uint64_t unkeyed;
};

enum { TOP_FILTER_BYTES = 128 };

struct top_model {
	struct top_row *rows; /* sorted by provider, name and key */
	size_t count;
	/* Indices of the rows that pass the filter, as displayed. As large as `rows`. */
	size_t *shown;
	size_t shown_count;
	/* Some probes form pairs, or may have formed pairs in an ended process. */
	bool has_times;
	bool has_keys;	      /* -k was given, so there may be rows with keys */
	uint64_t interval_ns; /* length of the last interval, in nanoseconds */
	uint64_t elapsed_ns;  /* time since the start, in nanoseconds */
	/* Show rates and durations since the start instead of those of the last interval. */
	bool since_start;
	enum top_order order;
	bool reversed;
	char filter[TOP_FILTER_BYTES]; /* filter as the user typed it */
	struct probe_pattern *pattern; /* parsed filter, or NULL if the filter is plain text */
	/* Index of the row under the cursor, or SIZE_MAX if no row is selected. */
	size_t selected;
};

void model_init(struct top_model *model);
void model_deinit(struct top_model *model);

/*
 * Returns the row of a probe, or NULL on lack of memory. A new row changes the indices of others.
 */
struct top_row *model_row(struct top_model *model, const char *provider, const char *name);

/* Like model_row(), but for a row with a key. */
struct top_row *model_key_row(
	struct top_model *model, const char *provider, const char *name, const char *key);

/* Returns the row of a probe, or NULL if there is no such row. */
struct top_row *model_find(const struct top_model *model, const char *provider, const char *name);

/* Selects and sorts the rows to show, after figures, the order or the filter have changed. */
void model_arrange(struct top_model *model);

/*
 * Sets the filter: a PROBE if it has a glob character or stands between slashes, otherwise plain
 * text to find in "provider:name", ignoring case. Returns false if it is an invalid PROBE, which is
 * then used as plain text.
 */
bool model_set_filter(struct top_model *model, const char *text);

/* Moves the cursor by `by` rows, but not past the first or the last row. */
void model_move(struct top_model *model, long by);
/* Returns the index in shown[] of the row under the cursor, or SIZE_MAX if no row is selected. */
size_t model_cursor(const struct top_model *model);

/* Returns the hits per second of one row. */
double model_rate(const struct top_model *model, const struct top_row *row);
/* Returns the hits per second of all probes together. */
double model_rate_all(const struct top_model *model);
/* Returns the number of hits that are in no row with a key. */
uint64_t model_unkeyed(const struct top_model *model);
/* Returns the time of a row's pairs in all threads, in ns per second; NAN if no pair has ended. */
double model_time(const struct top_model *model, const struct top_row *row);
const struct top_times *model_times(const struct top_model *model, const struct top_row *row);

/* ---- Text (draw.c) ----------------------------------------------------------------- */

/*
 * Writes a text, made safe for a terminal, in at most `width` columns, without its middle if it is
 * too long: names usually differ at their ends. `utf8`: the locale uses UTF-8; otherwise the result
 * is ASCII. Returns the number of columns.
 */
size_t cell_text(struct buffer *out, const char *text, size_t width, bool utf8);
/* Returns the number of columns that a text would take. */
size_t cell_width(const char *text, bool utf8);

/* Write a number right-aligned in `width` columns: a dash for NAN, blanks for a rate of 0. */
void cell_rate(struct buffer *out, double rate, size_t width);
void cell_count(struct buffer *out, uint64_t count, size_t width);
void cell_time(struct buffer *out, double ns, size_t width);

/* ---- Lines (draw.c) ---------------------------------------------------------------- */

enum top_look {
	TOP_LOOK_PLAIN,
	TOP_LOOK_BOLD,
	TOP_LOOK_REVERSE,
	TOP_LOOK_FAINT,
	TOP_LOOK_TITLE, /* look of the titles of the columns */
	TOP_LOOK_WRONG, /* look of rows with missing hits or refused sites */
	TOP_LOOK_COUNT
};

struct top_line {
	size_t offset, length; /* range in the frame's text, in bytes */
	enum top_look look;
};

/* The content of the screen. Initialise with {0}. */
struct top_frame {
	struct buffer text;
	struct top_line *lines;
	size_t count;
};

void frame_clear(struct top_frame *frame);
void frame_deinit(struct top_frame *frame);

/* The size of the screen, and the content of the lines around the rows. */
struct top_view {
	size_t width, height;
	bool utf8;
	const char *title;   /* names of the processes: "postgres (8121)" */
	const char *clock;   /* time of day: "14:03:22" */
	const char *message; /* message to the user, or NULL */
	uint64_t interval_ns;
	bool paused, help;
	bool editing; /* the user is editing the filter */
	/* Index in shown[] of the first row on the screen; draw_screen() updates it. */
	size_t first;
};

/* Lays out a screen: exactly `height` lines, each at most `width` columns wide. */
void draw_screen(struct top_frame *frame, const struct top_model *model, struct top_view *view);

/*
 * Lays out a table without a screen: at most `top` rows with hits (0: all), view->width columns
 * wide (0: as necessary).
 */
void draw_table(struct top_frame *frame, const struct top_model *model, const struct top_view *view,
	size_t top);

/* Returns the number of rows for which draw_screen() has space. */
size_t draw_rows(const struct top_view *view);

/* ---- Keys (keys.c) ----------------------------------------------------------------- */

enum top_key_kind {
	TOP_KEY_TEXT, /* one character of text */
	TOP_KEY_UP,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_ERASE,
	TOP_KEY_CLEAR, /* clear the filter: Ctrl-U */
	TOP_KEY_REDRAW /* redraw the screen: Ctrl-L */
};

struct top_key {
	enum top_key_kind kind;
	char text[5]; /* for TOP_KEY_TEXT: one UTF-8 character */
};

/* Bytes that have arrived and were not parsed yet. Initialise with {0}. */
struct top_keys {
	char bytes[64];
	size_t count;
};

/* Adds as many bytes as fit. Returns how many fit. */
size_t keys_add(struct top_keys *keys, const char *bytes, size_t count);

/*
 * Takes the next key. Returns false if none is complete. With `all`, no more bytes are expected
 * soon: an escape is then a key, not the start of a sequence. Drops unknown sequences.
 */
bool keys_next(struct top_keys *keys, bool all, struct top_key *ret);

/* ---- Processes (source.c) ---------------------------------------------------------- */

struct top_options {
	struct common_options common;
	struct probe_request request;
	const char *sort; /* the order as typed */
	enum top_order order;
	const char *filter; /* filter of hits, or NULL */
	struct string_list keys;
	uint64_t keys_max; /* maximum number of keys on each CPU, or 0 for the library's default */
	bool many;
	bool utf8; /* the locale's character set is UTF-8 */
	uint64_t interval_ns, duration_ns, top;
};

/* The tracers of the trace (struct probe_trace): the sessions of a process. */
enum { TOP_COUNTS, TOP_TIMES, TOP_TRACERS };

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
	/* The durations of pairs of all processes, until the last look, and in the last interval.
	 */
	struct probe_table *times, *recent_times;
	uint64_t started_ns, last_ns; /* times of the start and of the last look, CLOCK_MONOTONIC */
	/* During the last change, the longest time for which any process was stopped. */
	uint64_t stop_ns;
	/* Name of the process that was traced last; "" if it ended at once. */
	char program[32];
	bool programs_differ; /* the traced processes had different names */
	size_t came;	      /* number of processes traced since the start */
	char title[128];
	struct buffer news; /* messages that the main loop has not fetched yet */
	bool incomplete;    /* another program has overwritten a site, so hits are missing */
};

/*
 * Opens the processes and switches the probes on. The model gets the refused sites. `started`, if
 * not NULL, is the program that top has started: it is the only process, and is released. The
 * source owns it, also on error.
 */
PROBE_MUST_CHECK struct probe_error *source_start(const struct top_options *options,
	struct probe_target *started, struct top_model *model, struct top_source **ret);

/*
 * Follows the processes: reads which programs they execute, which libraries they open, and which
 * have ended. May add rows. Nothing wakes us at execve(2), so call it often.
 */
PROBE_MUST_CHECK struct probe_error *source_follow(struct top_source *source);

/* Returns a PROBE that has matched nothing so far, or NULL if all PROBEs have matched. */
const char *source_unmatched(const struct top_source *source);

/* Reads all counts and durations into the model. */
PROBE_MUST_CHECK struct probe_error *source_read(struct top_source *source);

/* Switches each probe on or off as top_row.on says. Then sets top_row.on to the actual state. */
PROBE_MUST_CHECK struct probe_error *source_switch(struct top_source *source);

/* Returns true if any process is left. */
bool source_is_alive(const struct top_source *source);

/* Switches all probes off. It must be called even after errors. */
PROBE_MUST_CHECK struct probe_error *source_stop(struct top_source *source);
/* Frees the source, which may be NULL. */
void source_free(struct top_source *source);

/* ---- The main loop (top.c), and the actions of the keys (keys.c) ------------------ */

/* The program that top starts. Initialise with {0}. */
struct top_program {
	FILE *kept; /* the program's output while a screen is shown; NULL without a screen */
	off_t read; /* number of bytes of `kept` that were read */
	int status; /* our exit status if the program could not be started; otherwise 0 */
};

struct top_screen;

struct top {
	const struct top_options *options;
	struct top_model model;
	struct top_view view;
	struct top_frame frame;
	struct top_program program;
	struct top_source *source;
	struct top_screen *screen; /* the terminal, or NULL if top prints lines */
	struct top_keys keys;
	char clock[16];
	/* The message on the screen, shown for some seconds or until the next key; owned. */
	char *message;

	struct loop events;
	struct timer looks, end;
	/*
	 * Until when an escape sequence may continue, and until when the message is shown.
	 * CLOCK_MONOTONIC; UINT64_MAX for no limit.
	 */
	uint64_t escape_ns, message_ns;

	int output; /* standard output, or a descriptor for the same file from file_reopen() */

	bool redraws;		   /* the user wants the whole screen drawn again */
	bool stale;		   /* the screen must be drawn again */
	bool gone;		   /* our output has no reader any more */
	struct probe_error *error; /* the error that has ended the loop, or NULL */
};

/* Executes the actions of the complete keys. With `all`, an escape is a key (keys_next()). */
void top_take_keys(struct top *top, bool all);

/* Shows a message in place of the current one; `format` is NULL for none. */
void __attribute__((format(printf, 2, 3))) top_say(struct top *top, const char *format, ...);

/* Runs `probectl top`. Reports its errors itself and returns the exit status. */
int top_run(const struct top_options *options);
