/* SPDX-License-Identifier: MIT */
/*
 * Output of hits, losses and tables: text for people, JSON (one object a line) for programs.
 *
 * A sink collects output in memory, and writes it to a descriptor. It never waits for a slow
 * reader: output that a pipe or a terminal does not take at once stays in memory, and
 * probe_sink_full() tells when to stop adding. So a stopped pager stops neither the caller's event
 * loop nor a target that waits for the caller.
 *
 * The first error of a sink is reported once, by probe_sink_flush(). After that, output is dropped.
 */
#ifndef PROBE_SINK_H
#define PROBE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.h"
#include "error.h"
#include "stacks.h"
#include "table.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_sink;

/*
 * Opens a file for output, as open(2) does with O_CREAT and O_TRUNC. *ret is the descriptor; for
 * "-", a copy of the standard output's. A new file has the mode 0600. In a folder where others may
 * create files, such as /tmp or another user's folder, the function follows no link of another user
 * and opens no file or pipe of another user, whatever the kernel's settings are.
 *
 * Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *probe_output_open(const char *path, int *ret);

enum probe_sink_format {
	PROBE_SINK_TEXT, /* columns */
	PROBE_SINK_JSON	 /* one object a line; docs: probectl-trace(1) */
};

/*
 * Creates a sink that writes to a descriptor, which the caller closes. `name` is what messages
 * call the output ("standard output", a path), and is copied. Errors: PROBE_ERROR_USAGE (no such
 * format), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_sink_create(
	enum probe_sink_format format, int fd, const char *name, struct probe_sink **ret);
/* Frees a sink. Output that was not flushed is lost. NULL is allowed. */
void probe_sink_free(struct probe_sink *sink);

/* ---- Adding output ---------------------------------------------------------- */

/* Begins the output, before the first hit. With `header`, text begins with the names of columns. */
void probe_sink_begin(struct probe_sink *sink, bool header);
/* Begins the output of spans, before the first span. `header` as for probe_sink_begin(). */
void probe_sink_begin_spans(struct probe_sink *sink, bool header);

/*
 * Adds a hit. `comm` is the name of the thread, or NULL. Names and strings may hold any byte: the
 * sink makes them printable.
 */
void probe_sink_hit(struct probe_sink *sink, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm);

/*
 * Adds a span: a hit with a start event (probe_session_options.spans), and the probes of both
 * events. `comm` is the name of the thread that ended the span.
 */
void probe_sink_span(struct probe_sink *sink, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm);

/* Adds a loss: `lost` further hits of a probe left no record. */
void probe_sink_lost(
	struct probe_sink *sink, const struct probe_session_probe *probe, uint64_t lost);

/*
 * Adds how many hits have waited for room, and how long in all (probe_session_waited()). Only JSON
 * output has it; a program that prints text reports it on standard error.
 */
void probe_sink_waited(struct probe_sink *sink, uint64_t hits, uint64_t ns);

/*
 * Adds the state of a site (probe_session_look()). Only JSON output has it; a program that prints
 * text reports it on standard error.
 */
void probe_sink_site(struct probe_sink *sink, pid_t pid, const struct probe_site_news *news);

/* Adds a table, with its rows in their order. */
void probe_sink_table(
	struct probe_sink *sink, const struct probe_table *table, const struct probe_view *view);

/* Adds call stacks, as probe_stacks_rows() returns them. */
void probe_sink_stacks(struct probe_sink *sink, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view);

/*
 * Adds functions, as probe_calls_rows() returns them. Text has callers and callees only with
 * view->edges.
 */
void probe_sink_calls(struct probe_sink *sink, const struct probe_calls_row *rows, size_t count,
	const struct probe_view *view);

/* Ends the output. Call it after everything else was added. */
void probe_sink_end(struct probe_sink *sink);

/*
 * Writes a time as tables show it, with three significant digits and a unit: "812ns", "1.23ms"; "-"
 * for NAN. The locale sets the decimal point.
 */
enum { PROBE_DURATION_BYTES = 32 };
void probe_duration_text(char text[PROBE_DURATION_BYTES], double ns);

/* ---- Writing ------------------------------------------------------------------ */

/* Tells whether the sink should be flushed before more is added. */
bool probe_sink_full(const struct probe_sink *sink);

/*
 * Writes as much as the descriptor takes without waiting. The rest is written by a later call:
 * call again when poll(2) reports POLLOUT.
 *
 * Errors, each once: PROBE_ERROR_SYSTEM with EPIPE (the caller must ignore SIGPIPE), ENOSPC, EIO
 * ...; PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_sink_flush(struct probe_sink *sink);
/* Returns how many bytes have not been written yet. */
size_t probe_sink_pending(const struct probe_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
