/* SPDX-License-Identifier: MIT */
/*
 * The live table of `probectl top`. cli/commands/top.c reads the command line.
 *
 *   top.c      signals and time; it calls the others
 *   commands.c what the keys do
 *   follow.c   which processes there are, from the begin on
 *   program.c  a program of our own, beside the screen
 *   source.c   their sessions: what was hit, switching
 *   keyed.c    hits by key
 *   times.c    how long pairs took
 *   model.c    the rows, in which order, which of them, where the cursor is
 *   draw.c     the rows and the lines around them, in a given width
 *   cells.c    text and numbers of a given width
 *   keys.c     what a terminal sends, as keys
 *   screen.c   the terminal
 *
 * Model, layout, text and keys know neither processes nor terminals. What a screen
 * needs (a dozen escape sequences that all terminals of today know, ECMA-48 and
 * xterm's alternate screen) is no work for curses, which would be loaded, and would
 * read a terminal description, for every command.
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

/* How long something took that a probe ends. Nanoseconds; NAN: nothing ended. */
struct top_times {
	double p50, p99, average;
	double sum; /* of all that ended: threads add up */
};

/* What processes have counted that are gone. */
struct top_gone {
	uint64_t total, unmatched, lost, unkeyed;
	struct probe_coverage coverage;
};

/*
 * A probe: all of its sites, in all modules and processes. With keys (-k), it has further rows:
 * those of its hits that had the same ones.
 */
struct top_row {
	char *key;		      /* owned; "": of the probe itself */
	char *label;		      /* provider:name, and the key; owned */
	char *provider, *name, *path; /* owned; the path is that of the first module */
	uint64_t total;		      /* hits */
	uint64_t new_hits;	      /* of them, in the last interval */
	bool on;
	struct probe_coverage coverage; /* of the processes that are there, and were */
	size_t refused;			/* sites, since it was switched on */
	char *reason;			/* of the first of them; owned; NULL: none */
	bool refusal_told;

	bool ends;		 /* it ends something, and the following mean something */
	char *begin;		 /* "provider:name" of what begins it; owned */
	struct top_times recent; /* in the last interval */
	struct top_times all;
	uint64_t in_flight, unmatched, lost;
	uint64_t unkeyed; /* hits that are in no row with a key, for lack of room */

	struct top_gone gone;
};

enum { TOP_FILTER_BYTES = 128 };

struct top_model {
	struct top_row *rows; /* by provider and name */
	size_t count;
	size_t *shown; /* indices of those that pass the filter, in order; has room for all */
	size_t shown_count;
	bool has_times;	      /* there are pairs, or there may have been some */
	bool has_keys;	      /* rows with keys may come */
	uint64_t interval_ns; /* that new_hits came in */
	uint64_t elapsed_ns;  /* that total came in */
	bool since_start;     /* show rates and times of all that time */
	enum top_order order;
	bool reversed;
	char filter[TOP_FILTER_BYTES]; /* as it is typed */
	struct probe_pattern *pattern; /* what it means, if it is more than a text */
	size_t selected;	       /* the row under the cursor; SIZE_MAX: none */
};

void model_init(struct top_model *model);
void model_deinit(struct top_model *model);

/* The row of a probe, which is added if necessary (indices change); NULL without memory. */
struct top_row *model_row(struct top_model *model, const char *provider, const char *name);

/* The same for a row with a key. */
struct top_row *model_key_row(
	struct top_model *model, const char *provider, const char *name, const char *key);

/* The row of a probe, without adding one. */
struct top_row *model_find(const struct top_model *model, const char *provider, const char *name);

/* Call it if figures, order or filter have changed: finds the shown rows again. */
void model_arrange(struct top_model *model);

/*
 * Sets the filter. A text is searched for in "provider:name", ignoring case. With a glob character,
 * or between slashes, it is a PROBE. False if it is not a valid one: then it is a text.
 */
bool model_set_filter(struct top_model *model, const char *text);

/* Moves the cursor by this many rows, as far as possible. */
void model_move(struct top_model *model, long by);
/* The place of the cursor in shown[]; SIZE_MAX: none. */
size_t model_cursor(const struct top_model *model);

