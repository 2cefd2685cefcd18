/* SPDX-License-Identifier: MIT */
/*
 * The live table of `probectl top`. cli/commands/top.c parses the command line.
 *
 *   top.c      the terminal, signals and timers; calls the other files
 *   model.c    the rows: their order, filter and cursor; the actions of the keys;
 *              the program that top starts
 *   follow.c   finds the processes, and follows them from the start on
 *   source.c   the sessions of the processes: hits, keys, durations, switching
 *   draw.c     the rows and the lines around them, as text of a given width
 *   keys.c     parses the bytes that a terminal sends as keys
 *
 * The model, draw.c and keys.c know neither processes nor terminals. curses is not used: the
 * screen needs only a dozen escape sequences that all current terminals understand (ECMA-48 and
 * xterm's alternate screen), but curses would be loaded, and would read a terminal description,
 * for every command.
 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/timer.h"
#include "cli/loop.h"
#include "cli/options.h"
#include "cli/print/out.h"
#include "probe/pattern.h"
#include "probe/table.h"
#include "probe/target.h"

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

/* The durations of the pairs that a probe ends, in nanoseconds; NAN if no pair ended. */
struct top_times {
	double p50, p99, average;
	double sum; /* sum over all pairs of all threads */
};

/* Counts of processes that have ended. */
struct top_gone {
	uint64_t total, unmatched, lost, unkeyed;
	struct probe_coverage coverage;
};

/*
 * A probe: all its sites in all modules and processes. With -k, the probe has further rows, one
 * for its hits with each value of the keys.
 */
struct top_row {
	/* Values of the keys; "" in the row of the probe itself; owned. */
	char *key;
	char *label; /* text to show: provider:name, and the key; owned */
	/* Names of the probe, and the path of its first module; owned. */
	char *provider, *name, *path;
	uint64_t total;	   /* hits since the start */
	uint64_t new_hits; /* hits in the last interval */
	bool on;
	/* Sites counted and sites missing, over running and ended processes. */
	struct probe_coverage coverage;
	size_t refused; /* refused sites since the probe was switched on */
	char *reason;	/* reason for the first refused site, owned; or NULL */
	bool refusal_told;

	bool ends;		 /* the probe ends pairs, and the following members are valid */
	char *begin;		 /* "provider:name" of the probe that begins the pairs; owned */
	struct top_times recent; /* durations in the last interval */
	struct top_times all;
	uint64_t in_flight, unmatched, lost;
	uint64_t unkeyed; /* hits in no row with a key, because the table is full */

	struct top_gone gone;
};

enum { TOP_FILTER_BYTES = 128 };

struct top_model {
	struct top_row *rows; /* sorted by provider, name and key */
	size_t count;
	/* Indices of the rows that pass the filter, in display order; as large as `rows`. */
	size_t *shown;
	size_t shown_count;
	bool has_times;	      /* the probes have pairs, or may have had some */
	bool has_keys;	      /* rows with keys may appear */
	uint64_t interval_ns; /* length of the last interval, in nanoseconds */
	uint64_t elapsed_ns;  /* time since the start, in nanoseconds */
	/* Show rates and durations since the start, not of the last interval. */
	bool since_start;
	enum top_order order;
	bool reversed;
	char filter[TOP_FILTER_BYTES]; /* filter as the user typed it */
	struct probe_pattern *pattern; /* parsed filter; NULL if the filter is a plain text */
	/* Index of the row under the cursor; SIZE_MAX if there is none. */
	size_t selected;
};

void model_init(struct top_model *model);
void model_deinit(struct top_model *model);

/*
 * Returns the row of a probe, and adds it if necessary, which changes indices. NULL on lack of
 * memory.
 */
struct top_row *model_row(struct top_model *model, const char *provider, const char *name);

/* As model_row(), for a row with a key. */
struct top_row *model_key_row(
	struct top_model *model, const char *provider, const char *name, const char *key);

/* Returns the row of a probe, or NULL if there is no such row. */
struct top_row *model_find(const struct top_model *model, const char *provider, const char *name);

/* Selects and sorts the shown rows again. Call it after figures, order or filter have changed. */
void model_arrange(struct top_model *model);

/*
 * Sets the filter. A plain text is searched for in "provider:name", ignoring case; a text with
 * a glob character, or between slashes, is a PROBE. Returns false if the PROBE is invalid; it
 * is then plain text.
 */
