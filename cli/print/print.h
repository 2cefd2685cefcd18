/* SPDX-License-Identifier: MIT */
/* Output functions for all commands: messages, safe text, tables, progress. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cli.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/base/grid.h"
#include "probe/calls.h"
#include "probe/sink.h"
#include "probe/target.h"

/* Starts a message about a process or file, named next, that could not be read completely. */
#define READ_OF "what can be read of "

/* Arguments for the format "%zu site%s": a number, and the ending of the noun for this number. */
#define COUNTED(count) (count), (count) == 1 ? "" : "s"

/* ---- Text --------------------------------------------------------------------- */

/* Writes a text to a stream, escaped as by buffer_printable(). */
void print_printable(FILE *stream, const char *text);

/* Prints a line "probectl: KIND" and a text, which may come from files and targets. */
void print_line(const char *kind, const char *text);

/* Writes "provider:name" to standard error, escaped. */
void print_probe(const char *provider, const char *name);

/* Reports a site that another program has changed: "probectl: slow:tick at 0x... in PATH: ...". */
void print_bad_site(const struct probe_bad_site *site, pid_t pid, const char *consequence);

/*
 * Reports a site that another program has changed or that is intact again, and when this was found.
 */
void print_site_news(const struct probe_site_news *news, pid_t pid);

/* Adds "3 sites", or nothing if `count` is 0; after another count, also ", ". */
void add_count(struct buffer *out, size_t count, const char *what);

/* ---- Standard output ----------------------------------------------------------- */

/*
 * Drops the pending data of a stream after a failed write. Returns the error, from errno, or NULL
 * if the reader has closed the pipe.
 */
PROBE_MUST_CHECK struct probe_error *out_failed(FILE *stream);

/* Frees the error and returns NULL if the reader has closed the pipe, which is no error. */
PROBE_MUST_CHECK struct probe_error *out_unless_closed(struct probe_error *error);

/* Writes all that a sink of standard output holds. Waits for the reader if it is slow. */
PROBE_MUST_CHECK struct probe_error *out_sink(struct probe_sink *sink);

/* Writes the buffer to a stream and empties the buffer. The stream is flushed later, by main(). */
PROBE_MUST_CHECK struct probe_error *out_flush(struct buffer *out, FILE *stream);

/* Prints a grid on standard output, as wide as the terminal. Prints nothing if it has no rows. */
PROBE_MUST_CHECK struct probe_error *out_grid(const struct grid *grid);

/* ---- Standard error ------------------------------------------------------------ */

/* Reports calls that are in no row; if `quiet`, only those that were lost. */
void report_calls(struct probe_calls_doubts doubts, bool quiet);

/*
 * A standard error stream that never blocks. If a supervisor stops reading its pipe, or the user
 * types Ctrl-S, a blocking message would leave probes enabled.
 */

/* Replaces `stderr` by a stream that never blocks. On lack of memory, does nothing. */
void messages_begin(void);
/* Writes as many waiting messages as standard error accepts without blocking. */
void messages_retry(void);
/* Waits a moment for a slow reader. Messages that still wait are lost. Call it before exiting. */
void messages_end(void);

/* ---- Progress ------------------------------------------------------------------ */

/* Shows progress on a terminal: one line on standard error, which the next output replaces. */

enum { PROGRESS_NS = 200 * NSEC_PER_MSEC }; /* default time between two updates of the line */

struct progress {
	struct timer timer; /* expires only if standard error is a terminal */
	bool shown;
};

/* Starts showing progress. `ns` is the minimum time between two updates of the line. */
struct progress progress_every(uint64_t ns);
/* Returns true if it is time to update the line. */
bool progress_due(struct progress *progress);
/* Replaces the line by a new one. */
void progress_show(struct progress *progress, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Erases the line. */
void progress_end(struct progress *progress);