/* Hits a second, of a row and of all. */
double model_rate(const struct top_model *model, const struct top_row *row);
/* Hits in the last interval, or since the start. */
double model_rate_all(const struct top_model *model);
/* Hits that are in no row with a key. */
uint64_t model_unkeyed(const struct top_model *model);
/* Nanoseconds of each second that a pair takes, of all threads together. NAN: nothing ended. */
double model_time(const struct top_model *model, const struct top_row *row);
const struct top_times *model_times(const struct top_model *model, const struct top_row *row);

/* ---- Text (cells.c) ---------------------------------------------------------------- */

/*
 * Any text in at most `width` columns, made safe for a terminal; longer text loses its middle,
 * because names differ at their ends. Without utf8, it is ASCII. Returns the columns it takes. The
 * locale has to be what utf8 says.
 */
size_t cell_text(struct buffer *out, const char *text, size_t width, bool utf8);
/* The columns that it would take. */
size_t cell_width(const char *text, bool utf8);

/* Right-aligned in `width` columns. A NAN is a dash, 0 of a rate nothing. */
void cell_rate(struct buffer *out, double rate, size_t width);
void cell_count(struct buffer *out, uint64_t count, size_t width);
void cell_time(struct buffer *out, double ns, size_t width);

/* ---- Lines (draw.c) ---------------------------------------------------------------- */

enum top_look {
	TOP_LOOK_PLAIN,
	TOP_LOOK_BOLD,
	TOP_LOOK_REVERSE,
	TOP_LOOK_FAINT,
	TOP_LOOK_TITLE, /* of columns */
	TOP_LOOK_WRONG, /* something is missing */
	TOP_LOOK_COUNT
};

struct top_line {
	size_t offset, length; /* in the frame's text */
	enum top_look look;
};

/* What is on the screen. Initialise with {0}. */
struct top_frame {
	struct buffer text;
	struct top_line *lines;
	size_t count, room;
};

void frame_clear(struct top_frame *frame);
void frame_deinit(struct top_frame *frame);

/* The lines around the rows. */
struct top_view {
	size_t width, height;
	bool utf8;
	const char *title;   /* "postgres (8121)" */
	const char *clock;   /* "14:03:22" */
	const char *message; /* or NULL */
	uint64_t interval_ns;
	bool paused, help;
	bool editing; /* the filter */
	size_t first; /* in: the first of shown[] that was visible; out: that is */
};

/* Lays a screen out: exactly `height` lines, none wider than `width`. */
void draw_screen(struct top_frame *frame, const struct top_model *model, struct top_view *view);

/*
 * A table without a screen: up to `top` rows that were hit (0: all), as wide as view->width, or if
 * that is 0 as wide as necessary.
 */
void draw_table(struct top_frame *frame, const struct top_model *model, const struct top_view *view,
	size_t top);

/* The rows that draw_screen() has room for. */
size_t draw_rows(const struct top_view *view);

/* ---- Keys (keys.c) ----------------------------------------------------------------- */

enum top_key_kind {
	TOP_KEY_TEXT, /* a character */
	TOP_KEY_UP,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_ERASE,
	TOP_KEY_CLEAR, /* Ctrl-U */
	TOP_KEY_REDRAW /* Ctrl-L */
};

struct top_key {
	enum top_key_kind kind;
	char text[5]; /* of TOP_KEY_TEXT: one character of UTF-8 */
};

/* Initialise with {0}. */
struct top_keys {
	char bytes[64];
	size_t count;
};

/* Takes as many bytes as there is room for; returns how many. */
size_t keys_add(struct top_keys *keys, const char *bytes, size_t count);

/*
 * The next key; false if there is none yet. With `all`, nothing more will come soon: an escape is a
 * key of its own, not the begin of another one. Unknown sequences are dropped.
 */
bool keys_next(struct top_keys *keys, bool all, struct top_key *ret);

/* ---- The terminal (screen.c) ------------------------------------------------------- */

struct top_screen;

/* The next frame is drawn whole: something else may have written there. */
void screen_forget(struct top_screen *screen);

/* ---- Processes (source.c) ---------------------------------------------------------- */

struct top_source;