bool model_set_filter(struct top_model *model, const char *text);

/* Moves the cursor by `by` rows, as far as possible. */
void model_move(struct top_model *model, long by);
/* The index of the cursor in shown[], or SIZE_MAX if no row is selected. */
size_t model_cursor(const struct top_model *model);

/* The hits per second of one row. */
double model_rate(const struct top_model *model, const struct top_row *row);
/* The hits per second of all probes. */
double model_rate_all(const struct top_model *model);
/* The number of hits that are in no row with a key. */
uint64_t model_unkeyed(const struct top_model *model);
/* Nanoseconds per second that pairs take, summed over all threads; NAN if no pair ended. */
double model_time(const struct top_model *model, const struct top_row *row);
const struct top_times *model_times(const struct top_model *model, const struct top_row *row);

/* ---- Text (draw.c) ----------------------------------------------------------------- */

/*
 * Writes a text in at most `width` columns, made safe for a terminal. Longer text loses its
 * middle, because names differ at their ends. Without `utf8`, the result is ASCII; `utf8` must
 * match the locale. Returns the number of columns used.
 */
size_t cell_text(struct buffer *out, const char *text, size_t width, bool utf8);
/* The number of columns that a text would take. */
size_t cell_width(const char *text, bool utf8);

/*
 * Write a number right-aligned in `width` columns. NAN is shown as a dash, a rate of 0 as
 * blanks.
 */
void cell_rate(struct buffer *out, double rate, size_t width);
void cell_count(struct buffer *out, uint64_t count, size_t width);
void cell_time(struct buffer *out, double ns, size_t width);

/* ---- Lines (draw.c) ---------------------------------------------------------------- */

enum top_look {
	TOP_LOOK_PLAIN,
	TOP_LOOK_BOLD,
	TOP_LOOK_REVERSE,
	TOP_LOOK_FAINT,
	TOP_LOOK_TITLE, /* for the titles of the columns */
	TOP_LOOK_WRONG, /* for rows with missing hits or refused sites */
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
	size_t count, room;
};

void frame_clear(struct top_frame *frame);
void frame_deinit(struct top_frame *frame);

/* The size of the screen and the lines around the rows. */
struct top_view {
	size_t width, height;
	bool utf8;
	const char *title;   /* names of the processes: "postgres (8121)" */
	const char *clock;   /* time of day: "14:03:22" */
	const char *message; /* message to the user; or NULL */
	uint64_t interval_ns;
	bool paused, help;
	bool editing; /* the user is editing the filter */
	size_t first; /* index in shown[] of the first visible row; updated by draw_screen() */
};

/* Lays out a screen: exactly `height` lines, each at most `width` columns wide. */
void draw_screen(struct top_frame *frame, const struct top_model *model, struct top_view *view);

/*
 * Lays out a table without a screen: up to `top` rows with hits (0 for all), view->width
 * columns wide; if this is 0, as wide as necessary.
 */
void draw_table(struct top_frame *frame, const struct top_model *model, const struct top_view *view,
	size_t top);

/* The number of rows that fit in draw_screen(). */
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

/* Bytes that are not yet parsed. Initialise with {0}. */
struct top_keys {
	char bytes[64];
	size_t count;
};

/* Adds as many bytes as fit; returns their number. */
size_t keys_add(struct top_keys *keys, const char *bytes, size_t count);

/*
 * Returns the next key, or false if no key is complete. With `all`, no more bytes are expected
 * soon: an escape is then a key of its own and not the start of a sequence. Unknown sequences
 * are dropped.
 */
bool keys_next(struct top_keys *keys, bool all, struct top_key *ret);

/* ---- The terminal (top.c) ---------------------------------------------------------- */

struct top_screen;

/* Draws the whole next frame, because something else may have written to the terminal. */
void screen_forget(struct top_screen *screen);

/* ---- Processes (source.c) ---------------------------------------------------------- */

struct top_source;

struct top_options {
	struct common_options common;
	struct probe_request request;
	const char *sort;
	const char *filter; /* filter of hits; or NULL */
	struct string_list keys;
	uint64_t keys_max; /* maximum number of keys on each CPU; 0 for the library's default */
	bool utf8;	   /* the locale's character set is UTF-8 */
	uint64_t interval_ns, duration_ns, top;
};

