/* SPDX-License-Identifier: MIT */
/*
 * Output formats for hits, losses and tables: text for people, JSON (one object
 * a line) for programs.
 *
 * A sink collects output in memory and writes it to a file descriptor. It never
 * waits for a slow reader: what a pipe or a terminal does not take at once stays
 * in memory, and probe_sink_full() says when the caller had better stop adding.
 * So a stopped pager can stop neither the caller's event loop nor a target that
 * waits for it.
 *
 * What fails while writing is remembered and reported once, by
 * probe_sink_flush(); output added after that is discarded.
 */
#ifndef PROBE_SINK_H
#define PROBE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "stacks.h"
#include "table.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_sink;

/*
 * Opens a file for output as open(2) does with O_CREAT and O_TRUNC; *ret is its descriptor.
 * In a folder where everybody may put files (/tmp), another user's link is not followed,
 * and another user's file or pipe not written to, whatever the kernel's settings are.
 *
 * Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *probe_output_open(const char *path, int *ret);

enum probe_sink_format {
	PROBE_SINK_TEXT, /* columns */
	PROBE_SINK_JSON	 /* one object a line; docs: probectl-trace(1) */
};

/*
 * Makes a sink for a descriptor, which stays the caller's. `name` is used in
 * messages ("standard output", a path) and is copied.
 */
PROBE_MUST_CHECK struct probe_error *probe_sink_create(
	enum probe_sink_format format, int fd, const char *name, struct probe_sink **ret);
/* Frees a sink, and discards what was not flushed. NULL is allowed. */
void probe_sink_free(struct probe_sink *sink);

/* ---- Adding output ---------------------------------------------------------- */

/* Begins the output, before the first hit; `header` asks for a line that names the columns, if the
 * format has one. */
void probe_sink_begin(struct probe_sink *sink, bool header);

/* Adds one hit. `comm` is the thread's name, or NULL; it, names and strings may hold any byte. */
void probe_sink_hit(struct probe_sink *sink, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm);

/* Adds that `lost` hits of a probe left no record since this was last said. */
void probe_sink_lost(
	struct probe_sink *sink, const struct probe_session_probe *probe, uint64_t lost);

/*
 * Adds what has become of a site of a process. Text says nothing of it: it belongs on
 * standard error.
 */
void probe_sink_site(struct probe_sink *sink, pid_t pid, const struct probe_site_news *news);

/* Adds a table of what was gathered, in its order. */
void probe_sink_table(
	struct probe_sink *sink, const struct probe_table *table, const struct probe_view *view);

/* Adds call stacks, as probe_stacks_rows() gives them. */
void probe_sink_stacks(struct probe_sink *sink, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view);

/* Ends the output, after everything else. */
void probe_sink_end(struct probe_sink *sink);

/*
 * A time as tables have it, with three significant digits and its unit: "812ns",
 * "1.23ms"; "-" where there is none (NAN). The decimal point is that of the locale.
 */
enum { PROBE_DURATION_BYTES = 32 };
void probe_duration_text(char text[PROBE_DURATION_BYTES], double ns);

/* ---- Writing ------------------------------------------------------------------ */

/* Tells whether so much is waiting that it should be flushed before more is added. */
bool probe_sink_full(const struct probe_sink *sink);

/*
 * Writes what the descriptor takes without waiting for a reader. What remains
 * (probe_sink_pending(), in bytes) goes out with a later call, when poll(2)
 * says POLLOUT.
 *
 * Errors, once: PROBE_ERROR_SYSTEM with err EPIPE (SIGPIPE must be ignored),
 * ENOSPC, EIO ...; PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_sink_flush(struct probe_sink *sink);
size_t probe_sink_pending(const struct probe_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