struct top_options {
	struct common_options common;
	struct probe_request request;
	const char *sort;
	const char *filter; /* of hits; or NULL */
	struct string_list keys;
	uint64_t keys_max; /* on each CPU; 0: the library's default */
	bool utf8;	   /* the locale's characters */
	uint64_t interval_ns, duration_ns, top;
};

/*
 * Opens the processes and switches the probes on; refused sites are put into the model. `started`
 * is the program that was started, or NULL. It is then the only process, and is released; the
 * source owns it, also after an error.
 */
PROBE_MUST_CHECK struct probe_error *source_start(const struct top_options *options,
	struct probe_target *started, struct top_model *model, struct top_source **ret);

/*
 * Follows the processes: programs that they execute, libraries, their ends. Call it often, as
 * nothing else notices execve(2). Rows may be added.
 */
PROBE_MUST_CHECK struct probe_error *source_follow(
	struct top_source *source, struct top_model *model);

/* The messages since this was last called; to be freed; NULL: none. */
char *source_news(struct top_source *source);

/* Has there been a process? Those that come may end too early. */
bool source_has_traced(const struct top_source *source);

/* A PROBE that has matched nothing so far; NULL: there is none. */
const char *source_unmatched(const struct top_source *source);

/* Ends the next sleep when there is something to follow. */
void source_watch(struct top_source *source, struct loop *loop);

/* Reads all there is into the model. */
PROBE_MUST_CHECK struct probe_error *source_read(
	struct top_source *source, struct top_model *model);

/* Makes the probes what the rows' `on` says, and the rows what they are then. */
PROBE_MUST_CHECK struct probe_error *source_switch(
	struct top_source *source, struct top_model *model);

/* Has something else overwritten a site, so that hits are missing? */
bool source_is_incomplete(const struct top_source *source);

/* Is any process left? */
bool source_is_alive(const struct top_source *source);

/* The longest time for which the last change stopped a process. */
uint64_t source_stop_ns(const struct top_source *source);

/* What the probes belong to: "postgres (8121)"; owned by the source, and kept up to date. */
const char *source_title(const struct top_source *source);

/* Switches all probes off; to be called whatever happened before. */
PROBE_MUST_CHECK struct probe_error *source_stop(struct top_source *source);
/* NULL is allowed. */
void source_free(struct top_source *source);

/* ---- A program of our own (program.c) ---------------------------------------------- */

/* Initialise with {0}. */
struct top_program {
	FILE *kept; /* its output, kept beside the screen; NULL: there is none */
	off_t read; /* up to here */
	int status; /* our exit status if it could not be started; else 0 */
};

/*
 * Starts a program and holds it. If there is a screen, those of its standard files that are the
 * terminal are replaced.
 */
PROBE_MUST_CHECK struct probe_error *program_start(
	struct top_program *program, char *const argv[], bool is_screen, struct probe_target **ret);

/* The next bytes of its kept output; 0: there are none yet. */
size_t program_read(struct top_program *program, char *bytes, size_t size);
void program_deinit(struct top_program *program);

/* ---- Its life (top.c), and what the keys do (commands.c) --------------------------- */

struct top {
	const struct top_options *options;
	struct top_model model;
	struct top_view view;
	struct top_frame frame;
	struct top_program program;
	struct top_source *source;
	struct top_screen *screen; /* NULL: lines */
	struct top_keys keys;
	char clock[16];
	char *message; /* owned; until the next key, or for some seconds */

	struct loop events;
	struct timer looks, end;
	uint64_t escape_ns, message_ns; /* CLOCK_MONOTONIC; UINT64_MAX: never */

	int output; /* standard output, or file_reopen() of it */

	bool stale;		   /* the screen does not show what it should */
	bool gone;		   /* our output has no reader any more */
	struct probe_error *error; /* what ended it */
};

/* Does what a key says. */
void top_take_key(struct top *top, const struct top_key *key);

/* Shows a message (owned from here on; NULL: none) in place of another one. */
void top_say(struct top *top, char *message);

enum top_order top_order_named(const char *name); /* TOP_ORDER_COUNT: there is no such order */

/* Returns the exit status; errors have been reported. */
int top_run(const struct top_options *options);

#endif