/*
 * Opens the processes and switches the probes on. Refused sites are added to the model.
 * `started` is the program that top started, or NULL; if set, it is the only process and is
 * released. The source owns `started`, also on error.
 */
PROBE_MUST_CHECK struct probe_error *source_start(const struct top_options *options,
	struct probe_target *started, struct top_model *model, struct top_source **ret);

/*
 * Follows the processes: the programs that they execute, their libraries, their ends. Call it
 * often, because execve(2) is not noticed otherwise. May add rows.
 */
PROBE_MUST_CHECK struct probe_error *source_follow(
	struct top_source *source, struct top_model *model);

/*
 * Returns the messages since the last call, which the caller frees; NULL if there are no
 * messages.
 */
char *source_news(struct top_source *source);

/* Whether any process has been traced. A process may end before its probes are switched on. */
bool source_has_traced(const struct top_source *source);

/* A PROBE that has matched nothing so far; NULL if all have matched. */
const char *source_unmatched(const struct top_source *source);

/* Ends the next sleep when source_follow() has something to do. */
void source_watch(struct top_source *source, struct loop *loop);

/* Reads all counts and durations into the model. */
PROBE_MUST_CHECK struct probe_error *source_read(
	struct top_source *source, struct top_model *model);

/* Switches the probes as top_row.on says, then updates the rows to the actual state. */
PROBE_MUST_CHECK struct probe_error *source_switch(
	struct top_source *source, struct top_model *model);

/* Whether another program has overwritten a site, so that hits are missing. */
bool source_is_incomplete(const struct top_source *source);

/* Whether any process is left. */
bool source_is_alive(const struct top_source *source);

/* The longest time for which the last change stopped a process. */
uint64_t source_stop_ns(const struct top_source *source);

/* The processes, as text: "postgres (8121)". Owned by the source, which updates it. */
const char *source_title(const struct top_source *source);

/* Switches all probes off. Must be called, also after errors. */
PROBE_MUST_CHECK struct probe_error *source_stop(struct top_source *source);
/* Frees the source, which may be NULL. */
void source_free(struct top_source *source);

/* ---- A program of our own (model.c) ------------------------------------------------ */

/* Initialise with {0}. */
struct top_program {
	FILE *kept; /* the program's output while a screen is shown; NULL without a screen */
	off_t read; /* how much of `kept` has been read, in bytes */
	int status; /* our exit status if the program could not be started; else 0 */
};

/*
 * Starts a program and holds it. With a screen, those of its standard files that are the
 * terminal are replaced.
 */
PROBE_MUST_CHECK struct probe_error *program_start(
	struct top_program *program, char *const argv[], bool is_screen, struct probe_target **ret);

/* Reads the next bytes of the kept output. Returns 0 if there are no new bytes. */
size_t program_read(struct top_program *program, char *bytes, size_t size);
void program_deinit(struct top_program *program);

/* ---- The main loop (top.c), and the actions of the keys (model.c) ------------------ */

struct top {
	const struct top_options *options;
	struct top_model model;
	struct top_view view;
	struct top_frame frame;
	struct top_program program;
	struct top_source *source;
	struct top_screen *screen; /* the terminal; NULL if top prints lines */
	struct top_keys keys;
	char clock[16];
	/* Message on the screen; shown until the next key, or for some seconds; owned. */
	char *message;

	struct loop events;
	struct timer looks, end;
	/* End of an escape sequence, end of the message; CLOCK_MONOTONIC; UINT64_MAX for never. */
	uint64_t escape_ns, message_ns;

	int output; /* standard output, or a descriptor from file_reopen() */

	bool stale;		   /* the screen must be redrawn */
	bool gone;		   /* our output has no reader any more */
	struct probe_error *error; /* the error that ended the loop */
};

/* Executes the action of a key. */
void top_take_key(struct top *top, const struct top_key *key);

/* Shows a message in place of the current one. Takes ownership; NULL shows no message. */
void top_say(struct top *top, char *message);

/* Returns the order with this name, or TOP_ORDER_COUNT if the name is unknown. */
enum top_order top_order_named(const char *name);

/* Runs top. Returns the exit status; errors have been reported. */
int top_run(const struct top_options *options);

#endif
